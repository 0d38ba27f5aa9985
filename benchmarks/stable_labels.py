"""Peers that label by votes which nobody could turn over alone: distance to instability, in floats.

One voter moves one vote, so the lead of the first option changes by two at most. `distance` is how many voters must
change before a neighbour has another label; it changes by one, and where it is positive all neighbours have the label.

*Privacy of all three.* Let no question of distance 0 pass, but for a chance of delta/2. What is published is then
a function of which questions pass, and of labels that both neighbours have; which pass is (epsilon, delta/2)-DP. Hence
P(S) <= e^epsilon P'(S) + delta/2 + delta/2.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from chary.accounting import gaussian_sigma
from chary.accounting.composition import optimal_total

Votes = NDArray[np.int64]
Floats = NDArray[np.float64]
NONE = -1


def distance(votes: Votes) -> Votes:
    """How many voters must change so that one more could turn the label over; a row for each question."""
    ordered = np.sort(votes, axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    return np.maximum(0, (lead + 1) // 2 - 1)


def winners(votes: Votes) -> Votes:
    """The first option of most votes."""
    found: Votes = votes.argmax(axis=1)
    return found


@dataclass(frozen=True)
class Promise:
    """What all labels of `questions` questions together must keep."""

    epsilon: float
    delta: float
    questions: int

    @property
    def failure(self) -> float:
        """Of one question that no voter could be sure of."""
        return self.delta / (2 * self.questions)


@dataclass(frozen=True)
class ProposeTestRelease:
    """Each question is tested and, if its distance plus noise passes, told (Dwork, Lei 2009). All tests are paid."""

    promise: Promise
    gaussian: bool

    @cached_property
    def scale(self) -> float:
        """The deviation of Gaussian noise, or the scale of Laplace noise."""
        told = self.promise
        if self.gaussian:
            sensitivity = str(math.sqrt(told.questions))
            return gaussian_sigma(epsilon=str(told.epsilon), delta=str(told.delta / 2), sensitivity=sensitivity)
        return 1 / equal_parts(told, told.questions)

    @property
    def bar(self) -> float:
        """What noise alone reaches with the chance of a failure."""
        failure = self.promise.failure
        return self.scale * (-NormalDist().inv_cdf(failure) if self.gaussian else -math.log(2 * failure))

    def label(self, votes: Votes, generator: np.random.Generator) -> Votes:
        """Labels of as many questions as were promised, `NONE` where the test failed."""
        votes = votes[: self.promise.questions]
        draw = generator.normal if self.gaussian else generator.laplace
        passed = distance(votes) + draw(0, self.scale, len(votes)) >= self.bar
        return np.where(passed, winners(votes), NONE)


@dataclass(frozen=True)
class DistanceToInstability:
    """A sparse vector on distances: questions that pass are free, `failures` that do not are paid, then it ends.

    With `published` by the constants of Bassily, Thakkar and Thakurta (2018, Algorithm 1); otherwise each restart is of
    the size that optimal composition allows, and the bar where noise reaches it with the chance of a failure.
    """

    promise: Promise
    failures: int
    published: bool = False

    @cached_property
    def epsilon(self) -> float:
        """That of one restart."""
        told = self.promise
        if self.published:
            return told.epsilon / math.sqrt(8 * self.failures * math.log(2 / told.delta))
        return equal_parts(told, self.failures)

    @property
    def scales(self) -> tuple[float, float]:
        """Laplace noise on the bar and on each distance."""
        return 2 / self.epsilon, 4 / self.epsilon

    @cached_property
    def bar(self) -> float:
        """The distance from which on a question passes half of the time."""
        if self.published:
            return 2 * self.scales[0] * math.log(2 * self.promise.questions / self.promise.delta)
        low, high = 0.0, 100 * self.scales[1] * math.log(1 / self.promise.failure)
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if passing(middle, self.scales) <= self.promise.failure else (middle, high)
        return high

    def label(self, votes: Votes, generator: np.random.Generator) -> Votes:
        """Labels of the questions asked before it ended, `NONE` where one did not pass."""
        (small, large), far = self.scales, distance(votes)
        noisy, labels = far + generator.laplace(0, large, len(votes)), winners(votes)
        bar, left = self.bar + generator.laplace(0, small), self.failures
        for place in range(len(votes)):
            if noisy[place] < bar:
                labels[place], left = NONE, left - 1
                bar = self.bar + generator.laplace(0, small)
                if not left:
                    return labels[: place + 1]
        return labels


def passing(bar: float, scales: tuple[float, float]) -> float:
    """The chance that the sum of both Laplace noises, of different scales, is at least so large."""
    small, large = scales
    tails = large**2 * math.exp(-bar / large) - small**2 * math.exp(-bar / small)
    return tails / (2 * (large**2 - small**2))


def equal_parts(promise: Promise, parts: int) -> float:
    """The epsilon of each of so many equal parts, by the best composition theorem at half of the delta."""
    low, high = promise.epsilon / parts, promise.epsilon
    while high > low * 1.0005:
        middle = math.sqrt(low * high)
        fits = optimal_total(middle, parts, promise.delta / 2) <= promise.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low
