"""How accurate a static private algorithm is, as its author declares it, and the growth that suits it best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np
import scipy

from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, probability, whole

# A growth from 1e-4 to 9: reruns at every ten-thousandth, or at every power of ten. Any growth is private, so the grid
# only has to find the valley that the minimiser then follows.
_LEAST, _MOST = 1e-4, 0.9
_GRID: Final = 200
# The shares of run i have (i + 1) to this power at most: more would leave the first runs nothing.
MOST_LOGS: Final = 8
# A number of rows that is at least 2 more than any growth, so that ln(t) at run i is at most i + 1 times the first.
LEAST_START: Final = 11
Scalar = TypeVar("Scalar", float, Decimal)


@dataclass(frozen=True)
class Law:
    """A (p, c)-black box ([GROW] Definition 4): the error is at most `base + c (ln(choices/beta)^q/(epsilon n))^p`.

    That holds with probability 1 - beta for every epsilon, number of rows n and beta up to 1/2. `choices` is over how
    many things at once; with 1 (and q, `log_power`, 1, and `base`, 0) it is the published law. q is 1/2 for Gaussian
    noise. `base` is what neither rows nor epsilon improve, such as the coarseness of a synthetic database of fixed
    size. Definition 5 has a power of its own for each: with `size_power`, p', and `size_log`, r, the error is at most
    `base + c (ln(choices/beta)^q ln(n)^r/epsilon)^p/n^p'`; p' is p if left out, and q + r is 8 at most.

    >>> round(Law(power=1, factor=2, choices=10).error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0106
    """

    power: Number
    factor: Number
    choices: Number = 1
    log_power: Number = 1
    base: Number = 0
    size_power: Number | None = None
    size_log: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_log", exact(self.size_log, "size_log"))
        if self.size_power is not None:
            object.__setattr__(self, "size_power", positive(self.size_power, "size_power"))
        object.__setattr__(self, "base", exact(self.base, "base"))
        if Fraction(self.base) < 0:
            raise InvalidParameter("base is an error that remains, so it is at least 0")
        for name in ("power", "factor", "choices", "log_power"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if Fraction(self.choices) < 1:
            raise InvalidParameter("choices must be at least 1")
        if Fraction(self.size_log) < 0 or Fraction(self.log_power) + Fraction(self.size_log) > MOST_LOGS:
            raise InvalidParameter(
                f"size_log is at least 0, and log_power and size_log are at most {MOST_LOGS} together"
            )

    @property
    def fall(self) -> Fraction:
        """`p'/p`: a run on x times the rows keeps its error at an epsilon that is smaller by x to this power."""
        return Fraction(1) if self.size_power is None else Fraction(self.size_power) / Fraction(self.power)

    @property
    def logs(self) -> int:
        """The power of i + 1 that the logarithms of run i are worth at most: q + r, rounded up, and at least 1."""
        return max(1, math.ceil(Fraction(self.log_power) + Fraction(self.size_log)))

    @classmethod
    def of(cls, law: "Law | Sequence[Number]") -> "Law":
        """A law, or the pair (p, c) of one."""
        if isinstance(law, Law):
            return law
        if not isinstance(law, (tuple, list)) or len(law) != 2:
            raise InvalidParameter("a law is a pair (p, c): the error is at most c (ln(1/beta)/(epsilon n))^p")
        return cls(*law)

    def logarithm(self, beta: Number) -> float:
        """`ln(choices/beta)^q`."""
        odds = Fraction(self.choices) / positive(beta, "beta")
        return math.pow(math.log(odds.numerator) - math.log(odds.denominator), float(self.log_power))

    def error(self, *, size: int, epsilon: Number, beta: Number) -> float:
        """What the error is at most, but for a chance beta."""
        rows = whole(size, "size")
        scaled = self.logarithm(beta) / (float(positive(epsilon, "epsilon")) * math.pow(rows, float(self.fall)))
        if self.size_log:
            scaled *= math.pow(math.log(rows), float(self.size_log))
        return float(self.base) + float(self.factor) * math.pow(scaled, float(self.power))

    def either(self, other: "Law") -> "Law":
        """A law that holds for what keeps one of two, which have the same powers; `InvalidParameter` for others.

        >>> Law(1, 2, choices=10).either(Law(1, 3)).factor
        Fraction(3, 1)
        """
        if (self.power, self.log_power) != (other.power, other.log_power):
            raise InvalidParameter("two laws of different powers have none together")
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("factor", "choices", "base"))
        factor, choices, base = (max(map(Fraction, pair)) for pair in pairs)
        return Law(self.power, factor, choices, self.log_power, base)

    def body(self) -> dict[str, Any]:
        """The law in JSON."""
        told = {name: str(getattr(self, name)) for name in ("power", "factor", "choices", "log_power")}
        extra = {name: getattr(self, name) for name in ("base", "size_power", "size_log")}
        return told | {name: str(value) for name, value in extra.items() if value}


def epochs_error(
    law: Law, *, start: int, growth: Number, beta: Number, epsilon: Number | None = None, rho: Number | None = None
) -> float:
    """The error of every answer at every size, staleness included, with probability 1 - beta for all of them together.

    That of the first run, `c (ln(choices (1+beta)/beta)^q/(k n))^p`, which no later one exceeds, plus `g/(1+g)`.
    `InvalidParameter` for fewer than 11 rows where the law has a power of ln(n).
    """
    growing = float(positive(growth, "growth"))
    stale = growing / (1 + growing)
    if law.size_log and whole(start, "start") < LEAST_START:
        raise InvalidParameter(f"a law with a power of ln(n) is for {LEAST_START} rows or more at the start")
    terms = (None if epsilon is None else float(epsilon), None if rho is None else float(rho))
    share = _first_share(stale, *terms, float(law.fall), law.logs)
    chance = probability(beta, "beta")
    return law.error(size=start, epsilon=share, beta=chance / (1 + chance)) + stale


def best_growth(
    law: Law, *, start: int, beta: Number, epsilon: Number | None = None, rho: Number | None = None
) -> Fraction:
    """The growth g at which `epochs_error` is least, to four digits; between 1e-4 and 9.

    >>> float(best_growth(Law(1, 2), start=100_000, beta="0.05", epsilon=1))
    0.05215
    """

    def error(stale: float) -> float:
        return epochs_error(law, start=start, growth=stale / (1 - stale), beta=beta, epsilon=epsilon, rho=rho)

    grid = np.geomspace(_LEAST, _MOST, _GRID)
    found = int(np.argmin([error(float(stale)) for stale in grid]))
    around = (float(grid[max(0, found - 1)]), float(grid[min(_GRID - 1, found + 1)]))
    stale = float(scipy.optimize.minimize_scalar(error, bounds=around, method="bounded", options={"xatol": 1e-9}).x)
    return Fraction(f"{stale / (1 - stale):.4g}")


def published_growth(law: Law, *, start: int, beta: Number, epsilon: Number, delta: Number | None = None) -> float:
    """The growth of [GROW] Theorem 10, up to its constants, for comparison.

    >>> round(published_growth(Law(1, 2), start=100_000, beta="0.05", epsilon=1), 4)
    0.0391
    """
    power, factor = float(law.power), float(law.factor)
    scaled = law.logarithm(probability(beta, "beta")) / (whole(start, "start") * float(positive(epsilon, "epsilon")))
    root = 2 * power + 1
    if delta is not None:
        root = 1.5 * power + 1
        scaled *= math.sqrt(-math.log(probability(delta, "delta")))
    return float(factor ** (1 / root) * scaled ** (power / root))


def powers_sum(x: Scalar, power: int) -> Scalar:
    """The sum of `(i+1)^power x^i` over i = 0, 1, ..., for 0 < x < 1: an Eulerian polynomial over `(1-x)^(power+1)`.

    >>> [round(powers_sum(0.5, power), 9) for power in (1, 2, 3)]
    [4.0, 12.0, 52.0]
    """
    row = [1]
    for size in range(2, power + 1):
        row = [(k + 1) * (row[k] if k < len(row) else 0) + (size - k) * (row[k - 1] if k else 0) for k in range(size)]
    above = x * 0
    for coefficient in reversed(row):
        above = above * x + coefficient
    return above / (1 - x) ** (power + 1)


def _first_share(stale: float, epsilon: float | None, rho: float | None, fall: float, logs: int) -> float:
    """`k` for `stale = g/(1+g)`."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
    x = math.exp(fall * math.log1p(-stale))
    if epsilon is not None:
        return epsilon / powers_sum(x, logs)
    return math.sqrt(2 * (rho or 0) / powers_sum(x * x, 2 * logs))
