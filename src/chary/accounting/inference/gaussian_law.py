"""Discrete Gaussian noise by certified sums over its grid.

With `f(k) = exp(-k^2/(2 s^2))` a sum over a <= k <= b is taken term by term where few terms count. Elsewhere it is, by
Euler and Maclaurin, the integral from a to b and

    (f(a) + f(b))/2 + (f'(b) - f'(a))/12 - (f'''(b) - f'''(a))/720,

up to `1/15120` times the integral of `|f^(6)|`: the periodic Bernoulli polynomial in the remainder is within `2/42` of
`B_6`, and `2/(42 6!) = 1/15120`. Here `f^(6)(k) = He_6(k/s) f(k)/s^6` with `|He_6(u)| <= u^6 + 15 u^4 + 45 u^2 + 15`,
whose integral follows by parts. Where sums are long, s is 16 at least and the remainder below 1e-6 of the sum.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from chary.accounting.exponentials import decimal
from chary.accounting.inference.masses import Mass, power
from chary.accounting.inference.noise_laws import LEAST_SPREAD, MOST_SPREAD, NoiseLaw
from chary.accounting.inference.normal_tails import scaled_tail
from chary.errors import InvalidParameter
from chary.numbers import Number, positive

# Terms below e^-92 = 1e-40 of the first do not count, and 14 sigmas from the middle all are.
_CUT: Final = 92
_SIGMAS: Final = 14
# Up to so many terms a sum is as fast as the formula; more are needed from a sigma of 17 on only.
_FEW: Final = 240
_REMAINDER: Final = 15120


@dataclass(frozen=True)
class GaussianLaw(NoiseLaw):
    """Discrete Gaussian noise `P(k) ~ exp(-k^2 / (2 sigma_squared))`; sigma from 2^-10 to 2^40 grid steps.

    >>> GaussianLaw(10_000).reach_up("0.025"), GaussianLaw(4).reach_up("0.025")
    (197, 5)
    """

    sigma_squared: Number

    flat = False

    def __post_init__(self) -> None:
        found = positive(self.sigma_squared, "sigma_squared")
        if not LEAST_SPREAD**2 <= found <= MOST_SPREAD**2:
            raise InvalidParameter("sigma must be at least 2**-10 and at most 2**40 grid steps")
        object.__setattr__(self, "sigma_squared", found)

    @property
    def spread(self) -> int:
        return 1 + math.isqrt(int(Fraction(self.sigma_squared)))

    def side(self, first: int, last: int | None) -> Mass:
        variance = Fraction(self.sigma_squared)
        counted = _counted(variance, first) if last is None else min(_counted(variance, first), last - first + 1)
        bounds = _smooth(variance, first, last) if counted > _FEW else _summed(variance, first, counted, last)
        return Mass(first * first / (2 * variance), *bounds)


class _Edge(NamedTuple):
    """At an end of a sum: `u = k/s`, f there, bounds of the integral beyond over s, all in units of the first term."""

    place: Decimal
    height: Decimal
    low: Decimal
    high: Decimal

    def correction(self, sigma: Decimal) -> Decimal:
        """`-f'/12 + f'''/720`."""
        slope = self.place / sigma
        return self.height * (slope / 12 + slope * (3 / sigma**2 - slope**2) / 720)

    def sixth(self) -> Decimal:
        """The integral of `(u^6 + 15 u^4 + 45 u^2 + 15) exp(-u^2/2)` beyond, by parts."""
        u, h = self.place, self.height
        second = u * h + self.high
        fourth = u**3 * h + 3 * second
        return u**5 * h + 5 * fourth + 15 * fourth + 45 * second + 15 * self.high


def _counted(variance: Fraction, first: int) -> int:
    """How many terms from the first on may count."""
    most = _SIGMAS * (math.isqrt(math.ceil(variance)) + 1)
    return min(most, math.ceil(_CUT * variance / first)) if first else most


def _summed(variance: Fraction, first: int, counted: int, last: int | None) -> tuple[Decimal, Decimal]:
    """The sum in units of its first term, and with what is left out by a geometric series."""
    step, ratio = power(1 / variance), power((2 * first + 1) / (2 * variance))
    total = term = Decimal(1)
    for _ in range(counted - 1):
        term *= ratio
        ratio *= step
        total += term
    complete = last is not None and first + counted > last
    return total, total if complete else total + term * ratio / (1 - ratio)


def _smooth(variance: Fraction, first: int, last: int | None) -> tuple[Decimal, Decimal]:
    """The sum in units of its first term by Euler and Maclaurin."""
    sigma = decimal(variance).sqrt()
    start, end = _edge(first, sigma, Fraction(0)), _Edge(Decimal(0), Decimal(0), Decimal(0), Decimal(0))
    if last is not None:
        end = _edge(last, sigma, (last * last - first * first) / (2 * variance))
    rest = (start.height + end.height) / 2 + start.correction(sigma) - end.correction(sigma)
    remainder = (start.sixth() - end.sixth()) / (_REMAINDER * sigma**5)
    low, high = sigma * (start.low - end.high) + rest, sigma * (start.high - end.low) + rest
    return max(Decimal(0), low - remainder), high + remainder


def _edge(place: int, sigma: Decimal, exponent: Fraction) -> _Edge:
    u, height = Decimal(place) / sigma, power(exponent)
    low, high = scaled_tail(u)
    return _Edge(u, height, height * low, height * high)
