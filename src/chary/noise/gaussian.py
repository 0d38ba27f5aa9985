"""The discrete Gaussian law."""

from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.noise.enclosure import Bounds, Enclosure
from chary.noise.ladder import CHUNK, ladder
from chary.noise.parameters import checked_size, checked_variance
from chary.noise.partition import settle
from chary.noise.source import Source

# Half of the 64 bits suffice: 32 leave a proposal undecided once in some 2**32, and then bounds and more bits decide.
WORD_BITS: Final = 32
# Eight times the error in float64 that `Proposal` derives; more would cost time, less the exactness of the law.
MARGIN: Final = 2.0**-40
# exp(-64) 2**32 is below one step of the word: the cap only raises the upper bound, never the lower one above a step.
LARGEST_EXPONENT: Final = 64.0


def discrete_gaussian(source: Source, sigma_squared: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers with `P(k)` exactly proportional to `exp(-k**2 / (2*sigma_squared))`.

    Added to an integer that changes by at most D between neighbours, it is `D**2 / (2*sigma_squared)`-zCDP.

    The law is exact when the source is uniform, up to values outside 64 bits, of probability below `exp(-2**22)`.
    A variance parameter outside [2**-20, 2**80] or a negative size raises `InvalidParameter`; size 0 gives an empty
    array.

    Source: theory section 8; Canonne, Kamath, Steinke 2020, Algorithm 3 and Theorem 4.

    >>> from chary.noise import OperatingSystem
    >>> discrete_gaussian(OperatingSystem(), Fraction(1, 2**20), 3)
    array([0, 0, 0])
    """
    proposal = _proposal(checked_variance(sigma_squared))
    values = np.empty(checked_size(size), dtype=np.int64)
    filled = 0
    while filled < values.size:
        # Between 44% and 77% of the proposals are accepted; the first `missing` of those are as good as any.
        missing = values.size - filled
        accepted = proposal.draw(source, min(missing + missing // 2 + 2, CHUNK))[:missing]
        values[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return values


class Proposal:
    """Discrete Laplace proposals of scale `t = floor(sigma) + 1`, accepted with `exp(-(abs(y) - s/t)**2 / (2s))`.

    Here `s` is `sigma_squared`. The acceptance compares a random word of 32 bits with the probability in floating
    point, and is settled by exact bounds when the two are closer than the floating-point error can be.

    The error: with unit roundoff `u = 2**-53` and `s/t < sigma`, the difference `abs(y) - s/t` is off by at most
    `2u * (sigma + abs(difference))`, so an exponent x is off by at most `u * (4*sqrt(2x) + 12x)`, below `2**-43` for
    x <= 64. NumPy's `exp` adds a few units in the last place. The relative margin of `2**-40` is eight times that.
    """

    def __init__(self, sigma_squared: Fraction) -> None:
        self._sigma_squared = sigma_squared
        scale = Fraction(isqrt(int(sigma_squared)) + 1)
        self._ladder = ladder(scale, True)
        self._center = sigma_squared / scale
        self._float_center = float(self._center)
        self._float_factor = float(-1 / (2 * sigma_squared))

    def draw(self, source: Source, size: int) -> NDArray[np.int64]:
        """The accepted ones, in order, of `size` proposals."""
        values = self._ladder.draw(source, size)
        return values[self.accept(source, values)]

    def accept(self, source: Source, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Independent decisions on the values of proposals."""
        words = source.words(values.size, WORD_BITS)
        lower, upper = self._float_bounds(values)
        accepted: NDArray[np.bool_] = words + 1.0 <= lower
        for position in np.flatnonzero((words < upper) & ~accepted).tolist():
            accepted[position] = self._settled(source, int(values[position]), int(words[position]))
        return accepted

    def _float_bounds(self, values: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the acceptance probability times `2**32`; a probability below `exp(-64)` is bounded by that."""
        difference = np.abs(values) - self._float_center
        exponents = np.maximum(difference * difference * self._float_factor, -LARGEST_EXPONENT)
        scaled = np.exp(exponents) * 2.0**WORD_BITS
        return scaled * (1 - MARGIN), scaled * (1 + MARGIN)

    def _settled(self, source: Source, value: int, word: int) -> bool:
        exponent = (abs(value) - self._center) ** 2 / (2 * self._sigma_squared)
        probability = Enclosure.exponential(exponent)

        def cuts(bits: int) -> list[Bounds]:
            return [probability.bounds(bits)]

        return settle(source, cuts, word, WORD_BITS) == 0


@lru_cache(maxsize=64)
def _proposal(sigma_squared: Fraction) -> Proposal:
    return Proposal(sigma_squared)
