"""Patterns that mean the same in engines with other rules for lower case and for backslashes."""

from functools import cache
from typing import Any, Final

_DOTTED: Final = "\u0130"


def without_escapes(pattern: str) -> str:
    r"""The pattern for an engine in which a backslash takes the meaning of the sign behind it.

    >>> without_escapes("a\\%")
    'a\\\\%'
    """
    return pattern.replace("\\", "\\\\")


def folded(value: Any, pattern: str) -> tuple[Any, str]:
    """A text and a pattern, both as Ibis and Python have them, whose comparison ignores case in every engine.

    The pattern is in lower case. Of the text only those letters are brought to lower case which the pattern has, since
    all others differ from it in either case. Each letter becomes one letter by Unicode's simple mapping, so that
    lengths stay; what a locale thinks of letters does not matter.
    """
    small = "".join(lowered(letter) for letter in pattern)
    others = [(large, letter) for letter in sorted(set(small)) for large in _larger().get(letter, "")]
    if others:
        value = value.translate("".join(large for large, _ in others), "".join(letter for _, letter in others))
    return value, small


def lowered(letter: str) -> str:
    """One letter for one letter.

    >>> lowered("A"), lowered("É"), lowered("\u0130"), lowered("ß")
    ('a', 'é', 'i', 'ß')
    """
    # The only letter whose lower case takes two by the full mapping and one by the simple one.
    return "i" if letter == _DOTTED else letter.lower()


@cache
def _larger() -> dict[str, str]:
    """The letters that have each letter as their lower case."""
    found: dict[str, str] = {}
    for number in range(0x110000):
        if not 0xD800 <= number <= 0xDFFF and lowered(chr(number)) != chr(number):
            found[lowered(chr(number))] = found.get(lowered(chr(number)), "") + chr(number)
    return found
