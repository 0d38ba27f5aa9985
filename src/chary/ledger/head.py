"""The head of a chain: how many entries a ledger has and the hash of the last, which stand for all of them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from chary.errors import InvalidParameter
from chary.ledger.entries import GENESIS

# 18 digits fit the 64-bit numbers of entries, so a head that was typed wrong never overflows the engine.
_WRITTEN = re.compile(r"([0-9a-f]{64}):([0-9]{1,18})")


class Head(NamedTuple):
    """A ledger that holds this head holds every entry that it stands for; an older copy cannot hold it.

    >>> str(Head(3, "ab" * 32))[60:]
    'abab:3'
    >>> Head.parse("ab" * 32 + ":3").entries
    3
    """

    entries: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.hash}:{self.entries}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read HASH:COUNT; `InvalidParameter` if it is not that."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise InvalidParameter("a head is written HASH:COUNT, as `chary ledger head` prints it")
        return cls(int(found[2]), found[1])


def head_of(ledger: Any) -> Head | None:
    """The head of a ledger that is kept; None for one that is in memory alone, or not made yet."""
    found = getattr(ledger, "head", None)
    return None if found is None else found()
