"""The optimum of a training problem: how far it moves, how exactly it is found, the noise that publishes it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import Final

import numpy as np

from chary.errors import InvalidParameter
from chary.learning.losses import Floats, Loss, root_bounds
from chary.noise import Deviate, Source, normals

# What is public about a training problem: its size, its bounds, and how far its optimum can move.

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

    >>> from chary.learning.losses import Logistic
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
        section 3.1). So a prediction errs by d of these, and its slope by the curvature times that and 16 roundings.
        The mean of slopes times rows errs by a block's terms and the number of blocks. The result is doubled.
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

        It is the larger of two numbers. One is a millionth of what one row can add to it. The other is what plain
        gradient descent certainly reaches: with gradients that err by e it ends where the gradient is no longer than `e
        * smoothness / lam`.
        """
        return max(self.lipschitz / (REFINEMENT * self.size), (4 + 4 * self.smoothness / self.lam) * self.float_error)

    @property
    def sensitivity(self) -> Fraction:
        """How far (L2) the audited optimum can move when one row is replaced: `D / (lam n) + 2 eta / lam`.

        D bounds how far the gradients of two rows are apart, 2 L or less. At the optimum of one database the gradient
        of the other is at most D / n long, because all but one row are equal. Where a lam-strongly convex function has
        a gradient g its optimum is at most `|g| / lam` away. The same brings eta / lam for each of the two.
        """
        return (self.loss.apart_up(self.norm, self.radius) / self.size + 2 * self.tolerance) / self.lam

    @property
    def accepted(self) -> float:
        """A gradient in float64 of this length or less is certainly no longer than the tolerance."""
        return math.nextafter(float(self.tolerance - self.float_error), 0)


# The audited optimum: weights at which the exact gradient is certainly no longer than a public tolerance.

# Newton's method ends in some ten steps where it ends at all; else gradient descent takes over, which always ends. A
# step of 2**-30 that does not help is lost in rounding.
NEWTON_STEPS: Final = 100
HALVINGS: Final = 30


@dataclass(frozen=True, eq=False)
class Objective:
    """A problem with its rows (n x d, each no longer than the radius) and targets."""

    problem: Problem
    rows: Floats
    targets: Floats

    def gradient(self, weights: Floats) -> Floats:
        """The gradient in float64; it errs by at most `problem.float_error` where weights are short enough."""
        total = np.zeros(len(weights))
        for rows, targets in self._blocks():
            total += self.problem.loss.slopes(rows @ weights, targets) @ rows
        return total / self.problem.size + float(self.problem.lam) * weights

    def hessian(self, weights: Floats) -> Floats:
        """The second derivative, nearly."""
        # A matrix times itself has no negative direction, so `solve` finds one that descends.
        bend = np.sqrt(self.problem.loss.curvatures(self.rows @ weights, self.targets))
        bent = self.rows * bend[:, None]
        return bent.T @ bent / self.problem.size + float(self.problem.lam) * np.eye(len(weights))

    def _blocks(self) -> Iterator[tuple[Floats, Floats]]:
        for start in range(0, len(self.rows), BLOCK):
            yield self.rows[start : start + BLOCK], self.targets[start : start + BLOCK]


def audited_optimum(objective: Objective, newton_steps: int = NEWTON_STEPS) -> Floats:
    """Weights whose exact gradient is no longer than `objective.problem.tolerance`, whatever the rows.

    Newton's method, its steps halved until the gradient shrinks, is tried first. What it finds is taken only if it
    passes the test. Else gradient descent from 0 with the step 1/smoothness passes it. In exact arithmetic it halves
    the distance to the optimum at least every `smoothness / lam` steps. Rounding errors e move its limit by e / lam,
    and the tolerance allows for that. Its iterates are no longer than twice the optimum and e / lam. So the loop ends
    on every input. How long it takes depends on the rows.
    """
    weights = _newton(objective, newton_steps)
    if passes(objective, weights):
        return weights
    weights, step = np.zeros_like(weights), 1 / float(objective.problem.smoothness)
    while not passes(objective, weights):
        weights -= step * objective.gradient(weights)
    return weights


def passes(objective: Objective, weights: Floats) -> bool:
    """Whether the exact gradient at these weights is certainly no longer than the tolerance."""
    short = float(np.linalg.norm(weights)) <= (BEYOND - 0.5) * float(objective.problem.norm)
    return short and bool(np.linalg.norm(objective.gradient(weights)) <= objective.problem.accepted)


def _newton(objective: Objective, steps: int) -> Floats:
    weights = np.zeros(objective.rows.shape[1])
    gradient = objective.gradient(weights)
    for _ in range(steps):
        if np.linalg.norm(gradient) <= objective.problem.accepted:
            break
        direction = np.asarray(np.linalg.solve(objective.hessian(weights), gradient), dtype=np.float64)
        shorter = _shorter(objective, weights, direction, float(np.linalg.norm(gradient)))
        if shorter is None:
            break
        weights, gradient = shorter
    return weights


def _shorter(objective: Objective, weights: Floats, direction: Floats, length: float) -> tuple[Floats, Floats] | None:
    """The first of a step, half of it, ... after which the gradient is shorter, with that gradient."""
    for halving in range(HALVINGS):
        tried = weights - direction / 2**halving
        gradient = objective.gradient(tried)
        if np.linalg.norm(gradient) < length:
            return tried, gradient
    return None


# Spherical noise in any dimension, of density exp(-|b|/scale) or Gaussian, added to real numbers and published on a
# grid, exactly.

# A deviate that is refined has 64 bits more, so the root of the sum of squares is worth as many.
ROOT_BITS = 64
# Half a cell is then 1/2000 of the noise at most: accuracy only, for the grid costs no privacy.
FINENESS = 1024


def grid_for(scale: Fraction) -> Fraction:
    """A power of two, at most a thousandth of the scale and at least half of that.

    >>> grid_for(Fraction(3)), grid_for(Fraction(1, 4))
    (Fraction(1, 512), Fraction(1, 4096))
    """
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    power = Fraction(2) ** exponent
    return (power if power <= scale else power / 2) / FINENESS


def cells(center: Sequence[Fraction], scale: Fraction, grid: Fraction, source: Source) -> list[int]:
    """`floor((center + b) / grid)` in each coordinate, for one draw b with density proportional to `exp(-|b|/scale)`.

    Guarantee: epsilon-DP when the center is a function of the data that moves by at most `epsilon * scale` (L2). The
    real vector `center + b` is epsilon-DP, because the density changes by a factor of `exp(|shift| / scale)` at most.
    The cells are a function of it, so the grid costs nothing, however coarse. No rounding takes part. A cell is
    published when all real numbers that begin with the bits drawn so far lie in it, and else more bits are drawn.

    With d coordinates, `b = scale |u| z` for d + 1 normal deviates u and d others z. For exp(-r) is the mixture of the
    densities of `N(0, v I)` over `v ~ chi-squared` of d + 1 degrees of freedom. This follows from `exp(-r) = integral
    of exp(-r^2/(2v)) v^(-1/2) exp(-v/2) dv / sqrt(2 pi)` and `v^(-1/2) = v^(-d/2) v^((d+1)/2 - 1)`.

    >>> from chary.noise import OperatingSystem
    >>> cells([Fraction(1, 3)] * 4, Fraction(1, 2**80), Fraction(1, 8), OperatingSystem())
    [2, 2, 2, 2]
    """
    drawn = normals(source, 2 * len(center) + 1)
    radial = [drawn.one(place) for place in range(len(center) + 1)]
    bounds, bits, found = _length(radial, ROOT_BITS), ROOT_BITS, []
    for place, start in enumerate(center, start=len(center) + 1):
        z = drawn.one(place)
        while (cell := _cell(start / grid, scale / grid, bounds, z)) is None:
            z, radial, bits = z.refined(source), [u.refined(source) for u in radial], bits + ROOT_BITS
            bounds = _length(radial, bits)
        found.append(cell)
    return found


def gaussian_cells(center: Sequence[Fraction], sigma: Fraction, grid: Fraction, source: Source) -> list[int]:
    """`floor((center + sigma z) / grid)` in each coordinate, for standard normal deviates z.

    Guarantee: rho-zCDP when the center is a function of the data that moves by at most `sigma sqrt(2 rho)` (L2). The
    real vector is, by the Gaussian mechanism (Bun, Steinke 2016, Lemma 2.5), and the cells are a function of it, exact
    in the same way as those of `cells`.

    >>> from chary.noise import OperatingSystem
    >>> gaussian_cells([Fraction(1, 3)] * 4, Fraction(1, 2**80), Fraction(1, 8), OperatingSystem())
    [2, 2, 2, 2]
    """
    drawn, found = normals(source, len(center)), []
    for place, start in enumerate(center):
        z = drawn.one(place)
        while (cell := _cell(start / grid, sigma / grid, (Fraction(1), Fraction(1)), z)) is None:
            z = z.refined(source)
        found.append(cell)
    return found


def _cell(start: Fraction, unit: Fraction, length: tuple[Fraction, Fraction], z: Deviate) -> int | None:
    """The cell of `start + unit * length * z`, None while two are possible."""
    low, high = _ends(z)
    cell = floor(start + unit * low * length[low < 0])
    return cell if start + unit * high * length[high > 0] < cell + 1 else None


def _length(radial: Sequence[Deviate], bits: int) -> tuple[Fraction, Fraction]:
    """Bounds on the length of a vector of deviates."""
    squares = [sorted(end**2 for end in _ends(u)) for u in radial]
    least, most = (sum(side, Fraction(0)) for side in zip(*squares, strict=True))
    return root_bounds(least, bits)[0], root_bounds(most, bits)[1]


def _ends(z: Deviate) -> tuple[Fraction, Fraction]:
    """The least and the largest number that begins like this; both have the same sign."""
    unit = 1 << z.bits
    return Fraction(z.floor, unit), Fraction(z.floor + 1, unit)
