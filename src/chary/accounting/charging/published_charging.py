"""What target charging costs by the published theorem and by its exact tail (theory 1.2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import scipy

from chary.accounting.binomial import SMALLEST
from chary.accounting.composition import failing_down, moderate_up, renyi_total
from chary.accounting.optimal_composition import optimal_total, spread
from chary.accounting.rounding import float_down
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, whole

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
    """What a calculator of target charging is asked, as floats on the safe side."""

    epsilon: float
    hits: int
    delta: float
    q: float

    @classmethod
    def of(cls, epsilon: Number, hits: int, delta: Number, q: Number | None = None) -> "WantedTotal":
        """Checked: an epsilon up to 700, a delta from 1e-300 on, a q up to 1 (None is NotPrior)."""
        size, count, chance = moderate_up(epsilon), whole(hits, "hits"), failing_down(delta)
        if q is None:
            return cls(size, count, chance, not_prior_q(size))
        rate = positive(q, "q")
        if rate > 1:
            raise InvalidParameter("q must be at most 1")
        return cls(size, count, chance, float_down(rate))


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
        raise InvalidParameter("so many calls may pass before these hits that no total can be told: take a larger q")
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
    composed = optimal_total if low * spread(asked.epsilon) <= LARGEST_VARIANCE else renyi_total

    def total(n: int) -> float:
        left = asked.delta - max(_missing(asked, n) * (1 + TAIL), SMALLEST)
        return composed(asked.epsilon, n, left) if left > 0 else math.inf

    return _least(total, low, low + max(8, (low - asked.hits) // 2))


def _missing(asked: WantedTotal, calls: int) -> float:
    """The chance that so many calls bring fewer than tau hits, within 1e-11 (compared with sums at 600 bits)."""
    return float(scipy.special.betaincc(asked.hits, calls - asked.hits + 1, asked.q))


def _first_below(asked: WantedTotal) -> int:
    """The least n with fewer than delta of missing tau hits in n accesses."""
    low, high = asked.hits - 1, 2 * math.ceil(asked.hits / asked.q)
    while _missing(asked, high) * (1 + TAIL) >= asked.delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _missing(asked, middle) * (1 + TAIL) >= asked.delta else (low, middle)
    return high


def _least(total: Callable[[int], float], low: int, high: int) -> float:
    """The least value by golden sections, then one by one; any n is valid, so a miss only costs tightness."""
    total = lru_cache(maxsize=None)(total)
    while high - low > max(_FEW_HITS, low // _COARSE):
        part = int((high - low) * _GOLDEN)
        low, high = (low, high - part) if total(low + part) <= total(high - part) else (low + part, high)
    return min(total(n) for n in range(low, high + 1, max(1, (high - low) // _FEW_HITS)))
