"""Distributions of noise on integers: their tails, masses and quantiles, rounded to the safe side."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from chary.accounting.numerics import LARGEST_EXPONENT, decimal, doubled, least, precise, rounded_up, scaled_tail
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, set_fields

# Unnormalised probabilities of any size, enclosed: a power of e kept exactly, times a decimal between two bounds.
#
# Decimals are correctly rounded integer arithmetic, so what is worked out here is the same on every processor, and a
# share that is compared with a level is on the safe side of its true value by a guard that no rounding reaches.

# Relative. Sixty digits lose at most 12 by the finest noise and 20 by differences of tails: 1e-28 is left.
GUARD: Final = Decimal("1e-25")
ONE: Final = Decimal(1)
# Searches for the values of one watch meet the same whole multiples again and again.
KEPT: Final = 1 << 13


class Mass(NamedTuple):
    """A number between `exp(-exponent) low` and `exp(-exponent) high`, up to the guard."""

    exponent: Fraction
    low: Decimal
    high: Decimal


def share_up(part: Sequence[Mass], rest: Sequence[Mass]) -> Decimal:
    """An upper bound of `part / (part + rest)`, sums of positive masses, at most 1; call inside `precise`.

    >>> from chary.accounting.numerics import precise
    >>> third = [Mass(Fraction(10**30), ONE, ONE)], [Mass(Fraction(10**30), Decimal(2), Decimal(2))]
    >>> with precise():
    ...     round(share_up(*third), 20)
    Decimal('0.33333333333333333333')
    """
    if not part:
        return Decimal(0)
    base = min(mass.exponent for mass in (*part, *rest))
    high = _sum(mass.high * power(mass.exponent - base) for mass in part)
    low = _sum(mass.low * power(mass.exponent - base) for mass in rest if mass.exponent - base <= LARGEST_EXPONENT)
    return min(ONE, high / (high + low) * (1 + GUARD))


def level_down(chance: Fraction) -> Decimal:
    """A level that is certainly kept wherever an upper bound is at most this; call inside `precise`."""
    return decimal(chance) * (1 - GUARD)


@lru_cache(maxsize=KEPT)
def power(exponent: Fraction) -> Decimal:
    """`exp(-exponent)`, or for exponents beyond a million what it is there; call inside `precise()`."""
    return (-decimal(min(exponent, Fraction(LARGEST_EXPONENT)))).exp()


def _sum(terms: Iterable[Decimal]) -> Decimal:
    return sum(terms, Decimal(0))


# Distributions of additive integer noise with certified tails: symmetric, log-concave, in grid steps.

LEAST_SPREAD: Final = Fraction(1, 2**10)
MOST_SPREAD: Final = Fraction(2**40)
# Fractions of smaller probabilities would have hundreds of thousands of digits; floats end near 1e-324.
_RAREST: Final = Fraction(1, 10**330)
_KEPT: Final = 1024


class NoiseLaw(ABC):
    """A symmetric log-concave distribution on the integers, known by enclosures of its masses.

    Log-concave (`P(k)^2 >= P(k-1) P(k+1)`) is what the intervals rest on: then the distribution of truth + noise, cut
    to any set, rises with the truth. A subclass gives one side, without normalising it, and says how wide it is.
    """

    flat: bool
    """Whether the distribution of truth + noise, cut to a set, is the same for all truths on one side of the set."""

    @abstractmethod
    def side(self, first: int, last: int | None) -> Mass:
        """The mass from `first` to `last`, 0 <= first <= last, to infinity for None; called inside `precise`."""

    @property
    @abstractmethod
    def spread(self) -> int:
        """About how many steps wide the distribution is: where searches start."""

    def masses(self, first: int | None, last: int | None) -> list[Mass]:
        """The masses that together are `first <= Z <= last`; None is infinity. Called inside `precise`."""
        if first is not None and last is not None and first > last:
            return []
        if first is not None and first >= 0:
            return [self.side(first, last)]
        if last is not None and last <= 0:
            return [self.side(-last, None if first is None else -first)]
        return [self.side(0, last), self.side(1, None if first is None else -first)]

    def at_least_up(self, distance: int) -> Fraction:
        """The probability that the noise is `distance` or more, rounded up; never below 1e-330.

        >>> float(LaplaceLaw(20).at_least_up(60))
        0.025515...
        """
        with precise():
            found = share_up(self.masses(distance, None), self.masses(None, distance - 1))
            return min(Fraction(1), rounded_up(found)) if found > 0 and found.adjusted() > -330 else _RAREST

    def reach_up(self, chance: Number) -> int:
        """The least distance d >= 0 with `P(Z >= d) <= chance`, certainly.

        >>> LaplaceLaw(20).reach_up("0.025")
        61
        """
        return _reach(self, positive(chance, "chance"))

    def miss_reach_up(self, chance: Number) -> int:
        """The least distance d >= 0 with `P(Z < -d) <= chance`, certainly: a truth that far above a threshold is a hit
        else.

        >>> LaplaceLaw(20).miss_reach_up("0.025")
        60
        """
        return max(0, self.reach_up(chance) - 1)


@dataclass(frozen=True)
class LaplaceLaw(NoiseLaw):
    """Discrete Laplace noise, `P(k) = r^|k| (1 - r)/(1 + r)` with `r = exp(-1/scale)`; every tail in closed form.

    `P(Z >= k) = r^k/(1 + r)` for k >= 1 and `1 - r^(1 - k)/(1 + r)` for k <= 0 (theory chapter 3). A scale outside
    [2^-10, 2^40] grid steps raises `InvalidParameter`.
    """

    scale: Number

    flat = True

    def __post_init__(self) -> None:
        set_fields(self, scale=spread_of(self.scale, "scale"))

    @property
    def spread(self) -> int:
        return max(1, int(Fraction(self.scale)))

    def side(self, first: int, last: int | None) -> Mass:
        rate = 1 / Fraction(self.scale)
        weight = ONE if last is None else 1 - power((last - first + 1) * rate)
        return Mass(first * rate, weight, weight)


def spread_of(value: Number, name: str) -> Fraction:
    """A rational from 2^-10 to 2^40, the noise that is drawn."""
    found = positive(value, name)
    if not LEAST_SPREAD <= found <= MOST_SPREAD:
        raise InvalidParameter(f"{name} must be at least 2**-10 and at most 2**40 grid steps")
    return found


@lru_cache(maxsize=_KEPT)
def _reach(noise: NoiseLaw, chance: Fraction) -> int:
    with precise():
        level = level_down(chance)

        def kept(distance: int) -> bool:
            return share_up(noise.masses(distance, None), noise.masses(None, distance - 1)) <= level

        return 0 if kept(0) else least(kept, *doubled(kept, 0, noise.spread))


# Discrete Gaussian noise by certified sums over its grid.
#
# With `f(k) = exp(-k^2/(2 s^2))` a sum over a <= k <= b is taken term by term where few terms count. Elsewhere it is,
# by Euler and Maclaurin, the integral from a to b and
#
#     (f(a) + f(b))/2 + (f'(b) - f'(a))/12 - (f'''(b) - f'''(a))/720,
#
# up to `1/15120` times the integral of `|f^(6)|`: the periodic Bernoulli polynomial in the remainder is within `2/42`
# of `B_6`, and `2/(42 6!) = 1/15120`. Here `f^(6)(k) = He_6(k/s) f(k)/s^6` with `|He_6(u)| <= u^6 + 15 u^4 + 45 u^2 +
# 15`, whose integral follows by parts. Where sums are long, s is 16 at least and the remainder below 1e-6 of the sum.

# Terms below e^-92 = 1e-40 of the first do not count, and 14 sigmas from the middle all are.
_CUT: Final = 92
_SIGMAS: Final = 14
# Up to that many terms a sum is as fast as the formula; more are needed from a sigma of 17 on only.
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
        set_fields(self, sigma_squared=found)

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
