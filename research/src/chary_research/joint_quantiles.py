"""Several quantiles by the exponential mechanism, together and one by one, in floats: peers to compare errors with.

Both are of Gillenwater, Joseph and Kulesza, "Differentially Private Quantiles", ICML 2021.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JointExponential:
    """JointExp: all quantiles are drawn at once, of ascending values between 0 and `top`; rows are added or removed.

    A rising tuple has weight exp(-epsilon/(2 c) sum |values between neighbours - wanted|). One more row moves the sum
    by at most c = 2 (1 - f), where f is the least fraction of values between two quantiles. Memory grows with the
    number of values times that of quantiles. Time grows with the square of the number of quantiles.

    >>> joint = JointExponential(np.arange(1.0, 1000.0), epsilon=1.0, at=(0.25, 0.5, 0.75), top=1000.0)
    >>> bool(np.abs(joint.draw(np.random.default_rng(1)) - [250, 500, 750]).max() < 20)
    True
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
    def wanted(self) -> Floats:
        """How many values are to lie between one quantile and the next, the ends among them."""
        return np.diff([0.0, *self.at, 1.0]) * self.values.size

    @cached_property
    def rate(self) -> float:
        """What a value too many or too few costs."""
        return self.epsilon / (4 * (1 - float(self.wanted.min()) / self.values.size))

    def steps(self, j: int, gap: int) -> Floats:
        """The log-weight of going from each gap, quantile j's, to this one, quantile j + 1's."""
        found: Floats = -self.rate * np.abs(gap - np.arange(self.values.size + 1) - self.wanted[j])
        return found

    @cached_property
    def ways(self) -> tuple[list[Floats], list[Floats]]:
        """Two lists of log-weights of each gap, by j.

        The first sums over all ways to place j quantiles with the j-th in this gap and the next one after it. The
        second sums over all ways to have quantile j + 1 in this gap and quantile j in an earlier one.
        """
        origin = np.full(self.values.size + 1, -np.inf)
        origin[0] = 0.0
        placed, entered = [origin], [-self.rate * np.abs(np.arange(origin.size) - self.wanted[0])]
        for j in range(1, len(self.at) + 1):
            ways = [entered[j - k] + self.block(j, k) for k in range(1, j + 1)]
            placed.append(np.logaddexp.reduce(ways, axis=0))
            if j < len(self.at):
                entered.append(sums_before(placed[j], self.rate, float(self.wanted[j])))
        return placed, entered

    def block(self, j: int, k: int) -> Floats:
        """The log-weight of k quantiles up to the j-th in one gap: its width to the k over k!, and steps of nothing."""
        inside = -self.rate * float(self.wanted[j - k + 1 : j].sum())
        return k * self.logs - math.lgamma(k + 1) + inside

    def draw(self, generator: np.random.Generator) -> Floats:
        """Quantiles, ascending."""
        j, found = len(self.at), list[float]()
        placed, entered = self.ways
        gap = _drawn(placed[j] + self.steps(j, self.values.size), generator)
        while j:
            ways = [float(entered[j - k][gap] + self.block(j, k)[gap]) for k in range(1, j + 1)]
            k = 1 + _drawn(np.array(ways), generator)
            low, high = self.edges[gap : gap + 2]
            found += sorted(generator.uniform(low, high, k), reverse=True)
            j -= k
            if j:
                gap = _drawn((placed[j] + self.steps(j, gap))[:gap], generator)
        return np.array(found[::-1])


def sums_before(logs: Floats, rate: float, wanted: float) -> Floats:
    """For each k the logarithm of the sum over i < k of `exp(logs[i] - rate |k - i - wanted|)`, in linear time.

    Terms that are far enough away fall with k; the nearer ones, a window, rise. Both are sums of positive terms: of the
    window the end of one block and the beginning of the next, so that nothing cancels.

    >>> sums_before(np.zeros(4), 1.0, 2.0).round(3).tolist()
    [-inf, -1.0, 0.313, 0.551]
    """
    size, near = logs.size, math.ceil(wanted) - 1
    place = np.arange(size)
    far = np.full(size, -np.inf)
    if near + 1 < size:
        reached = np.logaddexp.accumulate(logs + rate * place)[: size - max(near, 0) - 1]
        first = max(near, 0) + 1
        far[first:] = reached - rate * (place[first:] - wanted)
    if near < 1:
        return far
    blocks = -(-size // near) + 1
    padded = np.full(blocks * near, -np.inf)
    padded[:size] = logs - rate * place
    folded = padded.reshape(blocks, near)
    ends = np.logaddexp.accumulate(folded[:, ::-1], axis=1)[:, ::-1].ravel()
    begun = np.logaddexp.accumulate(folded, axis=1).ravel()
    # Before the first place there is nothing; a window that is a whole block is its end alone.
    before, last = np.concatenate([np.full(near, -np.inf), ends])[:size], np.concatenate([[-np.inf], begun])[:size]
    both = np.where(place % near == 0, before, np.logaddexp(before, last))
    found: Floats = np.logaddexp(far, both - rate * (wanted - place))
    return found


def _drawn(logs: Floats, generator: np.random.Generator) -> int:
    """A position drawn by its log-weight."""
    return int(np.argmax(logs + generator.gumbel(size=logs.size)))


# AppIndExp: each quantile by an exponential mechanism of its own, at the epsilon whose composition has the total.

# Halved this many times.
_HALVINGS: Final = 40


def each_epsilon(epsilon: float, many: int, delta: float = 0) -> float:
    """The epsilon of each of several exponential mechanisms that have (epsilon, delta) together, at least epsilon/many.

    The exact composition of mechanisms of bounded range (Dong, Durfee and Rogers 2020): each log-likelihood ratio is t
    or t - e, with the same t for all.

    >>> each_epsilon(1, 10), round(each_epsilon(1, 10, 1e-6), 3)
    (0.1, 0.155)
    """
    low = epsilon / many
    if not delta:
        return low
    high = 2 * epsilon
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_delta(middle, many, epsilon) <= delta else (low, middle)
    return low


def composed_delta(each: float, many: int, total: float) -> float:
    """The largest delta of the composition: for the worst t, one more of the sums reaches the total.

    >>> composed_delta(0.1, 1, 0.2), round(composed_delta(1.0, 1, 0.5), 4)
    (0.0, 0.0774)
    """
    ends = (total + each * np.arange(1, many + 2)) / (many + 1)
    shift = np.append(ends[ends < each], each)[:, None]
    seen = np.arange(many + 1)
    chances = binom.pmf(seen, many, np.expm1(shift - each) / math.expm1(-each))
    ratios = many * shift - each * (many - seen)
    return float((chances * np.maximum(0, -np.expm1(total - ratios))).sum(axis=1).max())
