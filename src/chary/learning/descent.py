"""Private weights: noisy gradient descent on exact integer gradients, or a draw from a lattice in a ball."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.learning.losses import Floats
from chary.learning.optimum import Problem
from chary.mechanisms import Exponential, Gaussian
from chary.noise import Source

# Sums of gradients that float64 computes exactly, because everything in them is an integer.

Integers = NDArray[np.int64]

# 14 + 14 bits leave 25 for a block of rows within the 53 that float64 adds exactly, and 34 for all rows in int64; 14 +
# 33 bits keep predictions below 2**47. The noise of a step is far coarser than a part in 2**14.
ROW_BITS: Final = 14
SLOPE_BITS: Final = 14
WEIGHT_BITS: Final = 33
# Whole numbers up to 2**53 are floats, so such sums are exact in whatever order they are added. Otherwise a replaced
# row could move all coordinates by roundings that no noise was made for.
EXACT_BITS: Final = 53
# One bit below int64, so that the sum of a row more or less still fits.
LARGEST_SUM: Final = 1 << 62


@dataclass(frozen=True)
class IntegerGradients:
    """The gradients of rows, each an integer vector that depends on its row and the weights alone, and their sum.

    Guarantee: a replaced row moves the sum by at most `2 * longest` (L2). Rows are rounded towards 0 to integers of
    `2**row_bits` to the radius, weights to integers of `2**weight_bits` to the longest. So a prediction is an exact
    integer. Its slope is rounded to an integer of `2**slope_bits` to the steepest, so the gradient of a row is no
    longer than `longest`, and the sum is exact in blocks. This assumes that NumPy's functions of equal numbers are
    equal, and that there are 52 row and weight bits together at most. Errors: `InvalidParameter` for more rows than 64
    bits hold the sum of.

    >>> from chary.learning.losses import Logistic
    >>> made = IntegerGradients(Problem(Logistic(), Fraction(1), Fraction(1, 100), size=2, features=1))
    >>> made.total(made.rows(np.array([[0.5], [1.0]])), np.array([1.0, 1.0]), np.array([0.0])) * made.unit
    array([-0.375])
    """

    problem: Problem
    row_bits: int = ROW_BITS
    slope_bits: int = SLOPE_BITS
    weight_bits: int = WEIGHT_BITS

    def __post_init__(self) -> None:
        if self.problem.size * self.longest > LARGEST_SUM:
            raise InvalidParameter("this many rows cannot be summed up exactly")

    @property
    def longest(self) -> int:
        """The most that the gradient of a row can be long."""
        return 1 << self.row_bits + self.slope_bits

    @property
    def unit(self) -> float:
        """What one unit of the sum is in the mean gradient."""
        return float(self.problem.lipschitz) / (self.problem.size * self.longest)

    def rows(self, rows: Floats) -> Floats:
        """Rows as integers; `InvalidParameter` for another number of columns than the problem has."""
        if rows.shape[1:] != (self.problem.features,):
            raise InvalidParameter(f"rows of this problem have {self.problem.features} columns")
        return integer_rows(rows, self.problem.radius, self.row_bits)

    def total(self, rows: Floats, targets: Floats, weights: Floats) -> Integers:
        """The exact sum over whole rows of whole slopes times rows."""
        unit = float(self.problem.norm) / 2**self.weight_bits
        short = np.rint(weights / unit)
        total = np.zeros(rows.shape[1], dtype=np.int64)
        most = 1 << EXACT_BITS - self.row_bits - self.slope_bits
        for start in range(0, len(rows), most):
            block = rows[start : start + most]
            predictions = (block @ short) * (unit * float(self.problem.radius) / 2**self.row_bits)
            slopes = self.problem.loss.slopes(predictions, targets[start : start + most])
            total += (_integers(slopes / float(self.problem.slope), self.slope_bits) @ block).astype(np.int64)
        return total


def integer_rows(rows: Floats, radius: Fraction, bits: int = ROW_BITS) -> Floats:
    """Rows rounded towards 0 to integers, none longer than `2**bits`; one that is longer or no number counts as zeros.

    >>> integer_rows(np.array([[0.6, -0.8], [1.0, 1.0]]), Fraction(1)).tolist()
    [[9830.0, -13107.0], [0.0, 0.0]]
    """
    # Towards 0, so that rounding shortens a row; a row that is too long for any other reason counts for nothing.
    whole: Floats = np.trunc(rows * (2**bits / float(radius)))
    # Not `>`: a row with a NaN is not longer than anything, and would make a sum that no noise hides.
    whole[~((whole**2).sum(axis=1) <= 1 << 2 * bits)] = 0
    return whole


def _integers(slopes: Floats, bits: int) -> Floats:
    """Slopes, relative to the steepest, as integers of at most `2**bits`."""
    found: Floats = np.clip(np.rint(slopes * 2**bits), -(2**bits), 2**bits)
    return found


# The mean gradient with discrete Gaussian noise, at any rho.

# Half of what the sampler takes, 2**80, so that the rounding of d coordinates finds room. With the 14 bits that always
# stay, a rho of 2**-50 needs just that: (2 * 2**14)**2 / (2 * 2**-50) = 2**79.
LARGEST_VARIANCE: Final = 1 << 79
KEPT_BITS: Final = 14
LEAST_RHO: Final = Fraction(1, 2**50)


@dataclass(frozen=True)
class NoisySum:
    """The exact sum of integer gradients with discrete Gaussian noise, as a mean gradient.

    Guarantee: rho-zCDP when one row is replaced, whatever the rounding. Where rho is so small that the noise would not
    fit into 64 bits, the sum is first rounded down to multiples of `2**shift`. Rounding moves each of the d coordinates
    by less than one of those steps. So two sums that were D apart are at most `D / 2**shift + sqrt(d)` steps apart.
    Errors: `InvalidParameter` for a rho below `LEAST_RHO`, 2**-50, with which even the fewest bits kept do not fit.

    >>> from chary.learning.losses import Logistic
    >>> from chary.learning.optimum import Problem
    >>> gradients = IntegerGradients(Problem(Logistic(), Fraction(1), Fraction(1, 100), size=1000, features=4))
    >>> NoisySum(gradients, Fraction(1, 800)).deviation, NoisySum(gradients, Fraction(1, 2**40)).shift
    (0.04, 10)
    """

    gradients: IntegerGradients
    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho < LEAST_RHO:
            raise InvalidParameter("rho is too small for these steps: each needs at least 1e-15 of it, so give more")

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
        return self.noise.apply(total, source).astype(np.float64) * self.unit

    def _apart(self, shift: int) -> int:
        """How far two sums can be apart, in multiples of `2**shift`."""
        rounding = math.isqrt(self.gradients.problem.features - 1) + 1 if shift else 0
        return (2 * self.gradients.longest >> shift) + rounding


# Gradient descent on exact integer gradients with discrete Gaussian noise: zero-concentrated DP.

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

    >>> from chary.learning.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=1000, features=5)
    >>> NoisyDescent(problem, Fraction(1, 50), steps=64).noisy.deviation
    0.08
    """

    problem: Problem
    rho: Fraction
    steps: int

    @cached_property
    def noisy(self) -> NoisySum:
        """What each step publishes."""
        return NoisySum(IntegerGradients(self.problem), self.rho / self.steps)

    def weights(self, rows: Floats, targets: Floats, source: Source) -> Floats:
        """The weights after all steps, for rows (n x d) no longer than the radius and their targets."""
        whole = self.noisy.gradients.rows(rows)
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


# Accelerated noisy gradient descent in a ball, with a proven bound of its excess risk.

# So few cost little, and are enough for the smoothest problems.
LEAST_STEPS: Final = 64
# 20 + 32 bits keep predictions exact below 2**53, and 20 + 17 leave 16 bits for blocks of rows and 25 for all of them:
# a proven risk needs finer rounding than `NoisyDescent`, and pays for it with fewer rows.
FINE_ROWS: Final = 20
FINE_SLOPES: Final = 17
FINE_WEIGHTS: Final = 32
# Weights of steps rise for the first third of them and then stay. With T steps their sum is at least 5/18 T^2, and T
# times the sum of their squares at most 28/25 of the sum's square (docs/theory/ermg.md): 1 would be even weights.
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
    bound of `descent_law`, proven in docs/theory/ermg.md.

    Step k has a weight a, which rises to a third of the number of steps and stays; A is the sum of weights so far. The
    step queries the gradient at `y = x + (a/A) (z - x)`. It moves z along it by `rate a` and back into the ball, and x
    to `x + (a/A) (z - x)`. This is Lan's stochastic acceleration (2012), here with weights and a rate for known noise.

    >>> from chary.learning.losses import Logistic
    >>> problem = Problem(Logistic(), Fraction(1), Fraction(1, 10**6), size=100_000, features=5, length=Fraction(3))
    >>> BallDescent(problem, Fraction(1, 2), most_steps=1000).steps
    956
    """

    problem: Problem
    rho: Fraction
    most_steps: int

    @cached_property
    def steps(self) -> int:
        """From this many steps on the curvature matters little next to the noise; or as many as allowed."""
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


# Weights drawn from a lattice in a ball by the exponential mechanism: pure training whose risk falls as 1/n.

# A loss is an integer of 2**-20 of the most that it can be from that of no weights.
LOSS_BITS: Final = 20
# Rows are integers of 2**-20 of the radius.
LATTICE_BITS: Final = 20
# Each point's loss is that of every row, this many points take long; more dimensions than that leave few to an axis.
MOST_POINTS: Final = 1 << 20
# Numbers of a block of rows beside all points, in float64.
LATTICE_BLOCK: Final = 1 << 22


@dataclass(frozen=True)
class DrawnWeights:
    """Weights drawn with probability exactly proportional to `exp(-epsilon n F(w) / (4 L W))` from lattice points.

    F is the mean loss and `lam/2 |w|^2`, L its steepness, W the radius of the ball (`problem.norm`). The lattice has
    `points` points from the middle to the edge on each axis.

    Guarantee: epsilon-DP when one row is replaced, whatever its loss. A row at w counts its loss there less that at 0,
    as an integer of steps of `L W / 2**20`, clipped to `[-2**20, 2**20]`. So a row moves the sum by at most `2**21`; a
    loss that is no number counts as 0. Rows and points are integers. So a prediction is exact and depends on its row
    and point alone, not on its place among others. This assumes that NumPy's functions of equal numbers are equal.
    Errors: `InvalidParameter` for more than a million points.

    >>> from chary.learning.losses import Logistic
    >>> line = Problem(Logistic(), Fraction(1), Fraction(1, 10**6), size=1000, features=1, length=Fraction(2))
    >>> DrawnWeights(line, points=4).lattice.ravel().tolist()
    [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]
    """

    problem: Problem
    points: int

    def __post_init__(self) -> None:
        if self.problem.features * math.log2(2 * self.points + 1) > math.log2(MOST_POINTS):
            raise InvalidParameter(
                f"a lattice of {self.points} points an axis has more than a million in {self.problem.features} "
                "dimensions: take fewer points or columns, or train with rho="
            )

    @property
    def spacing(self) -> float:
        """How far apart neighbouring points are."""
        return float(self.problem.norm) / self.points

    @property
    def lattice(self) -> Floats:
        """All points, a row each."""
        return np.multiply(self._places, self.spacing, dtype=np.float64)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """The same in units of the spacing."""
        axis = np.arange(-self.points, self.points + 1)
        cube = np.stack(np.meshgrid(*[axis] * self.problem.features, indexing="ij"), axis=-1)
        whole = cube.reshape(-1, self.problem.features)
        inside: NDArray[np.int64] = whole[(whole**2).sum(axis=1) <= self.points**2]
        return inside

    @property
    def most(self) -> Fraction:
        """The most that the loss of a row can be from that at 0: L W."""
        return self.problem.lipschitz * self.problem.norm

    def losses(self, rows: Floats, targets: Floats) -> NDArray[np.int64]:
        """The clipped losses of all rows at each point, summed up, and the penalty, in steps."""
        points, step = self._places.astype(np.float64), float(self.most) / 2**LOSS_BITS
        # A row of 2**20 steps and a point of 2**19 spacings at most: their product is exact, however it is summed up.
        whole_rows = integer_rows(rows, self.problem.radius, LATTICE_BITS)
        unit = self.spacing * float(self.problem.radius) / 2**LATTICE_BITS
        penalty = len(rows) * float(self.problem.lam) / 2 * (points**2).sum(axis=1) * self.spacing**2
        total: NDArray[np.int64] = np.rint(penalty / step).astype(np.int64)
        height = max(1, LATTICE_BLOCK // len(points))
        for start in range(0, len(rows), height):
            block, aims = whole_rows[start : start + height], targets[start : start + height, None]
            with np.errstate(all="ignore"):
                found = self.problem.loss.values((block @ points.T) * unit, aims)
                whole = np.rint((found - self.problem.loss.values(np.zeros_like(aims), aims)) / step)
            whole[~np.isfinite(whole)] = 0
            total += np.clip(whole, -(2**LOSS_BITS), 2**LOSS_BITS).astype(np.int64).sum(axis=0)
        return total

    def choice(self, epsilon: Fraction) -> Exponential:
        """The exponential mechanism among the points; utilities are losses below 0."""
        return Exponential(epsilon, sensitivity=2 << LOSS_BITS)

    def weights(self, rows: Floats, targets: Floats, epsilon: Fraction, source: Source) -> Floats:
        """The weights that were drawn, for rows (n x d) no longer than the radius and their targets."""
        place = self.choice(epsilon).step(-self.losses(rows, targets), source)
        drawn: Floats = self.lattice[place]
        return drawn
