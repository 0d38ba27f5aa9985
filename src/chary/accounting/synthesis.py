"""Errors of synthetic data: MWEM and the small database mechanism."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from chary.accounting import accuracy, schedules
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# MWEM (Hardt, Ligett, McSherry 2012): how accurate its histogram is over all queries, published and ours.
#
# There are N cells, n rows, T rounds, |Q| queries. Half of the budget picks queries, half measures them. While all T
# noises are within Z (a share of rows) and each pick is within K of the worst query, the histogram that is kept is off
# by `K + Z + 2Z + sqrt(ln N/(2T) + (2Z)^2)` at most; the proof is in docs/theory/linear.md.

# Exponents may add up to twice those of the first steps: more would fit better, and let noise do more (`k Z` in docs).
REACH: Final = 2
# More rounds are worth less each: the noise of a round grows with their number. It also bounds the work of a run.
MOST_ROUNDS: Final = 1000
# Utilities are handed to the choice in steps of 1/1024 of a row: two roundings of half a step, so one step in all.
GRID: Final = 1024
_ROUNDED: Final = 1
# The histogram is kept in single precision: a round adds a product or two to each weight, of 2**-24 (6e-8) each.
_SINGLE: Final = 1e-6
# A few float operations, and sums over all queries in double precision, upwards.
_SURPLUS: Final = 1 + 1e-9
# Distributions hold at every beta; where it is this, which a run of a schedule has, Gaussian noise costs least.
_TOUCHED: Final = 0.01
# A few float operations, upwards, and that many digits.
_MARGIN: Final = 1e-8
_DIGITS: Final = 9


class Margins(NamedTuple):
    """How many rows off all measured counts are at most, and how many rows all picks fall short of the worst query."""

    noise: int
    loss: float

    @property
    def tested(self) -> float:
        """An upper bound, in rows, on the error of the worst query less that of the measured one."""
        return (self.noise + self.loss + _ROUNDED / GRID) * _SURPLUS


def mwem_margins_up(
    *,
    queries: int,
    rounds: int,
    epsilon: Number | None = None,
    rho: Number | None = None,
    confidence: Number = "0.95",
    grid: int = 1,
) -> Margins:
    """What the noise of all rounds keeps together with `confidence`, by the exact distributions of a round's halves.

    `grid` is in how many steps a row is counted, which is more than one for linear queries.

    >>> mwem_margins_up(queries=2000, rounds=20, epsilon=1)
    Margins(noise=267, loss=1087.28...)
    """
    many, times = whole(queries, "queries"), _rounds(rounds)
    missed = (1 - probability(confidence, "confidence")) / 2
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of epsilon= and rho=")
    if epsilon is not None:
        each = positive(epsilon, "epsilon") / (2 * times)
        loss = accuracy.flip_loss_up(each / 2, many, missed / times)
        steps = accuracy.laplace_error_up(whole(grid, "grid") / each, tests=times, confidence=1 - missed)
        return Margins(-(-steps // grid), loss)
    part = positive(rho or 0, "rho") / times
    loss = accuracy.exponential_loss_up(Fraction(math.sqrt(part)), many, missed / times)
    steps = accuracy.gaussian_error_up(whole(grid, "grid") ** 2 / part, tests=times, confidence=1 - missed)
    return Margins(-(-steps // grid), loss * _SURPLUS)


def mwem_error_up(
    *,
    cells: int,
    queries: int,
    rounds: int,
    size: int,
    epsilon: Number | None = None,
    rho: Number | None = None,
    confidence: Number = "0.95",
) -> float:
    """How far the answers to all queries are off at most, as a fraction of `size` rows, with `confidence`; at most 1.

    This work: for the histogram that fitted its next measurement best. That every row lies in a cell is taken for
    granted.

    >>> round(mwem_error_up(cells=100_000, queries=2000, rounds=20, size=1_000_000, epsilon=1), 3)
    0.538
    """
    margins = mwem_margins_up(queries=queries, rounds=rounds, epsilon=epsilon, rho=rho, confidence=confidence)
    return _error(_base(cells, rounds), margins, whole(size, "size"))


def best_rounds(
    *,
    cells: int,
    queries: int,
    size: int,
    epsilon: Number | None = None,
    rho: Number | None = None,
    confidence: Number = "0.95",
) -> int:
    """The number of rounds, at most 1,000, for which `mwem_error_up` promises most.

    A bound for the worst data: real data mostly bear more rounds (see docs/theory/linear.md).

    >>> best_rounds(cells=100_000, queries=2000, size=50_000, epsilon=1)
    63
    """

    def error(rounds: int) -> float:
        margins = mwem_margins_up(queries=queries, rounds=rounds, epsilon=epsilon, rho=rho, confidence=confidence)
        return _bound(_base(cells, rounds), margins, whole(size, "size"))

    return _least(error)


def mwem_law(*, cells: int, queries: int, rounds: int, gaussian: bool = False) -> schedules.Law:
    """The accuracy distribution over epsilon, or with `gaussian` over the epsilon of `rho = epsilon^2/2`.

    Let `s = ln(1/beta)` and let p be the part of the failures that is those of noises. All noises keep within
    `(2T/epsilon)(s + ln(2T/p))` rows and all picks within `(4T/epsilon) (s + ln(T (|Q|-1)/(2-2p)))`. Gaussian noises
    keep within `(2 sqrt(T)/epsilon) sqrt(s + ln(2T/p))` and the picks within
    `(sqrt(2T)/epsilon)(s + ln(T (|Q|-1)/(1-p)))`. p is in proportion to what each adds, and a line replaces the root.
    It holds for an epsilon of at most 1024 T, or 1024 sqrt(T): then the 1/1024 of a row that errors are rounded by is
    in `choices`.

    >>> law = mwem_law(cells=1000, queries=100, rounds=10)
    >>> law.factor, law.choices, round(float(law.base), 3)
    (Fraction(140, 1), Fraction(98, 1), 0.588)
    """
    times, others = _rounds(rounds), max(1, whole(queries, "queries") - 1)
    noises, base = 1 + 2 * REACH, _base(cells, times)
    if not gaussian:
        noise, pick = 2.0 * noises, 4.0
        height = _shared((noise, 2 * times), (pick, times * others / 2)) + _ROUNDED / (noise + pick)
        return schedules.Law(1, times * (2 * noises + 4), _whole_up(math.exp(height)), base=base)
    # The line that touches the root where beta is `_TOUCHED`: above it everywhere.
    root = math.sqrt(math.log(4 * times / _TOUCHED))
    noise, pick = noises / root, math.sqrt(2)
    total = noise + pick
    height = _shared((noise, 2 * times), (pick, times * others)) + (noise * root**2 + _ROUNDED) / total
    return schedules.Law(1, _digits_up(math.sqrt(times) * total), _whole_up(math.exp(height)), base=base)


def _shared(*parts: tuple[float, float]) -> float:
    """What is added to s where each part adds its weight times `s + ln(number/share)`, by the best shares."""
    total = math.fsum(weight for weight, _ in parts)
    return math.fsum(weight * math.log(number * total / weight) for weight, number in parts) / total


def _digits_up(value: float) -> Fraction:
    """The value rounded up to nine digits, so that it is the same on every machine."""
    return Fraction(f"{value * (1 + _MARGIN):.{_DIGITS}g}")


def _whole_up(value: float) -> int:
    return math.ceil(value * (1 + _MARGIN))


def earlier_mwem_law(*, cells: int, queries: int, rounds: int, gaussian: bool = False) -> schedules.Law:
    """The distribution that boxes had in earlier versions: ledgers hold it, and their schedules go on.

    One logarithm, `ln(T (|Q|+2)/beta)`, for noises and for picks.

    >>> earlier_mwem_law(cells=1000, queries=100, rounds=10).factor
    Fraction(150, 1)
    """
    times, choices = _rounds(rounds), rounds * (whole(queries, "queries") + 2)
    noises = 1 + 2 * REACH
    if not gaussian:
        return schedules.Law(1, times * (2 * noises + 4 + _ROUNDED), choices, base=_base(cells, times))
    root = 2 * noises / math.sqrt(math.log(2 * choices)) + math.sqrt(2) + _ROUNDED
    return schedules.Law(1, math.sqrt(times) * root * _SURPLUS, choices, base=_base(cells, times))


def _base(cells: int, rounds: int) -> float:
    """The part of the error that no noise causes; single precision adds at most a millionth a round."""
    return math.sqrt(math.log(whole(cells, "cells", least=2)) / (2 * _rounds(rounds))) * _SURPLUS + _SINGLE * rounds


def _bound(base: float, margins: Margins, size: int) -> float:
    spread = REACH * margins.noise / size
    return (spread + math.hypot(base, spread) + margins.tested / size) * _SURPLUS


def _error(base: float, margins: Margins, size: int) -> float:
    return min(1.0, _bound(base, margins, size))


def _rounds(rounds: int) -> int:
    if whole(rounds, "rounds") > MOST_ROUNDS:
        raise InvalidParameter(f"rounds may be at most {MOST_ROUNDS}")
    return rounds


def _least(error: Callable[[int], float]) -> int:
    """The integer with the least error: on a coarse grid, then among all integers around its best."""
    grid = np.unique(np.geomspace(1, MOST_ROUNDS, 40).astype(int)).tolist()
    found = min(range(len(grid)), key=lambda place: error(grid[place]))
    low, high = grid[max(0, found - 1)], grid[min(len(grid) - 1, found + 1)]
    return min(range(low, high + 1), key=error)


# How accurate a database of a few rows can be, and how accurate SmallDB is: theorems, and the published ones.

# A few float operations, upwards.
_ROUNDING: Final = 1 + 1e-12


def coarseness_up(*, rows: int, queries: int, classes: int | None = None) -> float:
    """Some database of that many rows answers all queries within this, whatever the data: a fraction of rows.

    It is the lesser of `sqrt(ln(2 |Q|)/(2 m))`, by sampling, and `floor(F^2/4)/(F m)`, by rounding. F = |Q| + 1 is the
    number of classes of cells that have to be rounded, or fewer if there are fewer (docs/theory/linear.md). It takes
    for granted that every row lies in a cell of the universe; rows that do not add their fraction.

    >>> [round(coarseness_up(rows=rows, queries=10), 3) for rows in (2, 20, 200)]
    [0.865, 0.136, 0.014]
    """
    asked, drawn = whole(queries, "queries"), whole(rows, "rows")
    rounded = min(asked + 1, asked + 1 if classes is None else whole(classes, "classes"))
    by_sampling = math.sqrt(math.log(2 * asked) / (2 * drawn))
    return min(by_sampling, rounded**2 // 4 / (rounded * drawn)) * _ROUNDING


def published_rows(*, queries: int, alpha: Number) -> int:
    """The rows of [BLR08]: `ceil(ln|Q|/alpha^2)`, at least one; with 2 queries or more alpha is then the coarseness.

    >>> published_rows(queries=100, alpha="0.1")
    461
    """
    return max(1, math.ceil(Fraction(math.log(whole(queries, "queries"))) / probability(alpha, "alpha") ** 2))


def small_database_law(
    *, rows: int, queries: int, choices: int, classes: int | None = None, concentrated: bool = False
) -> schedules.Law:
    """SmallDB with a fixed number of rows: the error is at most `coarseness + 2 ln(choices/beta)/(epsilon n)`.

    The exponential mechanism exceeds the least score by t with probability `choices exp(-epsilon n t/2)` at most.
    `concentrated`: for runs that are to be epsilon^2/2-zCDP, as in a schedule with rho. The exponential mechanism of
    2 epsilon is, so that 1 takes the place of 2.

    >>> law = small_database_law(rows=20, queries=4, choices=math.comb(27, 7))
    >>> round(law.error(size=10_000, epsilon="0.5", beta="0.05"), 4)
    0.0667
    """
    base = decimals_up(coarseness_up(rows=rows, queries=queries, classes=classes))
    return schedules.Law(1, 1 if concentrated else 2, whole(choices, "choices"), base=base)


def best_rows(
    law: Callable[[int], schedules.Law], feasible: Callable[[int], bool], *, size: int, epsilon: Number, beta: Number
) -> int:
    """The number of rows at which the distribution promises least, among those that can be gone through; at least one.

    More rows make the coarseness less and the choice harder; the search ends where the choice alone costs more. Above
    50 rows it goes in steps of 2 %.

    >>> def law(rows):
    ...     return small_database_law(rows=rows, queries=4, choices=math.comb(rows + 7, 7))
    >>> sizes = (100, 1000, 10_000)
    >>> [best_rows(law, lambda rows: rows < 500, size=size, epsilon="0.5", beta="0.05") for size in sizes]
    [7, 46, 432]
    """
    best, least, rows = 1, math.inf, 1
    told, share, chance = whole(size, "size"), positive(epsilon, "epsilon"), probability(beta, "beta")
    while feasible(rows):
        made = law(rows)
        error = made.error(size=told, epsilon=share, beta=chance)
        if error < least:
            best, least = rows, error
        if error - float(made.base) >= least:
            break
        rows += max(1, rows // 50)
    return best


def decimals_up(value: float) -> Fraction:
    """The value rounded up to twelve decimals, so that it is the same on every machine."""
    return Fraction(math.ceil(value * 10**12), 10**12)
