"""Equal values told apart by coins of their own, which are thrown when somebody asks for them."""

from typing import Any, Final

import numpy as np

from chary import noise
from chary.mechanisms.additive import Integers
from chary.mechanisms.selection.inverse_sensitivity import InverseSensitivity, Stretches

_WORD: Final = 64
# Eight megabytes of words at a time.
_BLOCK: Final = 2**20


class Coins:
    """All that is drawn in a choice among places, from a source of random words."""

    def __init__(self, source: noise.Source) -> None:
        self._source = source

    def place(self, chooser: InverseSensitivity, stretches: Stretches) -> int:
        """A place, by the law of the chooser."""
        return chooser.step(stretches, self._source)

    def accepts(self, chooser: InverseSensitivity, more: int) -> bool:
        """True with the chance by which the law makes a place so many steps of distance farther off less likely."""
        return not more or bool(noise.bernoulli(self._source, noise.Enclosure.exponential(chooser.unit * more), 1)[0])

    def half(self, count: int) -> int:
        """How many of so many fair coins fall on one side: exactly binomial, a bit a coin."""
        words, rest = divmod(count, _WORD)
        sides = 0
        for first in range(0, words, _BLOCK):
            sides += int(np.bitwise_count(self._source.words(min(_BLOCK, words - first), _WORD)).sum(dtype=np.int64))
        if rest:
            sides += (int(self._source.words(1, _WORD)[0]) >> _WORD - rest).bit_count()
        return sides


class Scattered:
    """Values on a grid `2**bits` times as fine as their own, each at a random place of its old one. Secret.

    Guarantee: the law is that of coins thrown for each value at once: of the values in an interval of two equal halves
    each is in the first one by a fair coin of its own, so how many are is binomial, and given that number both halves
    are scattered alike, whatever the other does. Numbers are drawn when they are first asked for, and remembered: all
    answers are of one and the same scattering. So what is never asked costs nothing, and equal values a bit each.
    """

    def __init__(self, places: Integers, counts: Integers, points: int, bits: int, coins: Coins) -> None:
        """Values as in `Order`; no coins are thrown yet."""
        self._places, self._bits, self._coins = places, bits, coins
        self._upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._halves: dict[tuple[int, int], int] = {}
        self.points = points << bits

    def below(self, place: int) -> int:
        """How many values are below a fine place."""
        old, rest = place >> self._bits, place & ((1 << self._bits) - 1)
        at = int(np.searchsorted(self._places, old))
        found = int(self._upto[at])
        if rest and at < self._places.size and self._places[at] == old:
            found += self._within(at, rest)
        return found

    def around(self, ranks: Any) -> list[int]:
        """Fine places, at edges of old ones, between which the values of these ranks are."""
        if not self._places.size:
            return []
        at = np.clip(np.searchsorted(self._upto, ranks, side="right") - 1, 0, self._places.size - 1)
        old = self._places[np.unique(at)]
        found: list[int] = (np.concatenate([old, old + 1]) << self._bits).tolist()
        return found

    def _within(self, at: int, rest: int) -> int:
        """How many of the equal values at `at` are on the first `rest` fine places of their old one."""
        count, found, node = int(self._upto[at + 1] - self._upto[at]), 0, 1
        for bit in reversed(range(self._bits)):
            first = self._first_half(at, node, count)
            node *= 2
            if rest >> bit & 1:
                found, count, node = found + first, count - first, node + 1
            else:
                count = first
            if not rest & ((1 << bit) - 1):
                break
        return found

    def _first_half(self, at: int, node: int, count: int) -> int:
        if (at, node) not in self._halves:
            self._halves[at, node] = self._coins.half(count)
        return self._halves[at, node]

    def __repr__(self) -> str:
        return "Scattered(<secret>)"
