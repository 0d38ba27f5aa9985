"""The exact privacy curve of target charging with NotPrior targets, in closed form (theory 1.3, ours).

Let `D_t(k)` be the largest delta at total epsilon `k*eps` over all adaptive analysts with t hits, p = e^eps/(1+e^eps),
r = 1-p and `D_0 = 0`. Theory 1.3 gives `F_t` as the larger of two options everywhere. Write g = F_t - F_(t-1); since
`F_t(x,y) - F_t(y,x) = x - y` for every t, g is symmetric, and induction on t shows it never grows with |ln(x/y)|.
Hence below the diagonal the likelier atom is the better prior and the maximum disappears:

    D_t(k) = p D_t(k-1) + r D_(t-1)(k+1),                           k >= 1
    D_t(0) = ((p - r) + r D_(t-1)(1) + r^2 D_(t-1)(2)) / (1 - p r)

The solution is one sum of positive numbers,

    D_t(k) = (p - r) p^k sum_N (p r)^N C(2N + k, min(t-1, N)),      N = 0, 1, 2, ...

By induction on t and k: in the first line N is taken one less in the second term, and Pascal's rule
`C(2N+k-1, m) + C(2N+k-1, m-1) = C(2N+k, m)` adds both up. In the second, N is taken one and two less in the last terms,
and the rule twice gives `C(2N, m) - C(2N-2, min(t, N)-1) = C(2N-1, m-1) + C(2N-2, min(t, N)-2)`, m = min(t-1, N), for
N < t with `C(2N-2, N) = C(2N-2, N-2)`. For N < t a term is a binomial weight; from t-1 on terms fall by `4 p r` or
faster. `p - r = tanh(eps/2)`, so nothing cancels however small epsilon is. The general recursion lives in `lattice`,
which tests compare with this one.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from chary.accounting.binomial import Floats, binomial_weight, falling, floored, surplus
from chary.accounting.charging.published_charging import WantedTotal, published_total
from chary.accounting.composition import between
from chary.accounting.optimal_composition import spread
from chary.accounting.searching import first_within
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, whole

# Even the longest chain, of nine million terms, then has a surplus below the 1e-8 that `delta_up` tells.
MOST_HITS = 10**6
# A float that counts calls, with room for the factors it meets.
MOST_COUNTED_CALLS = 10**300
# A search for a total looks at a few dozen points, and at its last ones again.
KEPT = 64
# Past the first `hits` terms the ratio falls to p r <= 1/4: long before 8 (hits + 64) they are below `CUT`, where the
# chain ends. The number only bounds the loop.
_FEW = 64


@lru_cache(maxsize=KEPT)
def delta_up(epsilon: float, hits: int, calls: int) -> float:
    """An upper bound on delta at total epsilon `calls * epsilon` after `hits` hits, at most 1e-8 of it above.

    >>> [round(delta_up(0.1, 1, calls), 6) for calls in (0, 1, 2)]
    [0.066556, 0.03494, 0.018343]
    """
    start = _likeliest(epsilon, hits, calls)
    ratio = _ratio(epsilon, hits, calls)
    later = falling(lambda place: ratio(start + place), 8 * (hits + _FEW))
    earlier = falling(lambda place: 1 / ratio(start - 1 - place), start)
    total = (float(later.sum()) + float(earlier.sum()) - 1) * surplus(len(later) + len(earlier))
    found = binomial_weight(2 * start + calls, start, epsilon) * Decimal(total * math.tanh(epsilon / 2))
    return min(1.0, floored(found))


def _ratio(epsilon: float, hits: int, calls: int) -> Callable[[Floats], Floats]:
    """The quotient of the terms N + 1 and N."""
    both, last = spread(epsilon), hits - 1

    def ratio(place: Floats) -> Floats:
        drawn, early = 2 * place + calls, place < last
        first = np.where(early, place + 1, drawn + 2 - last)
        second = np.where(early, drawn + 1 - place, drawn + 1 - last)
        return np.asarray(both * (drawn + 2) / first * ((drawn + 1) / second))

    return ratio


def _likeliest(epsilon: float, hits: int, calls: int) -> int:
    """The largest term, which is one of the first `hits`: they rise, then fall."""
    ratio, low, high = _ratio(epsilon, hits, calls), 0, hits - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if float(ratio(np.array([float(middle)]))[0]) > 1 else (low, middle)
    return low


def exact_total(*, epsilon_per_call: Number, hits: int, delta: Number) -> float:
    """The least total epsilon that covers `hits` NotPrior hits at `delta`, each call being epsilon_per_call-DP.

    Guarantee: every session that stops at that many hits is (total, delta)-DP whatever it asks, and between multiples
    of epsilon_per_call the figure is rounded up. At the multiples no valid accountant can be lower.
    Errors: `InvalidParameter` for numbers outside their domain, an epsilon_per_call above 700, a delta below 1e-300 and
    more than a million hits.

    >>> round(exact_total(epsilon_per_call=0.1, hits=1, delta=1e-6), 4)
    1.7306
    """
    asked = WantedTotal.of(epsilon_per_call, _few(hits), delta)
    eps, target = asked.epsilon, asked.delta

    def bound(calls: int) -> float:
        return delta_up(eps, asked.hits, calls)

    if bound(0) <= target:
        return 0.0
    high = math.ceil(published_total(epsilon_per_call=eps, hits=hits, delta=delta) / eps)
    while bound(high) > target:
        high *= 2
    low, high = first_within(bound, target, 0, high)
    if high - low > 1:
        return high * eps * surplus(1)
    return between(bound(low), bound(high), high, eps, target)


def exact_delta(*, epsilon_per_call: Number, hits: int, epsilon: Number) -> float:
    """The delta at a total epsilon: the curve, interpolated upwards between multiples of epsilon_per_call.

    Never below 1e-307. Errors as for `exact_total`, and for more than 1e300 calls in epsilon.

    >>> exact_delta(epsilon_per_call=0.1, hits=1, epsilon=1.7306) <= 1e-6
    True
    """
    eps, count = WantedTotal.of(epsilon_per_call, _few(hits), Fraction(1, 2)).epsilon, whole(hits, "hits")
    index, rest = divmod(positive(epsilon, "epsilon"), Fraction(eps))
    if index > MOST_COUNTED_CALLS:
        raise InvalidParameter("epsilon is worth more than 1e300 calls: take a larger epsilon_per_call")
    share = min(1.0, math.expm1(float(rest)) / math.expm1(eps))
    above, below = delta_up(eps, count, int(index)), delta_up(eps, count, int(index) + 1)
    return min(1.0, (above - share * (above - below)) * surplus(1))


def _few(hits: int) -> int:
    if whole(hits, "hits") > MOST_HITS:
        raise InvalidParameter(
            f"the exact curve is worked out for at most {MOST_HITS} hits: for more, published_total and the price of a "
            "hit (hit_price_up) have no limit"
        )
    return hits
