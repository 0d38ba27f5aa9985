"""Composition of k equal epsilon-DP computations by each classical theorem (theory 1.1).

The figures are upper bounds in float64 with a relative margin that covers the rounding.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

MARGIN = 1e-11
LARGEST_TIMES = 10**7


@dataclass(frozen=True)
class Composition:
    """Total epsilon of k epsilon-DP computations at one delta, by each theorem.

    basic: k*epsilon (delta 0); advanced: Dwork-Rothblum-Vadhan; zcdp: through epsilon^2/2-zCDP; renyi: the best order
    of the exact log-moment; optimal: Kairouz-Oh-Viswanath, which nothing valid can undercut.
    """

    basic: float
    advanced: float
    zcdp: float
    renyi: float
    optimal: float

    def as_dict(self) -> dict[str, float]:
        """The five figures by name."""
        return asdict(self)


def compose(*, epsilon: Number, times: int, delta: Number) -> Composition:
    """All five totals for `times` computations that are each epsilon-DP.

    >>> compose(epsilon=0.1, times=100, delta=1e-6).basic
    10.0
    """
    eps, k, d = float(positive(epsilon, "epsilon")), whole(times, "times"), float(probability(delta, "delta"))
    if k > LARGEST_TIMES:
        raise InvalidParameter(f"times must be at most {LARGEST_TIMES}")
    spread = eps * math.sqrt(2 * k * -math.log(d))
    advanced = spread + k * eps * math.expm1(eps) if eps < 700 else math.inf
    return Composition(k * eps, advanced, spread + k * eps**2 / 2, renyi_total(eps, k, d), optimal_total(eps, k, d))


def log_moment(order: float, epsilon: float) -> float:
    """`ln((e^(a eps) + e^((1-a) eps)) / (1 + e^eps))`, stable for tiny and for large arguments.

    >>> log_moment(2, 0.1)
    0.009958...
    """
    if order * epsilon > 30:
        return (order - 1) * epsilon - math.log1p(math.exp(-epsilon)) + math.log1p(math.exp((1 - 2 * order) * epsilon))
    rise = 2 * math.sinh(order * epsilon / 2) * math.sinh((order - 1) * epsilon / 2) / math.cosh(epsilon / 2)
    return math.log1p(rise)


def renyi_total(epsilon: float, times: int, delta: float) -> float:
    """The least over all orders of what k log-moments of randomized response convert to.

    >>> renyi_total(0.1, 100, 1e-6) < compose(epsilon=0.1, times=100, delta=1e-6).zcdp
    True
    """

    def total(x: float) -> float:
        order = 1 + math.exp(x)
        moment = times * log_moment(order, epsilon)
        return moment / (order - 1) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    grid = np.linspace(math.log(1e-6), math.log(1e9 / epsilon), 600)
    best = int(np.argmin([total(x) for x in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = scipy.optimize.minimize_scalar(total, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return max(0.0, min(float(found.fun), total(grid[best]))) * (1 + MARGIN)


def optimal_delta(epsilon: float, times: int, total: float) -> float:
    """The exact delta of k epsilon-DP computations at a total epsilon (Kairouz-Oh-Viswanath).

    >>> optimal_delta(0.1, 1, 0.1)
    0.0
    """
    terms = np.arange(_terms(epsilon, times, total))
    p = 1 / (1 + math.exp(-epsilon))
    gains = scipy.stats.binom.logpmf(terms, times, 1 - p)
    ratio = np.expm1(np.minimum(0.0, total - (times - 2 * terms) * epsilon))
    return float(np.sum(-np.exp(gains) * ratio))


def optimal_total(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon at which k computations are (epsilon, delta)-DP: between the kinks delta is linear in e^eps.

    >>> round(optimal_total(0.1, 1, 1e-9), 6)
    0.1
    """
    target = delta * (1 - MARGIN)
    if optimal_delta(epsilon, times, 0.0) <= target:
        return 0.0
    low, high = 0, times // 2 + 1
    while high - low > 1:
        middle = (low + high) // 2
        kink = (times - 2 * middle) * epsilon
        low, high = (middle, high) if kink > 0 and optimal_delta(epsilon, times, kink) <= target else (low, middle)
    return max(0.0, _between_kinks(epsilon, times, low, target)) * (1 + MARGIN)


def _between_kinks(epsilon: float, times: int, last: int, target: float) -> float:
    """Solve `P(i <= last) - e^x Q(i <= last) = target` relative to the kink just above, where the last term is 0."""
    terms = np.arange(last + 1)
    p = 1 / (1 + math.exp(-epsilon))
    kink = (times - 2 * last) * epsilon
    gains = np.exp(scipy.stats.binom.logpmf(terms, times, 1 - p))
    shifted = gains * np.exp(2.0 * (terms - last) * epsilon)
    missing = target - optimal_delta(epsilon, times, kink)
    return kink + math.log1p(-min(missing / float(np.sum(shifted)), 1 - 1e-300))


def _terms(epsilon: float, times: int, total: float) -> int:
    """How many i have `(k - i) eps > total + i eps`."""
    return max(0, min(times, math.ceil((times - total / epsilon) / 2)) + 1)


def convex_upper(deltas: NDArray[np.float64], step: float, delta: float) -> float:
    """The epsilon at which a decreasing curve sampled at 0, step, 2*step, ... passes `delta`.

    A privacy curve is convex in e^epsilon, so interpolating linearly in e^epsilon between samples rounds up.

    >>> convex_upper(np.array([0.5, 0.1, 0.0]), 1.0, 0.1)
    1.0
    """
    index = int(np.argmax(deltas <= delta))
    if index == 0:
        return 0.0
    share = (deltas[index - 1] - delta) / (deltas[index - 1] - deltas[index])
    return (index - 1) * step + math.log1p(share * math.expm1(step))
