"""How far off a sparse vector may be: the published bounds, and the exact one for the discrete law, rounded up."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chary.accounting.sparse.noise_split import SparseNoise
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, per_call, probability, whole

Floats = NDArray[np.float64]
CELLS = 2**14
SURPLUS = 1 + 1e-12
SLACK = 1e-14
LARGEST_ERROR = 2**62


def published_error(
    *, epsilon: Number, hits: int, tests: int, confidence: Number, delta: Number = 0, values: bool = False
) -> float:
    """The published error of the published form for queries of sensitivity 1 and continuous noise.

    With probability `confidence`, each of `tests` answers is right for a threshold that is off by at most this, and
    each value is off by at most this, as long as fewer than `hits` queries come so close to the threshold.

    - values: `9 c (ln k + ln(4c/beta))/epsilon`, or `9 (ln k + ln(4c/beta)) sqrt(8 c ln(2/delta))/epsilon`;
    - no values: `8 c (ln k + ln(2c/beta))/epsilon`, c runs of the published bound for one, or with the same root
      for c in front; `8 (ln k + ln(2/beta))/epsilon` for one hit.

    >>> round(published_error(epsilon=1, hits=1, tests=100, confidence=0.95), 2)
    66.35
    """
    size, failure, count = float(per_call(epsilon)), failing(delta), whole(hits, "hits")
    beta, known = float(1 - probability(confidence, "confidence")), math.log(whole(tests, "tests"))
    rounds = math.sqrt(8 * count * math.log(2 / failure)) if failure else float(count)
    factor, failures = (9, 4 * count) if values else (8, 2 * count)
    return factor * rounds * (known + math.log(failures / beta)) / size * SURPLUS


def error_up(noise: SparseNoise, *, tests: int, confidence: Number) -> int:
    """The least error, in grid steps, that a sparse vector with this noise keeps with probability `confidence`.

    Guarantee: with that probability each of `tests` tests is answered rightly for a value that is off by at most this
    many steps, and so is each published value, whatever the data and however adaptively they are asked. For one
    threshold this is exactly the least number for which all noises of tests lie so close to that of the threshold
    (and all noises of values so close to 0), up to a fifth of a percent of the threshold's scale; for thresholds drawn
    anew it takes the farthest of them for all tests.

    >>> from chary.accounting import sparse_noise
    >>> error_up(sparse_noise(epsilon=1, hits=1, form="published"), tests=100, confidence=0.95)
    31
    >>> error_up(sparse_noise(epsilon=1, hits=1, monotone=True), tests=100, confidence=0.95)
    17
    """
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    ends, weights = _farthest(noise, beta)

    def kept(error: int) -> bool:
        return failure_up(noise, count, error, ends, weights) <= beta - SLACK

    return least_error(kept)


def least_error(kept: Callable[[int], bool]) -> int:
    """The least error that is kept, where all larger ones are; `InvalidParameter` if none within reach is."""
    low, high = -1, 1
    while not kept(high):
        low, high = high, 2 * high
        if high > LARGEST_ERROR:
            raise InvalidParameter("confidence is too close to 1 for the precision of this calculation")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def failure_up(noise: SparseNoise, tests: int, error: int, ends: Floats, weights: Floats) -> float:
    """The chance that a test or a value is off by more; the farthest threshold is below `ends` with `weights`.

    Given a threshold noise z, a test fails with `P(|noise - z| > error)`, which grows with |z|.
    """
    far = float(error + 1)
    wrong = reach(noise.test, far + ends) + reach(noise.test, far - ends)
    some = -np.expm1(tests * np.log1p(-np.minimum(wrong, 1 - 1e-16)))
    tested = float(weights @ some) + max(0.0, 1 - float(weights.sum()))
    answered = 0.0 if noise.answer is None else answers_failure(noise.answer, noise.hits, error)
    return (tested + answered - tested * answered) * SURPLUS


def answers_failure(scale: Fraction, hits: int, error: int) -> float:
    """The chance that one of so many values is off by more."""
    value = 2 * float(reach(scale, np.array([float(error + 1)]))[0])
    return -math.expm1(hits * math.log1p(-min(value, 1 - 1e-16)))


def reach(scale: Fraction, distances: Floats) -> Floats:
    """The chance that discrete Laplace noise is at least each distance."""
    step = 1 / float(scale)
    beyond = np.exp(-step * np.where(distances > 0, distances, 1 - distances)) / (1 + math.exp(-step))
    return np.where(distances > 0, beyond, 1 - beyond)


def _farthest(noise: SparseNoise, beta: float) -> tuple[Floats, Floats]:
    """Cells of the largest of all threshold noises, in absolute value: their upper ends and their chances."""
    top = math.ceil(float(noise.threshold) * (math.log(2 * noise.thresholds / beta) + 18))
    ends = np.unique(np.ceil(np.linspace(0, float(top), CELLS)))
    inside = 1 - 2 * reach(noise.threshold, ends + 1)
    below = np.where(inside > 0, inside, 0) ** noise.thresholds
    return ends, np.diff(below, prepend=0.0)
