"""The static rates of Bassily, Smith and Thakurta (2014) under pure privacy, with constants; corners or not."""

import math
from fractions import Fraction

from chary.accounting.schedules import Law
from chary.learning.erm.laws.law_numbers import TIGHT, law_up
from chary.learning.erm.laws.linear_laws import TRIED, exp_up
from chary.numbers import Number, positive, whole


def sampled_law(*, dimension: int, lipschitz: Number = 1, diameter: Number = 1, lam: Number | None = None) -> Law:
    """Weights drawn from a ball with density `exp(-epsilon n F(w)/(2 L D))`: the excess of the mean loss F.

    What is possible, not what a model here does: no sampler of such weights is offered. epsilon-DP, since a replaced
    row moves n F by no more than `2 L D` at one point against another. The excess is `2 L D/(epsilon n)` times a number
    that is stochastically at most Gamma(d), for every convex F: p = 1, the rate `d/(epsilon n)`. With `lam`, for
    lam-strongly convex F, after noise on the optimum has narrowed the ball down to where the optimum is but for half of
    beta, with half of epsilon each: p = 2, `32 L^2/lam` times two such numbers. Proofs: docs/ermg.md.

    Errors: `InvalidParameter` for what is not positive, and for more than some 10,000 columns.

    >>> law = sampled_law(dimension=20)
    >>> round(law.error(size=10**6, epsilon=1, beta="0.05"), 6)
    7.6e-05
    """
    columns, steep = whole(dimension, "dimension"), float(positive(lipschitz, "lipschitz"))
    at = math.log(TIGHT.denominator)

    def height(a: Fraction) -> float:
        return -columns * math.log1p(float(-1 / a))

    a = min(TRIED, key=lambda a: float(a) * (at + height(a)))
    if lam is None:
        factor = 2 * steep * float(positive(diameter, "diameter")) * float(a)
        return law_up(1, factor, exp_up(height(a)), 1, 0)
    factor = 32 * (steep * float(a)) ** 2 / float(positive(lam, "lam"))
    return law_up(2, factor, exp_up(height(a) + math.log(2)), 1, 0)
