"""What private training could promise, and what papers promise up to constants: for comparison, no session uses it."""

import math

from chary.accounting.schedules import Law
from chary.errors import InvalidParameter
from chary.learning.risk_bounds import Assumptions, exp_up, law_up, least
from chary.numbers import Number, exact, failing, positive, whole

# The static rates of Bassily, Smith and Thakurta (2014) under pure privacy, with constants; corners or not.


def sampled_law(*, dimension: int, lipschitz: Number = 1, diameter: Number = 1, lam: Number | None = None) -> Law:
    """Weights drawn from a ball with density `exp(-epsilon n F(w)/(2 L D))`: the excess of the mean loss F.

    What is possible, not what a model here does: no sampler of such weights is offered. It is epsilon-DP, since a
    replaced row moves n F by no more than `2 L D` at one point against another. The excess is `2 L D/(epsilon n)` times
    a number that is stochastically at most Gamma(d), for every convex F: p = 1, the rate `d/(epsilon n)`. `lam` is for
    lam-strongly convex F. First, noise on the optimum narrows the ball down to where the optimum is, except with half
    of beta, with half of epsilon each. Then p = 2, `32 L^2/lam` times two such numbers. Proofs: docs/theory/ermg.md.

    Errors: `InvalidParameter` for what is not positive, and for more than some 10,000 columns.

    >>> law = sampled_law(dimension=20)
    >>> round(law.error(size=10**6, epsilon=1, beta="0.05"), 6)
    7.6e-05
    """
    columns, steep = whole(dimension, "dimension"), float(positive(lipschitz, "lipschitz"))
    a, height = least(lambda a: -columns * math.log1p(-1 / a))
    if lam is None:
        factor = 2 * steep * float(positive(diameter, "diameter")) * a
        return law_up(1, factor, exp_up(height), 1, 0)
    factor = 32 * (steep * a) ** 2 / float(positive(lam, "lam"))
    return law_up(2, factor, exp_up(height + math.log(2)), 1, 0)


# The entries of [GROW] Table 1.


def published_shape(
    assumed: Assumptions, *, size: int, epsilon: Number, delta: Number = 0, exponent: Number | None = None
) -> float:
    """The bounds of [GROW] Table 1 UP TO CONSTANTS and logarithms of size and beta: rates to compare, no promise.

    Static of [BST14], pure and with delta; with `exponent` growing, of ERMG over the pure static algorithm. All with
    L = diameter = 1: `d/(n e)`, `sqrt(d ln(1/delta))/(n e)`, `d sqrt(ln(1/delta))/(e t^(1/2-c))`. With `lam` each is
    squared and divided by it.

    >>> ball = Assumptions(dimension=4, smoothness=1)
    >>> published_shape(ball, size=100, epsilon=1)
    0.04
    >>> round(published_shape(ball, size=100, epsilon=1, delta="0.1", exponent="0.25"), 3)
    1.919
    """
    rows, share, chance = whole(size, "size"), float(positive(epsilon, "epsilon")), float(failing(delta))
    power = 1.0 if exponent is None else 0.5 - float(positive(exponent, "exponent"))
    if exponent is not None and not (chance and power > 0):
        raise InvalidParameter("growing data are trained on under a delta, with an exponent below 1/2")
    root = math.sqrt(-math.log(chance)) if chance else 1.0
    columns = math.sqrt(assumed.dimension) if chance and exponent is None else float(assumed.dimension)
    shape = columns * root / (share * float(rows) ** power) * float(exact(assumed.lipschitz, "lipschitz"))
    found = (
        shape * float(exact(assumed.diameter, "diameter"))
        if assumed.lam is None
        else shape**2 / float(exact(assumed.lam, "lam"))
    )
    return float(found)
