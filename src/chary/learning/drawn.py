"""Weights drawn from a lattice in a ball by the exponential mechanism: pure training whose risk falls as 1/n."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.learning.descent import integer_rows
from chary.learning.losses import Floats
from chary.learning.optimum import Problem
from chary.mechanisms import Exponential
from chary.noise import Source

# A loss is an integer of 2**-20 of the most that it can be from that of no weights.
LOSS_BITS: Final = 20
# Rows are integers of 2**-20 of the radius.
ROW_BITS: Final = 20
# Each point's loss is that of every row, this many points take long; more dimensions than that leave few to an axis.
MOST_POINTS: Final = 1 << 20
# Numbers of a block of rows beside all points, in float64.
BLOCK: Final = 1 << 22


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
        whole_rows = integer_rows(rows, self.problem.radius, ROW_BITS)
        unit = self.spacing * float(self.problem.radius) / 2**ROW_BITS
        penalty = len(rows) * float(self.problem.lam) / 2 * (points**2).sum(axis=1) * self.spacing**2
        total: NDArray[np.int64] = np.rint(penalty / step).astype(np.int64)
        height = max(1, BLOCK // len(points))
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
