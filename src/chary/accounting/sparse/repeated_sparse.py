"""Tuned sparse vectors one after another with Gaussian values, composed exactly: what can be had, as a comparison."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import scipy

from chary.accounting.gaussian.gaussian_curve import gaussian_deltas
from chary.accounting.sparse.noise_split import sparse_noise
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

MOST_ROUNDS = 10**5
# Beyond it exponentials are no floats any more, and an outcome of such odds never comes.
_LARGEST: Final = 700.0


@dataclass(frozen=True)
class SparseRounds:
    """So many `rounds` of tuned sparse vectors for monotone queries of sensitivity 1, `hits` hits together.

    `threshold` and `test` are Laplace scales, the threshold drawn anew for each round; `deviation` is that of a test
    with its threshold, and of the Gaussian noise of each value.
    """

    hits: int
    rounds: int
    threshold: Fraction
    test: Fraction
    deviation: float


def sparse_rounds(*, epsilon: Number, delta: Number, hits: int, rounds: int) -> SparseRounds:
    """The least common deviation of tests and of values that is (epsilon, delta)-DP, by the exact `joint_delta`.

    >>> one, many = (sparse_rounds(epsilon=1, delta=1e-6, hits=200, rounds=rounds) for rounds in (1, 200))
    >>> round(one.deviation), round(many.deviation)
    (347, 245)
    """
    if whole(rounds, "rounds") > MOST_ROUNDS:
        raise InvalidParameter(f"the exact curve of rounds beside Gaussian values is for at most {MOST_ROUNDS} rounds")
    deviation = _deviation(float(positive(epsilon, "epsilon")), float(probability(delta, "delta")), hits, rounds)
    per_round = -(-whole(hits, "hits") // whole(rounds, "rounds"))
    noise = sparse_noise(epsilon=unit_deviation(per_round) / deviation, hits=per_round, monotone=True)
    return SparseRounds(hits, rounds, noise.threshold, noise.test, deviation)


def usual_rounds(hits: int) -> list[int]:
    """The numbers of rounds that are worth trying.

    >>> usual_rounds(50)
    [1, 7, 13, 25, 50]
    """
    return sorted({1, -(-hits // 8), -(-hits // 4), -(-hits // 2), hits})


def unit_deviation(hits: int) -> float:
    """The deviation of a test and its threshold in a tuned 1-DP round of so many hits.

    >>> round(unit_deviation(1), 9)
    4.0
    """
    scales = sparse_noise(epsilon=1, hits=hits, monotone=True)
    return math.sqrt(2) * math.hypot(scales.threshold, scales.test)


def joint_delta(epsilon: float, rounds: int, epsilon_a_round: float, gaussian_ratio: float) -> float:
    """The exact delta of `rounds` pure rounds, each worth randomized response, beside Gaussian answers.

    `gaussian_ratio` is the answers' joint sensitivity over their deviation: with i of the rounds unlikely, the rounds
    have lost `(rounds - 2i) epsilon_a_round`, and the answers may lose what is left.

    >>> from chary.accounting import gaussian_delta
    >>> abs(joint_delta(1, 1, 1e-9, 0.5) / gaussian_delta(epsilon=1, sensitivity=1, sigma=2) - 1) < 1e-6
    True
    """
    unlikely = np.arange(rounds + 1)
    weights = scipy.stats.binom.pmf(unlikely, rounds, 1 / (1 + math.exp(min(epsilon_a_round, _LARGEST))))
    left = np.asarray(epsilon - (rounds - 2 * unlikely) * epsilon_a_round, dtype=np.float64)
    return float(weights @ gaussian_deltas(left, gaussian_ratio))


def _deviation(epsilon: float, delta: float, hits: int, rounds: int) -> float:
    unit = unit_deviation(-(-hits // rounds))

    def excess(log_deviation: float) -> float:
        deviation = math.exp(log_deviation)
        return joint_delta(epsilon, rounds, unit / deviation, math.sqrt(hits) / deviation) - delta

    low, high = math.log(unit / (1 + 2 * epsilon)), math.log(1e3 * hits * unit / epsilon)
    return math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-9))) * (1 + 1e-8)
