"""What is public about a training problem: its size, its bounds, and how far its optimum can move."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from chary.errors import InvalidParameter
from chary.learning.erm.losses import Loss

# The unit roundoff u of float64.
ROUNDOFF: Final = Fraction(1, 2**53)
# Sums of blocks err by u times (4096 + n/4096) terms instead of n; a block of rows stays in the cache.
BLOCK: Final = 4096
# A millionth of a row's own effect adds as little to the sensitivity, and costs Newton's method a step or two.
REFINEMENT: Final = 10**6
# Gradient descent stays within twice the optimum and a little; the error of gradients is bounded for three times it.
BEYOND: Final = 3


@dataclass(frozen=True)
class Problem:
    """Minimise `mean(l(w.x, t)) + lam/2 |w|^2` over `size` rows of length at most `radius`, of `features` numbers.

    Everything here depends on public numbers only. Bounds are rationals, rounded up. With `length` the weights stay in
    the ball of that radius, for descents only: `sensitivity` and `tolerance` are those of an optimum that is free.
    Errors: `InvalidParameter` where float64 is too coarse for the regularisation.

    >>> from chary.learning.erm.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=1000, features=5)
    >>> float(problem.sensitivity)
    0.2000002...
    """

    loss: Loss
    radius: Fraction
    lam: Fraction
    size: int
    features: int
    length: Fraction | None = None

    def __post_init__(self) -> None:
        if self.length is None and 4 * self.tolerance > self.lam * self.norm:
            raise InvalidParameter("lam is too small for rows of this length: take a larger one, or scale the columns")

    @cached_property
    def norm(self) -> Fraction:
        """The most that the optimum's length can be."""
        free = self.loss.norm_up(self.radius, self.lam)
        return free if self.length is None else min(free, self.length)

    @cached_property
    def slope(self) -> Fraction:
        """The most that the loss of a row can rise per unit of its prediction, for weights no longer than `norm`."""
        return self.loss.slope_up(self.norm * self.radius)

    @property
    def lipschitz(self) -> Fraction:
        """L: the most that the gradient of a row's loss can be long, for weights no longer than `norm`."""
        return self.slope * self.radius

    @property
    def smoothness(self) -> Fraction:
        """The largest curvature of the objective."""
        return self.loss.curvature * self.radius**2 + self.lam

    @cached_property
    def float_error(self) -> Fraction:
        """How far a gradient in float64 can be from the exact one, for weights no longer than `BEYOND * norm`.

        A dot product of k terms errs by less than `1.01 k u |x| |w|` whatever the order of summation (Higham 2002,
        section 3.1). So a prediction errs by d of these, its slope by the curvature times that and 16 roundings, the
        mean of slopes times rows by a block's terms and the number of blocks; the result is doubled.
        """
        length = BEYOND * self.norm
        steepest = self.loss.slope_up(length * self.radius)
        prediction = (self.features + 4) * length * self.radius
        slope = self.loss.curvature * prediction + 16 * (steepest + 1)
        terms = BLOCK + -(-self.size // BLOCK) + self.features + 16
        return 2 * ROUNDOFF * (slope * self.radius + terms * (steepest * self.radius + self.lam * length))

    @cached_property
    def tolerance(self) -> Fraction:
        """eta: how long the gradient may be at the weights that are taken for the optimum.

        A millionth of what one row can add to it, or what plain gradient descent certainly reaches: with gradients
        that err by e it ends where the gradient is no longer than `e * smoothness / lam`.
        """
        return max(self.lipschitz / (REFINEMENT * self.size), (4 + 4 * self.smoothness / self.lam) * self.float_error)

    @property
    def sensitivity(self) -> Fraction:
        """How far (L2) the audited optimum can move when one row is replaced: `D / (lam n) + 2 eta / lam`.

        D bounds how far the gradients of two rows are apart, 2 L or less. At the optimum of one database the gradient
        of the other is at most D / n long, because all but one row are equal, and where a lam-strongly convex function
        has a gradient g its optimum is at most `|g| / lam` away. The same brings eta / lam for each of the two.
        """
        return (self.loss.apart_up(self.norm, self.radius) / self.size + 2 * self.tolerance) / self.lam

    @property
    def accepted(self) -> float:
        """A gradient in float64 of this length or less is certainly no longer than the tolerance."""
        return math.nextafter(float(self.tolerance - self.float_error), 0)
