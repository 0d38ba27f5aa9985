"""Sparse vector with numeric answers, published, tuned and one-sided: its noise for a budget, one run over a stream."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chary.accounting import OneSidedNoise, SparseRounds, one_sided_noise, sparse_noise, sparse_rounds, usual_rounds
from chary.mechanisms import OneSidedMachine
from chary.noise import Seeded

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TUNED = "sparse vector, tuned"
EXPONENTIAL = "sparse vector, exponential"
ONE_SIDED = "sparse vector, ours: one-sided"


@dataclass(frozen=True)
class Reports:
    """Which tests were reported as hits, and the value published with each."""

    tests: Integers
    values: Floats


@dataclass(frozen=True)
class SparseVector:
    """Scales of the threshold, drawn anew for each of `rounds`, and of a test; the deviation of an answer.

    Noise is Laplace's; with a `correction` that of a test is exponential, less so much."""

    name: str
    hits: int
    rounds: int
    threshold_scale: float
    test_scale: float
    answer_deviation: float
    gaussian: bool = False
    correction: float | None = None

    @property
    def test_deviation(self) -> float:
        """Of the noise of a test and its threshold together."""
        of_test = math.sqrt(2) * self.test_scale if self.correction is None else self.test_scale
        return math.hypot(math.sqrt(2) * self.threshold_scale, of_test)

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """Each test meets fresh noise; a round ends at its share of the hits, the run at all of them."""
        noisy = values + self._test_noise(len(values), generator)
        per_round = -(-self.hits // self.rounds)
        found, start = [np.empty(0, dtype=np.int64)], 0
        for _ in range(self.rounds):
            bar = threshold + generator.laplace(0, self.threshold_scale)
            above = start + np.flatnonzero(noisy[start:] >= bar)[:per_round]
            found.append(above)
            if len(above) < per_round:
                break
            start = int(above[-1]) + 1
        tests = np.concatenate(found)[: self.hits]
        return Reports(tests, values[tests] + self._answer_noise(len(tests), generator))

    def _test_noise(self, size: int, generator: np.random.Generator) -> Floats:
        if self.correction is None:
            return generator.laplace(0, self.test_scale, size)
        return generator.exponential(self.test_scale, size) - self.correction

    def _answer_noise(self, size: int, generator: np.random.Generator) -> Floats:
        if self.gaussian:
            return generator.normal(0, self.answer_deviation, size)
        return generator.laplace(0, self.answer_deviation / math.sqrt(2), size)


@dataclass(frozen=True)
class OneSided:
    """The one-sided form, its bar placed so that all tests err least together, or (`placed=False`) where it is said."""

    noise: OneSidedNoise
    placed: bool
    name: str = ONE_SIDED

    @property
    def test_deviation(self) -> float:
        return OneSidedMachine(self.noise).deviation

    @property
    def answer_deviation(self) -> float:
        return math.sqrt(2) * float(self.noise.answer or 0)

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """The state machine itself, seeded."""
        machine, source = OneSidedMachine(self.noise), Seeded(int(generator.integers(2**32)))
        bar = threshold - (0 if self.placed else self.noise.shift)
        _, crossed = machine.step(machine.start(source), values, bar, source)
        return Reports(np.array(crossed.positions, dtype=np.int64), np.array(crossed.values or [], dtype=np.float64))


def one_sided(epsilon: float, hits: int, tests: int) -> list[OneSided]:
    """The one-sided form for monotone queries, with its own bar and with that of the analyst; it uses no delta."""
    noise = one_sided_noise(epsilon=epsilon, hits=hits, tests=tests, monotone=True, values=True)
    return [OneSided(noise, placed) for placed in (False, True)]


def textbook(epsilon: float, delta: float, hits: int) -> SparseVector:
    """The published form with values: of its pure and its approximate version the one with less noise."""
    forms = [sparse_noise(epsilon=epsilon, hits=hits, delta=d, form="published", values=True) for d in (0, delta)]
    form = min(forms, key=lambda form: form.test)
    deviation = math.sqrt(2) * float(form.answer or 0)
    return SparseVector("sparse vector, textbook", hits, hits, float(form.threshold), float(form.test), deviation)


def tuned(epsilon: float, delta: float, hits: int) -> list[SparseVector]:
    """The tuned form for monotone queries (Lyu, Su, Li), in few forms: which is best depends on the stream.

    Tests and answers get shares of the budget that make their deviations equal, which is what minimises the larger of
    the two. The forms are one pure round with Laplace answers, and one or many rounds with Gaussian answers, composed
    exactly.
    """
    pure = sparse_noise(epsilon=epsilon, hits=hits, monotone=True, values=True)
    deviation = math.sqrt(2) * float(pure.answer or 0)
    one = SparseVector(TUNED, hits, 1, float(pure.threshold), float(pure.test), deviation)
    forms = [sparse_rounds(epsilon=epsilon, delta=delta, hits=hits, rounds=rounds) for rounds in usual_rounds(hits)]
    return [one, *(_gaussian(form) for form in forms)]


def exponential(epsilon: float, delta: float, hits: int, tests: int) -> list[SparseVector]:
    """Exponential noise on monotone tests (Liu et al. 2024, arXiv 2407.20068), at the scales of the tuned form.

    Both forms of it correct the threshold: by the mean of the noise, and by half of what all noises together reach.
    """
    pure = tuned(epsilon, delta, hits)[0]
    corrections = (pure.test_scale, pure.test_scale * math.log(2 * tests / 0.05) / 2)
    return [replace(pure, name=EXPONENTIAL, correction=correction) for correction in corrections]


def _gaussian(form: SparseRounds) -> SparseVector:
    return SparseVector(TUNED, form.hits, form.rounds, float(form.threshold), float(form.test), form.deviation, True)
