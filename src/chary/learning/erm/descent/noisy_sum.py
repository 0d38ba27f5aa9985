"""The mean gradient with discrete Gaussian noise, at any rho."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from chary.errors import InvalidParameter
from chary.learning.erm.descent.integer_gradients import IntegerGradients
from chary.learning.erm.losses import Floats
from chary.mechanisms import Gaussian
from chary.noise import Source

# Half of what the sampler takes, 2**80, so that the rounding of d coordinates finds room. With the 14 bits that always
# stay, a rho of 2**-50 needs just that: (2 * 2**14)**2 / (2 * 2**-50) = 2**79.
LARGEST_VARIANCE: Final = 1 << 79
KEPT_BITS: Final = 14
LEAST_RHO: Final = Fraction(1, 2**50)


@dataclass(frozen=True)
class NoisySum:
    """The exact sum of integer gradients with discrete Gaussian noise, as a mean gradient.

    Guarantee: rho-zCDP when one row is replaced, whatever the rounding. Where rho is so small that the noise would not
    fit into 64 bits, the sum is first rounded down to multiples of `2**shift`: rounding moves each of the d coordinates
    by less than one of those steps, so two sums that were D apart are at most `D / 2**shift + sqrt(d)` steps apart.
    Errors: `InvalidParameter` for a rho below `LEAST_RHO`, 2**-50, with which even the fewest bits kept do not fit.

    >>> from chary.learning.erm.losses import Logistic
    >>> from chary.learning.erm.problem import Problem
    >>> gradients = IntegerGradients(Problem(Logistic(), Fraction(1), Fraction(1, 100), size=1000, features=4))
    >>> NoisySum(gradients, Fraction(1, 800)).deviation, NoisySum(gradients, Fraction(1, 2**40)).shift
    (0.04, 10)
    """

    gradients: IntegerGradients
    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho < LEAST_RHO:
            raise InvalidParameter("rho is too small for so many steps: each needs at least 1e-15 of it, so give more")

    @cached_property
    def shift(self) -> int:
        """How many bits of the sum are dropped: none if the noise fits anyway."""
        shift, most = 0, self.gradients.longest.bit_length() - 1 - KEPT_BITS
        while shift < most and self._apart(shift) ** 2 > 2 * self.rho * LARGEST_VARIANCE:
            shift += 1
        return shift

    @cached_property
    def noise(self) -> Gaussian:
        """The noise, in multiples of `2**shift` units of the sum."""
        return Gaussian.for_rho(self.rho, l2_squared=self._apart(self.shift) ** 2)

    @property
    def deviation(self) -> float:
        """The noise in each coordinate of the mean gradient, as a standard deviation."""
        return float(math.sqrt(self.noise.sigma_squared) * self.unit)

    @cached_property
    def unit(self) -> float:
        """What one step of the noisy sum is in the mean gradient."""
        return math.ldexp(self.gradients.unit, self.shift)

    def mean(self, rows: Floats, targets: Floats, weights: Floats, source: Source) -> Floats:
        """The noisy mean gradient at these weights, of whole rows."""
        # `>>` rounds down for negative numbers, too: every coordinate moves by less than one step.
        total = self.gradients.total(rows, targets, weights) >> self.shift
        noisy: Floats = self.noise.apply(total, source).astype(np.float64) * self.unit
        return noisy

    def _apart(self, shift: int) -> int:
        """How far two sums can be apart, in multiples of `2**shift`."""
        rounding = math.isqrt(self.gradients.problem.features - 1) + 1 if shift else 0
        return (2 * self.gradients.longest >> shift) + rounding
