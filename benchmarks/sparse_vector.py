"""Sparse vector with numeric answers, as published and tuned: its noise for a budget, and one run over a stream."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom

from chary.accounting import sparse_noise

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TUNED = "sparse vector, tuned"


@dataclass(frozen=True)
class Reports:
    """Which tests were reported as hits, and the value published with each."""

    tests: Integers
    values: Floats


@dataclass(frozen=True)
class SparseVector:
    """Laplace scales of the threshold, drawn anew for each of `rounds`, and of a test; the deviation of an answer."""

    name: str
    hits: int
    rounds: int
    threshold_scale: float
    test_scale: float
    answer_deviation: float
    gaussian: bool = False

    @property
    def test_deviation(self) -> float:
        """Of the noise of a test and its threshold together."""
        return math.sqrt(2) * math.hypot(self.threshold_scale, self.test_scale)

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """Each test meets fresh noise; a round ends at its share of the hits, the run at all of them."""
        noisy = values + generator.laplace(0, self.test_scale, len(values))
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

    def _answer_noise(self, size: int, generator: np.random.Generator) -> Floats:
        if self.gaussian:
            return generator.normal(0, self.answer_deviation, size)
        return generator.laplace(0, self.answer_deviation / math.sqrt(2), size)


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
    pure = (unit_deviation(hits) + math.sqrt(2) * hits) / epsilon
    shares = sorted({1, -(-hits // 8), -(-hits // 4), -(-hits // 2), hits})
    mixed = [_form(_deviation(epsilon, delta, hits, rounds), hits, rounds, True) for rounds in shares]
    return [_form(pure, hits, 1, False), *mixed]


def _form(deviation: float, hits: int, rounds: int, gaussian: bool) -> SparseVector:
    """The form in which tests and answers have this deviation."""
    per_round = -(-hits // rounds)
    epsilon_a_round = unit_deviation(per_round) / deviation
    scales = sparse_noise(epsilon=epsilon_a_round, hits=per_round, monotone=True)
    return SparseVector(TUNED, hits, rounds, float(scales.threshold), float(scales.test), deviation, gaussian)


def unit_deviation(hits: int) -> float:
    """The deviation of a test of a tuned 1-DP round of so many hits.

    >>> round(unit_deviation(1), 9)
    4.0
    """
    scales = sparse_noise(epsilon=1, hits=hits, monotone=True)
    return math.sqrt(2) * math.hypot(scales.threshold, scales.test)


def _deviation(epsilon: float, delta: float, hits: int, rounds: int) -> float:
    """The least common deviation of tests and of Gaussian answers that fits."""
    unit = unit_deviation(-(-hits // rounds))

    def excess(log_deviation: float) -> float:
        deviation = math.exp(log_deviation)
        return joint_delta(epsilon, rounds, unit / deviation, math.sqrt(hits) / deviation) - delta

    low, high = math.log(unit / (1 + 2 * epsilon)), math.log(1e3 * hits * unit / epsilon)
    return math.exp(float(brentq(excess, low, high, xtol=1e-9))) * (1 + 1e-8)


def joint_delta(epsilon: float, rounds: int, epsilon_a_round: float, gaussian_ratio: float) -> float:
    """The exact delta of `rounds` pure rounds, each worth randomized response, beside Gaussian answers.

    `gaussian_ratio` is the answers' joint sensitivity over their deviation: with i of the rounds unlikely, the rounds
    have lost `(rounds - 2i) epsilon_a_round`, and the answers may lose what is left.
    """
    unlikely = np.arange(rounds + 1)
    weights = binom.pmf(unlikely, rounds, 1 / (1 + math.exp(epsilon_a_round)))
    left = epsilon - (rounds - 2 * unlikely) * epsilon_a_round
    gain = np.exp(log_ndtr(gaussian_ratio / 2 - left / gaussian_ratio))
    loss = np.exp(left + log_ndtr(-gaussian_ratio / 2 - left / gaussian_ratio))
    return float(weights @ (gain - loss))
