"""Gradient descent on exact integer gradients with discrete Gaussian noise: zero-concentrated DP."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.learning.erm.losses import Floats
from chary.learning.erm.problem import Problem
from chary.mechanisms import Gaussian
from chary.noise import Source

Integers = NDArray[np.int64]

ROW_BITS: Final = 14
WEIGHT_BITS: Final = 33
EXACT_BITS: Final = 53
KEPT_PART: Final = 2


@dataclass(frozen=True)
class NoisyDescent:
    """`steps` steps along noisy gradients, all rows in each, of a problem whose size is public.

    Guarantee: rho-zCDP for what all steps publish, when one row is replaced by any other; the weights are a function
    of it. Rows are rounded towards 0 to integers of `2**14` to the radius, weights to integers, so a prediction is an
    exact integer that depends on one row only; its slope is rounded to an integer of `2**14` to the steepest, so the
    gradient of a row is an integer vector no longer than `2**28`, and their sum is exact: a replaced row moves it by
    at most twice that (L2), whatever the rounding. Each step adds discrete Gaussian noise for rho / steps, and rho
    adds up over steps that depend on each other. Assumes that NumPy's functions of equal numbers are equal.

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
    def noise(self) -> Gaussian:
        """The noise of each step, in units of the sum of integer gradients."""
        return Gaussian.for_rho(self.rho / self.steps, l2_squared=(2 << 2 * ROW_BITS) ** 2)

    @property
    def deviation(self) -> float:
        """The noise in each coordinate of a step's mean gradient, as a standard deviation."""
        return math.sqrt(self.noise.sigma_squared) * self._unit

    def weights(self, rows: Floats, targets: Floats, source: Source) -> Floats:
        """The weights after all steps, for rows (n x d) no longer than the radius and their targets."""
        whole = integer_rows(rows, self.problem.radius)
        weights = ahead = kept = np.zeros(rows.shape[1])
        late = self.steps - self.steps // KEPT_PART
        for step in range(self.steps):
            total = self._integer_gradient(whole, targets, ahead)
            noisy = self.noise.apply(total, source).astype(np.float64) * self._unit
            slope = noisy + float(self.problem.lam) * ahead
            before, weights = weights, self._inside(ahead - slope / float(self.problem.smoothness))
            ahead = self._inside(weights + self._momentum(step) * (weights - before))
            if step >= self.steps - late:
                kept = kept + weights / late
        return kept

    def _momentum(self, step: int) -> float:
        """Nesterov's, which grows with the steps up to what suits the regularisation."""
        condition = math.sqrt(self.problem.smoothness / self.problem.lam)
        return min(step / (step + 3), (condition - 1) / (condition + 1))

    def _integer_gradient(self, rows: Floats, targets: Floats, weights: Floats) -> Integers:
        """The exact sum over rows of integer slopes times integer rows."""
        unit = float(self.problem.norm) / 2**WEIGHT_BITS
        short = np.rint(weights / unit)
        total = np.zeros(rows.shape[1], dtype=np.int64)
        most = 1 << EXACT_BITS - 2 * ROW_BITS
        for start in range(0, len(rows), most):
            block = rows[start : start + most]
            predictions = (block @ short) * (unit * float(self.problem.radius) / 2**ROW_BITS)
            slopes = self.problem.loss.slopes(predictions, targets[start : start + most])
            total += (_integers(slopes / float(self.problem.slope)) @ block).astype(np.int64)
        return total

    def _inside(self, weights: Floats) -> Floats:
        """The nearest weights no longer than the optimum can be, rounding included."""
        norm, length = float(self.problem.norm), float(np.linalg.norm(weights))
        return weights if length <= norm else weights * (norm / length)

    @property
    def _unit(self) -> float:
        """What one unit of the sum of integer gradients is in the mean gradient."""
        return float(self.problem.lipschitz) / (self.problem.size << 2 * ROW_BITS)


def integer_rows(rows: Floats, radius: Fraction) -> Floats:
    """Rows rounded towards 0 to integers, none longer than `2**14`; one that rounding left longer counts as zeros.

    >>> integer_rows(np.array([[0.6, -0.8], [1.0, 1.0]]), Fraction(1)).tolist()
    [[9830.0, -13107.0], [0.0, 0.0]]
    """
    whole = np.trunc(rows * (2**ROW_BITS / float(radius)))
    whole[(whole**2).sum(axis=1) > 1 << 2 * ROW_BITS] = 0
    return whole


def _integers(slopes: Floats) -> Floats:
    """Slopes, relative to the steepest, as whole numbers of at most `2**14`."""
    found: Floats = np.clip(np.rint(slopes * 2**ROW_BITS), -(2**ROW_BITS), 2**ROW_BITS)
    return found
