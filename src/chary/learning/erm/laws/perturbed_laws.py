"""Laws of an optimum that gets noise, for any convex smooth objective (docs/ermg.md).

Each is a `Law`: with probability 1 - beta the excess is at most `base + c (ln(m/beta)^q/(epsilon n))^p`, for every
epsilon, size and beta up to 1/2. c and m are a tangent to the exact tail, which touches it where beta is `TIGHT`.
"""

import math
from decimal import Decimal
from fractions import Fraction

from chary.accounting.numerics import decimal, precise
from chary.accounting.schedules import Law
from chary.learning.erm.laws.law_numbers import TIGHT, law_up


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
    return law_up(2, factor, _choices(dimension, a, slack / float(a)), 1, base)


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
    return law_up(2, factor, _choices(dimension / 2, a, slack / (2 * float(a))), Fraction(1, 2), base)


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
