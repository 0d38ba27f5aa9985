"""Numbers rounded to the safe side: decimals, exponentials, binomial and normal tails, integrals, searches."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    DecimalException,
    getcontext,
    localcontext,
)
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import plain

# Weights of binomial distributions for any number of trials: one at sixty digits, its neighbours by their ratios.
#
# Logarithms of factorials in floats lose as many digits as they are long: at ten million trials the eighth digit of a
# weight is wrong. Here one weight is computed with decimals, and the others follow from it by factors that are simple
# quotients, so that a weight n steps away has a relative error below `surplus(n)` and no difference is ever taken.

Floats = NDArray[np.float64]
# Products that stay below 1e-40 add less than 2**-53 of the sum (which is at least 1) in any number that fits memory.
CUT: Final = 1e-40
# Just above the smallest normal float: a bound that would underflow is raised to it, never reported as 0.
SMALLEST: Final = 1e-307
# Blocks of factors double from 64, so short chains cost little, and stop at 65,536, so that little runs past the cut.
_FIRST, _LONGEST = 64, 2**16
# The unit roundoff of float64. Up to 64 factorials are exact integers; from there on Stirling's series is good.
_UNIT: Final = 2.0**-53
_EXACT: Final = 64
_KEPT: Final = 1024
_HALF_LOG_TWO_PI: Final = Decimal("0.918938533204672741780329736405617639861397473637783412817152")
# Bernoulli numbers over 2k(2k-1): the coefficients of Stirling's series, whose error is below its first term left out,
# 3e-29 from 64 on.
_STIRLING: Final = ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156))


def surplus(steps: int) -> float:
    """A factor above 1 that covers a chain of this many float operations of at most eight roundings each."""
    return 1 + 8 * (steps + 8) * _UNIT


def falling(factor: Callable[[Floats], Floats], most: int) -> Floats:
    """1, f(0), f(0) f(1), ..., `most` factors at most; cut where they are below 1e-40.

    For factors that stay below 1 once the products fall, what is cut off adds less than rounding does.

    >>> falling(lambda place: 0.5 + 0 * place, 3)
    array([1.   , 0.5  , 0.25 , 0.125])
    """
    found, place, size = [np.ones(1)], 0, _FIRST
    while place < most and found[-1][-1] > CUT:
        end = min(most, place + size)
        with np.errstate(under="ignore"):
            found.append(found[-1][-1] * np.cumprod(factor(np.arange(place, end, dtype=np.float64))))
        place, size = end, min(2 * size, _LONGEST)
    # What is below the cut could be denormal, and hundreds of times slower to add up.
    return np.concatenate([part[part > CUT] for part in found])


def binomial_weight(trials: int, chosen: int, epsilon: float) -> Decimal:
    """`C(n, i) r^i p^(n - i)` with `p = 1 - r = 1/(1 + e^-epsilon)`, to 25 digits.

    >>> float(binomial_weight(4, 2, 1e-30))
    0.375
    """
    with precise(len(str(trials))):
        one, both = _log_odds(epsilon, getcontext().prec)
        log = log_choose(trials, chosen) + (trials - chosen) * one - trials * both
        return log.exp()


def log_choose(trials: int, chosen: int) -> Decimal:
    """`ln C(n, i)` with an absolute error below 1e-27; call inside `precise` with the digits of n more.

    >>> with precise():
    ...     round(log_choose(200, 100).exp()) - math.comb(200, 100) < 10**32
    True
    """
    kept = getcontext().prec
    return _log_factorial(trials, kept) - _log_factorial(chosen, kept) - _log_factorial(trials - chosen, kept)


def floored(value: Decimal) -> float:
    """A positive bound as a float that is never lost to underflow: at least 1e-307."""
    return max(float(value), SMALLEST)


# Searches along a curve ask for the weights of the same trials again and again, and a logarithm takes most of each.


@lru_cache(maxsize=_KEPT)
def _log_odds(epsilon: float, digits: int) -> tuple[Decimal, Decimal]:
    """`ln e^epsilon` and `ln (1 + e^epsilon)`, as they come out at this many digits, those of the context."""
    odds = Decimal(epsilon).exp()
    return odds.ln(), (1 + odds).ln()


@lru_cache(maxsize=_KEPT)
def _log_factorial(number: int, digits: int) -> Decimal:
    if number < _EXACT:
        return Decimal(math.factorial(number)).ln()
    n = Decimal(number)
    series = sum((Decimal(a) / (b * n ** (2 * k + 1)) for k, (a, b) in enumerate(_STIRLING)), Decimal(0))
    return (n + Decimal("0.5")) * n.ln() - n + _HALF_LOG_TWO_PI + series


# Correctly rounded exponentials and logarithms at 60 digits, with the error on the safe side.
#
# Binary floats lose the price of a small call: it is a difference of numbers near one, of the size of epsilon squared.
# The standard library's decimal arithmetic rounds `exp` and `ln` correctly at any precision, so a fixed guard added to
# the result covers every rounding of the short formulas in this floor.

# The price of the smallest call is of the size (1e-15)**2: at 60 digits 30 are left beside it for guard and rounding.
DIGITS = 60
GUARD = Fraction(1, 10**30)
_CONTEXT = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Beyond it callers take the pure bound, or no price: decimals would still do, but no budget could pay.
LARGEST_EXPONENT = 10**6


@contextmanager
def precise(more: int = 0) -> Iterator[None]:
    """Decimal arithmetic at 60 digits, and this many more, inside the block.

    Errors: `InvalidParameter` where numbers leave the range of decimals.
    """
    with localcontext(_CONTEXT, prec=DIGITS + more):
        try:
            yield
        except DecimalException:
            raise InvalidParameter("these numbers are too large or too small to calculate with") from None


def decimal(number: Fraction) -> Decimal:
    """The rational as a decimal; call inside `precise`."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def upper(value: Decimal) -> Fraction:
    """A rational above the true result of a short formula evaluated inside `precise`, and never below 0.

    The guard of 1e-30 exceeds the rounding of a dozen operations on numbers below 1e20.
    """
    if value.adjusted() < -DIGITS:  # as a rational, 1e-999999999 would take all memory
        value = Decimal(1).scaleb(-DIGITS)
    return max(Fraction(0), Fraction(value) + GUARD)


# The normal distribution's distribution function in log space, and how much it changes over a distance.
#
# With b = min(x, 0) and a = max(x, 0), `Phi(x) = exp(-b^2/2) erfcx(-b/sqrt 2) (1 - erfc(a/sqrt 2)/2)`: the middle
# factor is 1 for positive x and the last one 1/2 for negative x, so nothing cancels on either side.

_ROOT_OF_HALF: Final = math.sqrt(0.5)
_DENSITY: Final = 1 / math.sqrt(2 * math.pi)
# Up to a distance of 3 no exponent of `_near` exceeds 3 + 4.5, where 12 points of Gauss and Legendre err by less than
# rounding does; up to 0.01 3 points do, whose error is of the order of 0.01**7 / 2e6.
_NEAR, _NEARER = 3.0, 0.01


def _legendre(count: int) -> tuple[Floats, Floats]:
    """Points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (1 + points) / 2, weights / 2


_FEW, _MANY = _legendre(3), _legendre(12)


class LogCdf:
    """`ln Phi` at some points: its slope, and its change from there, all with a relative error of some 1e-15.

    The change keeps that precision however small it is and however far in a tail.

    >>> LogCdf(np.array([-40.0, 0.0])).hazard
    array([40.0249...,  0.79788...])
    >>> LogCdf(np.array([-40.0, 0.0, 8.0])).change(np.array([1e-20]))
    array([4.00249...e-19, 7.97884...e-21, 5.05227...e-35])
    """

    def __init__(self, x: Floats) -> None:
        self.x, self.below, self.above = x, np.minimum(x, 0), np.maximum(x, 0)
        self.tail = scipy.special.erfc(_ROOT_OF_HALF * self.above) / 2
        self._erfcx = scipy.special.erfcx(-_ROOT_OF_HALF * self.below)

    @cached_property
    def hazard(self) -> Floats:
        """`phi(x) / Phi(x)`, the slope of `ln Phi`."""
        density = _DENSITY * np.exp(-self.above * self.above / 2)
        return np.asarray(density / (self._erfcx * (1 - self.tail)))

    @cached_property
    def scaled(self) -> Floats:
        """`ln Phi(x) + min(x, 0)^2/2`."""
        return np.asarray(np.log(self._erfcx) + np.log1p(-self.tail))

    def change(self, shift: Floats, end: "LogCdf | None" = None) -> Floats:
        """`ln Phi(x + shift) - ln Phi(x)`; `end` is the function at x + shift where that is known already."""
        distance = np.abs(shift) * np.maximum(np.abs(self.x), 1)
        farthest = float(distance.max())
        # A difference of two values of ln Phi would lose the digits of a small shift; the integral over it loses none.
        if farthest <= _NEAR:
            return _near_density(self.x, shift, self.hazard, farthest)
        near = distance <= _NEAR
        end = end or LogCdf(self.x + shift)
        right = np.log1p((self.tail - end.tail) / (1 - self.tail))
        change = np.where((self.x >= 0) & (end.x >= 0), right, self.change_to(end, shift))
        if near.any():
            x, moved, hazard = (np.broadcast_to(part, near.shape)[near] for part in (self.x, shift, self.hazard))
            change[near] = _near_density(x, moved, hazard)
        return change

    def change_to(self, end: "LogCdf", shift: Floats) -> Floats:
        """`change` to a known end, with an absolute error of some 1e-16 (for positive x, that part of the tail)."""
        apart = np.where((self.x < 0) & (end.x < 0), shift, end.below - self.below)
        return np.asarray(end.scaled - self.scaled - apart * (self.below + end.below) / 2)


def _near_density(x: Floats, shift: Floats, hazard: Floats, farthest: float = _NEAR) -> Floats:
    """Gauss-Legendre for the density over the distance, relative to the density at x; no exponent exceeds 8."""
    points, weights = _FEW if farthest < _NEARER else _MANY
    steps = shift[..., np.newaxis] * points
    density = np.exp(-steps * (x[..., np.newaxis] + steps / 2)) @ weights
    return np.asarray(np.log1p(shift * density * hazard))


# The trapezoidal rule for log-concave integrands given by their logarithms: an array by integrand, count and node.

# Stands for the logarithm of 0: minus infinity would make the differences below NaN.
LOWEST: Final = -1e300
# exp(-38) is half a unit in the last place of a sum: ends below that are cut off without a trace.
_NEGLIGIBLE: Final = math.exp(-38)
# exp(-46) is 1e-20: an outline may be off by a few units and still leaves out nothing that rounding would keep.
_OUTSIDE: Final = 46.0
# The error falls with the cube of what the sums over every third node differ by: 1e-5 leaves 1e-15.
_AGREEMENT: Final = 1e-5
# Fewer nodes than that could agree by accident.
_FEWEST: Final = 12
# As in `normal_masses`: what is so far below the first integral never shows in a gain.
_SMALLEST: Final = -660.0


@dataclass(frozen=True)
class Outline:
    """Where integrands matter: bounds in t, the likeliest place of the first one, and its height."""

    low: float
    high: float
    anchor: float
    peak: float
    scattered: bool

    @classmethod
    def of(cls, grid: Floats, terms: Floats) -> "Outline":
        """From values on a grid; integrands are scattered where one matters at a few nodes only."""
        tops = terms.max(axis=2, keepdims=True)
        each = terms > tops - _OUTSIDE
        counted, matter = each.sum(axis=2), each.any(axis=(0, 1))
        first, last = int(matter.argmax()), len(grid) - 1 - int(matter[::-1].argmax())
        low, high = float(grid[max(first - 1, 0)]), float(grid[min(last + 1, len(grid) - 1)])
        scattered = bool((counted[counted > 0] < _FEWEST / 2).any())
        return cls(low, high, float(grid[terms[0, -1].argmax()]), float(tops[0].max()), scattered)


@dataclass(frozen=True)
class Sums:
    """The logarithms of the integrals for several counts, and whether the nodes carry them."""

    logs: Floats
    agree: NDArray[np.bool_]

    @classmethod
    def of(cls, terms: Floats) -> "Sums":
        """The trapezoidal sums of integrands that should vanish at both ends."""
        top = np.maximum(terms.max(axis=2), LOWEST)
        terms -= top[:, :, np.newaxis]
        parts = np.exp(terms, out=terms)
        thirds = parts @ _every_third(terms.shape[2])
        total, ends = thirds.sum(axis=2), parts[:, :, 0] + parts[:, :, -1]
        agree = np.abs(3 * thirds - total[:, :, np.newaxis]).max(axis=2) <= _AGREEMENT * total
        agree &= (np.count_nonzero(parts > _NEGLIGIBLE, axis=2) >= _FEWEST) & (ends < _NEGLIGIBLE * total)
        return cls(top + np.log(total), agree)

    @property
    def settled(self) -> bool:
        """Whether every integral that adds to a gain is known well."""
        return bool((self.agree | (self.logs <= self.logs[0] + _SMALLEST)).all())


def evenly(low: float, high: float, nodes: int) -> Floats:
    """Nodes from low to high."""
    return low + (high - low) / (nodes - 1) * np.arange(nodes, dtype=np.float64)


@lru_cache(maxsize=16)
def _every_third(nodes: int) -> Floats:
    return np.tile(np.eye(3), (nodes // 3, 1))


# The scaled tail of the normal distribution, `exp(u^2/2)` times the integral of `exp(-t^2/2)` from u on, in decimals.

Enclosed = tuple[Decimal, Decimal]
# The square root of pi/2.
_ROOT_OF_HALF_PI: Final = Decimal("1.25331413731550025120788264240552262650349337030496915831496178817114682730392")
# Below, the difference loses 8 of 60 digits; from here on that many levels of the fraction agree to 40.
_FRACTION_FROM: Final = 6
_LEVELS: Final = 70
_CUT: Final = Decimal("1e-50")


def scaled_tail(u: Decimal) -> Enclosed:
    """Bounds of `exp(u^2/2)` times the normal integral from u >= 0 on; equal where 40 digits hold. Inside `precise`.

    >>> from chary.accounting.numerics import precise
    >>> with precise():
    ...     [round(float(end), 10) for u in (0, 3, 9) for end in scaled_tail(Decimal(u))]
    [1.2533141373, 1.2533141373, 0.3045902987, 0.3045902987, 0.1097872826, 0.1097872826]
    """
    return _by_fraction(u) if u >= _FRACTION_FROM else _by_series(u)


def _by_series(u: Decimal) -> Enclosed:
    """From u on is the whole half less 0 to u, which is `u + u^3/3 + u^5/(3 5) + ...` in this scale."""
    square, term, total, odd = u * u, u, u, 1
    while term > _CUT:
        odd += 2
        term = term * square / odd
        total += term
    found = _ROOT_OF_HALF_PI * (square / 2).exp() - total
    return found, found


def _by_fraction(u: Decimal) -> Enclosed:
    """Laplace's continued fraction `1/(u + 1/(u + 2/(u + ...)))`, between whose convergents the value lies."""
    ends = []
    for levels in (_LEVELS, _LEVELS + 1):
        found = u
        for level in range(levels, 0, -1):
            found = u + level / found
        ends.append(1 / found)
    return min(ends), max(ends)


# Numbers on the safe side: results of short formulas as rationals of 18 digits, which ledgers keep; floats.

# 18 digits keep what ledgers store short, and lose at most 1e-17 of it, always against the analyst.
_DIGITS: Final = 18
# Short formulas at 60 digits err by less even where 30 of them cancel, and the 18 digits that are kept do not show it.
_GUARD: Final = Decimal("1e-25")
LARGEST_FLOAT: Final = sys.float_info.max
# As a rational, a decimal such as 1e-999999999 would take all memory: no number of that many digits is made.
_FAR: Final = 1000
_UP, _DOWN = (
    Context(prec=_DIGITS, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN) for rounding in (ROUND_CEILING, ROUND_FLOOR)
)


def rounded_up(value: Decimal) -> Fraction:
    """A rational above a positive result whose relative error is below 1e-25; call inside `precise`.

    Results below 1e-1000 are returned as that. Errors: `InvalidParameter` for results above 1e1000.

    >>> rounded_up(Decimal(1) / 3)
    Fraction(166666666666666667, 500000000000000000)
    """
    if value and value.adjusted() < -_FAR:
        return Fraction(1, 10**_FAR)
    return Fraction(_UP.plus(_near(value) * (1 + _GUARD)))


def rounded_down(value: Decimal) -> Fraction:
    """A rational below a positive result whose relative error is below 1e-25; call inside `precise`.

    Errors: `InvalidParameter` for results above 1e1000 or below 1e-1000.

    >>> rounded_down(Decimal(2) / 3)
    Fraction(333333333333333333, 500000000000000000)
    """
    return Fraction(_DOWN.plus(_near(value) * (1 - _GUARD)))


def _near(value: Decimal) -> Decimal:
    """The value; `InvalidParameter` for one of more than a thousand digits before or behind its point."""
    if value and abs(value.adjusted()) > _FAR:
        raise InvalidParameter("these numbers lie too far apart: a result has more than a thousand digits")
    return value


def float_up(value: Fraction) -> float:
    """The least float that is not below the value; infinite beyond all floats.

    >>> float_up(Fraction(1, 10)) == 0.1, Fraction(float_up(Fraction(3, 10))) >= Fraction(3, 10)
    (True, True)
    """
    try:
        found = float(value)
    except OverflowError:
        return math.inf if value > 0 else -LARGEST_FLOAT
    return found if found >= value else math.nextafter(found, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float that is not above the value."""
    return -float_up(-value)


# Where something begins or ceases to hold, by bisection: the result is always an end that was evaluated.

Part = TypeVar("Part", int, float, Fraction, Decimal)
# No error of interest is larger, and floats tell integers apart up to 9e15 only.
LARGEST_ERROR: Final = 2**62


def _halfway(low: Any, high: Any) -> Any:
    return (low + high) // 2 if isinstance(high, int) else (low + high) / 2


def geometric_mean(low: float, high: float) -> float:
    """Half way by the logarithms of both."""
    return math.sqrt(low * high)


def ends(
    holds: Callable[[Part], bool],
    low: Part,
    high: Part,
    *,
    middle: Callable[[Part, Part], Part] = _halfway,
    ratio: Any = 1,
    times: int = sys.maxsize,
) -> tuple[Part, Part]:
    """Bisection: adjacent numbers, the predicate false at the first and true from the second on.

    It is taken to be so at `low` and `high`, where it is not evaluated. The search ends earlier where the second is at
    most `ratio` times the first, or after `times` halvings; rationals need one of the two.

    >>> ends(lambda n: n * n >= 50, 0, 50), ends(lambda x: x * x >= 2, 1.0, 2.0, times=3)
    ((7, 8), (1.375, 1.5))
    """
    for _ in range(times):
        between = middle(low, high)
        if not (low < between < high and high > low * ratio):
            break
        low, high = (low, between) if holds(between) else (between, high)
    return low, high


def least(holds: Callable[[Part], bool], low: Part, high: Part, **how: Any) -> Part:
    """The least number from which on it holds, between one where it does not and one where it does, as by `ends`.

    >>> least(lambda x: x * x >= 2, 1.0, 2.0, middle=geometric_mean, ratio=1.01)
    1.4142...
    """
    return ends(holds, low, high, **how)[1]


def largest(holds: Callable[[Part], bool], low: Part, high: Part, **how: Any) -> Part:
    """The largest number up to which it holds, between one where it does and one where it does not, as by `ends`.

    >>> largest(lambda n: n * n <= 50, 0, 50)
    7
    """
    return ends(lambda number: not holds(number), low, high, **how)[0]


def doubled(
    holds: Callable[[Part], bool], low: Part, high: Part, *, times: Any = 2, most: float = math.inf
) -> tuple[Part, Part]:
    """The first number from `high` on at which it holds, each `times` the one before it, after that one or `low`.

    Errors: `InvalidParameter` beyond `most`, where no error is so large that it keeps the confidence.

    >>> doubled(lambda n: n * n >= 50, 0, 1), least(lambda n: n * n >= 50, *doubled(lambda n: n * n >= 50, 0, 1))
    ((4, 8), 8)
    """
    while not holds(high):
        low, high = high, high * times
        if high > most:
            raise InvalidParameter("confidence is too close to 1 for the precision of this calculation")
    return low, high


def least_error(kept: Callable[[int], bool]) -> int:
    """The least error for which `kept` holds, as it does for all larger ones; `InvalidParameter` above 2**62."""
    return least(kept, *doubled(kept, -1, 1, most=LARGEST_ERROR))


# Where a falling bound passes its target: integers found by secants, settled by the bound itself.

# A halving at every third step bounds their number by three times a bisection's. Floats tell integers apart up to
# 9e15 only, so from 1e13 on ends are near enough when they are a part in 1e13 apart.
_THIRDS = 3
_CLOSE = 10**13
# Sizes are looked for in steps of a thousandth, then among the integers between two steps.
_PART = 1e-3
_THOUSANDTH = Fraction(1001, 1000)


def first_within(bound: Callable[[int], float], target: float, low: int, high: int) -> tuple[int, int]:
    """Integers (low, high) next to each other with `bound(low) > target >= bound(high)`, which holds at the start.

    Beyond 1e13 they may be further apart, by a part in 1e13. Logarithms of bounds are nearly straight, so secants take
    a few steps; every third one halves, which bounds their number whatever the bound does.

    >>> first_within(lambda k: 2.0**-k, 1e-6, 0, 1000)
    (19, 20)
    """
    above, below = _excess(bound(low), target), _excess(bound(high), target)
    turn = 0
    while high - low > max(1, high // _CLOSE):
        turn += 1
        middle = _between(low, high, 0.5 if turn % _THIRDS == 0 else above / (above - below))
        found = _excess(bound(middle), target)
        # The end that stays counts for half (Illinois), so that the next secant tends to fall beyond the root.
        if found > 0:
            low, above, below = middle, found, below / 2
        else:
            high, below, above = middle, found, above / 2
    return low, high


def _excess(value: float, target: float) -> float:
    return math.log(value) - math.log(target) if value > 0 else -math.inf


def _between(low: int, high: int, share: float) -> int:
    """Strictly between both ends, at this share of the way; half way where there is none (an infinite excess)."""
    part = share if 0 < share < 1 else 0.5
    return min(max(low + int((high - low) * part), low + 1), high - 1)


def least_size(bound: Callable[[int], float], target: float, low: int = 1, most: int = 2**200) -> int | None:
    """The least integer from `low` on at which a falling bound is at most the target; None if not up to `most`.

    Beyond 1e13 it may be a part in 1e13 too large.

    >>> least_size(lambda n: 100 / n, 0.3), least_size(lambda n: 2 + 1 / n, 1)
    (334, None)
    """
    bound = lru_cache(maxsize=None)(bound)
    top = math.ceil(math.log(most / low) / math.log1p(_PART))

    def at(steps: int) -> int:
        return math.floor(low * (1 + _PART) ** steps)

    if bound(low) <= target:
        return low
    if bound(at(top)) > target:
        return None
    # Logarithms of most bounds are straight in that of the size, so the first search takes few steps, and the second.
    below, above = first_within(lambda steps: bound(at(steps)), target, 0, top)
    return first_within(bound, target, at(below), at(above))[1]


def most_kept(bound: Callable[[int], float], target: float, low: int = 1, most: int = 10**18) -> int | None:
    """A number at which a rising bound is at most the target, though no longer at one a thousandth larger.

    Exact below a thousand; `most` where it is kept until there, None where it is not even at `low`.

    >>> most_kept(lambda n: n**0.5, 20), most_kept(lambda n: n, 0.5), most_kept(lambda n: 0, 1)
    (400, None, 1000000000000000000)
    """
    if bound(low) > target:
        return None
    if bound(most) <= target:
        return most

    def middle(low: int, high: int) -> int:
        return max(math.isqrt(low * high), low + 1) if high > 2 * low else (low + high) // 2

    return largest(lambda number: bound(number) <= target, low, most, middle=middle, ratio=_THOUSANDTH)


# The largest sizes that fit a budget, and sizes of four digits.

# Four digits are short to read and to keep in a ledger, and lose a thousandth at most, on the side that fits.
_SHORT: Final = 4
# A ten-thousandth of a size is nothing that can be measured, and only `low`, which was seen to fit, is returned.
SIZE_RATIO: Final = 1.0001
# 2**-80 is 1e-24: whatever does not fit there never fits, and the search must end.
_HALVINGS: Final = 80


def largest_size(fits: Callable[[float], bool], most: float) -> float:
    """The largest size up to `most` that fits, to one part in ten thousand, never above, by bisection of its logarithm.

    Smaller sizes must fit wherever larger ones do. `InvalidParameter` if not even `most / 2**80` fits.

    >>> largest_size(lambda size: size <= 0.3, 1), largest_size(lambda size: True, 1)
    (0.2999..., 1)
    """
    if fits(most):
        return most
    low, high = most / 2, most
    while not fits(low):
        low, high = low / 2, low
        if low * 2**_HALVINGS < most:
            raise InvalidParameter(f"nothing fits, not even a size of {plain(low)}")
    return largest(fits, low, high, middle=geometric_mean, ratio=SIZE_RATIO)


def four_digits_down(size: Fraction | float) -> Fraction:
    """A positive number rounded down to four digits, or to an integer.

    >>> four_digits_down(Fraction(1, 3)), four_digits_down(0.0123456)
    (Fraction(3333, 10000), Fraction(617, 50000))
    """
    number, unit = Fraction(size), _unit(size)
    return math.floor(number / unit) * unit


def four_digits_up(size: Fraction | float) -> Fraction:
    """A positive number rounded up to four digits, or to an integer.

    >>> four_digits_up(Fraction(1, 3)), four_digits_up(12345.6)
    (Fraction(1667, 5000), Fraction(12346, 1))
    """
    number, unit = Fraction(size), _unit(size)
    return math.ceil(number / unit) * unit


def _unit(size: Fraction | float) -> Fraction:
    exponent = 0
    while size * 10**exponent < 10 ** (_SHORT - 1):
        exponent += 1
    return Fraction(1, 10**exponent)
