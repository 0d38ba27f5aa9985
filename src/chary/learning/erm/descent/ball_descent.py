"""Accelerated noisy gradient descent in a ball, with a proven bound of its excess risk."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from chary.learning.erm.descent.integer_gradients import IntegerGradients
from chary.learning.erm.descent.noisy_descent import inside
from chary.learning.erm.descent.noisy_sum import NoisySum
from chary.learning.erm.losses import Floats
from chary.learning.erm.problem import Problem
from chary.noise import Source

# The law takes its constants at the fewest steps: at 64 they are near what they are for many, and 64 cost little.
LEAST_STEPS: Final = 64
# 20 + 32 bits keep predictions exact below 2**53, and 20 + 17 leave 16 bits for blocks of rows and 25 for all of them:
# a proven risk needs finer rounding than `NoisyDescent`, and pays for it with fewer rows.
FINE_ROWS: Final = 20
FINE_SLOPES: Final = 17
FINE_WEIGHTS: Final = 32
# A rate of 1/(4 M) at most makes `M a r k <= 1/2` in the proof (docs/ermg.md): half of a step's gain is left for noise.
DAMPING: Final = 4


@dataclass(frozen=True)
class BallDescent:
    """Accelerated descent along noisy gradients in the ball of radius `problem.norm`, all rows in each step.

    Guarantee: rho-zCDP for what all steps publish, when one row is replaced by any other; the weights are a function
    of it. As many steps are taken as the public size and rho deserve, at most `most_steps`. The excess risk has the
    bound of `laws.descent_law`, proven in docs/ermg.md.

    Step k queries the gradient at `y = x + 2/(k+1) (z - x)`, moves z along it by `rate k` and back into the ball, and x
    to `x + 2/(k+1) (z - x)`: Lan's stochastic acceleration (2012), here with a rate for known noise.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), Fraction(1), Fraction(1, 10**6), size=100_000, features=5, length=Fraction(3))
    >>> BallDescent(problem, Fraction(1, 2), most_steps=1000).steps
    287
    """

    problem: Problem
    rho: Fraction
    most_steps: int

    @cached_property
    def steps(self) -> int:
        """From so many steps on the rate is bounded by the noise, no longer by the smoothness; or as many as allowed.

        With `sum of k^2 >= T^3/3` the noise term grows at least like T^2, which makes the root enough.
        """
        problem, told = self.problem, self.problem.size * math.sqrt(2 * self.rho)
        smooth = DAMPING * float(problem.smoothness * problem.norm) * told
        needed = math.sqrt(smooth / (2 * float(problem.lipschitz) * math.sqrt(2 * problem.features / 3)))
        return min(self.most_steps, max(LEAST_STEPS, math.ceil(needed)))

    @cached_property
    def noisy(self) -> NoisySum:
        """What each step publishes."""
        gradients = IntegerGradients(self.problem, FINE_ROWS, FINE_SLOPES, FINE_WEIGHTS)
        return NoisySum(gradients, self.rho / self.steps)

    @property
    def rate(self) -> float:
        """The first step; the k-th is k times as long."""
        squares = self.steps * (self.steps + 1) * (2 * self.steps + 1) / 6
        loud = self.noisy.deviation * math.sqrt(2 * self.problem.features * squares)
        return min(1 / (DAMPING * float(self.problem.smoothness)), float(self.problem.norm) / loud)

    def weights(self, rows: Floats, targets: Floats, source: Source) -> Floats:
        """The weights after all steps, for rows (n x d) no longer than the radius and their targets."""
        whole, rate, lam = self.noisy.gradients.rows(rows), self.rate, float(self.problem.lam)
        found = far = np.zeros(rows.shape[1])
        for step in range(1, self.steps + 1):
            ahead = found + 2 / (step + 1) * (far - found)
            slope = self.noisy.mean(whole, targets, ahead, source) + lam * ahead
            far = inside(far - rate * step * slope, self.problem)
            found = found + 2 / (step + 1) * (far - found)
        return found
