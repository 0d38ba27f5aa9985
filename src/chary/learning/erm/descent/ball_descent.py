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

# So few cost little, and are enough for the smoothest problems.
LEAST_STEPS: Final = 64
# 20 + 32 bits keep predictions exact below 2**53, and 20 + 17 leave 16 bits for blocks of rows and 25 for all of them:
# a proven risk needs finer rounding than `NoisyDescent`, and pays for it with fewer rows.
FINE_ROWS: Final = 20
FINE_SLOPES: Final = 17
FINE_WEIGHTS: Final = 32
# Weights of steps rise for the first third of them and then stay. With T steps their sum is at least 5/18 T^2, and T
# times the sum of their squares at most 28/25 of the sum's square (docs/ermg.md): 1 would be even weights.
RISING: Final = 3
PROGRESS: Final = 5 / 18
AVERAGING: Final = 28 / 25
# As many steps as leave of the curvature's part of the bound a sixteenth of the noise's.
CURVED_SHARE: Final = 1 / 16


@dataclass(frozen=True)
class BallDescent:
    """Accelerated descent along noisy gradients in the ball of radius `problem.norm`, all rows in each step.

    Guarantee: rho-zCDP for what all steps publish, when one row is replaced by any other; the weights are a function
    of it. As many steps are taken as the public size and rho deserve, at most `most_steps`. The excess risk has the
    bound of `descent_law`, proven in docs/ermg.md.

    Step k has a weight a, which rises to a third of the number of steps and stays; A is the sum of weights so far. It
    queries the gradient at `y = x + (a/A) (z - x)`, moves z along it by `rate a` and back into the ball, and x to
    `x + (a/A) (z - x)`: Lan's stochastic acceleration (2012), here with weights and a rate for known noise.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), Fraction(1), Fraction(1, 10**6), size=100_000, features=5, length=Fraction(3))
    >>> BallDescent(problem, Fraction(1, 2), most_steps=1000).steps
    956
    """

    problem: Problem
    rho: Fraction
    most_steps: int

    @cached_property
    def steps(self) -> int:
        """From so many steps on the curvature matters little beside the noise; or as many as allowed."""
        problem, told = self.problem, self.problem.size * math.sqrt(2 * self.rho)
        curved = float(problem.smoothness * problem.norm) * told / PROGRESS
        loud = 2 * float(problem.lipschitz) * math.sqrt(AVERAGING * problem.features)
        return min(self.most_steps, max(LEAST_STEPS, math.ceil(math.sqrt(curved / (CURVED_SHARE * loud)))))

    @cached_property
    def step_weights(self) -> list[int]:
        """1, 2, ... up to a third of the number of steps, and so on."""
        most = -(-self.steps // RISING)
        return [min(step, most) for step in range(1, self.steps + 1)]

    @cached_property
    def noisy(self) -> NoisySum:
        """What each step publishes."""
        gradients = IntegerGradients(self.problem, FINE_ROWS, FINE_SLOPES, FINE_WEIGHTS)
        return NoisySum(gradients, self.rho / self.steps)

    @property
    def rate(self) -> float:
        """The first step; the others are as many times as long as their weight.

        Twice the smoothness is what a step has to leave for the curvature; the rest is the best rate for the noise.
        """
        squares = sum(weight**2 for weight in self.step_weights)
        loud = self.noisy.deviation * math.sqrt(self.problem.features * squares)
        return 1 / (2 * float(self.problem.smoothness) + loud / float(self.problem.norm))

    def weights(self, rows: Floats, targets: Floats, source: Source) -> Floats:
        """The weights after all steps, for rows (n x d) no longer than the radius and their targets."""
        whole, rate, lam = self.noisy.gradients.rows(rows), self.rate, float(self.problem.lam)
        found, total = np.zeros(rows.shape[1]), 0
        far = found
        for weight in self.step_weights:
            total += weight
            ahead = found + weight / total * (far - found)
            slope = self.noisy.mean(whole, targets, ahead, source) + lam * ahead
            far = inside(far - rate * weight * slope, self.problem)
            found = found + weight / total * (far - found)
        return found
