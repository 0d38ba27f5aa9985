"""What target charging costs by the published theorem and by its exact tail (theory 1.2)."""

import math
from collections.abc import Callable

import scipy

from chary.accounting.composition import optimal_total
from chary.numbers import Number, positive, probability, whole


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
    eps, tau, d = float(positive(epsilon_per_call, "epsilon")), whole(hits, "hits"), float(probability(delta, "delta"))
    rate = not_prior_q(eps) if q is None else float(positive(q, "q"))

    def concentrated(split: float) -> float:
        tail = d / (1 + math.exp(-split))
        n = _calls(tau, rate, tail)
        return eps**2 * n / 2 + eps * math.sqrt(2 * n * -math.log(d - tail))

    found = scipy.optimize.minimize_scalar(concentrated, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
    return min(float(found.fun), eps * _calls(tau, rate, d))


def _calls(tau: int, q: float, tail: float) -> float:
    """`(1 + a) tau / q` with the a for which `exp(-a^2 tau / (2 (1 + a)))` equals the tail."""
    log = -math.log(tail)
    return (tau + log + math.sqrt(log * log + 2 * tau * log)) / q


def exact_tail_total(*, epsilon_per_call: Number, hits: int, delta: Number, q: Number | None = None) -> float:
    """[TCT] Remark B.5: exact tail of the number of data accesses, composed optimally.

    The accesses until tau hits are dominated by `tau + NegativeBinomial(tau, q)`; any number n of them whose tail is
    below delta gives a valid total, and the least over n is returned.

    >>> round(exact_tail_total(epsilon_per_call=0.1, hits=1, delta=1e-6), 2)
    1.99
    """
    eps, tau, d = float(positive(epsilon_per_call, "epsilon")), whole(hits, "hits"), float(probability(delta, "delta"))
    rate = not_prior_q(eps) if q is None else float(positive(q, "q"))

    def total(n: int) -> float:
        left = d - float(scipy.stats.binom.cdf(tau - 1, n, rate)) * (1 + 1e-9)
        return optimal_total(eps, n, left) if left > 0 else math.inf

    low = _first_below(tau, rate, d)
    return _least(total, low, low + max(8, (low - tau) // 2))


def _first_below(tau: int, q: float, delta: float) -> int:
    """The least n with fewer than delta of missing tau hits in n accesses."""
    low, high = tau - 1, 2 * tau
    while scipy.stats.binom.cdf(tau - 1, high, q) >= delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if scipy.stats.binom.cdf(tau - 1, middle, q) >= delta else (low, middle)
    return high


def _least(total: Callable[[int], float], low: int, high: int) -> float:
    """The least value on a grid of n refined around its best point; any n is valid, so a miss only costs tightness."""
    while True:
        stride = max(1, (high - low) // 16)
        values = {n: total(n) for n in range(low, high + 1, stride)}
        best = min(values, key=lambda n: values[n])
        if stride == 1:
            return float(values[best])
        low, high = max(low, best - stride), best + stride
