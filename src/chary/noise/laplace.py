"""Exact Laplace and geometric noise."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from math import ceil
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from chary.noise.partition import SCALAR_SIZE, WORD_BITS, Bounds, Partition, powers
from chary.noise.source import Source, checked_scale, checked_size, integers

# Geometric variables put together from independent parts: groups of binary digits, and what lies above them.

# The arrays of a chunk (a quarter of a megabyte each) stay in the processor's cache.
CHUNK: Final = 1 << 15
# 7 digits are 128 outcomes; 8 would be 256, with which a byte has no value left to mark open cells.
GROUP_DIGITS: Final = 7
# 11 times 16 outcomes also stay below 254; a top is drawn again with a probability of exp(-11), too rarely to cost
# time.
TOP_SCALE: Final = 16
TOP_REACH: Final = 11
# Powers are products of up to 176 factors, each rounded outwards by a unit: 32 more bits hold all of that.
GUARD_BITS: Final = 32

Values = TypeVar("Values", int, NDArray[np.int64])


class Ladder:
    """Exact draws with `P(k) ~ exp(-k/scale)` on k >= 0, or, when signed, `P(k) ~ exp(-|k|/scale)` on the integers.

    Let `r = exp(-1/scale)`. A geometric variable is `low + 2**m * top`, where `low < 2**m` and `top` are independent.
    The binary digits of `low` are independent (digit j is 1 with probability `1 / (1 + r**(-2**j))`), and `top` is
    geometric with the ratio `r**(2**m)`. `m` is the smallest number that brings the scale of `top` down to 16, and
    digits are drawn seven at a time. `top` is cut off where it is reached with a probability near `exp(-11)`, and then
    starts afresh from there, because it has no memory.

    A signed variable is `g` or `-1 - g` for a geometric `g`, the second with probability `1 / (1 + r**-1)`; this
    sign is drawn together with the first six digits. No draw is ever rejected.

    Values are 64-bit. They would leave that range with a probability below `exp(-2**22)` for scales up to `2**41`.

    Source: theory chapter 3; digits of a geometric variable are independent because its weights are powers.
    """

    def __init__(self, scale: Fraction, *, signed: bool) -> None:
        self._signed = signed
        self._digits = (ceil(scale / TOP_SCALE) - 1).bit_length()
        self._sign_shift = min(self._digits, GROUP_DIGITS - 1)
        self._groups = [
            (offset, Partition(partial(_group_cuts, scale, offset, width, signed and offset == 0)))
            for offset, width in self._layout()
        ]
        top_scale = scale / 2**self._digits
        self._reach = ceil(TOP_REACH * top_scale)
        self._top = Partition(partial(_top_cuts, top_scale, self._reach))

    def draw(self, source: Source, size: int) -> NDArray[np.int64]:
        """`size` independent values."""
        if size <= SCALAR_SIZE:
            parts = 1 + len(self._groups)
            rows = source.words(size * parts, WORD_BITS).reshape(size, parts).tolist()
            return np.array([self._drawn_from(row, source) for row in rows], dtype=np.int64)
        values = np.empty(size, dtype=np.int64)
        for start in range(0, size, CHUNK):
            chunk = values[start : start + CHUNK]
            groups = [partition.draw(source, chunk.size).astype(np.int64) for _, partition in self._groups]
            chunk[:] = self._composed(self._draw_top(source, chunk.size), groups)
        return values

    def draw_one(self, source: Source) -> int:
        """One value, made of the same words as by `draw(source, 1)`."""
        return self._drawn_from(integers(source, 1 + len(self._groups)), source)

    def _drawn_from(self, words: list[int], source: Source) -> int:
        """The value whose parts begin with these words: its groups, then its top."""
        groups = [group.place(source, word) for (_, group), word in zip(self._groups, words, strict=False)]
        value = last = self._top.place(source, words[-1])
        while last == self._reach:
            last = self._top.place(source, int(source.words(1, WORD_BITS)[0]))
            value += last
        return self._composed(value, groups)

    def _composed(self, top: Values, groups: Sequence[Values]) -> Values:
        """The value whose top and whose outcomes of groups these are."""
        value = top << self._digits
        for (offset, _), outcome in zip(self._groups, groups, strict=True):
            value ^= outcome << offset
        if self._signed:
            # -1 - value has every bit flipped; the sign, the highest bit of the first group, has just flipped one.
            value ^= (groups[0] >> self._sign_shift) * ~(1 << self._sign_shift)
        return value

    def _draw_top(self, source: Source, size: int) -> NDArray[np.int64]:
        values = self._top.draw(source, size).astype(np.int64)
        unfinished = np.flatnonzero(values == self._reach)
        while unfinished.size:
            more = self._top.draw(source, unfinished.size)
            values[unfinished] += more
            unfinished = unfinished[more == self._reach]
        return values

    def _layout(self) -> list[tuple[int, int]]:
        """The offset and the number of the digits of each group; a sign takes the place of one digit."""
        first = self._sign_shift if self._signed else min(self._digits, GROUP_DIGITS)
        rest = range(first, self._digits, GROUP_DIGITS)
        groups = [(offset, min(GROUP_DIGITS, self._digits - offset)) for offset in rest]
        return [(0, first), *groups] if first or self._signed else groups


@lru_cache(maxsize=64)
def ladder(scale: Fraction, signed: bool) -> Ladder:
    """The ladder of a scale, kept with its tables (at most half a megabyte each)."""
    return Ladder(scale, signed=signed)


def _group_cuts(scale: Fraction, offset: int, width: int, signed: bool, bits: int) -> list[Bounds]:
    """Cut points between the values of `width` digits from `offset` on; when signed, once more for the other sign."""
    count = 1 << width
    ratios = powers(Fraction(2**offset) / scale, [1] * count, bits + GUARD_BITS)
    weights = ratios[:count] + (ratios[1:] if signed else [])
    sums = list(accumulate(weights, lambda left, right: (left[0] + right[0], left[1] + right[1])))
    total_lower, total_upper = sums.pop()
    return [((lower << bits) // total_upper, -((-upper << bits) // total_lower)) for lower, upper in sums]


def _top_cuts(scale: Fraction, reach: int, bits: int) -> list[Bounds]:
    """Cut points `1 - exp(-k/scale)` for k = 1 .. reach."""
    one = 1 << (bits + GUARD_BITS)
    return [
        ((one - upper) >> GUARD_BITS, -((lower - one) >> GUARD_BITS))
        for lower, upper in powers(1 / scale, [1] * reach, bits + GUARD_BITS)[1:]
    ]


# The geometric distribution.


def geometric(source: Source, scale: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers `k >= 0` with `P(k)` exactly proportional to `exp(-k/scale)`.

    The distribution is exact when the source is uniform, up to values outside 64 bits, of probability below
    `exp(-2**22)`. A scale outside [2**-10, 2**40] or a negative size raises `InvalidParameter`; size 0 gives an empty
    array.

    Source: theory chapter 3.

    >>> from chary.noise import Seeded
    >>> geometric(Seeded(1), Fraction(7, 3), 5).shape
    (5,)
    """
    return ladder(checked_scale(scale), False).draw(source, checked_size(size))


# The discrete Laplace distribution.


def discrete_laplace(source: Source, scale: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers with `P(k)` exactly proportional to `exp(-abs(k)/scale)`.

    Added to an integer that changes by at most D between neighbours, it is `D/scale`-differentially private.

    The distribution is exact when the source is uniform, up to values outside 64 bits, of probability below
    `exp(-2**22)`. A scale outside [2**-10, 2**40] or a negative size raises `InvalidParameter`; size 0 gives an empty
    array.

    Source: theory chapter 3; Ghosh, Roughgarden, Sundararajan 2009 for the privacy of the two-sided geometric
    distribution.

    >>> from chary.noise import OperatingSystem
    >>> discrete_laplace(OperatingSystem(), Fraction(1, 1024), 3)
    array([0, 0, 0])
    """
    return ladder(checked_scale(scale), True).draw(source, checked_size(size))
