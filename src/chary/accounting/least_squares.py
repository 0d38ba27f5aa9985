"""Least squares from noisy sums of squares and products: intervals for the noise alone, and for noise and sample."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.accuracy import gaussian_sum_error_up, laplace_sum_error_up, length_up
from chary.numbers import Number, probability

# Rows z = (x, y), x with a constant first. Known is A + E for the matrix A of the sums of z z', of which S are those of
# x x' and t those of x y. The coefficients b of the rows solve S b = t, so what is known, S~ and t~, has
#     S~ b - t~ = (E v without its last entry) with v = (b, -1).
# b belongs to the rows and knows no noise, so the length of E v has a bound in every direction: p + r |b|^2, squared,
# but for a probability of beta. All b for which it holds are an ellipsoid where no eigenvalue of S~ is below sqrt(r),
# and its shadow on a line is an interval; otherwise they may lie anywhere. So it is where a column follows from the
# others, but for the same beta: S u = 0 for a u, and |S~ u|^2 = |E u|^2 is at most r |u|^2 as well.
#
# A combination a'b has a narrower interval. w = S^-1 a belongs to the rows, too, and S~ w = a + E w; so
#     w'(E v) = w' S~ (b - b~) = a'(b - b~) + (E w)'(b - b~)
# for the noisy solution b~. On the left is a weighted sum of noises. The product is at most sqrt(r) |w| |b - b~|, the
# noise twice, and |w| and |b| have bounds from their ellipsoids. Nothing is linearized.
#
# *Gaussian noise*, variance s^2 on the diagonal and s^2/2 off it: w'(E v) has the variance s^2/2 (|w|^2 |v|^2 +
# (w'b)^2), so the covariance of E v without its last entry is at most s^2/2 (1 + 2 |b|^2). *Laplace noise* of scale s:
# each entry of E v is a weighted sum of noises, and a bound for all entries together one for the length.
#
# The variance of what is left of y, v'A v, is a scalar of the same kind. It and a'w say how far a sample moves a'b.

Floats = NDArray[np.float64]
# Of the risk of an interval: the ellipsoid of the coefficients, that of w, and the weighted sum of noises.
_OF_ALL: Final = 0.2
_OF_INVERSE: Final = 0.1
_OF_SUM: Final = 0.7
# Of that of a population's: the sample, the interval of the rows' coefficient, what is left of y, how many rows.
_SAMPLE: Final = 0.5
_NEAR: Final = 0.4
_REST: Final = 0.05
_ROWS: Final = 0.05
# More than the rounding of a few float operations.
_SURPLUS: Final = 1 + 1e-6


class Estimate(NamedTuple):
    """A combination of coefficients. `low` to `high` is where that of the rows is, whatever the noise was.

    `noise_error` and `sampling_error` are standard errors: by the noise alone, and by the sample alone.
    `population_low` to `population_high` covers both. All are None where the noise leaves them open.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    noise_error: float | None = None
    sampling_error: float | None = None
    population_low: float | None = None
    population_high: float | None = None

    def moved(self, by: float) -> "Estimate":
        """The estimate of the combination plus this constant."""
        ends = ("value", "low", "high", "population_low", "population_high")
        known = {name: getattr(self, name) for name in ends if getattr(self, name) is not None}
        return self._replace(**{name: end + by for name, end in known.items()})


class Shadow(NamedTuple):
    """Where a solution is: its combination from `low` to `high`; its `length`, and how `far` it is from the noisy one,
    at most."""

    low: float
    high: float
    length: float
    far: float


class Near(NamedTuple):
    """Where a combination of the rows' coefficients is, how far these are from the noisy ones and from 0 at most, and
    the largest that a'S^-1 a can be."""

    low: float
    high: float
    far: float
    length: float
    inverse: float


@dataclass(frozen=True, eq=False)
class NoisySquares:
    """The noisy sums of products z z' of rows z: first a `constant`, last what is explained.

    Noise on and above the diagonal is independent. It is Gaussian with at most a variance of `scale`^2 on the diagonal
    and half of it off it, or Laplace of at most this scale.

    >>> rows = np.array([[1.0, x, 2 * x + 1] for x in (0, 1, 2, 3)] * 500)
    >>> known = NoisySquares(rows.T @ rows, scale=1.0, gaussian=True, constant=1)
    >>> [round(each.value, 6) for each in known.estimates(np.eye(2), "0.95")]
    [1.0, 2.0]
    """

    sums: Floats
    scale: float
    gaussian: bool
    constant: int

    @property
    def rows(self) -> float:
        """The noisy number of rows."""
        return float(self.sums[0, 0]) / self.constant**2

    @property
    def variance(self) -> float | None:
        """The residual variance, by the remaining degrees of freedom; None where noise hides it."""
        degrees = self.rows - len(self.sums) + 1
        return None if self._values[0] <= 0 or self._rest <= 0 or degrees < 1 else self._rest / degrees

    @property
    def explained(self) -> float | None:
        """R squared, the explained part of the variance; None where noise hides it."""
        if self.variance is None:
            return None
        whole = float(self.sums[-1, -1] - self.sums[0, -1] ** 2 / self.sums[0, 0])
        return 1 - self._rest / whole if self._rest <= whole else None

    def estimates(self, weights: Floats, confidence: Number) -> list[Estimate]:
        """One `Estimate` of each row of `weights` times the coefficients.

        Guarantee: each interval holds with `confidence`; that of the rows' coefficient whatever the rows. That of the
        population's holds for a linear model whose errors are independent, of equal variance, and normal or many.
        """
        beta = 1 - float(probability(confidence, "confidence"))
        return [self._estimate(row, beta) for row in weights]

    def _estimate(self, row: Floats, beta: float) -> Estimate:
        near = self._near(row, beta)
        if near is None:
            return Estimate()
        found, inverse = self._solved, self._inverse @ row
        noise = self._deviation(inverse, found)
        sampling = None if self.variance is None else math.sqrt(self.variance * float(row @ inverse))
        wide = self._of_population(row, beta) or (None, None)
        return Estimate(float(row @ found), near.low, near.high, noise, sampling, *wide)

    def _near(self, row: Floats, beta: float) -> Near | None:
        """The interval of a combination of the rows' coefficients; None where they may be anything."""
        reach = self._reach(beta * _OF_INVERSE)[1]
        all_of = self._shadow(self.sums[:-1, -1], row, *self._reach(beta * _OF_ALL))
        inverse = self._shadow(row, row, 0.0, reach)
        if all_of is None or inverse is None:
            return None
        noisy = self._inverse @ row
        size = float(np.linalg.norm(noisy))
        length = min(inverse.length, size + inverse.far)
        along = abs(float(noisy @ self._solved)) + inverse.far * all_of.length + size * all_of.far
        sums = self._sum(length, all_of.length, min(along, length * all_of.length), beta * _OF_SUM)
        half = (sums + math.sqrt(reach) * length * all_of.far) * _SURPLUS
        middle = float(row @ self._solved)
        low, high = max(all_of.low, middle - half), min(all_of.high, middle + half)
        return Near(low, high, all_of.far, all_of.length, max(0.0, inverse.high))

    def _of_population(self, row: Floats, beta: float) -> tuple[float, float] | None:
        """The interval of the population's combination: that of the rows, widened by the sampling error."""
        near = self._near(row, beta * _NEAR)
        rows = math.floor(self.rows - self._square(beta * _ROWS) / self.constant**2)
        degrees = rows - len(self.sums) + 1
        if near is None or degrees < 1:
            return None
        # What the noisy sum of squares gains away from its least: (E v)' S~^-1 (E v), without its last entry.
        gained = float(self._values[0]) * near.far**2
        rest = max(0.0, self._rest + gained + self._square(beta * _REST) * (1 + near.length**2))
        quantile = float(scipy.special.stdtrit(degrees, 1 - beta * _SAMPLE / 2))
        moved = quantile * math.sqrt(rest / degrees * near.inverse) * _SURPLUS
        return near.low - moved, near.high + moved

    def _shadow(self, right: Floats, row: Floats, p: float, r: float) -> Shadow | None:
        """Bounds that hold for all x with |S~ x - right|^2 <= p + r |x|^2; None where this set is unbounded."""
        squares = self._values**2 - r
        if self._values[0] <= 0 or squares[0] <= 0:
            return None
        along = self._vectors.T @ right
        middle = self._values * along / squares
        # What the form lacks at its middle. It holds at the noisy solution, so this is not negative.
        size = p + r * float((along**2 / squares).sum())
        turned = self._vectors.T @ row
        half = math.sqrt(float((turned**2 / squares).sum()) * size) * _SURPLUS
        centre, least = float(turned @ middle), math.sqrt(float(squares[0]))
        longest = float(np.linalg.norm(middle)) + math.sqrt(size) / least
        far = math.sqrt(p + r * longest**2) / float(self._values[0])
        return Shadow(centre - half, centre + half, longest * _SURPLUS, far * _SURPLUS)

    def _reach(self, beta: float) -> tuple[float, float]:
        """The p and r of the ellipsoid, but for a probability beta."""
        lines = len(self.sums) - 1
        if self.gaussian:
            squared = (length_up(lines, beta=beta) * self.scale) ** 2
            return squared / 2, squared
        each = laplace_sum_error_up(math.sqrt(2) * self.scale, self._steps, self._steps**2, beta / lines)
        return lines * each**2, lines * each**2

    def _square(self, beta: float) -> float:
        """How large v'E v can be, as a part of |v|^2."""
        if self.gaussian:
            return gaussian_sum_error_up(self.scale, self._steps, beta)
        return laplace_sum_error_up(2 * self.scale, self._steps, 2 * self._steps**2, beta)

    def _sum(self, inverse: float, found: float, along: float, beta: float) -> float:
        """How large w'(E v) can be for a w and a b of at most these lengths, and w'b at most `along`."""
        longest = inverse * math.sqrt(1 + found**2)
        deviation, absolute = self.spread * math.hypot(longest, along), self._steps * longest
        if self.gaussian:
            return gaussian_sum_error_up(deviation, absolute, beta)
        return laplace_sum_error_up(deviation, absolute, 2 * absolute**2, beta)

    @property
    def _steps(self) -> int:
        """The most steps of a sum of noises with weights w_i v_j, as a part of |w| |v|.
        Those of the constant are as long as it is, all others 1."""
        return self.constant**2 + len(self.sums)

    @property
    def spread(self) -> float:
        """The standard deviation of a noise off the diagonal."""
        return self.scale / math.sqrt(2) if self.gaussian else math.sqrt(2) * self.scale

    def _deviation(self, inverse: Floats, found: Floats) -> float:
        """The standard deviation of w'(E v) at the noisy coefficients."""
        longest, along = float(inverse @ inverse) * (1 + float(found @ found)), float(inverse @ found) ** 2
        # Laplace noise has the same variance on the diagonal, Gaussian twice that.
        less = 0.0 if self.gaussian else float(inverse**2 @ found**2)
        return self.spread * math.sqrt(longest + along - less)

    @cached_property
    def _solved(self) -> Floats:
        """The noisy coefficients."""
        return self._inverse @ self.sums[:-1, -1]

    @property
    def _rest(self) -> float:
        """The noisy sum of squares that the coefficients leave."""
        return float(self.sums[-1, -1] - self.sums[:-1, -1] @ self._solved)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(self._vectors / self._values @ self._vectors.T)

    @property
    def _values(self) -> Floats:
        return self._spectrum[0]

    @property
    def _vectors(self) -> Floats:
        return self._spectrum[1]

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues, the least first, and their vectors as columns."""
        values, vectors = np.linalg.eigh(self.sums[:-1, :-1])
        return values, vectors
