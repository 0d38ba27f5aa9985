"""Every way to run many threshold tests that publish their values, each calibrated to one budget and so many hits."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from chary.accounting import compose, exact_tail_total, gaussian_sigma, published_total
from chary.filters import Budget, largest_call
from chary.noise import Seeded, discrete_laplace
from sparse_vector import Integers, Reports, textbook, tuned


class Mechanism(Protocol):
    """`PlainComposition`, `SparseVector`, `ConditionalReleases`: deviations of their noise, and one seeded run."""

    @property
    def name(self) -> str: ...
    @property
    def test_deviation(self) -> float: ...
    @property
    def answer_deviation(self) -> float: ...
    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports: ...


@dataclass(frozen=True)
class PlainComposition:
    """Every test releases its value with noise of one deviation; there is no end to the hits."""

    name: str
    test_deviation: float
    gaussian: bool

    @property
    def answer_deviation(self) -> float:
        return self.test_deviation

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """All values that are above the threshold with their noise."""
        draw, scale = (generator.normal, 1.0) if self.gaussian else (generator.laplace, math.sqrt(0.5))
        noisy = values + draw(0, scale * self.test_deviation, len(values))
        tests = np.flatnonzero(noisy >= threshold)
        return Reports(tests, noisy[tests])


@dataclass(frozen=True)
class ConditionalReleases:
    """A value with discrete Laplace noise is published if it is above the threshold, until `hits` were."""

    name: str
    hits: int
    epsilon_per_call: Fraction

    @property
    def test_deviation(self) -> float:
        ratio = math.exp(-self.epsilon_per_call)
        return math.sqrt(2 * ratio) / (1 - ratio)

    @property
    def answer_deviation(self) -> float:
        return self.test_deviation

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """The first `hits` values that are above the threshold with their noise."""
        source = Seeded(int(generator.integers(2**32)))
        noisy = values + discrete_laplace(source, 1 / self.epsilon_per_call, len(values))
        tests = np.flatnonzero(noisy >= threshold)[: self.hits]
        return Reports(tests, noisy[tests].astype(np.float64))


def plain(epsilon: float, delta: float, tests: int) -> PlainComposition:
    """The least deviation: Laplace under the best composition theorem, or Gaussian noise calibrated exactly."""

    def fits(size: float) -> bool:
        return min(compose(epsilon=size, times=tests, delta=delta).as_dict().values()) <= epsilon

    laplace = math.sqrt(2) / largest(fits, epsilon)
    gaussian = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=math.sqrt(tests))
    return PlainComposition("plain composition", min(laplace, gaussian), gaussian <= laplace)


def charging(total: Callable[..., float], epsilon: float, delta: float, hits: int) -> Fraction:
    """The largest epsilon per call whose total for `hits` hits fits."""
    return Fraction(largest(lambda size: total(epsilon_per_call=size, hits=hits, delta=delta) <= epsilon, epsilon))


def largest(fits: Callable[[float], bool], most: float) -> float:
    """The largest size that fits to one part in ten thousand, never above, by bisection of its logarithm."""
    low, high = most / 2, most
    while not fits(low):
        low, high = low / 2, low
    while high > low * 1.0001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


EXACT = "charging, ours: exact"
RENYI = "charging, ours: Renyi"


def mechanisms(epsilon: float, delta: float, hits: int, tests: int) -> list[list[Mechanism]]:
    """The forms of each peer, then ours.

    Target charging is priced by its published bound, by the published remark on exact tails, and by ours.
    """
    budget = Budget(epsilon=epsilon, delta=delta)
    calls = {
        "charging, published": charging(published_total, epsilon, delta, hits),
        "charging, exact tail": charging(exact_tail_total, epsilon, delta, hits),
        EXACT: largest_call(budget, hits, "exact"),
        RENYI: largest_call(budget, hits, "renyi"),
    }
    return [
        [plain(epsilon, delta, tests)],
        [textbook(epsilon, delta, hits)],
        [*tuned(epsilon, delta, hits)],
        *([ConditionalReleases(name, hits, size)] for name, size in calls.items()),
    ]


def crossover(epsilon: float, delta: float) -> int:
    """From how many hits on the exact curve gives less noise than any form of the tuned sparse vector."""
    budget = Budget(epsilon=epsilon, delta=delta)

    def quieter(hits: int) -> bool:
        ours = ConditionalReleases(EXACT, hits, largest_call(budget, hits, "exact"))
        return ours.test_deviation < min(form.test_deviation for form in tuned(epsilon, delta, hits))

    return next(hits for hits in itertools.count(1) if quieter(hits))
