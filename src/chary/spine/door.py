"""What groups of a session's methods have in common."""

from dataclasses import dataclass

from chary.spine.spine import Spine


@dataclass(frozen=True)
class Door:
    """A group of methods of a session. Whatever they ask goes through the spine: reserve - run - settle."""

    spine: Spine
