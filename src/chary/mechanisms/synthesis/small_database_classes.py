"""What makes small databases few enough to go through: classes of cells; and exact laws and draws with big weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.errors import InvalidParameter
from chary.noise.choice import Floats
from chary.noise.partition import Bounds
from chary.numbers import Number, whole

Measure = Literal["classes", "databases"]
Flags = NDArray[np.bool_]
# All candidates are gone through, with all their rows and their answers to all queries: bounds of time, and of memory,
# of which a candidate keeps four bytes.
MOST_CANDIDATES: Final = 10_000_000
MOST_ROWS: Final = 10**8
MOST_ANSWERS: Final = 10**9
# The weights of candidates are Python integers of up to so many bits, in arrays: it bounds their time and memory.
MOST_BITS: Final = 2048
WORD_BITS: Final = 64
# Bounds 2 units of 2**-64 apart and a rounding of 2**-54 are below 2**-53.
CUT_ERROR: Final = 2.0**-53


@dataclass(frozen=True, eq=False)
class Classes:
    """Cells of a universe that satisfy the same queries: which class each cell is in, and which queries hold there.

    With a `grid` above 1, for queries with weights from 0 to 1: how many steps of `1/grid` a row there adds to each.

    >>> made = Classes.of(4, [np.array([True, True, False, False]), np.array([False, False, False, True])])
    >>> made.labels.tolist(), made.sizes, made.holds.astype(int).tolist()
    ([2, 2, 0, 1], (1, 1, 2), [[0, 0], [0, 1], [1, 0]])
    """

    labels: NDArray[np.int64]
    holds: Flags | NDArray[np.int64]
    grid: int = 1

    @classmethod
    def of(cls, cells: int, queries: Sequence[NDArray[Any]], grid: int = 1) -> Self:
        """From one flag a cell for each of at least one query, or so many steps."""
        labels = np.zeros(whole(cells, "cells"), np.int64)
        for flags in queries:
            split = (grid + 1) * labels + flags
            if grid == 1:
                labels = (np.cumsum(np.bincount(split) > 0) - 1)[split]
            else:
                labels = np.unique(split, return_inverse=True)[1].reshape(-1)
        firsts = np.empty(int(labels.max()) + 1, np.int64)
        firsts[labels] = np.arange(cells)
        return cls(labels, np.column_stack([flags[firsts] for flags in queries]), whole(grid, "grid"))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each class has."""
        return tuple(np.bincount(self.labels, minlength=len(self.holds)).tolist())

    def candidates(self, rows: int) -> int:
        """How many databases of so many rows there are, those with the same number of rows in each class being one."""
        return math.comb(len(self.holds) + rows - 1, rows)

    def choices(self, rows: int, measure: Measure) -> int:
        """Over how many the choice is made: those, or all multisets of cells."""
        return self.candidates(rows) if measure == "classes" else math.comb(len(self.labels) + rows - 1, rows)

    def feasible(self, rows: int, most: int = MOST_CANDIDATES) -> bool:
        """Whether all candidates can be gone through: limits on them, their rows, and their answers, all told."""
        candidates = self.candidates(rows)
        answers = candidates * self.holds.shape[1]
        return candidates <= most and candidates * rows <= MOST_ROWS and answers <= MOST_ANSWERS

    def light(self, rows: int, measure: Measure, bits: int = MOST_BITS) -> bool:
        """Whether the candidates can be weighed: for "databases", how long their numbers of multisets may be."""
        return measure == "classes" or self.choices(rows, measure).bit_length() <= bits


class WeightedLaw(noise.ExponentialLaw):
    """`P(j)` exactly proportional to `copies[j] exp(-unit exponents[j])`, for positive whole numbers of copies.

    >>> WeightedLaw([0, 5], "1/5", [1, 3]).probabilities()
    [0.4753..., 0.5246...]
    """

    def __init__(self, exponents: Sequence[int], unit: Number, copies: Sequence[int]) -> None:
        super().__init__(exponents, unit)
        self._copies = [whole(number, "copies") for number in copies]
        if len(self._copies) != self.size:
            raise InvalidParameter("give as many copies as exponents")

    def weights(self, bits: int) -> list[Bounds]:
        """All at more bits, which cancel: so that the many copies of one do not widen the bounds of the others."""
        each = super().weights(bits + max(self._copies).bit_length())
        return [(lower * copies, upper * copies) for (lower, upper), copies in zip(each, self._copies, strict=True)]

    def near(self) -> tuple[Floats, float]:
        """From the enclosures themselves, since the outcomes are few.

        A probability's bounds lie 2 apart at most, so those of a cut do too; and rounding errs by 2**-54 at most.
        """
        return np.array([lower / 2**WORD_BITS for lower, _ in self.cuts(WORD_BITS)]), CUT_ERROR


def evenly(source: noise.Source, upper: int) -> int:
    """Exactly uniform below a positive whole number of any size: words that are too large are drawn again."""
    bits = (upper - 1).bit_length()
    while True:
        found = 0
        for word in source.words(-(-bits // WORD_BITS), WORD_BITS).tolist():
            found = found << WORD_BITS | word
        found >>= -bits % WORD_BITS
        if found < upper:
            return found


def multiset(source: noise.Source, kinds: int, size: int) -> list[int]:
    """A multiset of the numbers below `kinds`, each equally likely: those of `size` distinct numbers below
    `kinds + size - 1`, drawn by Floyd's method, less their positions."""
    drawn: set[int] = set()
    for last in range(kinds - 1, kinds + size - 1):
        place = evenly(source, last + 1)
        drawn.add(last if place in drawn else place)
    return [number - position for position, number in enumerate(sorted(drawn))]
