"""Laws of the excess risk of private empirical risk minimisation, with the constants of their proofs (docs/ermg.md).

Each is a `Law`: with probability 1 - beta the excess is at most `base + c (ln(m/beta)^q/(epsilon n))^p`, for every
epsilon, size and beta up to 1/2. c and m are a tangent to the exact tail, which touches it where beta is `TIGHT`.
"""

import math
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.exponentials import decimal, precise
from chary.accounting.growing.accuracy_laws import Law
from chary.learning.erm.descent.ball_descent import DAMPING, FINE_ROWS, FINE_SLOPES, FINE_WEIGHTS, LEAST_STEPS
from chary.learning.erm.problem import Problem

# Laws hold at every chance; at this one, which a late run of a schedule has, they are as tight as the exact tail.
TIGHT: Final = Fraction(1, 10**9)
# A few float operations, upwards, and twelve digits: a law is the same on every machine.
MARGIN: Final = 1e-6
DIGITS: Final = 12


def pure_law(
    *, moved: float, smoothness: float, dimension: int, slack: float = 0, base: float = 0, tight: Fraction = TIGHT
) -> Law:
    """An optimum that moves by at most `moved / n`, with noise of density `exp(-epsilon n |b| / moved)`: p = 2.

    A smooth objective is at most `smoothness/2 |w - w*|^2` above its least value. The noise is `moved / (epsilon n)`
    times a Gamma(d) number, which is at least `a (s + d ln(a/(a-1)))` with probability e^-s at most, for every a > 1
    (Chernoff). `slack` is what may come on top of it, in the same unit.

    >>> law = pure_law(moved=2, smoothness=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 6)
    0.000444
    """
    a = _tangent(dimension, tight)
    factor = smoothness / 2 * (float(a) * moved) ** 2
    return _law(2, factor, _choices(dimension, a, slack / float(a)), 1, base)


def gaussian_law(
    *, moved: float, smoothness: float, dimension: int, slack: float = 0, base: float = 0, tight: Fraction = TIGHT
) -> Law:
    """An optimum that moves by at most `moved / n`, with Gaussian noise of deviation `moved / (epsilon n)`: p = 2.

    Half the square of the noise's length is a Gamma(d/2) number; a slack r makes the square of chi + r at most
    `(1 + r) (chi^2 + r)`.

    >>> law = gaussian_law(moved=2, smoothness=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 6)
    4e-05
    """
    a = _tangent(dimension / 2, tight)
    factor = smoothness / 2 * moved**2 * 2 * float(a) * (1 + slack)
    return _law(2, factor, _choices(dimension / 2, a, slack / (2 * float(a))), Fraction(1, 2), base)


def descent_law(
    *,
    lipschitz: float,
    smoothness: float,
    norm: float,
    dimension: int,
    most_steps: int | None = None,
    base: float = 0,
    tight: Fraction = TIGHT,
) -> Law:
    """`BallDescent` in a ball of radius W = `norm`: `2 L W (C0 + C1 r + C2 r^2)/(epsilon n)`, r^2 = ln(2/beta), p = 1.

    No step is longer than the smoothness M allows; if at most T steps are taken, `4 M W^2/(T (T+1))` remains.

    >>> law = descent_law(lipschitz=1, smoothness=1, norm=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0279
    """
    first, root, rest = descent_terms(dimension, min(LEAST_STEPS, most_steps or LEAST_STEPS))
    at = -math.log(float(tight / 2))
    slope = root / (2 * math.sqrt(at)) + rest
    height = math.log(2) + (first + root * math.sqrt(at) / 2) / slope
    rounding = 1 + (math.sqrt(dimension) + 1) / 2**15
    remains = 0.0 if most_steps is None else DAMPING * smoothness * norm**2 / (most_steps * (most_steps + 1))
    with precise():
        choices = Decimal(height).exp()
    return _law(1, 2 * lipschitz * norm * slope * rounding, choices, 1, base + remains)


def descent_terms(dimension: int, steps: int) -> tuple[float, float, float]:
    """C0, C1, C2 for all numbers of steps from `steps` on."""
    first, root = 2 * math.sqrt(2 * dimension / 3), 4 * math.sqrt(steps) / (steps + 1) + 4 * math.sqrt(2 / 3)
    rest = 4 * math.sqrt(3 / dimension) * steps / ((steps + 1) * math.sqrt((steps + 1) * (2 * steps + 1)))
    return first, root, rest


def descent_rounding(problem: Problem) -> float:
    """What rounding rows, slopes and weights to integers adds to the excess risk of `BallDescent` at most.

    Rows that move by `R sqrt(d) 2^-20` change a loss by the slope times W times that, at both ends. A gradient that is
    off by x changes every step's part of the proof by `2 W x` at most.
    """
    norm, radius = float(problem.norm), float(problem.radius)
    root, lipschitz = math.sqrt(problem.features), float(problem.lipschitz)
    rows = 2 * lipschitz * norm * root / 2**FINE_ROWS
    weights = float(problem.loss.curvature) * radius**2 * root * norm / float(2 ** (FINE_WEIGHTS + 1))
    slopes = lipschitz / float(2 ** (FINE_SLOPES + 1))
    return rows + 2 * norm * (slopes + weights)


def _tangent(shape: float, tight: Fraction) -> Fraction:
    """The a > 1 for which `a (s + shape ln(a/(a-1)))` is least at `s = -ln(tight)`: x/(x - shape) where
    `x = shape + s + shape ln(x/shape)`; any a will do.
    """
    s = math.log(tight.denominator) - math.log(tight.numerator)
    x = shape + s
    for _ in range(100):
        x = shape + s + shape * math.log(x / shape)
    return max(Fraction("1.001"), Fraction(f"{x / (x - shape):.5g}"))


def _choices(shape: float, a: Fraction, more: float) -> Decimal:
    """`(a/(a-1))^shape e^more`."""
    with precise():
        return (Decimal(shape) * decimal(a / (a - 1)).ln() + Decimal(more)).exp()


def _law(power: int, factor: float, choices: Decimal, log_power: int | Fraction, base: float) -> Law:
    """The law with its numbers rounded up."""
    return Law(power, _up(factor), _whole_up(choices), log_power, _up(base) if base else 0)


def _up(value: float) -> Fraction:
    """A little more than the number, with few digits; the margin covers the roundings of float64 in it."""
    return Fraction(f"{value * (1 + MARGIN):.{DIGITS}g}")


def _whole_up(value: Decimal) -> int:
    return int(((1 + Decimal(MARGIN)) * value).to_integral_value(ROUND_CEILING))
