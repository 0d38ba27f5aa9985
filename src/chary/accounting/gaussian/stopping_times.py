"""Runs of above threshold with Gaussian noise by the law of their stopping time, and losses that hold but for a delta.

A mechanism is (epsilon, delta)-pDP if its loss exceeds epsilon with probability at most delta ([GAUSS] Definition 3).
By Markov a divergence D of order a gives `epsilon = D + ln(1/delta)/(a - 1)`.

**Zhu and Wang with a law.** As in `run_moments`, at a noise v of the bar misses are no likelier under the first
neighbour, and each test has moment at most `e^(2a(a-1)D^2/s_Q^2)`, so all of them together at most that times the mean
number T of tests given v. Hoelder with any g > 1 and Jensen make of it
`(a - 1) D_a <= 2a(a-1)D^2/s_Q^2 + a (a g/(g-1) - 1) D^2/(2 s_T^2) + ln(E T^g)/g`: g = infinity takes the largest T. The
law of T must hold for all data, such as that of values that never come near the threshold.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from chary.accounting.gaussian.run_moments import Floats, run_moments_up
from chary.accounting.log_moments import capacity_down
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# Orders minus 1, and Hoelder's exponents minus 1; every one of them gives a bound, infinity that of the largest time.
_ORDERS: Final = np.geomspace(0.05, 5000, 120)
_EXPONENTS: Final = np.append(np.geomspace(0.02, 100, 60), np.inf)
# An order of ours takes some 30 ms, so few are tried.
_WIDE: Final = np.geomspace(0.5, 5000, 14).tolist()
# More than all roundings of the short formulas here.
_UP: Final = 1 + 1e-10


def stopping_pdp_epsilon(
    stopping: Mapping[int, float], *, sensitivity: Number, threshold_noise: Number, query_noise: Number, delta: Number
) -> float:
    """The epsilon for which a run whose number of tests has this law is (epsilon, delta)-pDP (Zhu and Wang).

    `stopping` has the probability of each number of tests, which add up to 1.

    >>> noise = dict(sensitivity="0.001", threshold_noise="0.1", query_noise="0.1733", delta=1e-6)
    >>> rarely, most = {1: 0.5, 10: 0.5 - 1e-9, 10**6: 1e-9}, {10**6: 1}
    >>> stopping_pdp_epsilon(rarely, **noise), stopping_pdp_epsilon(most, **noise)
    (0.107..., 0.113...)
    """
    moved = positive(sensitivity, "sensitivity")
    bar = float(moved / positive(threshold_noise, "threshold_noise")) ** 2
    query = float(moved / positive(query_noise, "query_noise")) ** 2
    counts = np.log([float(whole(count, "stopping")) for count in stopping])
    chances = np.array([float(chance) for chance in stopping.values()])
    if not len(counts) or (chances <= 0).any() or not math.isclose(chances.sum(), 1, rel_tol=1e-9):
        raise InvalidParameter("stopping has a positive probability for each number of tests, 1 in all")
    with np.errstate(over="ignore", invalid="ignore"):
        moments = [_mean_log(counts, np.log(chances), 1 + more) for more in _EXPONENTS.tolist()]
    order, conjugate = 1 + _ORDERS[:, np.newaxis], np.append(1 + 1 / _EXPONENTS[:-1], 1.0)
    divergence = 2 * order * (order - 1) * query + order * (order * conjugate - 1) * bar / 2 + np.array(moments)
    return float(((divergence - math.log(float(probability(delta, "delta")))) / (order - 1)).min()) * _UP


def run_pdp_epsilon_up(
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    delta: Number,
    low: Number = 0,
) -> float:
    """The same for a run of any number of tests of values that are at least `low` (ours), rounded up.

    Errors: `InvalidParameter` where the noise is too small for any order.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> run_pdp_epsilon_up(sensitivity="0.001", **noise, delta=1e-6)
    0.112...
    """
    target = -math.log(float(probability(delta, "delta")))
    noise = {"threshold_noise": threshold_noise, "query_noise": query_noise, "threshold": threshold, "low": low}

    def at(less: float) -> float:
        found = run_moments_up(1 + less, sensitivity=sensitivity, **noise)
        return math.inf if found is None else (found.whole + target) / less

    best = _least(at)
    if best == math.inf:
        raise InvalidParameter("the noise is too small for a bound without a largest number of tests")
    return best * _UP


def runs_within(
    epsilon: Number,
    delta: Number,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
) -> int:
    """How many runs, of any numbers of tests, are (epsilon, delta)-DP together (ours), at the best order.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> runs_within(1, 1e-6, sensitivity="0.001", **noise)
    46
    """
    size, failure = positive(epsilon, "epsilon"), probability(delta, "delta")
    noise = {"threshold_noise": threshold_noise, "query_noise": query_noise, "threshold": threshold, "low": low}

    def fitting(less: float) -> float:
        order = 1 + Fraction(less)
        found = run_moments_up(order, sensitivity=sensitivity, **noise)
        room = capacity_down(size, failure, order)
        return 0.0 if found is None or room <= 0 else -float(room / Fraction(found.whole))

    return math.floor(-_least(fitting))


def _least(cost: Callable[[float], float]) -> float:
    """The least over a grid of orders minus 1, and once more around the best."""
    wide = [cost(less) for less in _WIDE]
    best = int(np.argmin(wide))
    near = np.geomspace(_WIDE[max(best - 1, 0)], _WIDE[min(best + 1, len(_WIDE) - 1)], 9)
    return min(*wide, *(cost(less) for less in near.tolist()))


def _mean_log(logs: Floats, chances: Floats, exponent: float) -> float:
    """`ln(E T^g)/g`."""
    if exponent == math.inf:
        return float(logs.max())
    return float(np.logaddexp.reduce(exponent * logs + chances)) / exponent
