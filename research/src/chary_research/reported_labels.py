"""Confident-GNMax with the data-dependent costs that papers report: smaller than the worst case, and no guarantee."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chary.learning.losses import Floats
from chary.learning.pate_labels import ORDERS, ConfidentGnmax, ConfidentLabels, Counts, checked_votes, converted
from chary.noise import Source
from chary.numbers import Number, positive, probability


def label_as_reported(
    gnmax: ConfidentGnmax, votes: ArrayLike, *, epsilon: Number, delta: Number, unsafe_noise: Source | None = None
) -> ConfidentLabels:
    """Label points in order until the *data-dependent* cost of the next one does not fit: what papers report.

    NO guarantee: the costs, and so where it stops and the epsilon it returns, are functions of the exact votes. Test
    and answer are both charged by `likely_moments`. Parameters and errors as for `ConfidentGnmax.label`.

    >>> found = label_as_reported(ConfidentGnmax(150, 20, 20), [[240, 10]] * 50, epsilon=1, delta=1e-5)
    >>> found.guaranteed, len(found.labels)
    (False, 50)
    """
    total, spare = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    counts = checked_votes(votes)
    checks = likely_moments(log_doubt(counts, gnmax.threshold, gnmax.variances[0]), float(gnmax.check_rho))
    answers = likely_moments(log_upset(counts, gnmax.variances[1]), float(gnmax.answer_rho))

    def stop(passed: NDArray[np.bool_]) -> tuple[int, float]:
        costs = np.cumsum(checks + answers * passed[:, None], axis=0)
        before = np.vstack([np.zeros(len(ORDERS)), costs])
        fits = converted(before[:-1] + checks + answers, spare).min(axis=1) <= total
        asked = len(passed) if fits.all() else int(fits.argmin())
        return asked, max(0.0, float(converted(before[asked], spare).min())) if asked else 0.0

    return gnmax.stopped(counts, stop, unsafe_noise, guaranteed=False)


# Renyi costs of a noisy vote that depend on the votes: smaller than the worst case, and private themselves.
#
# A log-moment is `(a - 1) * D_a`. All figures here are functions of exact votes; they serve comparison with the
# literature and must not be published, nor decide what is.

# A log-probability errs by sums of up to millions of terms in logarithms, far below 1e-9. exp(-60**2/2) is no float.
MARGIN = 1e-9
REACH = 60


def likely_moments(log_q: Floats, rho: float, orders: Floats = ORDERS) -> Floats:
    """Log-moments of a rho-zCDP release one of whose outcomes is likely: a row for each of `log_q`, a column an order.

    `log_q` bounds from above the log-probability of all other outcomes. For neighbours' distributions P and Q this
    bounds `ln E_P (P/Q)^(a-1)`, with P the distribution whose `log_q` is given; it is never above the worst case `a
    (a-1) rho`.

    Source: Papernot et al. 2018, Theorem 6, at the orders m and m + 1 with q = e^(-m^2 rho), m > 1. The likely outcome
    adds at most `(1-q) A^(a-1)`, A = (1-q) / (1 - e^(-(m-1)^2 rho)), since Q gives the others at most the power in it
    (order m). The others add at most `q B^(a-1)`, B = e^((2m+1) rho), for a <= m + 1 (order m + 1, by Jensen). At fixed
    m the sum grows with q up to its bound if `(1 - 1/m) e^((2m-1) rho) >= 1 + 1/m` and A <= B. Where one of these
    fails, the worst case is charged.

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

    Discrete Gaussian noise on every count; the sum over the other classes of the probability to catch up, ties
    included.

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


def _tails(sigma_squared: Fraction, furthest: int) -> Floats:
    """`ln P(X >= g)` for g = 0, ..., furthest and X of the discrete Gaussian distribution."""
    steps = np.arange(_reach(furthest, sigma_squared))
    return _summed(-(steps**2) / (2 * float(sigma_squared)) - _log_sum(sigma_squared, 0.0))[: furthest + 1]


def _difference_tails(sigma_squared: Fraction, furthest: int) -> Floats:
    """`ln P(X - Y >= g)` for g = 0, ..., furthest and independent X, Y of the discrete Gaussian distribution.

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
