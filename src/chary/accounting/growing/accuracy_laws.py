"""How accurate a static private algorithm is, as its author declares it, and the growth that suits it best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import scipy

from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, probability, whole

# A growth from 1e-4 to 9: reruns at every ten-thousandth, or at every power of ten. Any growth is private, so the grid
# only has to find the valley that the minimiser then follows.
_LEAST, _MOST = 1e-4, 0.9
_GRID: Final = 200


@dataclass(frozen=True)
class Law:
    """A (p, c)-black box ([GROW] Definition 4): the error is at most `base + c (ln(choices/beta)^q/(epsilon n))^p`.

    That holds with probability 1 - beta for every epsilon, number of rows n and beta up to 1/2. `choices` is over how
    many things at once; with 1 (and q, `log_power`, 1, and `base`, 0) it is the published law. q is at most 1, such as
    1/2 for Gaussian noise, so that a run with i + 1 times the share and a failure to the power i + 1 is as accurate.
    `base` is what neither rows nor epsilon improve, such as the coarseness of a synthetic database of fixed size.

    >>> round(Law(power=1, factor=2, choices=10).error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0106
    """

    power: Number
    factor: Number
    choices: Number = 1
    log_power: Number = 1
    base: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", exact(self.base, "base"))
        if Fraction(self.base) < 0:
            raise InvalidParameter("base is an error that remains, so it is at least 0")
        for name in ("power", "factor", "choices", "log_power"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if Fraction(self.choices) < 1:
            raise InvalidParameter("choices must be at least 1")
        if Fraction(self.log_power) > 1:
            raise InvalidParameter("log_power must be at most 1")

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
        scaled = self.logarithm(beta) / (float(positive(epsilon, "epsilon")) * whole(size, "size"))
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
        return told | ({"base": str(self.base)} if self.base else {})


def epochs_error(
    law: Law, *, start: int, growth: Number, beta: Number, epsilon: Number | None = None, rho: Number | None = None
) -> float:
    """The error of every answer at every size, staleness included, with probability 1 - beta for all of them together.

    That of the first run, `c (ln(choices (1+beta)/beta)^q/(k n))^p`, which no later one exceeds, plus `g/(1+g)`.
    """
    growing = float(positive(growth, "growth"))
    stale = growing / (1 + growing)
    share = _first_share(stale, None if epsilon is None else float(epsilon), None if rho is None else float(rho))
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


def _first_share(stale: float, epsilon: float | None, rho: float | None) -> float:
    """`k` for `stale = g/(1+g)`."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
    if epsilon is not None:
        return epsilon * stale**2
    y = (1 - stale) ** 2
    return math.sqrt(2 * (rho or 0) * (1 - y) ** 3 / (1 + y))
