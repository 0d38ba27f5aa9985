"""Noise on the number of rows, their sum, and the sums of products of their columns; all exact integers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from chary import noise
from chary.accounting import Event, Pure, ZeroConcentrated
from chary.accounting.accuracy import gaussian_norm_up, laplace_norm_up, length_up
from chary.mechanisms.additive import Additive, Gaussian, Integers, Laplace
from chary.numbers import Number, positive, probability, whole


@dataclass(frozen=True)
class MomentNoise:
    """Noise for the moments of rows of d whole numbers, at most `squared` long (squared, L2) and `most` in sum (L1).

    Let y = (c, s) be a row with one more column, the constant c, about half of the longest row. The number of rows
    times c^2, the sums times c, and the sums of products are the matrix of all y y'. Let r^2 = c^2 + `squared`.

    - `rho`: discrete Gaussian noise of variance v on the diagonal of that matrix and v/2 off it. The change by a row,
      counted in these variances, is `|y y'|_F^2 / v = |y|^4 / v <= r^4 / v`, and of a row that is replaced
      `|y y' - z z'|_F^2 / v <= 2 r^4 / v`, since `(y z')^2 >= 0`; of k rows k^2 times as much. Both are attained. So
      rho-zCDP, for v = k^2 r^4 / (2 rho), twice that where units are replaced (docs/components.md).
    - `epsilon`: discrete Laplace noise of scale b. A row changes all entries together by
      `c^2 + c most + (most^2 + squared)/2` at most, in these units; b is that by k, twice where units are replaced,
      over epsilon. So epsilon-DP.

    >>> made = MomentNoise(2, squared=200, most=20, rows=1, replace=False, rho="0.5")
    >>> made.constant, made.event(), made.size
    (7, ZeroConcentrated(rho=Fraction(1, 2)), Fraction(62001, 1))
    """

    columns: int
    squared: int
    most: int
    rows: int
    replace: bool
    epsilon: Number | None = None
    rho: Number | None = None

    def __post_init__(self) -> None:
        whole(self.columns, "columns")
        whole(self.squared, "squared")
        self.noises  # noqa: B018 - refuses noise out of range

    @property
    def constant(self) -> int:
        """c: with half of the longest row, the means take a fifth of the length of a change; measured, less or more of
        it leaves the covariances farther off."""
        return max(1, math.isqrt(self.squared) // 2)

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.rho is not None

    @property
    def size(self) -> Fraction:
        """The variance v, or the scale b, of a sum of squares."""
        c, times = self.constant, 2 if self.replace else 1
        if self.rho is not None:
            length = self.rows**2 * (c**2 + self.squared) ** 2 * times
            return length / (2 * positive(self.rho, "rho"))
        # most^2 + squared is twice the sum over pairs; half of an odd number is rounded up.
        change = c**2 + c * self.most + (self.most**2 + self.squared + 1) // 2
        return self.rows * change * times / positive(self.epsilon or 0, "epsilon")

    def event(self) -> Event:
        """What all moments together may reveal."""
        return Pure(self.epsilon or 0) if self.rho is None else ZeroConcentrated(self.rho)

    @cached_property
    def noises(self) -> tuple[Additive, Additive, Additive, Additive]:
        """Of the number of rows, of a sum, of a sum of squares, of a sum of products of two columns."""
        c = self.constant
        if self.gaussian:
            return self._each(lambda part: Gaussian(max(noise.SMALLEST_VARIANCE, part), 1), c**4, 2 * c**2, 1, 2)
        return self._each(lambda part: Laplace(max(noise.SMALLEST_SCALE, part), 1), c**2, c, 1, 1)

    def _each(self, of: Callable[[Fraction], Additive], *parts: int) -> tuple[Additive, Additive, Additive, Additive]:
        one, sums, squares, products = (of(self.size / part) for part in parts)
        return one, sums, squares, products

    def apply(self, moments: Integers, source: noise.Source) -> Integers:
        """The noisy moments, in the order of `SecondMoments.keys`."""
        d = self.columns
        first, second = np.triu_indices(d)
        count, sums, squares, products = self.noises
        noisy = np.empty(len(moments), dtype=object)
        noisy[:1] = count.apply(moments[:1], source)
        noisy[1 : d + 1] = sums.apply(moments[1 : d + 1], source)
        for each, where in ((squares, first == second), (products, first != second)):
            places = np.flatnonzero(where) + d + 1
            noisy[places] = each.apply(moments[places], source)
        return noisy

    def reaches(self, beta: Number) -> tuple[int, float, float]:
        """But for a chance of beta in all: how far off the number of rows is, the sums in L2, the products as a matrix
        in L2. Rounded up."""
        each, d = probability(beta, "beta") / 4, self.columns
        count, sums, squares, _ = self.noises
        rows = count.law().reach_up(each / 2)
        if isinstance(sums, Gaussian) and isinstance(squares, Gaussian):
            length = math.sqrt(sums.sigma_squared) * length_up(d, beta=each)
            return rows, length, gaussian_norm_up(d, variance=float(squares.sigma_squared), beta=2 * each)
        scale = float(squares.scale) if isinstance(squares, Laplace) else 0.0
        length = math.sqrt(d) * sums.law().reach_up(each / (2 * d))
        return rows, length, laplace_norm_up(d, scale=scale, beta=2 * each)
