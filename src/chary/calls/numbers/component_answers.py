"""What noisy moments say: means, covariances, principal components, and how far all of them can be off."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chary.accounting.accuracy import Spectrum, angle_up, spectrum
from chary.answers import Table
from chary.data import SecondMoments
from chary.mechanisms.workloads import MomentNoise
from chary.numbers import Number, plain, probability

Floats = NDArray[np.float64]


class Estimated(NamedTuple):
    """The number of rows, the means and the covariances, in halves of the bounds' widths."""

    rows: int
    means: Floats
    covariance: Floats
    squares: Floats


@dataclass(frozen=True)
class Components(Table):
    """The principal components of noisy covariances, the largest first: one row each, with its eigenvalue, its interval
    and the share of the variance that it explains.

    Numbers are in halves of the columns' widths: a value at its upper bound is 1, at its lower -1. What is estimated is
    the covariance of the rows as they were counted: clipped, rounded, and shortened to the longest. The intervals of
    all eigenvalues hold at once 95 times in 100; None where there may be no rows.
    """

    noisy: tuple[int, ...]
    query: SecondMoments
    made: MomentNoise

    @property
    def value(self) -> dict[int, float]:
        """Component to eigenvalue; noise may make one negative."""
        return {place + 1: float(value) for place, value in enumerate(self._spectrum.values)}

    @property
    def interval_says(self) -> str:
        longest = self.query.longest
        changed = "clipped to their ranges" + ("" if longest is None else f" and shortened to {plain(longest)}")
        return f"the intervals of the eigenvalues hold 95 times in 100, all together, of the rows as {changed}"

    @property
    def rows_counted(self) -> int:
        """The noisy number of rows without a NULL, at least 1."""
        return self._estimated.rows

    @property
    def means(self) -> dict[str, float]:
        """The noisy mean of each column, in its own units."""
        scaled = zip(self.query.bounds, map(float, self._estimated.means), strict=True)
        return {name: float((low + high) / 2) + float((high - low) / 2) * mean for (name, (low, high)), mean in scaled}

    @property
    def covariance(self) -> list[list[float]]:
        """The noisy covariances, symmetric, in halves of the widths."""
        return [[float(entry) for entry in line] for line in self._estimated.covariance]

    @property
    def own_covariance(self) -> list[list[float]]:
        """The same in the columns' own units."""
        halves = np.array([float((high - low) / 2) for _, (low, high) in self.query.bounds])
        return [[float(entry) for entry in line] for line in self._estimated.covariance * np.outer(halves, halves)]

    @property
    def directions(self) -> list[dict[str, float]]:
        """For each component its eigenvector, by column; its largest entry is positive."""
        names = self.query.names
        return [dict(zip(names, map(float, vector), strict=True)) for vector in self._spectrum.vectors]

    def within(self, confidence: Number = "0.95") -> float | None:
        """How far the covariance matrix is off at most (L2), and by Weyl's inequality each eigenvalue; None where there
        may be no rows.

        The noises of rows, sums and products are within their bounds together; what follows from that is arithmetic.
        """
        rows, length, norm = self.made.reaches(1 - probability(confidence, "confidence"))
        found, steps = self._estimated, self.query.steps
        least = found.rows - rows
        if least < 1:
            return None
        product = norm / steps**2 / least + float(np.linalg.norm(found.squares, 2)) * rows / least
        longest = float(np.linalg.norm(found.means))
        mean = length / steps / least + longest * rows / least
        return product + 2 * longest * mean + mean**2

    def angle(self, leading: int = 1, confidence: Number = "0.95") -> float | None:
        """The largest angle in degrees between the plane of the first components and that of the true ones; None where
        the noise leaves all open."""
        within = self.within(confidence)
        return None if within is None else angle_up(self._spectrum.values, leading, within)

    def cells(self, position: int) -> dict[str, Any]:
        value, within = float(self._spectrum.values[position]), self.within()
        most = self.query.squared / self.query.steps**2
        known = (None, None) if within is None else (max(0.0, value - within), min(most, max(0.0, value) + within))
        return {"value": value, "low": known[0], "high": known[1], "explained": self._explained[position]}

    @property
    def _explained(self) -> list[float]:
        values = np.maximum(self._spectrum.values, 0)
        return [float(part) for part in values / (values.sum() or 1.0)]

    @cached_property
    def _spectrum(self) -> Spectrum:
        return spectrum(self._estimated.covariance)

    @cached_property
    def _estimated(self) -> Estimated:
        d, steps = len(self.query.bounds), self.query.steps
        rows = max(1, self.noisy[0])
        means = np.array(self.noisy[1 : d + 1], dtype=float) / rows / steps
        squares = np.zeros((d, d))
        squares[np.triu_indices(d)] = np.array(self.noisy[d + 1 :], dtype=float) / rows / steps**2
        squares = squares + np.triu(squares, 1).T
        return Estimated(rows, means, squares - np.outer(means, means), squares)
