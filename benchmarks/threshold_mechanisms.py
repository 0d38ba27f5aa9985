"""Every way to run many threshold tests that publish their values, each calibrated to one budget and so many hits."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from chary.accounting import charging_size, exact_tail_total, laplace_deviation, plain_noise, published_total
from chary.filters import Budget, largest_call
from chary.noise import Seeded, discrete_laplace
from sparse_vector import Integers, Reports, exponential, one_sided, textbook, tuned


class Mechanism(Protocol):
    """`PlainComposition`, `SparseVector`, `OneSided`, `ConditionalReleases`: their deviations, and one seeded run."""

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
        return laplace_deviation(1 / self.epsilon_per_call)

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
    noise = plain_noise(epsilon=epsilon, delta=delta, tests=tests)
    return PlainComposition("plain composition", noise.deviation, noise.gaussian)


EXACT = "charging, ours: exact"
RENYI = "charging, ours: Renyi"


def mechanisms(epsilon: float, delta: float, hits: int, tests: int) -> list[list[Mechanism]]:
    """The forms of each peer, then ours.

    Target charging is priced by its published bound, by the published remark on exact tails, and by ours.
    """
    budget, sizes = Budget(epsilon=epsilon, delta=delta), {"epsilon": epsilon, "delta": delta, "hits": hits}
    calls = {
        "charging, published": charging_size(published_total, **sizes),
        "charging, exact tail": charging_size(exact_tail_total, **sizes),
        EXACT: largest_call(budget, hits, "exact"),
        RENYI: largest_call(budget, hits, "renyi"),
    }
    return [
        [plain(epsilon, delta, tests)],
        [textbook(epsilon, delta, hits)],
        [*tuned(epsilon, delta, hits)],
        [*exponential(epsilon, delta, hits, tests)],
        *([ConditionalReleases(name, hits, size)] for name, size in calls.items()),
        [*one_sided(epsilon, hits, tests)],
    ]


def crossover(epsilon: float, delta: float) -> int:
    """From how many hits on the exact curve gives less noise than any form of the tuned sparse vector."""
    budget = Budget(epsilon=epsilon, delta=delta)

    def quieter(hits: int) -> bool:
        ours = ConditionalReleases(EXACT, hits, largest_call(budget, hits, "exact"))
        return ours.test_deviation < min(form.test_deviation for form in tuned(epsilon, delta, hits))

    return next(hits for hits in itertools.count(1) if quieter(hits))
