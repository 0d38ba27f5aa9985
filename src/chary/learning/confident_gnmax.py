"""Confident-GNMax (Papernot et al. 2018), for comparison: labels on which most teachers agree."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chary.accounting import capacity_down, choose_order, epsilon_up
from chary.errors import InvalidParameter
from chary.learning.losses import Floats
from chary.noise import OperatingSystem, Source, checked_variance, discrete_gaussian
from chary.numbers import Number, exact, positive, probability, set_fields, whole

# Confident-GNMax (Papernot et al. 2018), for comparison: label what most teachers agree on, with Gaussian noise.

Counts = NDArray[np.int64]
# From little above 1 to 2001, 400 of them evenly in logarithms; each gives a bound, so a coarse grid only loosens it.
ORDERS: Floats = 1 + np.geomspace(0.05, 2000, 400)
# Tails are summed over 60 deviations in arrays: with 2**16 these are millions of numbers.
LARGEST_SIGMA = 2**16
Stop = Callable[[NDArray[np.bool_]], tuple[int, float]]


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

    def label(
        self, votes: ArrayLike, *, epsilon: Number, delta: Number, unsafe_noise: Source | None = None
    ) -> ConfidentLabels:
        """Label points in order until the worst case of the next one does not fit into the budget.

        Guarantee: (epsilon, delta)-DP for one vote moved, by zCDP at the best Renyi order: `check_rho` for each point
        asked, `answer_rho` for each label.

        `votes` holds counts, a row for each point and a column for each class. Errors: `InvalidParameter` for votes
        that are no such table, epsilon not positive, delta outside (0, 1).

        >>> found = ConfidentGnmax(60, 100, 40).label([[90, 10]] * 50, epsilon=1, delta=1e-5)
        >>> found.epsilon <= 1, len(found.labels) < 50
        (True, True)
        """
        total, spare = positive(epsilon, "epsilon"), probability(delta, "delta")

        def stop(passed: NDArray[np.bool_]) -> tuple[int, float]:
            order = choose_order(total, spare)
            left = capacity = capacity_down(total, spare, order) / (order * (order - 1))
            asked = 0
            while asked < len(passed) and left >= self.check_rho + self.answer_rho:
                left -= self.check_rho + (self.answer_rho if passed[asked] else 0)
                asked += 1
            return asked, min(float(total), _gaussian_epsilon(capacity - left, spare))

        return self.stopped(checked_votes(votes), stop, unsafe_noise, guaranteed=True)

    def stopped(self, votes: Counts, stop: Stop, source: Source | None, *, guaranteed: bool) -> ConfidentLabels:
        """The labels up to where `stop` says, from which points pass, how many are asked and what that took."""
        passed, winners = self.outcomes(votes, source or OperatingSystem())
        asked, epsilon = stop(passed)
        labels = {point: int(winners[point]) for point in np.flatnonzero(passed[:asked]).tolist()}
        return ConfidentLabels(labels, asked, epsilon, guaranteed)


def _gaussian_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The epsilon of rho-zCDP at delta and the best order of a grid; rounded up, 0 at no cost."""
    if not rho:
        return 0.0
    best = converted(ORDERS * (ORDERS - 1) * float(rho), float(delta)).argmin()
    order = Fraction(float(ORDERS[best]))
    return float(epsilon_up(order * (order - 1) * rho, order, delta))


def checked_votes(votes: ArrayLike) -> Counts:
    """Counts of votes, a row for each point and a column for each class; `InvalidParameter` for anything else."""
    counts = np.asarray(votes)
    if counts.ndim != 2 or counts.shape[1] < 2 or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
        raise InvalidParameter("votes must be a table of integers: a row for each point, a column for each class")
    return counts.astype(np.int64)


def converted(log_moments: Floats, delta: float, orders: Floats = ORDERS) -> Floats:
    """The epsilon that a log-moment gives at each order, the last axis; the least one is the one to take."""
    return log_moments / (orders - 1) + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
