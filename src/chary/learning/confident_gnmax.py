"""Confident-GNMax (Papernot et al. 2018), for comparison: labels on which most teachers agree."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chary.accounting import capacity_down, choose_order, epsilon_up
from chary.errors import InvalidParameter
from chary.noise import OperatingSystem, Source, checked_variance, discrete_gaussian
from chary.numbers import Number, exact, positive, probability, set_fields, whole

# Confident-GNMax (Papernot et al. 2018), for comparison: label what most teachers agree on, with Gaussian noise.

Counts = NDArray[np.int64]
# Tails are summed over 60 deviations in arrays: with 2**16 these are millions of numbers.
LARGEST_SIGMA = 2**16
Stop = Callable[[NDArray[np.bool_]], tuple[int, float]]


@dataclass(frozen=True)
class ConfidentGnmax:
    """Answer a point if `most votes + N(0, sigma_threshold^2) >= threshold`, by the largest `votes + N(0, sigma^2)`.

    The noise is discrete Gaussian, drawn exactly. One unit moves one vote, so the test is `check_rho`-zCDP (the largest
    count changes by one at most) and the answer is `answer_rho`-zCDP (two counts change by one each).

    >>> ConfidentGnmax(60, 40, 20).check_rho, ConfidentGnmax(60, 40, 20).answer_rho
    (Fraction(1, 3200), Fraction(1, 400))
    """

    threshold: int
    sigma_threshold: Number
    sigma: Number

    def __post_init__(self) -> None:
        whole(self.threshold, "threshold", least=0)
        for name in ("sigma_threshold", "sigma"):
            sigma = positive(getattr(self, name), name)
            checked_variance(sigma**2)
            if sigma > LARGEST_SIGMA:
                raise InvalidParameter(f"{name} must be at most {LARGEST_SIGMA}")
            set_fields(self, **{name: sigma})

    @property
    def variances(self) -> tuple[Fraction, Fraction]:
        """Of the test and of the answer."""
        return exact(self.sigma_threshold, "sigma_threshold") ** 2, exact(self.sigma, "sigma") ** 2

    @property
    def check_rho(self) -> Fraction:
        """What every point costs: the test."""
        return 1 / (2 * self.variances[0])

    @property
    def answer_rho(self) -> Fraction:
        """What an answered point costs on top."""
        return 1 / self.variances[1]

    def outcomes(self, votes: Counts, source: Source) -> tuple[NDArray[np.bool_], Counts]:
        """Which points pass the test, and the noisy winner of each (secret where it does not pass)."""
        check, answer = self.variances
        passed = votes.max(axis=1) + discrete_gaussian(source, check, len(votes)) >= self.threshold
        winners = (votes + discrete_gaussian(source, answer, votes.size).reshape(votes.shape)).argmax(axis=1)
        return passed, winners


@dataclass(frozen=True)
class ConfidentLabels:
    """Released labels: point to class number. `asked` points were tested, and `epsilon` is what that took by the
    accounting chosen, which is bookkeeping: the guarantee, where it is `guaranteed`, is the whole budget. Where not,
    the figure depends on the votes.
    """

    labels: dict[int, int]
    asked: int
    epsilon: float
    guaranteed: bool


def label_confident(
    votes: ArrayLike,
    *,
    threshold: int,
    sigma_threshold: Number,
    sigma: Number,
    epsilon: Number,
    delta: Number,
    unsafe_noise: Source | None = None,
) -> ConfidentLabels:
    """Label points in order until the worst case of the next one does not fit into the budget.

    Guarantee: (epsilon, delta)-DP for one vote moved, by zCDP at the best Renyi order: `check_rho` for each point
    asked, `answer_rho` for each label.

    `votes` holds counts, a row for each point and a column for each class. Errors: `InvalidParameter` for votes that
    are no such table, sigmas outside [2**-10, 2**16], epsilon not positive, delta outside (0, 1).

    >>> found = label_confident([[90, 10]] * 50, threshold=60, sigma_threshold=100, sigma=40, epsilon=1, delta=1e-5)
    >>> found.epsilon <= 1, len(found.labels) < 50
    (True, True)
    """
    gnmax = ConfidentGnmax(threshold, sigma_threshold, sigma)
    total, spare = positive(epsilon, "epsilon"), probability(delta, "delta")

    def stop(passed: NDArray[np.bool_]) -> tuple[int, float]:
        order = choose_order(total, spare)
        left = capacity = capacity_down(total, spare, order) / (order * (order - 1))
        asked = 0
        while asked < len(passed) and left >= gnmax.check_rho + gnmax.answer_rho:
            left -= gnmax.check_rho + (gnmax.answer_rho if passed[asked] else 0)
            asked += 1
        return asked, min(float(total), _gaussian_epsilon(capacity - left, spare))

    return _label(gnmax, checked_votes(votes), stop, unsafe_noise, guaranteed=True)


def label_confident_as_reported(
    votes: ArrayLike,
    *,
    threshold: int,
    sigma_threshold: Number,
    sigma: Number,
    epsilon: Number,
    delta: Number,
    unsafe_noise: Source | None = None,
) -> ConfidentLabels:
    """Label points in order until the *data-dependent* cost of the next one does not fit: what papers report.

    NO guarantee: the costs, and so where it stops and the epsilon it returns, are functions of the exact votes. Test
    and answer are both charged by `likely_moments`. Parameters and errors as for `label_confident`.

    >>> found = label_confident_as_reported(
    ...     [[240, 10]] * 50, threshold=150, sigma_threshold=20, sigma=20, epsilon=1, delta=1e-5)
    >>> found.guaranteed, len(found.labels)
    (False, 50)
    """
    gnmax = ConfidentGnmax(threshold, sigma_threshold, sigma)
    total, spare = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    counts = checked_votes(votes)
    checks = likely_moments(log_doubt(counts, threshold, gnmax.variances[0]), float(gnmax.check_rho))
    answers = likely_moments(log_upset(counts, gnmax.variances[1]), float(gnmax.answer_rho))

    def stop(passed: NDArray[np.bool_]) -> tuple[int, float]:
        costs = np.cumsum(checks + answers * passed[:, None], axis=0)
        before = np.vstack([np.zeros(len(ORDERS)), costs])
        fits = converted(before[:-1] + checks + answers, spare).min(axis=1) <= total
        asked = len(passed) if fits.all() else int(fits.argmin())
        return asked, max(0.0, float(converted(before[asked], spare).min())) if asked else 0.0

    return _label(gnmax, counts, stop, unsafe_noise, guaranteed=False)


def _label(
    gnmax: ConfidentGnmax, votes: Counts, stop: Stop, source: Source | None, *, guaranteed: bool
) -> ConfidentLabels:
    passed, winners = gnmax.outcomes(votes, source or OperatingSystem())
    asked, epsilon = stop(passed)
    labels = {point: int(winners[point]) for point in np.flatnonzero(passed[:asked]).tolist()}
    return ConfidentLabels(labels, asked, epsilon, guaranteed)


def _gaussian_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The epsilon of rho-zCDP at delta and the best order of a grid; rounded up, 0 for nothing."""
    if not rho:
        return 0.0
    best = converted(ORDERS * (ORDERS - 1) * float(rho), float(delta)).argmin()
    order = Fraction(float(ORDERS[best]))
    return float(epsilon_up(order * (order - 1) * rho, order, delta))


def checked_votes(votes: ArrayLike) -> Counts:
    """Counts of votes, a row for each point and a column for each class; `InvalidParameter` for anything else."""
    counts = np.asarray(votes)
    if counts.ndim != 2 or counts.shape[1] < 2 or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
        raise InvalidParameter("votes must be a table of whole numbers: a row for each point, a column for each class")
    return counts.astype(np.int64)


# Renyi costs of a noisy vote that depend on the votes: smaller than the worst case, and private themselves.
#
# A log-moment is `(a - 1) * D_a`. All figures here are functions of exact votes; they serve comparison with the
# literature and must not be published, nor decide what is.

Floats = NDArray[np.float64]

# From little above 1 to 2001, 400 of them evenly in logarithms; each gives a bound, so a coarse grid only loosens it.
ORDERS: Floats = 1 + np.geomspace(0.05, 2000, 400)
# A log-probability errs by sums of up to millions of terms in logarithms, far below 1e-9. exp(-60**2/2) is no float.
MARGIN = 1e-9
REACH = 60


def likely_moments(log_q: Floats, rho: float, orders: Floats = ORDERS) -> Floats:
    """Log-moments of a rho-zCDP release one of whose outcomes is likely: a row for each of `log_q`, a column an order.

    `log_q` bounds from above the log-probability of all other outcomes. For neighbours' laws P and Q this bounds
    `ln E_P (P/Q)^(a-1)`, with P the law whose `log_q` is given; it is never above the worst case `a (a-1) rho`.

    Source: Papernot et al. 2018, Theorem 6, at the orders m and m + 1 with q = e^(-m^2 rho), m > 1. The likely outcome
    adds at most `(1-q) A^(a-1)`, A = (1-q) / (1 - e^(-(m-1)^2 rho)), since Q gives the others at most the power in it
    (order m); the others add at most `q B^(a-1)`, B = e^((2m+1) rho), for a <= m + 1 (order m + 1, by Jensen).
    At fixed m the sum grows with q up to its bound if `(1 - 1/m) e^((2m-1) rho) >= 1 + 1/m` and A <= B: where one of
    these fails, the worst case is charged.

    >>> float(likely_moments(np.array([-20.0]), 0.01, np.array([2.0]))[0, 0]) < 2 * 0.01
    True
    """
    worst = orders * (orders - 1) * rho
    surprise = np.maximum(-log_q, 0)[:, None]
    m = np.sqrt(surprise / rho)
    with np.errstate(all="ignore"):
        log_left = np.log1p(-np.exp(-surprise))
        log_a = log_left - np.log1p(-np.exp(-((m - 1) ** 2) * rho))
        log_b = (2 * m + 1) * rho
        value = np.logaddexp(log_left + (orders - 1) * log_a, -surprise + (orders - 1) * log_b)
        grows = (m > 1) & (np.log1p(-1 / m) + (2 * m - 1) * rho >= np.log1p(1 / m)) & (log_a <= log_b)
    bound = np.where(grows & (orders <= m + 1), np.maximum(value, 0) * (1 + MARGIN) + MARGIN**2, np.inf)
    return np.minimum(bound, worst)


def log_upset(votes: Counts, sigma_squared: Fraction) -> Floats:
    """An upper bound of the log-probability that the noisy winner is not the first class of most votes.

    Discrete Gaussian noise on every count; the sum over the other classes of the chance to catch up, ties included.

    >>> bool(log_upset(np.array([[90, 10]]), Fraction(100))[0] < -15)
    True
    """
    best = votes.argmax(axis=1)
    gaps = votes.max(axis=1, keepdims=True) - votes
    logs = _difference_tails(sigma_squared, int(gaps.max(initial=0)))[gaps]
    logs[np.arange(len(votes)), best] = -np.inf
    return np.asarray(np.logaddexp.reduce(logs, axis=1), dtype=np.float64)


def log_doubt(votes: Counts, threshold: int, sigma_squared: Fraction) -> Floats:
    """The log-probability of the less likely outcome of the test `most votes + noise >= threshold`.

    >>> bool(log_doubt(np.array([[90, 10]]), 60, Fraction(100))[0] < -5)
    True
    """
    missing = threshold - votes.max(axis=1)
    steps = np.where(missing > 0, missing, 1 - missing)
    tails = _tails(sigma_squared, int(steps.max(initial=1)))
    return np.asarray(tails[steps], dtype=np.float64)


def converted(log_moments: Floats, delta: float, orders: Floats = ORDERS) -> Floats:
    """The epsilon that a log-moment gives at each order, the last axis; the least one is the one to take."""
    return log_moments / (orders - 1) + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)


def _tails(sigma_squared: Fraction, furthest: int) -> Floats:
    """`ln P(X >= g)` for g = 0, ..., furthest and X of the discrete Gaussian law."""
    steps = np.arange(_reach(furthest, sigma_squared))
    return _summed(-(steps**2) / (2 * float(sigma_squared)) - _log_sum(sigma_squared, 0.0))[: furthest + 1]


def _difference_tails(sigma_squared: Fraction, furthest: int) -> Floats:
    """`ln P(X - Y >= g)` for g = 0, ..., furthest and independent X, Y of the discrete Gaussian law.

    All pairs of difference d together weigh `exp(-d^2 / (4 sigma^2))` times a constant for even and one for odd d.
    """
    steps = np.arange(_reach(furthest, 2 * sigma_squared))
    even, odd = (_log_sum(sigma_squared / 2, shift) for shift in (0.0, 0.5))
    logs = np.where(steps % 2 == 0, even, odd) - steps**2 / (4 * float(sigma_squared))
    return _summed(logs - 2 * _log_sum(sigma_squared, 0.0))[: furthest + 1]


def _reach(furthest: int, variance: Fraction) -> int:
    """Steps beyond which nothing adds to a tail at `furthest`: 60 deviations."""
    return furthest + 2 + math.ceil(REACH * math.sqrt(variance))


def _log_sum(variance: Fraction, shift: float) -> float:
    """`ln` of the sum of `exp(-(k - shift)^2 / (2 variance))` over all integers k."""
    reach = _reach(1, variance)
    return float(np.logaddexp.reduce(-((np.arange(-reach, reach + 1) - shift) ** 2) / (2 * float(variance))))


def _summed(logs: Floats) -> Floats:
    """Logs of the sums from each place to the end, with a margin for rounding."""
    return np.asarray(np.logaddexp.accumulate(logs[::-1])[::-1], dtype=np.float64) + MARGIN
