"""From the risk on the rows at hand to the risk on the population they were drawn from ([GROW] Theorem 5)."""

import math

from chary.numbers import Number, exact, positive, probability, whole

# A few float operations, upwards.
_ROUNDING = 1 + 1e-12


def population_risk_up(
    *, excess: Number, size: int, lam: Number, beta: Number, lipschitz: Number = 1, radius: Number | None = None
) -> float:
    """The excess risk on the population of weights with this `excess` on `size` rows drawn from it independently.

    Losses are L-Lipschitz and lam-strongly convex over a convex set that holds the weights. With probability
    `1 - beta` over the rows, for all weights at once, it is at most `L sqrt(2 excess/lam) + 2 L^2/(beta lam n)` (the
    last term is half of the published one). Weights with noise must be brought back into the set.

    *Proof.* Let w* minimise the mean loss F_n over the set, v that of other rows which differ in one. Adding up
    `F_n(v) - F_n(w*) >= lam |v - w*|^2/2` and the same the other way round, all rows but one cancel:
    `lam |v - w*|^2 <= 2 L |v - w*|/n`. So one row moves each loss at w* by `2 L^2/(lam n)` at most; by symmetry that
    bounds `E(F(w*) - F_n(w*))`, and `E F_n(w*)` is at most the least of F. Markov gives the second term. The
    first: `|w - w*| <= sqrt(2 excess/lam)`, and F is L-Lipschitz.

    `radius`: the losses are only convex, `lam` is that of the penalty `lam |w|^2/2` that training added, `excess` is
    that of the penalised mean, and the set lies within so far of 0. Then L grows by `lam radius`, and the penalty
    itself, `lam radius^2/2`, is added.

    Errors: `InvalidParameter` for an excess below 0 and for what is not positive.

    >>> round(population_risk_up(excess="1e-6", size=10**6, lam="0.1", beta="0.05"), 4)
    0.0049
    >>> round(population_risk_up(excess="1e-6", size=10**6, lam="0.02", beta="0.05", radius=1), 4)
    0.0223
    """
    curved, missed, steep = positive(lam, "lam"), probability(beta, "beta"), positive(lipschitz, "lipschitz")
    left = exact(excess, "excess")
    if left:
        positive(left, "excess")
    within = 0 if radius is None else positive(radius, "radius")
    steep += curved * within
    drawn = float(2 * steep**2 / (missed * curved * whole(size, "size")) + curved * within**2 / 2)
    return (float(steep) * math.sqrt(2 * left / curved) + drawn) * _ROUNDING
