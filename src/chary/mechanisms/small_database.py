"""The small database mechanism: a draw from all small databases by its exact weights."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.noise import partition
from chary.numbers import Number, per_call, positive, probability, set_fields, whole

# What makes small databases few enough to go through: classes of cells; and exact distributions and draws with big
# weights.

Measure = Literal["classes", "databases"]
Flags = NDArray[np.bool_]
# All candidates are gone through, with all their rows and their answers to all queries: bounds of time, and of memory,
# of which a candidate keeps four bytes.
MOST_CANDIDATES: Final = 10_000_000
MOST_ROWS: Final = 10**8
MOST_ANSWERS: Final = 10**9
# The weights of candidates are Python integers of up to that many bits, in arrays: it bounds their time and memory.
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
        """From one flag a cell for each of at least one query, or this many steps."""
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
        """How many databases of this many rows there are; those with the same number of rows in each class are one."""
        return math.comb(len(self.holds) + rows - 1, rows)

    def choices(self, rows: int, measure: Measure) -> int:
        """The number of outcomes of the choice: candidates, or all multisets of cells."""
        return self.candidates(rows) if measure == "classes" else math.comb(len(self.labels) + rows - 1, rows)

    def feasible(self, rows: int, most: int = MOST_CANDIDATES) -> bool:
        """Whether all candidates can be gone through: limits on them, their rows, and all their answers."""
        candidates = self.candidates(rows)
        answers = candidates * self.holds.shape[1]
        return candidates <= most and candidates * rows <= MOST_ROWS and answers <= MOST_ANSWERS

    def light(self, rows: int, measure: Measure, bits: int = MOST_BITS) -> bool:
        """Whether the candidates can be weighed: for "databases", how long their numbers of multisets may be."""
        return measure == "classes" or self.choices(rows, measure).bit_length() <= bits


class WeightedLaw(noise.ExponentialLaw):
    """`P(j)` exactly proportional to `copies[j] exp(-unit exponents[j])`, for positive integers of copies.

    >>> WeightedLaw([0, 5], "1/5", [1, 3]).probabilities()
    [0.4753..., 0.5246...]
    """

    def __init__(self, exponents: Sequence[int], unit: Number, copies: Sequence[int]) -> None:
        super().__init__(exponents, unit)
        self._copies = [whole(number, "copies") for number in copies]
        if len(self._copies) != self.size:
            raise InvalidParameter("give as many copies as exponents")

    def weights(self, bits: int) -> list[partition.Bounds]:
        """All at more bits, which cancel: so that the many copies of one do not widen the bounds of the others."""
        each = super().weights(bits + max(self._copies).bit_length())
        return [(lower * copies, upper * copies) for (lower, upper), copies in zip(each, self._copies, strict=True)]

    def near(self) -> tuple[partition.Floats, float]:
        """From the enclosures themselves, since the outcomes are few.

        A probability's bounds lie 2 apart at most, so those of a cut do too; and rounding errs by 2**-54 at most.
        """
        return np.array([lower / 2**WORD_BITS for lower, _ in self.cuts(WORD_BITS)]), CUT_ERROR


def evenly(source: noise.Source, upper: int) -> int:
    """Exactly uniform below a positive integer of any size: words that are too large are drawn again."""
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


# SmallDB: one of all databases of a few rows, the likelier the closer its answers are to those of the data.

# Arrays of 65,536 numbers stay in the cache. Sums of flags are packed into words of 62 bits: int64 with a bit to spare.
CHUNK: Final = 1 << 16
WHOLE_BITS: Final = 62


@dataclass(frozen=True, eq=False)
class SmallDatabases:
    """Chooses m rows of a universe: the exponential mechanism with the utility `-max_f |f(x) - f(y)|`.

    Guarantee: `Pure(epsilon)` if one row of n is replaced, n is public, and each query's count changes by at most 1.
    Scores are the integers `max_f |m count_f(x) - n count_f(y)|`, which then change by at most m, of any size. Queries
    with weights count in steps of `1/grid` of a row: then `grid` and `m grid` are in place of 1 and m.

    Only how many rows are in each class matters to the score. With the measure "databases" such a candidate counts as
    often as there are multisets of cells that give it: the published distribution, [BLR08]. With "classes" it counts
    once (this work): the universe does not matter, only the queries do. In both, the cells within a class are chosen
    evenly among all multisets. Candidates are numbered by `sum_j C(i_j + j - 1, j)` for the classes `i_1 <= ... <= i_m`
    of the rows.

    Source: theory chapter 5; docs/theory/linear.md.

    >>> halves = Classes.of(2, [np.array([True, False])])
    >>> SmallDatabases("0.5", 3, halves).step([75], 100, noise.Seeded(1))
    [0, 0, 1]
    """

    epsilon: Number
    rows: int
    classes: Classes
    measure: Measure = "classes"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=per_call(self.epsilon), rows=whole(self.rows, "rows"))
        if self.measure not in ("classes", "databases"):
            raise InvalidParameter("measure must be 'classes' or 'databases'")
        if not self.classes.feasible(self.rows):
            raise InvalidParameter("there are too many candidate databases to go through")
        if not self.classes.light(self.rows, self.measure):
            raise InvalidParameter('candidates stand for too many databases to weigh them: use measure "classes"')

    @property
    def unit(self) -> Fraction:
        """The exponent of one step of the score, of which one row can change `rows`, times `grid`."""
        return positive(self.epsilon, "epsilon") / (2 * self.rows * self.classes.grid)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)

    def shortfall(self, size: int, beta: Number) -> float:
        """The excess of the error over the least one, except with probability beta, as a fraction of rows."""
        odds = self.classes.choices(self.rows, self.measure) / probability(beta, "beta")
        steps = (math.log(odds.numerator) - math.log(odds.denominator)) / float(self.unit)
        return steps / (self.rows * self.classes.grid * whole(size, "size"))

    def step(self, counts: Sequence[int], size: int, source: noise.Source) -> list[int]:
        """The cells of the rows, ascending, for the counts of the queries among `size` rows."""
        scores, which = self.scored(counts, size)
        found = self.law(scores, which).draw(source)
        members = self.members(np.array([self._picked(which == found, source)]))[:, 0]
        return sorted(cell for label in np.unique(members) for cell in self._cells(members, int(label), source))

    def law(self, scores: Sequence[int], which: NDArray[np.int32]) -> WeightedLaw:
        """The exact distribution of the score.
        It depends on data: for drawing and for reports about synthetic data only."""
        return WeightedLaw(scores, self.unit, self._weighed(which, len(scores)))

    def scored(self, counts: Sequence[int], size: int) -> tuple[list[int], NDArray[np.int32]]:
        """The scores that occur, ascending, and which of them each candidate has."""
        most = self.rows * self.classes.grid
        gaps = [[abs(self.rows * count - size * rows) for rows in range(most + 1)] for count in counts]
        scores = sorted({gap for row in gaps for gap in row} or {0})
        place = {score: number for number, score in enumerate(scores)}
        table = np.array([[place[gap] for gap in row] for row in gaps], np.int32).reshape(len(gaps), most + 1)
        found = np.concatenate([self._worst(self.members(ranks), table) for ranks in self._ranks()])
        occurs = np.bincount(found, minlength=len(scores)) > 0
        return [scores[number] for number in np.flatnonzero(occurs)], (np.cumsum(occurs, dtype=np.int32) - 1)[found]

    def members(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each row (down) of the candidates (across) of these numbers."""
        rest, found = ranks.copy(), np.empty((self.rows, len(ranks)), np.int64)
        for place in range(self.rows, 0, -1):
            firsts = self._firsts[place - 1]
            found[place - 1] = np.searchsorted(firsts, rest, side="right") - 1
            rest -= firsts[found[place - 1]]
        return found

    def copies(self, members: NDArray[np.int64]) -> NDArray[Any]:
        """For each candidate, how many multisets of cells give it: the product of `C(cells + rows - 1, rows)`."""
        kind = np.int64 if self._total.bit_length() + self.rows.bit_length() < WHOLE_BITS else object
        sizes = np.array(self.classes.sizes, dtype=kind)
        found, again = np.full(members.shape[1], 1, dtype=kind), np.zeros(members.shape[1], np.int64)
        for place, row in enumerate(members):
            again = np.where(row == members[place - 1], again, 0) + 1 if place else again + 1
            # In this order every quotient is exact: a binomial coefficient is multiplied up factor by factor.
            found = found * (sizes[row] + again - 1) // again
        return found

    @cached_property
    def _total(self) -> int:
        return self.classes.choices(self.rows, self.measure)

    @cached_property
    def _firsts(self) -> list[NDArray[np.int64]]:
        """For each place j from 1, how many multisets of j classes lie below each class."""
        kinds = len(self.classes.holds)
        return [np.array([math.comb(i + j - 1, j) for i in range(kinds)], np.int64) for j in range(1, self.rows + 1)]

    def _ranks(self) -> Iterator[NDArray[np.int64]]:
        last = self.classes.candidates(self.rows)
        return (np.arange(start, min(last, start + CHUNK)) for start in range(0, last, CHUNK))

    def _worst(self, members: NDArray[np.int64], table: NDArray[np.int32]) -> NDArray[np.int32]:
        """The largest entry of the table at any query's count; as many counts as fit are added in one word."""
        bits, found = self._bits, np.zeros(members.shape[1], np.int32)
        shifts, rest = range(0, WHOLE_BITS - bits + 1, bits), list(table)
        for codes in self._codes:
            counts = np.zeros(members.shape[1], np.int64)
            for row in members:
                counts += codes[row]
            for shift, entries in zip(shifts, rest, strict=False):
                np.maximum(found, entries[counts >> shift & (1 << bits) - 1], out=found)
            rest = rest[len(shifts) :]
        return found

    @property
    def _bits(self) -> int:
        """The bits of the largest count of a candidate."""
        return (self.rows * self.classes.grid).bit_length()

    @cached_property
    def _codes(self) -> list[NDArray[np.int64]]:
        """For each class a word of flags or steps of queries, so far apart that a sum over the rows counts each."""
        bits, codes = self._bits, list[NDArray[np.int64]]()
        together = WHOLE_BITS // bits
        for number, flags in enumerate(self.classes.holds.T):
            codes += [] if number % together else [np.zeros(len(flags), np.int64)]
            codes[-1] |= flags.astype(np.int64) << bits * (number % together)
        return codes

    def _weighed(self, which: NDArray[np.int32], scores: int) -> list[int]:
        """How much all candidates of each score count together."""
        if self.measure == "classes":
            return [int(number) for number in np.bincount(which, minlength=scores)]
        sums: NDArray[Any] | None = None
        for ranks in self._ranks():
            copies = self.copies(self.members(ranks))
            sums = np.zeros(scores, copies.dtype) if sums is None else sums
            np.add.at(sums, which[ranks], copies)
        return [int(number) for number in sums] if sums is not None else []

    def _picked(self, among: Flags, source: noise.Source) -> int:
        """One of these candidates, each as likely as it counts."""
        ranks = np.flatnonzero(among)
        if self.measure == "classes":
            return int(ranks[evenly(source, len(ranks))])
        parts = np.split(ranks, range(CHUNK, len(ranks), CHUNK))
        sums = np.cumsum(np.concatenate([self.copies(self.members(part)) for part in parts]))
        return int(ranks[np.searchsorted(sums, evenly(source, int(sums[-1])), side="right")])

    def _cells(self, members: NDArray[np.int64], label: int, source: noise.Source) -> list[int]:
        """Cells of a class, each multiset of as many as there are rows in it equally likely."""
        cells = np.flatnonzero(self.classes.labels == label)
        return [int(cells[place]) for place in multiset(source, len(cells), int((members == label).sum()))]
