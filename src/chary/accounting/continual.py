"""Continual counting: how a running count is put together from noisy sums, and how far it may be off.

*Prefix trees* (this work). In a tree (a, b) every step is in at most `a` noisy sums of consecutive steps, and every
running count adds up at most `b` of them. The largest has `C(a + b, a) - 1` steps. Its first sum covers a tree (a - 1,
b) and one step more, which are one sum fewer away from their limit. The rest is a tree (a, b - 1) whose running counts
take the first sum along. Noise grows with a, so few sums of each step are worth many a count. The usual binary tree has
a = b = log2 T + 1; a = 1 is the sum of noisy increments, and b = 1 a release at every step.

*The square root.* The matrix of all running sums is `B B` with `B` lower triangular and Toeplitz, its entries
`b_k = C(2k, k)/4^k` (Henzinger, Upadhyay and Upadhyay 2023; Fichtenberger, Henzinger and Upadhyay 2023). `root_weights`
are integers near `2**16 b_k`, so that noise can be exact; whatever they are, inverting them exactly is unbiased.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.numerics import least_error
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# The height of every step is an array of eight megabytes then; the square root needs the noise of all steps so far for
# each step, so it has a 16th of them.
MOST_STEPS: Final = 2**20
MOST_ROOT_STEPS: Final = 2**16
# Weights have 16 binary digits after the point; their squares, some 2**32 times the logarithm of the steps, fit int64.
ROOT_ONE: Final = 2**16
KEPT: Final = 64
# Up to here the distribution is summed by transforms of 2**18 numbers; a coarser one is as good as its continuous
# limit.
_SUMMED: Final = 1024.0
# Transforms err by some 1e-16 of the largest mass: no probability is reported as less than 1e-14.
_ROUNDING: Final = 1e-14

Beyond = Callable[[int], float]


@dataclass(frozen=True)
class PrefixTree:
    """Sums of consecutive steps, of which each step is in at most `reach` and each running count adds `parts` at most.

    `reach` is attained: the first step is in this many sums that are used, whenever no smaller one allows this many
    steps.

    >>> tree = PrefixTree(1000, reach=3, parts=17)
    >>> [tree.height(step) for step in (1, 2, 3, 999, 1000)]
    [1, 2, 3, 12, 13]
    """

    steps: int
    reach: int
    parts: int

    def __post_init__(self) -> None:
        for name in ("steps", "reach", "parts"):
            whole(getattr(self, name), name)
        if most_steps(self.reach, self.parts) < self.steps:
            raise InvalidParameter("a tree for this number of steps needs more parts or more reach")

    def height(self, step: int) -> int:
        """How many sums the running count of this step adds up; they are those of the step before, but for the last
        ones, and one that ends with this step."""
        reach, parts, left, found = self.reach, self.parts, whole(step, "step"), 1
        while left != (first := most_steps(reach - 1, parts) + 1):
            if left < first:
                reach -= 1
            else:
                left, parts, found = left - first, parts - 1, found + 1
        return found

    def heights(self) -> NDArray[np.int64]:
        """The height of every step, in order."""
        return _heights(self.reach, self.parts)[: self.steps]


def most_steps(reach: int, parts: int) -> int:
    """How many steps a tree (a, b) has: `C(a + b, a) - 1`.

    >>> most_steps(3, 17)
    1139
    """
    return math.comb(reach + parts, reach) - 1


def best_tree(steps: int, *, power: int) -> PrefixTree:
    """The tree whose running counts have the least variance in the worst step.

    `power` is that of `reach` in the variance of a noise: 2 for Laplace noise, 1 for Gaussian noise.

    >>> best_tree(1000, power=2), best_tree(1000, power=1)
    (PrefixTree(steps=1000, reach=3, parts=17), PrefixTree(steps=1000, reach=4, parts=10))
    """
    if whole(steps, "steps") > MOST_STEPS:
        raise InvalidParameter(f"steps may be at most {MOST_STEPS}: open another when they are exhausted")
    found, reach, parts = [], 1, steps
    while reach <= parts:
        found.append((reach**power * parts, reach, parts))
        reach += 1
        parts = _least_parts(steps, reach)
    _, reach, parts = min(found)
    return PrefixTree(steps, reach, parts)


@lru_cache(maxsize=KEPT)
def root_weights(steps: int) -> NDArray[np.int64]:
    """Integers near `2**16 C(2k, k)/4^k`, for k from 0; public, and the same on every machine.

    >>> root_weights(4).tolist()
    [65536, 32768, 24576, 20480]
    """
    if whole(steps, "steps") > MOST_ROOT_STEPS:
        raise InvalidParameter(f"steps may be at most {MOST_ROOT_STEPS} for the square root: it keeps all of them")
    later = np.arange(1, steps)
    ratios = np.concatenate([[float(ROOT_ONE)], (2 * later - 1) / (2 * later)])
    weights: NDArray[np.int64] = np.rint(np.cumprod(ratios)).astype(np.int64)
    weights.flags.writeable = False
    return weights


def root_length(steps: int) -> int:
    """The squared length of the longest column, which is the first: what one row can change; exact.

    >>> round(root_length(1000) / 2**32, 3)
    3.265
    """
    weights = root_weights(steps)
    return int(weights @ weights)


@lru_cache(maxsize=KEPT)
def root_deviations(steps: int) -> NDArray[np.float64]:
    """The standard deviation of the estimate of every step, for noise of standard deviation 1.

    Estimates are the running sums of the increments that the inverse of the weights gives; noise goes through the
    series `1/((1 - z) C(z))`.
    """
    told = np.cumsum(_inverse(root_weights(steps) / ROOT_ONE)) / ROOT_ONE
    return np.asarray(np.sqrt(np.cumsum(told**2)))


@lru_cache(maxsize=KEPT)
def laplace_beyond(scale: Number, copies: int) -> Beyond:
    """The probability that a sum of this many discrete Laplace noises is further than m steps from 0.

    Exact for a scale of up to 1024, and a bound above: a discrete noise is a difference of two exponential variables,
    each rounded down. So a sum differs from the continuous one by less than `copies`.

    >>> round(laplace_beyond(50, 1)(150), 4)
    0.0493
    """
    size = float(positive(scale, "scale"))
    if size <= _SUMMED:
        # At 64 scales a noise is beyond with exp(-64): what goes around the circle is far below `_ROUNDING`.
        half = 2 ** math.ceil(math.log2(64 * size + 64 * copies))
        return _summed(np.exp(-np.arange(half) / size), copies)
    rows = np.arange(1, copies + 1)
    chances = np.array([math.comb(2 * copies - row - 1, copies - 1) / 2 ** (2 * copies - row - 1) for row in rows])
    return lambda m: float(chances @ scipy.special.gammaincc(rows, max(0, m - copies) / size))


@lru_cache(maxsize=KEPT)
def gaussian_beyond(variance: Number, copies: int) -> Beyond:
    """The probability that a sum of this many discrete Gaussian noises is further than m steps from 0.

    Exact for a standard deviation of up to 1024, and beyond that the normal one, half a step on the safe side.
    """
    size = math.sqrt(positive(variance, "variance"))
    if size <= _SUMMED:
        half = 2 ** math.ceil(math.log2(16 * size * math.sqrt(copies) + 64))
        return _summed(np.exp(-((np.arange(half) / size) ** 2) / 2), copies)
    return lambda m: 2 * float(scipy.special.ndtr(-m / (size * math.sqrt(copies))))


def normal_beyond(deviations: float | NDArray[np.float64]) -> Beyond:
    """The probability that normal noise of this standard deviation is further than m from 0; of several, their sum."""
    return lambda m: 2 * float(np.sum(scipy.special.ndtr(-m / deviations)))


def error_up(beyond: Beyond, *, confidence: Number) -> int:
    """The least integer that noise stays within with this probability.

    >>> error_up(laplace_beyond(50, 1), confidence=0.95)
    150
    """
    beta = float(1 - probability(confidence, "confidence"))
    return least_error(lambda m: beyond(m) <= beta)


def _least_parts(steps: int, reach: int) -> int:
    return bisect_left(range(steps), steps, lo=1, key=lambda parts: most_steps(reach, parts))


@lru_cache(maxsize=KEPT)
def _heights(reach: int, parts: int) -> NDArray[np.int64]:
    nothing = np.zeros(0, dtype=np.int64)
    smaller = [nothing] * (parts + 1)
    for _ in range(reach):
        trees = [nothing]
        for left in smaller[1:]:
            trees.append(np.concatenate([left, [1], trees[-1] + 1]))
        smaller = trees
    return smaller[parts]


def _summed(masses: NDArray[np.float64], copies: int) -> Beyond:
    """From the weights of 0, 1, 2, ... of a symmetric distribution whose sums stay, practically always, within
    `length`.
    """
    law = np.concatenate([masses, [0.0], masses[:0:-1]])
    sums = np.fft.irfft(np.fft.rfft(law / law.sum()) ** copies, len(law))
    within = sums[0] + 2 * np.concatenate([[0.0], np.cumsum(sums[1 : len(masses)])])

    def beyond(m: int) -> float:
        return float(max(0.0, 1 - within[m])) + _ROUNDING if m < len(within) else _ROUNDING

    return beyond


def _inverse(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power series `1/series`, by Newton's steps of twice the length."""
    found = np.array([1 / series[0]])
    while len(found) < len(series):
        size = min(2 * len(found), len(series))
        rest = -_product(series[:size], found)[:size]
        rest[0] += 2
        found = _product(found, rest)[:size]
    return found


def _product(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    length = len(first) + len(second) - 1
    return np.asarray(np.fft.irfft(np.fft.rfft(first, length) * np.fft.rfft(second, length), length))
