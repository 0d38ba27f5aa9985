"""What else bounds selection with Gaussian noise: published figures for comparison (theory 1.5 and 5).

Sessions do not use them. They are upper bounds up to float rounding.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import scipy

from chary.accounting.gaussian.gaussian_curve import gaussian_delta
from chary.errors import BudgetRefused, InvalidParameter
from chary.numbers import Number, exact, plain, positive, probability, whole

# Logarithms of the order minus 1, from 1e-4 to 9e6; every order gives a bound.
_ORDERS: Final = (-9.0, 16.0)
# The weight of one of the 24,001 nodes on [-60, 60], as a logarithm; the density falls below floats at both ends.
_STEP: Final = math.log(0.005 / math.sqrt(2 * math.pi))


def post_processed_epsilon(*, queries: int, sensitivity: Number, noise: Number, delta: Number) -> float:
    """Epsilon of noisy max or above threshold as post-processing of all noisy queries: sensitivity D sqrt(queries).

    The exact curve of Gaussian noise, solved for epsilon; 0 where delta alone covers it.

    >>> post_processed_epsilon(queries=100, sensitivity=0.001, noise=0.1, delta=1e-6)
    0.3968...
    """
    ratio = float(positive(sensitivity, "sensitivity") / positive(noise, "noise")) * math.sqrt(
        whole(queries, "queries")
    )
    target = float(probability(delta, "delta"))

    def excess(log_epsilon: float) -> float:
        return gaussian_delta(epsilon=math.exp(log_epsilon), sensitivity=ratio, sigma=1) - target

    low, high = math.log(1e-9 * ratio), math.log(1e-9 * ratio)
    if excess(low) <= 0:
        return 0.0
    while excess(high) > 0:
        high += 1
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-12)) * (1 + 1e-10)


def zhu_wang_epsilon(
    *, steps: int, sensitivity: Number, threshold_noise: Number, query_noise: Number, delta: Number
) -> float:
    """Zhu and Wang (2020), general form: at most `steps` queries of above threshold, at the best order.

    `D_a <= a D^2/(2 s_T^2) + 2 a D^2/s_Q^2 + ln(steps)/(a - 1)`: their theorem with the largest value in
    place of a moment of the stopping time.

    >>> zhu_wang_epsilon(steps=100, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, delta=1e-6)
    0.0738...
    """
    bar, query = _ratios(sensitivity, threshold_noise, query_noise)
    stop = math.log(whole(steps, "steps"))
    return _best(lambda less: (1 + less) * (bar / 2 + 2 * query) + stop / less, delta)


def zhu_wang_nonnegative_epsilon(
    *, sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, delta: Number
) -> float:
    """Zhu and Wang (2020) for queries that are never negative; any number of queries, at the best order.

    `D_a <= a D^2/s_T^2 + 2 a D^2/s_Q^2 + ln(1 + 2 sqrt(3) pi (1 + 9 r^2/s_T^2) e^(r^2/s_T^2)) / (2 (a - 1))`, r the
    threshold. Errors: `InvalidParameter` unless s_Q >= sqrt(3) s_T and r >= 0. The argument of the logarithm should
    bound the second moment of the mean stopping time given the threshold's noise; for r below 0.4 s_T and s_Q =
    sqrt(3) s_T it is up to a fifth too small, so `nonnegative_epsilon` is the figure to rely on.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.1 * 3**0.5 * 1.000001)
    >>> zhu_wang_nonnegative_epsilon(sensitivity=0.001, **noise, threshold=0.1, delta=1e-6)
    0.0823...
    """
    bar, query = _ratios(sensitivity, threshold_noise, query_noise)
    distance = float(exact(threshold, "threshold") / positive(threshold_noise, "threshold_noise"))
    _check_noises(bar, query)
    if distance < 0:
        raise InvalidParameter("this bound needs a threshold of at least 0")
    factor = math.log(2 * math.sqrt(3) * math.pi * (1 + 9 * distance**2)) + distance**2
    stop = float(np.logaddexp(0, factor)) / 2
    return _best(lambda less: (1 + less) * (bar + 2 * query) + stop / less, delta)


def nonnegative_epsilon(
    *, sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, delta: Number
) -> float:
    """The bound for queries that are never negative with the moment itself (ours); s_Q must be at least sqrt(3) s_T.

    `D_a <= (2a - 1) D^2/(2 s_T^2) + 2 a D^2/s_Q^2 + ln(E Phi(-(r + s_T z)/s_Q)^-2) / (2 (a - 1))`. Proof: moving the
    threshold along with the neighbours leaves the misses likelier and the hit at most 2D away. So the moment of order a
    is at most `e^(2a(a-1)D^2/s_Q^2) E[(f/f')^(a-1) K(z)]`, f and f' the densities of the threshold and the moved one,
    and K the mean stopping time given it, at most 1/Phi(-(r + s_T z)/s_Q); then Cauchy and Schwarz.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.18)
    >>> nonnegative_epsilon(sensitivity=0.001, **noise, threshold=0.1, delta=1e-6)
    0.0788...
    """
    bar, query = _ratios(sensitivity, threshold_noise, query_noise)
    _check_noises(bar, query)
    scale = positive(threshold_noise, "threshold_noise")
    ratio, distance = float(positive(query_noise, "query_noise") / scale), float(exact(threshold, "threshold") / scale)
    z = np.linspace(-60, 60, 24001) + 2 * max(distance, 0) / (ratio**2 - 2)
    moment = float(np.logaddexp.reduce(-2 * scipy.special.log_ndtr(-(distance + z) / ratio) - z * z / 2)) + _STEP
    return _best(lambda less: (0.5 + less) * bar + (1 + less) * 2 * query + moment / (2 * less), delta)


def whitehouse_filter_epsilon(epsilons: Sequence[Number], *, delta: Number) -> float:
    """Total epsilon of the (epsilon, delta) filter of Rogers, Whitehouse and others for adaptive epsilon_i-DP calls.

    `sqrt(2 ln(1/delta) sum e_i^2) + sum e_i (exp(e_i) - 1)/(exp(e_i) + 1)`; deltas of the calls come on top of `delta`.

    >>> whitehouse_filter_epsilon([0.1] * 50, delta=1e-6)
    3.96...
    """
    sizes = np.array([float(positive(epsilon, "epsilon")) for epsilon in epsilons])
    spread = -2 * math.log(float(probability(delta, "delta"))) * float(sizes @ sizes)
    return math.sqrt(spread) + float(sizes @ np.tanh(sizes / 2))


@dataclass(frozen=True)
class FilteredSelfReporting:
    """Filtered self-reporting composition ([GAUSS] Algorithm 4), with the deltas of all runs added.

    Runs are (epsilon_i, delta_i)-pDP and report their loss afterwards. A run starts if what was reported and its
    epsilon_i fit into `epsilon` and the deltas of all runs into `delta`; together they are (epsilon, delta)-DP. As
    published one delta is counted for all, which does not hold: which run is the last depends on what was reported.

    >>> account = FilteredSelfReporting(epsilon=1, delta=1e-6).start("0.5", "1e-7").report("0.01")
    >>> float(account.spent), float(account.failing)
    (0.01, 1e-07)
    """

    epsilon: Number
    delta: Number
    spent: Fraction = Fraction(0)
    failing: Fraction = Fraction(0)
    reserved: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))

    def start(self, epsilon: Number, delta: Number) -> "FilteredSelfReporting":
        """The account while an (epsilon, delta)-pDP run is on its way; `BudgetRefused` where it does not fit."""
        size, failing = positive(epsilon, "epsilon"), self.failing + exact(delta, "delta")
        if self.reserved or self.spent + size > Fraction(self.epsilon) or failing > Fraction(self.delta):
            raise BudgetRefused(f"a run of epsilon {plain(size)} does not fit into what is left")
        return replace(self, reserved=size, failing=failing)

    def report(self, loss: Number) -> "FilteredSelfReporting":
        """The account after the run reported what it lost."""
        return replace(self, reserved=Fraction(0), spent=self.spent + exact(loss, "loss"))


def _ratios(sensitivity: Number, threshold_noise: Number, query_noise: Number) -> tuple[float, float]:
    """`D^2/s_T^2` and `D^2/s_Q^2`."""
    moved = positive(sensitivity, "sensitivity")
    bar, query = positive(threshold_noise, "threshold_noise"), positive(query_noise, "query_noise")
    return float(moved / bar) ** 2, float(moved / query) ** 2


def _check_noises(bar: float, query: float) -> None:
    if query > bar / 3 * (1 + 1e-12):
        raise InvalidParameter("this bound needs query_noise of at least sqrt(3) threshold_noise")


def _best(divergence: Callable[[float], float], delta: Number) -> float:
    """Epsilon at the best order 1 + less, by the conversion of theory 1.1; never below 0."""
    target = math.log(float(probability(delta, "delta")))

    def total(log_less: float) -> float:
        less = math.exp(log_less)
        return divergence(less) + math.log(less / (1 + less)) - (target + math.log1p(less)) / less

    return max(
        0.0, float(scipy.optimize.minimize_scalar(total, bounds=_ORDERS, method="bounded", options={"xatol": 1e-9}).fun)
    )
