"""How far many noises reach together: errors that all of them keep with a given probability, rounded up."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import scipy

from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# A part in 10**9 covers the rounding of a few functions, 1e-14 that of a sum of 2**14 chances, upwards.
_JOINT_SURPLUS: Final = 1 + 1e-9
_JOINT_SLACK: Final = 1e-14
_FARTHEST: Final = 2**62
# Cells of 12/2**14 of the threshold's deviation and steps of 1/4096 stay below the thousandth that is told; 12
# deviations are passed with 1e-33, which counts as a failure.
_CELLS: Final = 2**14
_SIGMAS: Final = 12.0
_FINE: Final = 4096


def laplace_error_up(scale: Number, *, tests: int, confidence: Number) -> int:
    """The least number of steps that all of so many discrete Laplace noises `P(k) ~ exp(-|k|/scale)` keep within.

    Every test is then answered rightly for a value that is off by at most this, and every value is, with probability
    `confidence`. Exact; the closed form is settled to the step.

    >>> laplace_error_up(50, tests=1, confidence=0.95), laplace_error_up(50, tests=1000, confidence=0.95)
    (150, 494)
    """
    step, least = 1 / float(positive(scale, "scale")), _each(tests, confidence)
    together = math.log1p(math.exp(-step))
    return _least_step(lambda error: math.log(2) - together - step * (error + 1) <= math.log(least))


def laplace_deviation(scale: Number) -> float:
    """The standard deviation of discrete Laplace noise `P(k) ~ exp(-|k|/scale)`.

    >>> round(laplace_deviation(50), 3)
    70.709
    """
    step = 1 / float(positive(scale, "scale"))
    return math.sqrt(2 * math.exp(-step)) / -math.expm1(-step)


def gaussian_error_up(variance: Number, *, tests: int, confidence: Number) -> int:
    """A number of steps that so many discrete Gaussian noises `P(k) ~ exp(-k^2/(2 variance))` all keep within.

    The tail of the discrete law at m is at most the continuous one at m - 1 (Canonne, Kamath and Steinke 2020,
    Proposition 25), so this is at most a step above the least.

    >>> gaussian_error_up(10_000, tests=1, confidence=0.95)
    196
    """
    sigma, least = math.sqrt(positive(variance, "variance")), _each(tests, confidence)
    return _least_step(lambda error: 2 * float(scipy.special.ndtr(-error / sigma)) <= least)


def crossing_error_up(
    threshold_noise: Number, query_noise: Number, *, thresholds: int, tests: int, confidence: Number
) -> float:
    """How far all differences of a test's noise and its threshold's reach: Gaussian, by their standard deviations.

    Thresholds are drawn `thresholds` times. Given all of them, a test of any round fails at most as often as under the
    farthest, whose law is summed in cells, each at its worse end; the result is above the least by less than 1/1000 of
    the noises.

    >>> round(crossing_error_up(100, 173.2, thresholds=1, tests=1, confidence=0.95))
    392
    """
    bar, scale = float(positive(threshold_noise, "threshold_noise")), float(positive(query_noise, "query_noise"))
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    ends = np.linspace(0, _SIGMAS, _CELLS) * bar
    below = (1 - 2 * scipy.special.ndtr(-ends / bar)) ** whole(thresholds, "thresholds")
    weights, unit = np.diff(below), math.hypot(bar, scale) / _FINE

    def kept(error: int) -> bool:
        with np.errstate(over="ignore"):
            wrong = scipy.special.ndtr((-error * unit - ends[1:]) / scale) + scipy.special.ndtr(
                (ends[1:] - error * unit) / scale
            )
        some = -np.expm1(count * np.log1p(-np.minimum(wrong, 1 - 1e-16)))
        return float(weights @ some) + 1 - float(below[-1]) <= beta - _JOINT_SLACK

    return _least_step(kept) * unit * _JOINT_SURPLUS


def _each(tests: int, confidence: Number) -> float:
    """How often a single one of so many may fail."""
    kept = probability(confidence, "confidence")
    # Near 1 its distance from 1 is what counts, and a float of it would lose that.
    log = math.log1p(-float(1 - kept)) if 2 * kept > 1 else math.log(kept)
    return -math.expm1(log / whole(tests, "tests")) / _JOINT_SURPLUS


def _least_step(kept: Callable[[int], bool]) -> int:
    """The least whole number from which on it is kept."""
    low, high = -1, 1
    while not kept(high):
        low, high = high, 2 * high
        if high > _FARTHEST:
            raise InvalidParameter("confidence is too close to 1 for the precision of this calculation")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high
