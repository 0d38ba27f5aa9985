"""How far off a sparse vector with one-sided noise may be: the exact law of all its tests together, rounded up."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from chary.accounting.sparse.one_sided import OneSidedNoise, one_sided_noise
from chary.accounting.sparse.sparse_errors import CELLS, SLACK, Floats, answers_failure, least_error
from chary.errors import InvalidParameter
from chary.numbers import Number, probability, whole

# A sum of 16,384 products errs by at most 2e-12 of it.
ONE_SIDED_SURPLUS: Final = 1 + 1e-11
# What lies beyond has a chance of beta e^-36, below the resolution of doubles; it is counted as failing.
_BEYOND: Final = 36
# At a certain failure log1p(-1) would divide by zero.
_NEARLY_ONE: Final = 1 - 1e-16


def sparse_half_width_up(*, epsilon: Number, tests: int, hits: int, sure: Number = "0.95") -> int:
    """The half-width of the best sparse vector for questions of sensitivity 1 that all move in one direction.

    With probability `sure` each of `tests` tests, of which at most `hits` are above, is right for a value that is off
    by at most so many steps. No other split of epsilon and no other bar is narrower by more than a step or two.

    >>> [sparse_half_width_up(epsilon=1, tests=1000, hits=hits) for hits in (1, 3, 10, 20)]
    [12, 27, 71, 130]
    """
    noise = one_sided_noise(epsilon=epsilon, hits=hits, tests=tests, monotone=True, confidence=sure)
    return one_sided_error_up(noise, tests=tests, confidence=sure)


def one_sided_error_up(noise: OneSidedNoise, *, tests: int, confidence: Number) -> int:
    """The least error, in grid steps, that a sparse vector with this noise keeps with probability `confidence`.

    Guarantee: with that probability each of `tests` tests is answered rightly for a value that is off by at most this
    many steps, and so is each published value, whatever the data and however adaptively they are asked: what lies at
    least so far above the public bar is reported, what lies farther below it is not. `tests` need not be the number
    that the bar is placed for.

    Errors: `InvalidParameter` for a confidence that doubles cannot tell from 1.

    >>> noise = one_sided_noise(epsilon=1, hits=3, tests=1000, monotone=True)
    >>> [one_sided_error_up(noise, tests=tests, confidence="0.95") for tests in (10, 1000, 100_000)]
    [24, 27, 42]
    """
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    if beta <= SLACK:
        raise InvalidParameter("confidence is too close to 1 for the precision of this calculation")
    cells = _cells(noise, beta)
    return least_error(lambda error: one_sided_failure_up(noise, count, error, cells) <= beta - SLACK)


@dataclass(frozen=True)
class NoiseCells:
    """Ranges of the threshold's noise: the first and the last of each, and their chances."""

    first: Floats
    last: Floats
    chances: Floats


def one_sided_failure_up(noise: OneSidedNoise, tests: int, error: int, cells: NoiseCells) -> float:
    """The chance that a test or a value is off by more.

    Given a threshold noise z, a test fails if its own noise is below `z + shift - error` or above `z + shift + error`.
    That chance first falls and then rises with z, so of each cell one end is its worst.
    """
    ends = [_wrong(noise, error, end) for end in (cells.first, cells.last)]
    some = -np.expm1(tests * np.log1p(-np.minimum(np.maximum(*ends), _NEARLY_ONE)))
    tested = float(cells.chances @ some) + max(0.0, 1 - float(cells.chances.sum()))
    answered = 0.0 if noise.answer is None else answers_failure(noise.answer, noise.hits, error)
    return (tested + answered - tested * answered) * ONE_SIDED_SURPLUS


def _wrong(noise: OneSidedNoise, error: int, shifts: Floats) -> Floats:
    middle, step = shifts + noise.shift, 1 / float(noise.test)
    reported = np.exp(-step * np.maximum(middle + error + 1, 0))
    missed = -np.expm1(-step * np.maximum(middle - error, 0))
    return np.asarray(reported + missed)


def _cells(noise: OneSidedNoise, beta: float) -> NoiseCells:
    """All that has a chance worth counting, one by one or in 16,384 cells."""
    scale = float(noise.threshold)
    last = np.unique(np.ceil(np.linspace(0, scale * (math.log(1 / beta) + _BEYOND), CELLS)))
    first = np.concatenate(([0.0], last[:-1] + 1))
    return NoiseCells(first, last, np.exp(-first / scale) * -np.expm1(-(last - first + 1) / scale))
