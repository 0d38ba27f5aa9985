"""Research on top of chary: the papers' figures and attacks as demonstrations, for who wants to check the library.

A service needs none of it. Where it is installed, `chary reproduce` and `chary attack` are commands.
"""

from collections.abc import Mapping
from typing import Final

# Found by the entry point group "chary.commands", without loading what a command needs: panel, place, one line.
COMMANDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "attack": (
        "Research",
        "chary_research.commands.attack:app",
        "Attacks on exact answers, and how far they get against a session.",
    ),
    "reproduce": (
        "Research",
        "chary_research.commands.reproduce:reproduce_command",
        "The figures of the papers, computed again.",
    ),
}
