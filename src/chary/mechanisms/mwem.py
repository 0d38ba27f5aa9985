"""MWEM (Hardt, Ligett, McSherry 2012): a public histogram fitted to the counts that it gets most wrong."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chary.accounting import Event, Joint, Pure, Repeated, ZeroConcentrated
from chary.accounting.numerics import decimal, precise, rounded_down
from chary.accounting.synthesis import GRID, MOST_ROUNDS, REACH
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.choices import Exponential, PermuteAndFlip
from chary.mechanisms.weights import Cells, PublicHistogram
from chary.noise import Source
from chary.numbers import Number, checked, optional, positive, whole, work_out

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
        """Those of one query."""
        ...


class Queries(Regions, Protocol):
    """The public side of the queries: their cells, and their answers from weights of all cells."""

    def shares(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """What part of all weight each query has."""
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
        """In how many parts of a row errors are told apart: whole steps make an integer of them."""
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
    """By how much the histogram missed the measured share, which is at least 0 and at most 1; `size` in steps."""
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
