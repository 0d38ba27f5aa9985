"""What no unbiased epsilon-DP answer can beat at a given database x: calculators.

`D(t)` is the fewest units of x that must change for t to be the true answer, and `Delta(k)` how far the true answer can
move when at most k units change. Below, x' is such a database, at distance k, with the answer f' = f(x').

*One of several answers* (published; Asi, Duchi 2020). Unbiased means that under every database the true answer is a
likeliest one. Then `P_x(t) >= e^(-eps D) P_x'(t) >= e^(-eps D) P_x'(f) >= e^(-2 eps D) P_x(f)` for t = f', and summing
over t gives `P_x(f) <= 1 / sum_t e^(-2 eps D(t))`.

*A number, squared error.* Unbiased means that under every database no other possible answer t has a smaller expected
squared error than the true one. With V that error under x and W the one of f' under x,
`W <= e^(k eps) E_x' (out - f')^2 <= e^(k eps) E_x' (out - f)^2 <= e^(2 k eps) V`, while `Delta <= sqrt(V) + sqrt(W)` by
Minkowski's inequality. Hence `V >= Delta(k)^2 / (1 + e^(k eps))^2` (ours), which is at least twice the published
`Delta(k)^2 / (4 (1 + e^(2 k eps)))`.

*Unbiased in the mean* (ours). If the expected answer is the true one, Hammersley, Chapman and Robbins bound the
variance by `Delta^2 / chi^2(P_x', P_x)`, and under k eps-DP chi^2 is at most that of randomized response,
`4 sinh(k eps / 2)^2`. Hence `V >= Delta(k)^2 / (4 sinh(k eps / 2)^2)`: half of the variance of discrete Laplace noise
for a count, and attained by randomized response where x can be two databases only.

Figures are floats; they err by less than 1e-12 of themselves.
"""

import math
from collections.abc import Callable, Sequence

from chary.accounting.rounding import LARGEST_FLOAT, float_down
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, whole

# exp(700) is still a float; a lower bound stays one if the largest changes are left out.
LARGEST_EXPONENT = 700.0


def discrete_chance_up(*, epsilon: Number, distances: Sequence[int]) -> float:
    """The most probable that the true answer can be, given D(t) of all possible answers, the true one (0) among them.

    >>> round(discrete_chance_up(epsilon="0.5", distances=[2, 1, 0, 1]), 4)
    0.5344
    """
    eps = float(positive(epsilon, "epsilon"))
    known = [whole(distance, "a distance", least=0) for distance in distances]
    if 0 not in known:
        raise InvalidParameter("the true answer, of distance 0, must be among the distances")
    return 1 / math.fsum(math.exp(-2 * eps * distance) for distance in known)


def published_loss_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least expected squared error, as published: the largest `Delta(k)^2 / (4 (1 + e^(2 k eps)))`, k = 1, 2, ....

    `changes` are Delta(1), Delta(2), ....

    >>> round(published_loss_down(epsilon="0.1", changes=range(1, 101)), 4)
    3.0175
    """
    return _largest(epsilon, changes, lambda y: 1 / (4 * (1 + math.exp(2 * y))))


def loss_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least expected squared error of an answer to which no other is closer: `Delta(k)^2 / (1 + e^(k eps))^2`.

    >>> round(loss_down(epsilon="0.1", changes=range(1, 101)), 4)
    7.7515
    """
    return _largest(epsilon, changes, lambda y: 1 / (1 + math.exp(y)) ** 2)


def variance_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least variance of an answer whose mean is the true one: the largest `Delta(k)^2 / (4 sinh(k eps / 2)^2)`.

    >>> round(variance_down(epsilon="0.1", changes=range(1, 101)), 4)
    99.9167
    """
    return _largest(epsilon, changes, lambda y: 1 / (4 * math.sinh(y / 2) ** 2))


def linear_loss_down(*, epsilon: Number, change: Number) -> float:
    """`change^2 / (68 eps^2)`, which `published_loss_down` exceeds where Delta(k) = k change for k up to 1/eps.

    So it would with 35 in place of 68 (for k up to 1.4/eps).

    Published for epsilon up to 1/2; anything larger raises `InvalidParameter`.

    >>> round(linear_loss_down(epsilon="0.1", change=1), 4)
    1.4706
    """
    eps = positive(epsilon, "epsilon")
    if 2 * eps > 1:
        raise InvalidParameter("this bound is for an epsilon of at most 1/2: give the changes to published_loss_down")
    return float_down(positive(change, "change") ** 2 / (68 * eps**2))


def _largest(epsilon: Number, changes: Sequence[Number], factor: Callable[[float], float]) -> float:
    eps, found = float(positive(epsilon, "epsilon")), 0.0
    for k, change in enumerate(changes, start=1):
        if k * eps > LARGEST_EXPONENT / 2:
            break
        size = float(exact(change, "a change"))
        found = max(found, size * factor(k * eps) * size)
    return min(found, LARGEST_FLOAT)
