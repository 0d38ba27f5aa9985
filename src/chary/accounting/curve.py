"""The exact privacy curve of target charging with NotPrior targets, in closed recursion (theory 1.3, ours).

Let `D_t(k)` be the largest delta at total epsilon `k*eps` over all adaptive analysts with t hits, p = e^eps/(1+e^eps),
r = 1-p and `D_0 = 0`. Theory 1.3 gives `F_t` as the larger of two options everywhere. Write g = F_t - F_(t-1); since
`F_t(x,y) - F_t(y,x) = x - y` for every t, g is symmetric, and induction on t shows it never grows with |ln(x/y)|.
Hence below the diagonal the likelier atom is the better prior and the maximum disappears:

    D_t(k) = p D_t(k-1) + r D_(t-1)(k+1),                           k >= 1
    D_t(0) = ((p - r) + r D_(t-1)(1) + r^2 D_(t-1)(2)) / (1 - p r)

One linear filter a hit, only sums of positive numbers, no boundary and no iteration. The general recursion lives in
`lattice`, which tests compare with this one.
"""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.charging import published_total
from chary.accounting.composition import convex_upper
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

LARGEST_WORK = 10**9
ROUNDING = 4 * float(np.finfo(np.float64).eps)


def curve(epsilon_per_call: float, hits: int, length: int) -> NDArray[np.float64]:
    """Upper bounds on delta at total epsilon 0, eps, 2 eps, ... (length values) after `hits` hits.

    >>> [round(float(x), 6) for x in curve(0.1, 1, 3)]
    [0.066556, 0.03494, 0.018343]
    """
    p = 1 / (1 + math.exp(-epsilon_per_call))
    r = 1 / (1 + math.exp(epsilon_per_call))
    deltas = np.zeros(length + hits + 2)
    for _ in range(hits):
        start = ((p - r) + r * deltas[1] + r * r * deltas[2]) / (1 - p * r)
        rest, _state = scipy.signal.lfilter([r], [1.0, -p], deltas[2:], zi=[p * start])
        deltas = np.concatenate(([start], rest))
    return deltas[:length] * (1 + ROUNDING * (length + 2 * hits))


def exact_total(*, epsilon_per_call: Number, hits: int, delta: Number) -> float:
    """The least total epsilon that covers `hits` NotPrior hits at `delta`, each call being epsilon_per_call-DP.

    Guarantee: every session that stops at that many hits is (total, delta)-DP whatever it asks, and between multiples
    of epsilon_per_call the figure is rounded up. At the multiples no valid accountant can be lower.
    Errors: `InvalidParameter` for numbers outside their domain, and where the
    grid times the hits would pass a thousand million steps (some seconds of work).

    >>> round(exact_total(epsilon_per_call=0.1, hits=1, delta=1e-6), 4)
    1.7306
    """
    eps, tau, d = float(positive(epsilon_per_call, "epsilon")), whole(hits, "hits"), float(probability(delta, "delta"))
    length = 3 + math.ceil(published_total(epsilon_per_call=epsilon_per_call, hits=hits, delta=delta) / eps)
    _check_work(length, tau)
    return convex_upper(curve(eps, tau, length), eps, d)


def exact_delta(*, epsilon_per_call: Number, hits: int, epsilon: Number) -> float:
    """The delta at a total epsilon: the curve, interpolated upwards between multiples of epsilon_per_call.

    >>> exact_delta(epsilon_per_call=0.1, hits=1, epsilon=1.7306) <= 1e-6
    True
    """
    eps, tau = float(positive(epsilon_per_call, "epsilon")), whole(hits, "hits")
    total = float(positive(epsilon, "epsilon"))
    index = int(total / eps)
    _check_work(index, tau)
    deltas = curve(eps, tau, index + 2)
    share = math.expm1(max(0.0, total - index * eps)) / math.expm1(eps)
    return float(deltas[index] + min(1.0, share) * (deltas[index + 1] - deltas[index]))


def _check_work(length: int, hits: int) -> None:
    if (length + hits) * hits > LARGEST_WORK:
        raise InvalidParameter("the exact curve of so many hits is too long to compute; use the price of a hit instead")
