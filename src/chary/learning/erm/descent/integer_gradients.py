"""Sums of gradients that float64 computes exactly, because everything in them is a whole number."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.learning.erm.losses import Floats
from chary.learning.erm.problem import Problem

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
    `2**row_bits` to the radius, weights to integers of `2**weight_bits` to the longest, so a prediction is an exact
    integer; its slope is rounded to an integer of `2**slope_bits` to the steepest, so the gradient of a row is no
    longer than `longest`, and the sum is exact in blocks. Assumes that NumPy's functions of equal numbers are equal,
    and row and weight bits of 52 at most together. Errors: `InvalidParameter` for more rows than 64 bits hold the sum
    of.

    >>> from chary.learning.erm.losses import Logistic
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
            raise InvalidParameter("so many rows cannot be summed up exactly")

    @property
    def longest(self) -> int:
        """The most that the gradient of a row can be long."""
        return 1 << self.row_bits + self.slope_bits

    @property
    def unit(self) -> float:
        """What one unit of the sum is in the mean gradient."""
        return float(self.problem.lipschitz) / (self.problem.size * self.longest)

    def rows(self, rows: Floats) -> Floats:
        """Rows as whole numbers; `InvalidParameter` for another number of columns than the problem has."""
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
    """Slopes, relative to the steepest, as whole numbers of at most `2**bits`."""
    found: Floats = np.clip(np.rint(slopes * 2**bits), -(2**bits), 2**bits)
    return found
