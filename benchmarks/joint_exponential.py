"""The joint exponential mechanism of several quantiles (Gillenwater, Joseph, Kulesza 2021), a peer in floats."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JointExponential:
    """All quantiles drawn from one law, of ascending values between 0 and `top`; rows are added or removed.

    A rising tuple has weight exp(-epsilon/(2 c) sum |values between neighbours - wanted|), where c = 2 (1 - the least
    share between two quantiles) is how much one row more moves the sum.
    """

    values: Floats
    epsilon: float
    at: tuple[float, ...]
    top: float

    @cached_property
    def edges(self) -> Floats:
        """Gap i, from edge i to i + 1, has i values below it."""
        return np.concatenate([[0.0], self.values, [self.top]])

    @cached_property
    def logs(self) -> Floats:
        """The logarithms of the widths of the gaps."""
        with np.errstate(divide="ignore"):
            found: Floats = np.log(np.diff(self.edges))
        return found

    @cached_property
    def between(self) -> list[Floats]:
        """For each step from one quantile to the next: the log-weight of going from gap i to gap k."""
        size, shares = self.values.size, np.diff([0.0, *self.at, 1.0])
        apart = np.arange(size + 1)[None, :] - np.arange(size + 1)[:, None]
        change = 2 * (1 - shares.min())
        return [-self.epsilon / (2 * change) * np.abs(apart - each) for each in shares * size]

    @cached_property
    def last(self) -> list[Floats]:
        """The log-weight of all ways to place the first j quantiles, the j-th in gap i and the next one after it."""
        many, gaps = len(self.at), self.values.size + 1
        found = [np.full(gaps, -np.inf)]
        found[0][0] = 0.0
        for j in range(1, many + 1):
            ways = [self.entered(found[j - k], j - k) + self.block(j, k) for k in range(1, j + 1)]
            found.append(np.logaddexp.reduce(ways, axis=0))
        return found

    def entered(self, before: Floats, j: int) -> Floats:
        """The log-weight of being in each gap with quantile j + 1, quantile j being in an earlier gap."""
        steps = before[:, None] + self.between[j]
        if j:
            steps = np.where(np.tri(steps.shape[0], k=0, dtype=bool), -np.inf, steps)
        found: Floats = np.logaddexp.reduce(steps, axis=0)
        return found

    def block(self, j: int, k: int) -> Floats:
        """The log-weight of k quantiles up to the j-th in one gap: its width to the k over k!, and steps of nothing."""
        inside = sum(self.between[each][0, 0] for each in range(j - k + 1, j))
        found: Floats = k * self.logs - math.lgamma(k + 1) + inside
        return found

    def draw(self, generator: np.random.Generator) -> Floats:
        """Quantiles of this law, ascending."""
        j, found = len(self.at), list[float]()
        gap = _drawn(self.last[j] + self.between[j][:, -1], generator)
        while j:
            ways = [(self.entered(self.last[j - k], j - k) + self.block(j, k))[gap] for k in range(1, j + 1)]
            k = 1 + _drawn(np.array(ways), generator)
            low, high = self.edges[gap : gap + 2]
            found += sorted(generator.uniform(low, high, k), reverse=True)
            j -= k
            if j:
                steps = self.last[j] + self.between[j][:, gap]
                gap = _drawn(np.where(np.arange(steps.size) < gap, steps, -np.inf), generator)
        return np.array(found[::-1])


def _drawn(logs: Floats, generator: np.random.Generator) -> int:
    """A position drawn by its log-weight."""
    return int(np.argmax(logs + generator.gumbel(size=logs.size)))
