"""How accurate a database of a few rows can be, and how accurate SmallDB is: theorems, and the published ones."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from chary.accounting.growing.accuracy_laws import Law
from chary.numbers import Number, positive, probability, whole

# A few float operations, upwards.
_ROUNDING: Final = 1 + 1e-12
_THIRD: Final = Fraction(1, 3)
# Laws hold for a beta of at most 1/2, so ln(1/beta) is at least this.
_LEAST_LOG: Final = math.log(2)


def coarseness_up(*, rows: int, queries: int, classes: int | None = None) -> float:
    """Some database of so many rows answers all queries within this, whatever the data: a share of rows.

    The lesser of `sqrt(ln(2 |Q|)/(2 m))`, by sampling, and `floor(F^2/4)/(F m)`, by rounding, for the F = |Q| + 1
    classes of cells, or fewer if there are fewer, that have to be rounded (docs/small_database.md). It takes for
    granted that every row lies in a cell of the universe; rows that do not add their share.

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
) -> Law:
    """SmallDB with a fixed number of rows: the error is at most `coarseness + 2 ln(choices/beta)/(epsilon n)`.

    The exponential mechanism exceeds the least score by t with probability `choices exp(-epsilon n t/2)` at most.
    `concentrated`: for runs that are to be epsilon^2/2-zCDP, as in a schedule with rho. The exponential mechanism of
    2 epsilon is, so that 1 takes the place of 2.

    >>> law = small_database_law(rows=20, queries=4, choices=math.comb(27, 7))
    >>> round(law.error(size=10_000, epsilon="0.5", beta="0.05"), 4)
    0.0667
    """
    base = _decimals_up(coarseness_up(rows=rows, queries=queries, classes=classes))
    return Law(1, 1 if concentrated else 2, whole(choices, "choices"), base=base)


def published_small_database_law(*, cells: int, queries: int) -> Law:
    """SmallDB that chooses its rows by size and epsilon, as published: a (1/3, c)-black box; at least 2 queries.

    With `a^2 = ln|Q|/m` the error is at most `a + 2 (m ln N + ln(1/beta))/(epsilon n)`. At
    `a^3 = 4 ln N ln|Q|/(epsilon n)`, m rounded up, that is at most `c (ln(1/beta)/(epsilon n))^(1/3)` for

        c = c0 + (2 + 2 ln N/ln 2)/c0^2,    c0 = (3/2) (4 ln N ln|Q|/ln 2)^(1/3),

    for every beta up to 1/2 wherever it is below 1 (docs/small_database.md).

    >>> law = published_small_database_law(cells=1000, queries=20)
    >>> round(float(law.factor), 2), round(law.error(size=10_000, epsilon="0.5", beta="0.05"), 3)
    (7.79, 0.657)
    """
    universe = math.log(whole(cells, "cells", least=2))
    first = 1.5 * math.cbrt(4 * universe * math.log(whole(queries, "queries", least=2)) / _LEAST_LOG)
    return Law(_THIRD, _decimals_up((first + (2 + 2 * universe / _LEAST_LOG) / first**2) * _ROUNDING))


def best_rows(
    law: Callable[[int], Law], feasible: Callable[[int], bool], *, size: int, epsilon: Number, beta: Number
) -> int:
    """The number of rows at which the law promises least, among those that can be gone through; at least one.

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


def _decimals_up(value: float) -> Fraction:
    """With twelve decimals, so that a law is the same on every machine."""
    return Fraction(math.ceil(value * 10**12), 10**12)
