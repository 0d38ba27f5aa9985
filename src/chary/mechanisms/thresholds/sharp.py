"""Sharp tests of many values at once: hits drawn exactly from the chances of a table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting.sharp_tests import BITS, SharpTable, SharpTest
from chary.errors import InvalidParameter
from chary.noise.source import LARGEST_UPPER, integers

_WORD_BITS: Final = 64
_REST_BITS: Final = BITS - _WORD_BITS
_REST_WORDS: Final = _REST_BITS // _WORD_BITS


@dataclass(frozen=True)
class SharpSampler:
    """Whether integers hit, each with exactly its chance in the table, independently.

    Guarantee: `SharpTest` for each value that one unit moves by at most the table's sensitivity; misses cost nothing
    where no price was given to them.

    A value between two places of the chain moves to one of them with a chance in proportion, which is what the table's
    mixing means; then 64 random bits are compared with the leading bits of that chance, and the rest is drawn only
    where they are equal. The time a draw takes depends on values only through that, with a chance of 2^-64.

    Values are whole steps above the table's centre, where the chance is 1/2, and of any size. Arrays that do not hold
    integers raise `InvalidParameter`, whose message shows none; so does, before there are values, a table whose places
    lie more than 2**62 steps apart.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> sampler = SharpSampler(sharp_table(order=18, price="0.19295", steps=10))
    >>> sampler.hits(np.array([-10**9, 10**9]), noise.OperatingSystem())
    array([False,  True])
    """

    table: SharpTable

    def __post_init__(self) -> None:
        # Beyond it whether values fit int64 would decide how a draw fails.
        if self.table.spacing > LARGEST_UPPER:
            raise InvalidParameter(
                "one unit may move this by so many steps that no test draws them exactly: take a coarser grid"
            )

    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.test

    def step(self, value: int, source: noise.Source) -> bool:
        """Whether one value hits."""
        return bool(self.hits(np.array([value], dtype=object), source)[0])

    def hits(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.bool_]:
        """Whether each of a vector of values hits."""
        places = self._places(values, source)
        words = source.words(places.size, _WORD_BITS)
        leading = self._leading.take(places)
        found: NDArray[np.bool_] = words < leading
        for tie in np.flatnonzero(words == leading):
            found[tie] = self._settled(self.table.chances[places[tie]], source)
        return found

    def _places(self, values: NDArray[Any], source: noise.Source) -> NDArray[np.int64]:
        """For each value the place of the chain whose chance counts, drawn where it lies between two."""
        whole, spacing = noise.add(values, 0), self.table.spacing
        places = whole // spacing if spacing > 1 else whole
        first, last = -self.table.centre, len(self.table.chances) - 1 - self.table.centre
        # One place beyond the start, so that what lies below it does not move up into the chain.
        found = np.clip(places, first - 1, last).astype(np.int64)
        if spacing > 1:
            found += noise.uniform_integers(source, spacing, found.size) < whole - places * spacing
        return np.clip(found, first, last) - first

    @cached_property
    def _leading(self) -> NDArray[np.uint64]:
        return np.array([chance >> _REST_BITS for chance in self.table.chances], dtype=np.uint64)

    @staticmethod
    def _settled(chance: int, source: noise.Source) -> bool:
        """Whether the rest of a random number, whose leading bits are those of the chance, is below its rest."""
        drawn = 0
        for word in integers(source, _REST_WORDS):
            drawn = drawn << _WORD_BITS | word
        return drawn < chance & ((1 << _REST_BITS) - 1)
