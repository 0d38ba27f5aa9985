"""SmallDB: one of all databases of a few rows, the likelier the closer its answers are to those of the data."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.synthesis.small_database_classes import Classes, Flags, Measure, WeightedLaw, evenly, multiset
from chary.numbers import Number, positive, probability, whole

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
    often as there are multisets of cells that give it: the published law, [BLR08]. With "classes" it counts once
    (ours): the universe does not matter, only the queries do. In both, the cells within a class are chosen evenly among
    all multisets. Candidates are numbered by `sum_j C(i_j + j - 1, j)` for the classes `i_1 <= ... <= i_m` of the rows.

    Source: theory section 6; docs/small_database.md.

    >>> halves = Classes.of(2, [np.array([True, False])])
    >>> SmallDatabases("0.5", 3, halves).step([75], 100, noise.Seeded(1))
    [0, 0, 1]
    """

    epsilon: Number
    rows: int
    classes: Classes
    measure: Measure = "classes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Pure(self.epsilon).epsilon)
        object.__setattr__(self, "rows", whole(self.rows, "rows"))
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
        """By how much the error may exceed the least one there is, but for a chance beta: a share of rows."""
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
        """The exact law of the score. It depends on data: for drawing and for reports about made-up data only."""
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
        """Those of the largest count of a candidate."""
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
        sums = np.concatenate(
            [self.copies(self.members(part)) for part in np.split(ranks, range(CHUNK, len(ranks), CHUNK))]
        )
        sums = np.cumsum(sums)
        return int(ranks[np.searchsorted(sums, evenly(source, int(sums[-1])), side="right")])

    def _cells(self, members: NDArray[np.int64], label: int, source: noise.Source) -> list[int]:
        """Cells of a class, each multiset of as many as there are rows in it equally likely."""
        cells = np.flatnonzero(self.classes.labels == label)
        return [int(cells[place]) for place in multiset(source, len(cells), int((members == label).sum()))]
