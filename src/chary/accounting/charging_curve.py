"""The exact curve of target charging: the delta of a number of hits of one epsilon, and the hits that a budget buys."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import scipy

from chary.accounting import composition, numerics
from chary.errors import InvalidParameter
from chary.numbers import Number, plain, positive, probability, whole

# The exact privacy curve of target charging with NotPrior targets, in closed form (theory 1.3, ours).
#
# Let `D_t(k)` be the largest delta at total epsilon `k*eps` over all adaptive analysts with t hits, p =
# e^eps/(1+e^eps), r = 1-p and `D_0 = 0`. Theory 1.3 gives `F_t` as the larger of two options everywhere. Write g = F_t
# - F_(t-1); since `F_t(x,y) - F_t(y,x) = x - y` for every t, g is symmetric, and induction on t shows it never grows
# with |ln(x/y)|. Hence below the diagonal the likelier atom is the better prior and the maximum disappears:
#
#     D_t(k) = p D_t(k-1) + r D_(t-1)(k+1),                           k >= 1
#     D_t(0) = ((p - r) + r D_(t-1)(1) + r^2 D_(t-1)(2)) / (1 - p r)
#
# The solution is one sum of positive numbers,
#
#     D_t(k) = (p - r) p^k sum_N (p r)^N C(2N + k, min(t-1, N)),      N = 0, 1, 2, ...
#
# By induction on t and k: in the first line N is taken one less in the second term, and Pascal's rule `C(2N+k-1, m) +
# C(2N+k-1, m-1) = C(2N+k, m)` adds both up. In the second, N is taken one and two less in the last terms, and the rule
# twice gives `C(2N, m) - C(2N-2, min(t, N)-1) = C(2N-1, m-1) + C(2N-2, min(t, N)-2)`, m = min(t-1, N), for N < t with
# `C(2N-2, N) = C(2N-2, N-2)`. For N < t a term is a binomial weight; from t-1 on terms fall by `4 p r` or faster. `p -
# r = tanh(eps/2)`, so nothing cancels however small epsilon is. The general recursion lives in `lattice`, which tests
# compare with this one.

# Even the longest chain, of nine million terms, then has a surplus below the 1e-8 that `delta_up` promises.
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
    later = numerics.falling(lambda place: ratio(start + place), 8 * (hits + _FEW))
    earlier = numerics.falling(lambda place: 1 / ratio(start - 1 - place), start)
    total = (float(later.sum()) + float(earlier.sum()) - 1) * numerics.surplus(len(later) + len(earlier))
    found = numerics.binomial_weight(2 * start + calls, start, epsilon) * Decimal(total * math.tanh(epsilon / 2))
    return min(1.0, numerics.floored(found))


def _ratio(epsilon: float, hits: int, calls: int) -> Callable[[numerics.Floats], numerics.Floats]:
    """The quotient of the terms N + 1 and N."""
    both, last = composition.spread(epsilon), hits - 1

    def ratio(place: numerics.Floats) -> numerics.Floats:
        drawn, early = 2 * place + calls, place < last
        first = np.where(early, place + 1, drawn + 2 - last)
        second = np.where(early, drawn + 1 - place, drawn + 1 - last)
        return np.asarray(both * (drawn + 2) / first * ((drawn + 1) / second))

    return ratio


def _likeliest(epsilon: float, hits: int, calls: int) -> int:
    """The largest term, which is one of the first `hits`: they rise, then fall."""
    ratio = _ratio(epsilon, hits, calls)
    return numerics.least(lambda place: float(ratio(np.array([float(place)]))[0]) <= 1, -1, hits - 1)


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
    far = math.ceil(published_total(epsilon_per_call=eps, hits=hits, delta=delta) / eps)
    _, high = numerics.doubled(lambda calls: bound(calls) <= target, 0, far)
    low, high = numerics.first_within(bound, target, 0, high)
    if high - low > 1:
        return high * eps * numerics.surplus(1)
    return composition.between(bound(low), bound(high), high, eps, target)


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
    return min(1.0, (above - share * (above - below)) * numerics.surplus(1))


def _few(hits: int) -> int:
    if whole(hits, "hits") > MOST_HITS:
        raise InvalidParameter(
            f"the exact curve is worked out for at most {MOST_HITS} hits: for more, published_total and the price of a "
            "hit (hit_price_up) have no limit"
        )
    return hits


# How many hits make what target charging pays per hit predictable ([TCT] Remark B.5).

# So small an overhead takes more hits than anybody has; SciPy's incomplete beta function is good to far beyond it.
LEAST_OVERHEAD: Final = 1e-4


class HitsNeeded(NamedTuple):
    """The fewest hits by the exact tail, and what two forms of Chernoff's bound ask for."""

    exact: int
    chernoff: int
    simple: int


def hits_needed(*, overhead: Number, delta: Number, q: Number) -> HitsNeeded:
    """The fewest hits tau after which more than `(1 + overhead) tau/q` calls were paid with probability delta only.

    The overhead is the alpha of [TCT] Theorem B.4, delta its d*. *Simple* is `2 (1+a) ln(1/delta)/a^2`, *chernoff*
    `ln(1/delta)/(a - ln(1+a))`; *exact* is the least number at which this many calls, each hitting with q, bring fewer
    hits with probability delta at most. Calls are whole, so a few larger numbers may miss it by a hair.

    Errors: `InvalidParameter` for an overhead below 1e-4, a delta below 1e-300 and a q outside (0, 1].

    >>> hits_needed(overhead="0.5", delta="1e-6", q="0.5")
    HitsNeeded(exact=65, chernoff=147, simple=166)
    """
    part = float(positive(overhead, "overhead"))
    if part < LEAST_OVERHEAD:
        raise InvalidParameter(f"overhead must be at least {LEAST_OVERHEAD:g}, such as 0.5")
    asked = WantedTotal.of(1, 1, delta, q)
    log = -math.log(asked.delta)
    simple, chernoff = 2 * (1 + part) * log / part**2, log / (part - math.log1p(part))

    def kept(hits: int, whole_calls: bool) -> bool:
        calls = (1 + part) * hits / asked.q
        missed = scipy.special.betaincc(hits, (math.floor(calls) if whole_calls else calls) - hits + 1, asked.q)
        return float(missed) * (1 + TAIL) <= asked.delta

    high = numerics.least(lambda number: kept(number, False), 0, math.ceil(simple))
    while not kept(high, True):
        high += 1
    return HitsNeeded(high, math.ceil(chernoff), math.ceil(simple))


# What no accountant can charge less for: one-shot selection of the best of many private candidates.

MOST_CANDIDATES: Final = 5000
# Each test errs by less than 1e-15 of what it finds; the root is backed by more than all of that together.
_BACK: Final = 1 - 1e-9
_CLOSE: Final = 1 + 1e-9
# Where delta alone covers all candidates every halving finds less, and the floor is 0.
_HALVINGS: Final = 1000
# Beyond that many steps on the other side of the diagonal a series gains nothing: values there only stay too small.
_AROUND: Final = 200


def one_shot_floor_down(*, epsilon_per_call: Number, candidates: int, delta: Number) -> float:
    """The total epsilon below which no accountant can put one-shot top-1 among this many epsilon-DP candidates.

    Candidates that answer by randomized response, with scores in an order known before, stop at the first that scores:
    exactly a series of tests that ends at its first hit. This is the least total at `delta` for the worst series of
    that length, rounded down. It rises with the number of candidates to `exact_total` for one hit; without a delta
    nothing below `candidates epsilon_per_call` holds, since all may miss ([TCT] section 1).

    Errors: `InvalidParameter` for more than 5,000 candidates.

    >>> [round(one_shot_floor_down(epsilon_per_call="0.1", candidates=m, delta="1e-6"), 3) for m in (1, 10, 100, 5000)]
    [0.1, 0.999, 1.731, 1.731]
    """
    asked, many = WantedTotal.of(epsilon_per_call, 1, delta), whole(candidates, "candidates")
    if many > MOST_CANDIDATES:
        raise InvalidParameter(f"the lower bound is computed for at most {MOST_CANDIDATES} candidates")
    one_hit = exact_total(epsilon_per_call=epsilon_per_call, hits=1, delta=delta)

    def beyond(total: float) -> bool:
        return _worst(asked.epsilon, many, total) > asked.delta

    return _BACK * numerics.largest(beyond, 0.0, min(asked.epsilon * many, one_hit), ratio=_CLOSE, times=_HALVINGS)


def _worst(epsilon: float, tests: int, total: float) -> float:
    """The delta of the worst series of randomized responses that ends at its first hit, at this total epsilon.

    `value[k]` is the largest sum of `(P0 - y P1)+` over what is still to come, for `y = e^(total + k epsilon)`.
    """
    p, reach = 1 / (1 + math.exp(-epsilon)), min(tests, math.ceil(total / epsilon) + _AROUND)
    y = np.exp(np.minimum(total + epsilon * np.arange(-reach - 1, reach + 2), 700.0))
    value, likely, rare = np.maximum(1 - y, 0), np.maximum(p - (1 - p) * y, 0), np.maximum(1 - p - p * y, 0)
    for _ in range(tests):
        down, up = p * value[:-2] + rare[1:-1], (1 - p) * value[2:] + likely[1:-1]
        found = np.maximum(value[1:-1], np.maximum(down, up))
        if np.all(found <= value[1:-1] * (1 + 1e-15)):
            break
        value[1:-1] = found
    return float(value[reach + 1])


# Planning: of total epsilon, delta, hits and epsilon per call, name three and get the fourth (exact curve).

# A part in a billion: finer than any figure is told, coarser than the rounding of the curve that is searched.
PRECISION = Fraction(1, 10**9)


@dataclass(frozen=True)
class Plan:
    """A budget that fits: `hits` hits of epsilon_per_call-DP calls cost at most (epsilon, delta); misses are free."""

    epsilon: float
    delta: float
    hits: int
    epsilon_per_call: float

    def as_dict(self) -> dict[str, float]:
        """The four figures by name."""
        return asdict(self)


def plan(
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    hits: int | None = None,
    epsilon_per_call: Number | None = None,
) -> Plan:
    """Solve for the one figure that is missing; what is solved for is rounded so that the plan fits.

    Errors: `InvalidParameter` unless exactly three are given, and when nothing fits. For two given figures see
    `trade_offs`.

    >>> plan(delta=1e-6, hits=20, epsilon_per_call=0.1).epsilon
    4.2941...
    >>> plan(epsilon=1, delta=1e-6, epsilon_per_call=0.02).hits
    45
    """
    given = {"epsilon": epsilon, "delta": delta, "hits": hits, "epsilon_per_call": epsilon_per_call}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        raise InvalidParameter(
            "give exactly three of epsilon, delta, hits and epsilon_per_call, such as "
            "plan(epsilon=1, delta=1e-6, hits=50)"
        )
    known = {name: Fraction(_CHECKS[name](value, name)) for name, value in given.items() if value is not None}
    found = _SOLVERS[missing[0]](**known)
    full = known | {missing[0]: found}
    return Plan(float(full["epsilon"]), float(full["delta"]), int(full["hits"]), float(full["epsilon_per_call"]))


# Evenly spread in logarithms, as on any chart's axis; nothing else rests on them.
USUAL_HITS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def trade_offs(*, epsilon: Number, delta: Number, hits: tuple[int, ...] = USUAL_HITS) -> list[Plan]:
    """For a total budget, how large each call may be for several numbers of hits.

    >>> [p.hits for p in trade_offs(epsilon=1, delta=1e-6, hits=(1, 10))]
    [1, 10]
    """
    return [plan(epsilon=epsilon, delta=delta, hits=count) for count in hits]


def _epsilon(*, delta: Fraction, hits: Fraction, epsilon_per_call: Fraction) -> Fraction:
    return Fraction(exact_total(epsilon_per_call=epsilon_per_call, hits=int(hits), delta=delta))


def _delta(*, epsilon: Fraction, hits: Fraction, epsilon_per_call: Fraction) -> Fraction:
    return Fraction(exact_delta(epsilon_per_call=epsilon_per_call, hits=int(hits), epsilon=epsilon))


def _hits(*, epsilon: Fraction, delta: Fraction, epsilon_per_call: Fraction) -> Fraction:
    def fits(hits: int) -> bool:
        return _fits(epsilon, delta, hits, epsilon_per_call)

    if not fits(1):
        largest = _largest_call(epsilon=epsilon, delta=delta, hits=Fraction(1))
        raise InvalidParameter(
            f"calls of epsilon {plain(epsilon_per_call)} do not fit into ({plain(epsilon)}, {plain(delta)}) even once; "
            f"the largest that does is {plain(largest)}"
        )
    return Fraction(_last(fits))


def _fits(epsilon: Fraction, delta: Fraction, hits: int, epsilon_per_call: Fraction) -> bool:
    """Whether `exact_total` is at most epsilon, from two values of the curve instead of a search along it."""
    return exact_delta(epsilon_per_call=epsilon_per_call, hits=hits, epsilon=epsilon) <= composition.failing_down(delta)


def _last(fits: Callable[[int], bool]) -> int:
    """The last integer that fits, 1 being one of them."""
    low, high = 1, 2
    while fits(high):
        if high == MOST_HITS:
            raise InvalidParameter(
                f"more than {MOST_HITS} hits fit, the most that the exact curve is worked out for: give hits= and "
                "leave out another figure"
            )
        low, high = high, min(2 * high, MOST_HITS)
    return numerics.largest(fits, low, high)


def _largest_call(*, epsilon: Fraction, delta: Fraction, hits: Fraction) -> Fraction:
    """The largest epsilon per call whose exact total fits, to nine digits, never above."""

    def fits(size: Fraction) -> bool:
        return _fits(epsilon, delta, int(hits), size)

    def middle(low: Fraction, high: Fraction) -> Fraction:
        return Fraction(float((low + high) / 2))

    high = min(epsilon, Fraction(composition.LARGEST_EPSILON))
    high, low = numerics.doubled(fits, high, high / 2, times=Fraction(1, 2))
    return numerics.largest(fits, low, high, middle=middle, ratio=1 + PRECISION)


_CHECKS: Final[dict[str, Callable[..., Any]]] = {
    "epsilon": positive,
    "delta": probability,
    "hits": whole,
    "epsilon_per_call": positive,
}
_SOLVERS: Final[dict[str, Callable[..., Any]]] = {
    "epsilon": _epsilon,
    "delta": _delta,
    "hits": _hits,
    "epsilon_per_call": _largest_call,
}


# What target charging costs by the published theorem and by its exact tail (theory 1.2).

# Numbers of calls are multiplied by epsilons below 1e3: beyond 1e300 a total would overflow.
MOST_CALLS = 1e300
# What the published formula loses in a dozen float operations is below 1e-13; it is rounded up by a hundred times that.
_ROUNDING = 1e-11
# A hundred times the error of SciPy's incomplete beta function (1e-11, see `_missing`): tails are rounded up by it.
TAIL = 1e-9
# The search ends where n is known to a part in 100,000, or to eight: any n is valid, and the total is flat there.
_GOLDEN = (3 - math.sqrt(5)) / 2
_COARSE, _FEW_HITS = 10**5, 8
# Up to here optimal composition takes under 90,000 terms for each n that is tried; beyond it Renyi's costs little more.
LARGEST_VARIANCE = 10**7


@dataclass(frozen=True)
class WantedTotal:
    """The arguments of a calculator of target charging as floats on the safe side."""

    epsilon: float
    hits: int
    delta: float
    q: float

    @classmethod
    def of(cls, epsilon: Number, hits: int, delta: Number, q: Number | None = None) -> "WantedTotal":
        """Checked: an epsilon up to 700, a delta from 1e-300 on, a q up to 1 (None is NotPrior)."""
        size, count, chance = composition.moderate_up(epsilon), whole(hits, "hits"), composition.failing_down(delta)
        if q is None:
            return cls(size, count, chance, not_prior_q(size))
        rate = positive(q, "q")
        if rate > 1:
            raise InvalidParameter("q must be at most 1")
        return cls(size, count, chance, numerics.float_down(rate))


def not_prior_q(epsilon: float) -> float:
    """The q of a NotPrior target of an epsilon-DP call, `1 / (e^epsilon + 1)` ([TCT] Lemma 2.3).

    >>> round(not_prior_q(0.1), 6)
    0.475021
    """
    return 1 / (math.exp(epsilon) + 1)


def published_total(*, epsilon_per_call: Number, hits: int, delta: Number, q: Number | None = None) -> float:
    """[TCT] Theorem B.4: the better of its two forms, delta split in the best way between composition and tail.

    >>> round(published_total(epsilon_per_call=0.1, hits=1, delta=1e-6), 2)
    4.68
    """
    asked = WantedTotal.of(epsilon_per_call, hits, delta, q)
    eps, d = asked.epsilon, asked.delta

    def concentrated(split: float) -> float:
        n = _calls(asked, d / (1 + math.exp(-split)))
        # What is left for composition, d/(1 + e^split), comes out of no difference.
        return eps * (eps * n / 2 + math.sqrt(n) * math.sqrt(2 * (math.log1p(math.exp(split)) - math.log(d))))

    found = scipy.optimize.minimize_scalar(concentrated, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
    return min(float(found.fun), eps * _calls(asked, d)) * (1 + _ROUNDING)


def _calls(asked: WantedTotal, tail: float) -> float:
    """`(1 + a) tau / q` with the a for which `exp(-a^2 tau / (2 (1 + a)))` equals the tail."""
    tau, log = asked.hits, -math.log(tail)
    found = (tau + log + math.sqrt(log * log + 2 * tau * log)) / asked.q
    if not found < MOST_CALLS:
        raise InvalidParameter("too many calls may pass before these hits to give a total: take a larger q")
    return found


def exact_tail_total(*, epsilon_per_call: Number, hits: int, delta: Number, q: Number | None = None) -> float:
    """[TCT] Remark B.5: exact tail of the number of data accesses, composed optimally.

    The accesses until tau hits are dominated by `tau + NegativeBinomial(tau, q)`; any number n of them whose tail is
    below delta gives a valid total, and the least over n is returned. Many more than ten million accesses are composed
    by the best Renyi order, which is a little more.

    >>> round(exact_tail_total(epsilon_per_call=0.1, hits=1, delta=1e-6), 2)
    1.99
    """
    asked = WantedTotal.of(epsilon_per_call, hits, delta, q)
    low = _first_below(asked)
    composed = (
        composition.optimal_total
        if low * composition.spread(asked.epsilon) <= LARGEST_VARIANCE
        else composition.renyi_total
    )

    def total(n: int) -> float:
        left = asked.delta - max(_missing(asked, n) * (1 + TAIL), numerics.SMALLEST)
        return composed(asked.epsilon, n, left) if left > 0 else math.inf

    return _least(total, low, low + max(8, (low - asked.hits) // 2))


def _missing(asked: WantedTotal, calls: int) -> float:
    """The probability that this many calls bring fewer than tau hits, within 1e-11 (compared with sums at 600 bits)."""
    return float(scipy.special.betaincc(asked.hits, calls - asked.hits + 1, asked.q))


def _first_below(asked: WantedTotal) -> int:
    """The least n with fewer than delta of missing tau hits in n accesses."""

    def enough(calls: int) -> bool:
        return _missing(asked, calls) * (1 + TAIL) < asked.delta

    return numerics.least(enough, *numerics.doubled(enough, asked.hits - 1, 2 * math.ceil(asked.hits / asked.q)))


def _least(total: Callable[[int], float], low: int, high: int) -> float:
    """The least value by golden sections, then one by one; any n is valid, so a miss only costs tightness."""
    total = lru_cache(maxsize=None)(total)
    while high - low > max(_FEW_HITS, low // _COARSE):
        part = int((high - low) * _GOLDEN)
        low, high = (low, high - part) if total(low + part) <= total(high - part) else (low + part, high)
    return min(total(n) for n in range(low, high + 1, max(1, (high - low) // _FEW_HITS)))


# The largest epsilon per call by any total of target charging.

# A total may be infinite: no step divides by more than this. Secants stay 1/20 of the way from both ends, so that each
# shortens the bracket even where the function is far from straight.
_FAR: Final = 1e6
_EDGE: Final = 0.05


def charging_size(total: Callable[..., float], *, epsilon: Number, delta: Number, hits: int) -> Fraction:
    """The largest epsilon per call with which `hits` hits fit, by one of the totals of target charging.

    >>> from chary.accounting import published_total
    >>> round(float(charging_size(published_total, epsilon=1, delta=1e-6, hits=50)), 5)
    0.01261
    """
    most = float(positive(epsilon, "epsilon"))

    def reached(size: float) -> float:
        """The total for this size, in units of the budget's epsilon."""
        return total(epsilon_per_call=size, hits=hits, delta=delta) / most

    return Fraction(_where_one(reached, most))


def _where_one(reached: Callable[[float], float], most: float) -> float:
    """Like `largest_size`, for a rising function that is at most 1 where a size fits: by secants of logarithms.

    Every other step halves, and the secants aim a little to the left, where sizes fit.
    """
    high, above = most, reached(most)
    if above <= 1:
        return most
    low, below = most / 2, reached(most / 2)
    while below > 1:
        high, above = low, below
        low /= max(2.0, min(below, _FAR))
        below = reached(low)
    halve = False
    while high > low * numerics.SIZE_RATIO:
        share = 0.5 if halve or not below > 0 else math.log(below) / (math.log(below) - math.log(above))
        middle = low * (high / low) ** min(max(share, _EDGE), 1 - _EDGE)
        found = reached(middle)
        low, below, high, above = (middle, found, high, above) if found <= 1 else (low, below, middle, found)
        halve = not halve
    return low
