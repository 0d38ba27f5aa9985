"""A finite law as a partition of the unit interval, drawn by looking up 16 random bits."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.noise.enclosure import Bounds
from chary.noise.source import Source

Cuts = Callable[[int], Sequence[Bounds]]
"""Ascending cut points of [0, 1] at a precision: `cuts(bits)[i]` bounds the i-th one times `2**bits`."""

# A table of 65,536 bytes stays in the processor's cache, and of so many cells at most 254 are open.
LOOKUP_BITS: Final = 16
WORD_BITS: Final = 64
# Up to here bisection of single words is faster than the table; either way decides nothing but speed.
SCALAR_SIZE: Final = 64

# Outcomes are at most 254, so this byte is free to mark the cells that contain a cut point.
_OPEN: Final = 255


class Partition:
    """The law of the number of cut points which a uniform real number of [0, 1) has reached.

    With cut points `c_0 <= c_1 <= ...`, outcome `k` has exactly the probability `c_k - c_(k-1)`. The real number is
    drawn lazily: 16 bits decide nearly always by a table of 65,536 outcomes; cells which contain a cut point are
    "open" and draw a whole 64-bit word more, of which the first 48 bits count; a word on which a cut point falls is
    settled by more and more words against cut points of as many bits.

    At most 254 cut points. Small draws skip the table and start with 64 bits.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._lower, self._upper = _columns(cuts(WORD_BITS))

    def draw(self, source: Source, size: int) -> NDArray[np.uint8]:
        """`size` independent outcomes."""
        if size <= SCALAR_SIZE:
            words = source.words(size, WORD_BITS).tolist()
            return np.array([self.place(source, word) for word in words], dtype=np.uint8)
        cells = source.words(size, LOOKUP_BITS)
        outcomes = self._table.take(cells)
        positions = np.flatnonzero(outcomes == _OPEN)
        tails = source.words(positions.size, WORD_BITS) >> np.uint64(LOOKUP_BITS)
        words = (cells[positions].astype(np.uint64) << np.uint64(WORD_BITS - LOOKUP_BITS)) | tails
        outcomes[positions] = [self.place(source, word) for word in words.tolist()]
        return outcomes

    def place(self, source: Source, word: int) -> int:
        """The outcome for a number whose first 64 bits are `word`; `source` is asked for more in case of a tie."""
        least = bisect_right(self._upper, word)
        if least == len(self._lower) or word < self._lower[least]:
            return least
        return settle(source, self._cuts, word, WORD_BITS)

    @cached_property
    def _table(self) -> NDArray[np.uint8]:
        table = np.full(1 << LOOKUP_BITS, _OPEN, dtype=np.uint8)
        cell = 1 << (WORD_BITS - LOOKUP_BITS)
        # Starts round up and ends down: a cell gets an outcome only if all numbers in it have it.
        starts = [0] + [-(-upper // cell) for upper in self._upper]
        ends = [lower // cell for lower in self._lower] + [1 << LOOKUP_BITS]
        for outcome, (start, end) in enumerate(zip(starts, ends, strict=True)):
            table[start:end] = outcome
        return table


def settle(source: Source, cuts: Cuts, word: int, bits: int) -> int:
    """The number of cut points reached by a real number whose first `bits` bits are `word`, drawing the rest.

    Ends with probability one: every 64 bits more leave it open with a probability of about `2**-64` a cut point.
    """
    while True:
        lower, upper = _columns(cuts(bits))
        least = bisect_right(upper, word)
        if least == bisect_right(lower, word):
            return least
        word = word << WORD_BITS | int(source.words(1, WORD_BITS)[0])
        bits += WORD_BITS


def _columns(bounds: Sequence[Bounds]) -> tuple[list[int], list[int]]:
    return [lower for lower, _ in bounds], [upper for _, upper in bounds]
