"""Gradient descent on exact integer gradients with discrete Gaussian noise: zero-concentrated DP."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from chary.learning.erm.descent.integer_gradients import IntegerGradients
from chary.learning.erm.descent.noisy_sum import NoisySum
from chary.learning.erm.losses import Floats
from chary.learning.erm.problem import Problem
from chary.mechanisms import Gaussian
from chary.noise import Source

# The second half: early steps are far from the optimum, and the mean of many late ones has less noise than the last.
KEPT_PART: Final = 2


@dataclass(frozen=True)
class NoisyDescent:
    """`steps` steps along noisy gradients, all rows in each, of a problem whose size is public.

    Guarantee: rho-zCDP for what all steps publish, when one row is replaced by any other; the weights are a function
    of it. Each step adds the discrete Gaussian noise of `NoisySum` for rho / steps, and rho adds up over steps that
    depend on each other.

    Steps of 1/smoothness with Nesterov's momentum end in the ball that holds the optimum. The weights are the mean of
    the second half of them.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=1000, features=5)
    >>> NoisyDescent(problem, Fraction(1, 50), steps=64).deviation
    0.08
    """

    problem: Problem
    rho: Fraction
    steps: int

    @cached_property
    def gradients(self) -> IntegerGradients:
        """The exact sums to which noise is added."""
        return IntegerGradients(self.problem)

    @cached_property
    def noisy(self) -> NoisySum:
        """What each step publishes."""
        return NoisySum(self.gradients, self.rho / self.steps)

    @property
    def noise(self) -> Gaussian:
        """The noise of each step, in units of the sum of integer gradients."""
        return self.noisy.noise

    @property
    def deviation(self) -> float:
        """The noise in each coordinate of a step's mean gradient, as a standard deviation."""
        return self.noisy.deviation

    def weights(self, rows: Floats, targets: Floats, source: Source) -> Floats:
        """The weights after all steps, for rows (n x d) no longer than the radius and their targets."""
        whole = self.gradients.rows(rows)
        weights = ahead = kept = np.zeros(rows.shape[1])
        late = self.steps - self.steps // KEPT_PART
        for step in range(self.steps):
            slope = self.noisy.mean(whole, targets, ahead, source) + float(self.problem.lam) * ahead
            before, weights = weights, inside(ahead - slope / float(self.problem.smoothness), self.problem)
            ahead = inside(weights + self._momentum(step) * (weights - before), self.problem)
            if step >= self.steps - late:
                kept = kept + weights / late
        return kept

    def _momentum(self, step: int) -> float:
        """Nesterov's, which grows with the steps up to what suits the regularisation."""
        condition = math.sqrt(self.problem.smoothness / self.problem.lam)
        return min(step / (step + 3), (condition - 1) / (condition + 1))


def inside(weights: Floats, problem: Problem) -> Floats:
    """The nearest weights no longer than the optimum can be, rounding included."""
    norm, length = float(problem.norm), float(np.linalg.norm(weights))
    return weights if length <= norm else weights * (norm / length)
