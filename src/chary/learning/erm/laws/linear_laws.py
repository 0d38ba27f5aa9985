"""Laws of a linear model's optimum that gets noise: the number of columns matters little (docs/ermg.md).

The objective is `mean(l(x.w)) + lam/2 |w|^2` with rows x no longer than R: moved by b from its optimum it rises by
`b^T A b / 2` at most, where `A = c mean(x x^T) + lam` has the trace `c R^2 + d lam` at most. Noise has no direction,
and of all such A the worst is that of equal rows, which only one direction of the noise moves.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.numerics import decimal, precise
from chary.accounting.schedules import Law
from chary.learning.erm.laws.law_numbers import TIGHT, law_up

# a - 1, four a factor of ten: neighbours differ by far more than float64 errs, so every machine finds the same.
TRIED: Final = [1 + Fraction(f"{10 ** (step / 24):.4g}") for step in range(-72, 60)]


def linear_gaussian_law(
    *, moved: float, steepest: float, lam: float, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Gaussian noise of deviation `moved / (epsilon n)`, and curvature `steepest` in one direction, lam in others.

    `b^T A b / 2` is above `a M sigma^2 (s - ln(1-1/a)/2 - (d-1)/2 ln(1-lam/(a M)))` with probability e^-s at most, for
    every a > 1, with M = `steepest`; p = 2. `slack` as in `gaussian_law`.

    >>> law = linear_gaussian_law(moved=2, steepest=1, lam=0.001, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 7)
    2.07e-05
    """
    a, height = _form(steepest, lam, dimension)
    factor = moved**2 * a * steepest * (1 + slack)
    return law_up(2, factor, exp_up(height + slack / (2 * a)), Fraction(1, 2), base)


def linear_pure_law(
    *, moved: float, steepest: float, lam: float, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Noise of density `exp(-epsilon n |b| / moved)`, and curvature as in `linear_gaussian_law`: p = 2.

    b is normal with a variance that is chi-squared of d + 1 degrees; each of the two gets half of the failures. A
    product `x y` is at most `((k x + y/k)/2)^2`.

    >>> law = linear_pure_law(moved=2, steepest=1, lam=0.001, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 5)
    0.00382
    """
    a, height = _form(steepest, lam, dimension)
    wide, spread = _chi_squared(dimension + 1)
    one, other = height + math.log(2) + slack, spread + math.log(2)
    k = math.sqrt((_at() + other) / (_at() + one))
    factor = moved**2 * a * steepest * 2 * wide * ((k + 1 / k) / 2) ** 2 * (1 + slack)
    return law_up(2, factor, exp_up((k * one + other / k) / (k + 1 / k)), 1, base)


def linear_slope_law(
    *, moved: float, slope: float, pure: bool, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Either noise, for a mean loss whose rows' losses rise by `slope` at most per unit of w: p = 1, corners or not.

    The mean of `|x.b|` over rows is above `slope sigma sqrt(2 ln(2/beta))` with probability beta at most: its moments
    are those of one row at most. `base` holds `lam/2 length^2`, for the mean loss against all weights of that length.

    >>> law = linear_slope_law(moved=2, slope=1, pure=False, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 5)
    0.00572
    """
    if not pure:
        return law_up(1, moved * slope * (math.sqrt(2) + slack), Decimal(2), Fraction(1, 2), base)
    wide, spread = _chi_squared(dimension + 1)
    one, other = 2 * math.log(2), spread + math.log(2)
    k = math.sqrt((_at() + other) / (_at() + one))
    factor = moved * slope * (math.sqrt(4 * wide) + slack) * (k + 1 / k) / 2
    return law_up(1, factor, exp_up((k * one + other / k) / (k + 1 / k)), 1, base)


def _form(steepest: float, lam: float, dimension: int) -> tuple[float, float]:
    """a, and what is added to s, least at `TIGHT`."""

    def height(a: float) -> float:
        return -(math.log1p(-1 / a) + (dimension - 1) * math.log1p(-lam / (a * steepest))) / 2

    a = min(map(float, TRIED), key=lambda a: a * (_at() + height(a)))
    return a, height(a)


def _chi_squared(degrees: int) -> tuple[float, float]:
    """a and m where chi-squared of these degrees is above `2 a (s + m)` with probability e^-s at most."""

    def height(a: float) -> float:
        return -degrees / 2 * math.log1p(-1 / a)

    a = min(map(float, TRIED), key=lambda a: a * (_at() + height(a)))
    return a, height(a)


def _at() -> float:
    return math.log(TIGHT.denominator)


def exp_up(value: float) -> Decimal:
    """`e^v`, to be rounded up by `law_up`."""
    with precise():
        return decimal(Fraction(value)).exp()
