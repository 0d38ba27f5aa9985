"""Multiplicative weights: the public histogram, its update, and factors of cells."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from chary.accounting import Event, Joint, Pure, Repeated, ZeroConcentrated
from chary.accounting.numerics import decimal, least, precise, rounded_down
from chary.accounting.synthesis import GRID, MOST_ROUNDS, REACH
from chary.accounting.weights import Update, check_update
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.choices import Exponential, PermuteAndFlip
from chary.noise import Source
from chary.numbers import Number, checked, optional, positive, probability, whole, work_out

# Multiplying some cells of a large matrix in place, in about the time of one pass over it.
#
# A few slices of rows are multiplied one by one; else a line of factors is looked up for each row. Both give the same
# bits.

Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]
CellWeights = NDArray[np.float32]
Pieces = list[tuple[slice, int]]

# These trade speed only. 8,192 cells take longer than the call for a slice of them, so as many calls are no burden;
# eight strided slices are quicker than a look-up a row.
PIECE: Final = 2**13
STEPPED: Final = 8


def pieces_of(which: Numbers, patterns: Flags) -> Pieces | None:
    """Rows that have the same pattern as few slices, without those whose pattern is empty; None if they would be many.

    Every slice costs a call, which has to be little compared with the cells themselves.
    """
    used: Flags = np.logical_or.reduce(patterns, axis=1)
    if len(used) == 1:
        return [(slice(0, len(which)), 0)] if used[0] else []
    starts = np.concatenate(([0], np.flatnonzero(which[1:] != which[:-1]) + 1))
    numbers, ends = which[starts], np.append(starts[1:], len(which))
    runs = [part[used[numbers]].tolist() for part in (starts, ends, numbers)]
    if len(runs[0]) <= 1 + len(which) * patterns.shape[1] // PIECE:
        return [(slice(low, high), number) for low, high, number in zip(*runs, strict=True)]
    if used.sum() > STEPPED:
        return None
    stepped = [(rows, number) for number in np.flatnonzero(used).tolist() for rows in _stepped(which == number)]
    return stepped if len(stepped) == used.sum() else None


def _stepped(flags: Flags) -> list[slice]:
    """Evenly spaced rows as one slice; none for others."""
    rows = np.flatnonzero(flags)
    steps = np.diff(rows)
    even = len(rows) > 0 and (steps == steps[:1]).all()
    return [slice(int(rows[0]), int(rows[-1]) + 1, int(steps[0]) if len(steps) else 1)] if even else []


def multiply_pieces(matrix: CellWeights, pieces: Pieces, patterns: Flags, factors: CellWeights) -> None:
    """Slice by slice, by the line of factors of its pattern."""
    for rows, number in pieces:
        span = _span(patterns[number])
        part = matrix[rows, span]
        np.multiply(part, factors[number, span], out=part)


def multiply_gathered(matrix: CellWeights, which: Numbers, factors: CellWeights, scratch: CellWeights) -> None:
    """Block by block, by the line of factors that belongs to each row."""
    for rows, gathered in _blocks(which, factors, scratch):
        np.multiply(matrix[rows], gathered, out=matrix[rows])


def _blocks(which: Numbers, table: CellWeights, scratch: CellWeights) -> Iterator[tuple[slice, CellWeights]]:
    """A block of rows after the other, with the line of the table for each; the next block overwrites it. The scratch
    holds one line at least.
    """
    columns = table.shape[1]
    together = len(scratch) // columns
    for low in range(0, len(which), together):
        rows = slice(low, min(low + together, len(which)))
        gathered = scratch[: (rows.stop - low) * columns].reshape(-1, columns)
        yield rows, table.take(which[rows], 0, gathered, "clip")


def sum_pieces(matrix: CellWeights, pieces: Pieces, patterns: Flags) -> float:
    """The sum of flagged weights, in double precision."""
    inside = 0.0
    for rows, number in pieces:
        span = _span(patterns[number])
        sums = np.add.reduce(matrix[rows, span], axis=0, dtype=np.float64)
        inside += float((sums * patterns[number, span]).sum())
    return inside


def sum_gathered(matrix: CellWeights, which: Numbers, patterns: Flags, scratch: CellWeights) -> float:
    """The sum of flagged weights where rows are of many kinds."""
    inside = 0.0
    for rows, gathered in _blocks(which, patterns.astype(np.float32), scratch):
        gathered *= matrix[rows]
        inside += float(gathered.sum(dtype=np.float64))
    return inside


def factors_of(flags: Flags, factor: float) -> CellWeights:
    """The factor where there is a flag and 1 elsewhere; by integers, which is exact and several times quicker."""
    bits = np.array([1, factor], np.float32).view(np.uint32)
    made = flags.astype(np.uint32)
    # Adding the difference between the bits of 1 and of the factor, or 0, picks one of the two floats unrounded.
    made *= bits[1:] - bits[:1]
    made += bits[:1]
    return made.view(np.float32)


def _span(flags: Flags) -> slice:
    """From the first true flag to the last one."""
    known = flags.tobytes()
    first = known.find(b"\x01")
    return slice(0) if first < 0 else slice(first, known.rfind(b"\x01") + 1)


# A histogram over the cells of a universe that is a function of published answers alone.

# Half a megabyte of scratch stays in the cache.
BLOCK: Final = 2**17
Floats = NDArray[np.float64]


class Cells(Protocol):
    """A set of cells of a matrix: each row of the matrix has one of a few patterns, which flag its cells.

    With `levels` it is a weight from 0 to 1 for each cell: patterns number the levels, and `count` is the sum of them.
    """

    @property
    def which(self) -> Numbers:
        """The number of each row's pattern."""
        ...

    @property
    def patterns(self) -> Any:
        """The patterns: one flag for each column, or the number of a level."""
        ...

    @property
    def levels(self) -> Floats | None:
        """The weights, ascending; None where patterns are flags."""
        ...

    @property
    def counts(self) -> Floats:
        """How many cells each level has."""
        ...

    @property
    def count(self) -> float:
        """How many cells it has."""
        ...


class PublicHistogram:
    """Weights of cells in single precision, uniform at first, and their sum in double precision, worked out lazily.

    Only their ratios mean anything. The same changes of the same cells give the same bits. A weight that fell 10^38
    times below the largest has lost its digits: raised again it is off by any factor, and at 0 only `lift` raises it.

    >>> histogram = PublicHistogram(2, 3)
    >>> histogram.lift(0.5)
    >>> histogram.cells, histogram.total, float(histogram.weights[1, 2])
    (6, 9.0, 1.5)
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.weights: CellWeights = np.ones((rows, columns), np.float32)
        self._total: float | None = float(rows * columns)
        self._room: CellWeights = np.empty(0, np.float32)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.weights.size)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        if self._total is None:
            self._total = float(self.weights.sum(dtype=np.float64))
        return self._total

    def share(self, cells: Cells) -> float:
        """The part of all weight that lies in these cells; of weighted cells, their average weight."""
        if cells.levels is not None:
            return min(1.0, float(self.masses(cells) @ cells.levels))
        matrix, pieces = self._matrix(cells), pieces_of(cells.which, cells.patterns)
        if pieces is None:
            inside = sum_gathered(matrix, cells.which, cells.patterns, self._scratch(matrix.shape[1]))
        else:
            inside = sum_pieces(matrix, pieces, cells.patterns)
        return min(1.0, inside / self.total)

    def masses(self, cells: Cells) -> Floats:
        """What part of all weight the cells of each level have."""
        numbers, matrix = len(cells.levels if cells.levels is not None else ()), self._matrix(cells)
        inside, together = np.zeros(numbers), max(1, BLOCK // matrix.shape[1])
        for low in range(0, len(matrix), together):
            part = slice(low, low + together)
            level = cells.patterns[cells.which[part]].reshape(-1)
            inside += np.bincount(level, matrix[part].reshape(-1), numbers)
        return np.asarray(inside / inside.sum())

    def multiply(self, cells: Cells, factor: float) -> None:
        """Multiply the weights of these cells relative to all others, in place; of weighted cells, each by the factor
        to the power of its weight.

        The others are divided instead where they lie in fewer rows, or in as many and are fewer.
        """
        self._total = None
        if cells.levels is not None:
            each = (factor**cells.levels).astype(np.float32)[cells.patterns]
            multiply_gathered(self._matrix(cells), cells.which, each, self._scratch(cells.patterns.shape[1]))
            return
        which, patterns, times = cells.which, cells.patterns, factor
        rows = np.bincount(which, minlength=len(patterns))
        touched, whole = int(rows @ patterns.any(axis=1)), int(rows @ patterns.all(axis=1))
        if (len(which) - whole, self.cells - cells.count) < (touched, cells.count):
            patterns, times = ~patterns, 1 / factor
        matrix, pieces = self._matrix(cells), pieces_of(which, patterns)
        factors = factors_of(patterns, times)
        if pieces is None:
            multiply_gathered(matrix, which, factors, self._scratch(matrix.shape[1]))
        else:
            multiply_pieces(matrix, pieces, patterns, factors)

    def lift(self, weight: float) -> None:
        """Add the same weight to every cell, in place."""
        self._total = None
        self.weights += np.float32(weight)

    def scale(self, factor: float) -> None:
        """Multiply every weight, in place."""
        self._total = None
        self.weights *= np.float32(factor)

    def shares(self) -> NDArray[np.float64]:
        """What part of all weight each cell has; a copy."""
        return self.weights.ravel().astype(np.float64) / self.total

    def _matrix(self, cells: Cells) -> CellWeights:
        return self.weights.reshape(len(cells.which), cells.patterns.shape[1])

    def _scratch(self, columns: int) -> CellWeights:
        """Space for some rows, kept: new memory takes longer than a change."""
        if len(self._room) < max(columns, min(BLOCK, self.cells)):
            self._room = np.empty(max(columns, min(BLOCK, self.cells)), np.float32)
        return self._room


# Private multiplicative weights (chapter 6): a public histogram that is corrected by the answers that surprise it.

# With a mean within 2**30 of 1 no weight exceeds 2**30 times the cells; a factor of 2**30 more stays well below the end
# of single precision, 2**128.
FARTHEST: Final = 30
# Lines of a transcript are written and read again at every change: 65,536 of them stay in memory.
KEPT: Final = 2**16
# That many whole transcripts as well, since a question reads the one that the last answer left.
LATEST: Final = 8
LARGEST_FACTOR: Final = 2.0**FARTHEST
# A share that was brought to a goal lies this near to it, whatever the 24 bits of weights lose.
NEAR: Final = 2.0**-20
# The interval of exponents is below 2**5 long; 60 halvings leave it below the spacing of floats.
HALVINGS: Final = 60


@dataclass(frozen=True)
class Change:
    """What one hard answer did to the histogram: `scale` and then `lift` all cells, `factor` those of `query`.

    `size` is the number of rows at that time. All of it follows from published answers. One that is not `hard` came of
    what else was published, or of an earlier answer again. Where the histogram is refitted, it learnt that the truth
    lies from `low` to `high`.
    """

    query: str
    size: int
    scale: float
    lift: float
    factor: float
    low: float | None = None
    high: float | None = None
    hard: bool = True


class Easy(NamedTuple):
    """The noisy counts that leave the histogram's answer standing: from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class MultiplicativeWeights:
    """The rule: how far an answer may be off, and how a hard answer corrects the histogram.

    With noisy answers within alpha/3 of the truth, easy answers are within alpha. A hard answer changes the weights on
    the side that is too heavy. *published*: by the factor exp(-alpha/6) ([GROW] Algorithm 3). *Projected* (this work):
    by as much as brings the histogram's answer to the nearest value that the noise leaves possible. It needs at least 8
    times fewer hard answers in the worst case. *Refitted* (this work): projected, and once again on each earlier answer
    at the same size, the latest first, that the histogram contradicts by then. `mixing` is how much of a new row is
    taken to be anywhere, the rest being taken to be like the rows before it. In the published rule it is 1. See
    docs/theory/pmw.md.
    """

    alpha: Number
    update: Update = "projected"
    mixing: Number = Fraction(1, 10)

    def __post_init__(self) -> None:
        checked(self, alpha=probability, mixing=positive)
        check_update(self.update)
        if Fraction(self.mixing) > 1:
            raise InvalidParameter("mixing is a part of a row, at most 1")

    def kept(self, before: int, size: int) -> float:
        """The weight of the histogram from `before` rows in that for `size` rows; the rest is uniform.

        The product of 1 - mixing/t over the new rows t, in closed form. A table that shrank keeps all.

        >>> MultiplicativeWeights("0.1", mixing=1).kept(100, 400), round(MultiplicativeWeights("0.1").kept(100, 400), 4)
        (0.25, 0.8708)
        """
        if size <= before:
            return 1.0
        mixing = float(self.mixing)
        if mixing == 1:
            return before / size
        logs = math.lgamma(size + 1 - mixing) - math.lgamma(size + 1)
        return min(1.0, math.exp(logs + math.lgamma(before + 1) - math.lgamma(before + 1 - mixing)))

    def easy(self, share: float, size: int) -> Easy:
        """Noisy counts within 2 alpha/3 of the histogram's share, compared exactly.

        >>> MultiplicativeWeights("0.1").easy(0.5, 300)
        Easy(low=130, high=170)
        """
        off = Fraction(self.alpha) * 2 / 3
        return Easy(math.ceil(size * (Fraction(share) - off)), math.floor(size * (Fraction(share) + off)))

    def factor(self, share: float, answer: float, margin: float, above: bool | None = None) -> float:
        """The factor on the cells of the query of a hard answer that is off by at most `margin`.

        It is 1 where the answer cannot be that near the truth. A margin above alpha/3 counts as alpha/3. `above` says
        on which side of the histogram's fraction the truth was found, by alpha/3 at least, if something else than the
        answer revealed it.

        >>> rule = MultiplicativeWeights("0.03")
        >>> rule.factor(0.25, 0.51, 0.01), rule.factor(0.75, 0.49, 0.01), rule.factor(0.985, 1.02, 0.01)
        (3.0, 0.333..., 3.030...)
        """
        alpha, upwards = float(self.alpha), answer >= share if above is None else above
        if self.update == "published":
            return math.exp(alpha / 6 if upwards else -alpha / 6)
        if not upwards:
            return 1 / self.factor(1 - share, 1 - answer, margin, True) if 0 < share < 1 else 1.0
        goal = self._goal(share, answer, margin, 1.0)
        if share <= 0 or goal is None:
            return 1.0
        return min(LARGEST_FACTOR, odds(share, goal))

    def tilt(self, levels: Floats, masses: Floats, answer: float, margin: float, above: bool | None = None) -> float:
        """`factor` for weighted cells: a cell of weight w is multiplied by the result to the power w.

        `levels` are the weights, `masses` the parts of the histogram at each of them.

        >>> rule = MultiplicativeWeights("0.03")
        >>> f"{rule.tilt(np.array([0, 1]), np.array([0.75, 0.25]), 0.51, 0.01):.6f}"
        '3.000000'
        >>> f"{rule.tilt(np.array([0, 0.5, 1]), np.array([0.5, 0.25, 0.25]), 0.51, 0.01):.6f}"
        '2.000000'
        """
        share = float(masses @ levels)
        upwards = answer >= share if above is None else above
        if self.update == "published":
            return self.factor(share, answer, margin, above)
        if not upwards:
            return 1 / self.tilt(1 - levels[::-1], masses[::-1], 1 - answer, margin, True)
        goal = self._goal(share, answer, margin, float(levels[masses > 0].max()))
        return 1.0 if goal is None else math.exp(_tilted(levels, masses, goal))

    def _goal(self, share: float, answer: float, margin: float, top: float) -> float | None:
        """How high the truth is at least; None where that is the most that there can be, or more."""
        least, goal = share + float(self.alpha) / 3, answer - self.noise(margin)
        return None if least >= top else goal if least < goal < top else least

    def noise(self, margin: float) -> float:
        """How far off a hard answer is taken to be at most."""
        return min(margin, float(self.alpha) / 3)


def odds(share: float, goal: float) -> float:
    """The factor that brings the proportion of some cells from `share` to `goal`, both strictly within (0, 1).

    >>> odds(0.25, 0.5), odds(0.5, 0.25)
    (3.0, 0.333...)
    """
    return goal * (1 - share) / (share * (1 - goal))


class WeightVector:
    """A public histogram at the size of its last change. What it says at a later size follows without changing it, by
    mixing it with the uniform histogram."""

    def __init__(self, rule: MultiplicativeWeights, rows: int, columns: int, size: int) -> None:
        self.histogram = PublicHistogram(rows, columns)
        self.rule, self.size = rule, size
        self.changes: tuple[Change, ...] = ()

    def share(self, cells: Cells, size: int) -> float:
        """The histogram's answer at this size."""
        kept = self.rule.kept(self.size, size)
        return kept * self.histogram.share(cells) + (1 - kept) * cells.count / self.histogram.cells

    def shares(self, size: int) -> NDArray[np.float64]:
        """The whole histogram at this size; it sums to 1."""
        kept = self.rule.kept(self.size, size)
        return kept * self.histogram.shares() + (1 - kept) / self.histogram.cells

    def change(
        self, query: str, cells: Cells, size: int, answer: float, margin: float, above: bool | None = None
    ) -> Change:
        """What a hard answer at this size, off by at most `margin`, is to do; nothing is changed yet."""
        kept = self.rule.kept(self.size, size)
        if cells.levels is None:
            factor = self.rule.factor(self.share(cells, size), answer, margin, above)
        else:
            factor = self.rule.tilt(cells.levels, self._masses(cells, kept), answer, margin, above)
        change = self._change(query, size, factor, kept)
        off = self.rule.noise(margin)
        return replace(change, low=answer - off, high=answer + off) if self.rule.update == "refitted" else change

    def within(self, query: str, cells: Cells, size: int, low: float, high: float) -> Change:
        """What brings its answer at this size, which came from elsewhere, between these ends, as near as it is.

        Nothing but growth where it lies there, as far as single precision shows, and where none but 0 or 1 would do.
        """
        share, kept = self.share(cells, size), self.rule.kept(self.size, size)
        goal = min(max(share, low), high)
        if abs(goal - share) <= NEAR or not 0 < share < 1:
            factor = 1.0
        elif cells.levels is None:
            factor = odds(share, goal) if 0 < goal < 1 else 1.0
        else:
            factor = _turned(cells.levels, self._masses(cells, kept), goal)
        change = self._change(query, size, min(max(factor, 1 / LARGEST_FACTOR), LARGEST_FACTOR), kept)
        return replace(change, hard=False)

    def mixed(self, query: str) -> Change:
        """What leaves it the part 1 - `mixing`, the rest being uniform: no cell has less than `mixing/N` of it then,
        whatever it was; `mixing` below 1."""
        return replace(self._change(query, self.size, 1.0, 1 - float(self.rule.mixing)), hard=False)

    def again(self, change: Change, cells: Cells) -> Change:
        """`within` for the ends of an earlier change at the same size."""
        if change.low is None or change.high is None:
            raise TypeError("this change has no ends")
        return self.within(change.query, cells, change.size, change.low, change.high)

    def _change(self, query: str, size: int, factor: float, kept: float) -> Change:
        """A factor, after a part of the histogram was kept and the rest became uniform."""
        exponent = math.frexp(self.histogram.total / self.histogram.cells)[1]
        scale = 2.0**-exponent if abs(exponent) > FARTHEST else 1.0
        lift = self.histogram.total / self.histogram.cells * scale * (1 - kept) / kept
        return Change(query, max(size, self.size), scale, lift, factor)

    def _masses(self, cells: Cells, kept: float) -> Floats:
        """What part of the histogram each level has, with a part of it kept and the rest uniform."""
        return kept * self.histogram.masses(cells) + (1 - kept) * cells.counts / self.histogram.cells

    def apply(self, change: Change, cells: Cells) -> None:
        """Make this change to the histogram."""
        if change.scale != 1:
            self.histogram.scale(change.scale)
        if change.lift:
            self.histogram.lift(change.lift)
        if change.factor != 1:
            self.histogram.multiply(cells, change.factor)
        self.size = change.size
        self.changes = (*self.changes, change)


@dataclass(frozen=True)
class Transcript:
    """Every change so far, in order: with the universe it is all there is to know of the histogram."""

    changes: tuple[Change, ...] = ()

    @property
    def hard(self) -> int:
        """How many hard answers there were."""
        return sum(change.hard for change in self.changes)

    def then(self, *changes: Change) -> Self:
        """The transcript with these changes appended."""
        return type(self)((*self.changes, *changes))

    def dump(self) -> bytes:
        """As the ledger keeps it, a line for each change; numbers come back bit by bit."""
        return b"\n".join(map(_line, self.changes))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote."""
        return cls(_changes(data))


_USUAL: Final = {"low": None, "high": None, "hard": True}


@lru_cache(maxsize=KEPT)
def _line(change: Change) -> bytes:
    told = asdict(change)
    # Fields with their usual values are left out: such lines are those of earlier ledgers, byte by byte.
    return json.dumps({name: told[name] for name in told if name not in _USUAL or told[name] != _USUAL[name]}).encode()


@lru_cache(maxsize=LATEST)
def _changes(data: bytes) -> tuple[Change, ...]:
    return tuple(map(_change, data.splitlines()))


@lru_cache(maxsize=KEPT)
def _change(line: bytes) -> Change:
    return Change(**json.loads(line))


def _turned(levels: Floats, masses: Floats, goal: float) -> float:
    """By what, to the power of its weight, each cell is multiplied so that the average weight becomes the goal; 1 where
    no cell weighs so much, or so little."""
    reached = levels[masses > 0]
    if not float(reached.min()) < goal < float(reached.max()):
        return 1.0
    if goal >= float(masses @ levels):
        return math.exp(_tilted(levels, masses, goal))
    return math.exp(-_tilted(1 - levels[::-1], masses[::-1], 1 - goal))


def _tilted(levels: Floats, masses: Floats, goal: float) -> float:
    """The least exponent, to the last bit or so, at which the average weight reaches the goal."""

    def reaches(exponent: float) -> bool:
        times = masses * np.exp(levels * exponent)
        return float(times @ levels) >= goal * float(times.sum())

    return least(reaches, 0.0, math.log(LARGEST_FACTOR), times=HALVINGS)


# MWEM (Hardt, Ligett, McSherry 2012): a public histogram fitted to the counts that it gets most wrong.


# The largest error was 0.053 with none, 0.037 with three and 0.034 with ten; each takes the same time.
PASSES: Final = 3
# By Hoeffding's lemma a step of 4 (m - v) lowers the relative entropy by 2 (m - v)^2; twice as long, by nothing surely.
STEEPEST: Final = 4
# exp(40) times a mean weight of 2**30 is 2**88: single precision, which ends at 2**128, has room for both.
_FARTHEST: Final = 40.0
_UNEVEN: Final = 30


class Round(NamedTuple):
    """One round: the number of the query that was picked, its noisy count, and the fraction that the histogram had."""

    query: int
    measured: int
    share: float


class Exponents(NamedTuple):
    """The histogram proportional to `exp(sum of the exponents of the queries that hold in a cell)`."""

    queries: tuple[int, ...]
    exponents: tuple[float, ...]


class Regions(Protocol):
    """The cells of all queries."""

    @property
    def shape(self) -> tuple[int, int]:
        """The cells as a matrix."""
        ...

    def cells(self, query: int) -> Cells:
        """The cells of one query."""
        ...


class Queries(Regions, Protocol):
    """The public side of the queries: their cells, and their answers from weights of all cells."""

    def shares(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """The part of all weight in the cells of each query."""
        ...


@dataclass(frozen=True)
class MwemRounds:
    """Rounds that each pick the query that the histogram gets most wrong and measure its count.

    Guarantee, for counts that change by at most 1 each between neighbours and a public number of rows: `Pure(epsilon)`
    or `ZeroConcentrated(rho)` for all rounds together. Half of each round's budget picks, half measures. For epsilon
    these are permute-and-flip and discrete Laplace noise, both of epsilon/(2T). For rho these are the exponential
    mechanism of e0 with `e0^2/8 = rho/(2T)` and discrete Gaussian noise. The former is a bound for its bounded range
    (Dong, Durfee, Rogers 2020; Cesar, Rogers 2021). What the histogram says is public, so a query's error changes by at
    most 1; errors are told apart by 1/1024 of a row, or less. `grid` is in how many steps a row is counted, if counts
    are sums of weights from 0 to 1: then one row moves each by that many.

    >>> MwemRounds(rounds=10, epsilon=1).noise
    Laplace(scale=Fraction(20, 1), sensitivity=1, times=1)
    """

    rounds: int
    epsilon: Number | None = None
    rho: Number | None = None
    grid: int = 1

    def __post_init__(self) -> None:
        whole(self.grid, "grid")
        if whole(self.rounds, "rounds") > MOST_ROUNDS:
            raise InvalidParameter(f"rounds may be at most {MOST_ROUNDS}")
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give one of epsilon= (pure) and rho= (with Gaussian noise)")
        checked(self, epsilon=optional(positive), rho=optional(positive))
        work_out(self.noise, self.chooser, self.event)  # refuses noise out of range

    @cached_property
    def chooser(self) -> Exponential:
        """What picks, by errors in `parts` of a row."""
        if self.epsilon is not None:
            return PermuteAndFlip(positive(self.epsilon, "epsilon") / (2 * self.rounds), sensitivity=self.parts)
        with precise():
            return Exponential(rounded_down(decimal(4 * self._rho / self.rounds).sqrt()), sensitivity=self.parts)

    @property
    def parts(self) -> int:
        """The resolution of errors, in parts of a row: a multiple of `grid`."""
        return self.grid * -(-GRID // self.grid)

    @cached_property
    def noise(self) -> Additive:
        """What is added to a count."""
        if self.epsilon is not None:
            return Laplace.for_epsilon(positive(self.epsilon, "epsilon") / (2 * self.rounds), sensitivity=self.grid)
        return Gaussian.for_rho(self._rho / (2 * self.rounds), l2_squared=self.grid**2)

    @property
    def _rho(self) -> Fraction:
        return positive(self.rho or 0, "rho")

    @cached_property
    def event(self) -> Event:
        """What all rounds together may reveal."""
        if self.epsilon is None:
            return ZeroConcentrated(self._rho)
        parts: tuple[Event, ...] = (Pure(self.chooser.epsilon), self.noise.event())
        return Joint(tuple(Repeated(part, self.rounds) for part in parts))

    def step(self, exact: NDArray[np.int64], shares: NDArray[np.float64], size: int, source: Source) -> Round:
        """One round; `shares` are the histogram's answers, which are compared as whole parts of a row."""
        # Whole parts of a row on both sides: a row moves an error by `parts` at most, no rounding of floats adds to it.
        parts = self.parts
        errors = np.abs(exact * (parts // self.grid) - np.rint(shares * (size * parts)).astype(np.int64))
        query = self.chooser.step(errors, source)
        return Round(query, self.noise.apply_one(int(exact[query]), source), float(shares[query]))

    def run(
        self, exact: NDArray[np.int64], size: int, queries: Queries, source: Source
    ) -> tuple[list[Round], Exponents]:
        """All rounds, and the histogram that fitted its own round's measurement best."""
        steps = size * self.grid
        fit, found, tried = Fit(queries, steps), [], []
        for _ in range(self.rounds):
            tried.append(fit.exponents)
            found.append(self.step(exact, queries.shares(fit.histogram.weights), size, source))
            if len(found) < self.rounds:
                fit.learn(found[-1])
        return found, tried[best_round(found, steps)]


def missed(found: Round, size: int) -> float:
    """The distance of the histogram's share from the measured one, clipped to [0, 1]; `size` is in steps."""
    return abs(min(1.0, max(0.0, found.measured / size)) - found.share)


def best_round(rounds: Sequence[Round], size: int) -> int:
    """The round whose histogram missed its measurement by least; the last one of several."""
    return min(range(len(rounds)), key=lambda place: (missed(rounds[place], size), -place))


class Fit:
    """A histogram as fitted to all measurements so far; a function of them.

    A step towards a measured fraction m multiplies the query's cells by `exp(4 (m - v))`, where v is the fraction they
    have. That is the longest step that surely lowers the relative entropy of the rows, by `2 (m - v)^2` without noise.
    After each new measurement all are gone over `PASSES` times, while the exponents add up to no more than `REACH`
    times those of the first steps. That bounds what noise can do (docs/theory/linear.md).
    """

    def __init__(self, queries: Regions, size: int) -> None:
        self.histogram = PublicHistogram(*queries.shape)
        self._queries, self._size = queries, size
        self._measured: list[tuple[int, float]] = []
        self._exponents: list[float] = []
        self._room = 0.0

    @property
    def exponents(self) -> Exponents:
        """One for each query that was measured."""
        sums: dict[int, float] = {}
        for (query, _), exponent in zip(self._measured, self._exponents, strict=True):
            sums[query] = sums.get(query, 0.0) + exponent
        return Exponents(tuple(sums), tuple(sums.values()))

    def learn(self, found: Round) -> None:
        """Take in one more measurement."""
        share = min(1.0, max(0.0, found.measured / self._size))
        self._measured.append((found.query, share))
        self._exponents.append(0.0)
        self._room += REACH * STEEPEST * missed(found, self._size)
        self._move(found.query, [len(self._exponents) - 1])
        places: dict[int, list[int]] = {}
        for place, (query, _) in enumerate(self._measured):
            places.setdefault(query, []).append(place)
        for _ in range(PASSES):
            for query, same in places.items():
                self._move(query, same)
        self.histogram = weighted(self._queries, self.exponents)

    def _move(self, query: int, places: Sequence[int]) -> None:
        """A step towards the mean of some measurements of a query, in equal parts."""
        cells = self._queries.cells(query)
        goal = math.fsum(self._measured[place][1] for place in places) / len(places)
        step = STEEPEST * (goal - self.histogram.share(cells))
        moved = list(self._exponents)
        for place in places:
            moved[place] += step / len(places)
        if math.fsum(map(abs, moved)) <= self._room * (1 + 1e-9):
            self._exponents = moved
            _multiply(self.histogram, cells, step)


def weighted(queries: Regions, exponents: Exponents) -> PublicHistogram:
    """The histogram of these exponents; the same ones give the same bits."""
    histogram = PublicHistogram(*queries.shape)
    pairs: Iterable[tuple[int, float]] = zip(*exponents, strict=True)
    for query, exponent in pairs:
        _multiply(histogram, queries.cells(query), exponent)
    return histogram


def _multiply(histogram: PublicHistogram, cells: Cells, exponent: float) -> None:
    """Factors and the mean weight stay where single precision reaches."""
    parts = max(1, math.ceil(abs(exponent) / _FARTHEST))
    for _ in range(parts):
        histogram.multiply(cells, math.exp(exponent / parts))
        uneven = math.frexp(histogram.total / histogram.cells)[1]
        if abs(uneven) > _UNEVEN:
            histogram.scale(2.0**-uneven)
