"""Inverse sensitivity: an answer is the likelier, the fewer units would have to change to make it the true one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.noise.choice import GUARD_BITS, Floats
from chary.noise.partition import Bounds, Enclosure
from chary.numbers import Number, positive, probability, whole

# `bincount` adds widths in float64, which counts whole numbers exactly up to here.
MOST_OUTCOMES: Final = 2**53
# Twice (75 + 8) 2**-52, for the sums above and below the line; and four times the roundings of a sum, for both of them.
_TERM_ERROR: Final = 2.0**-44
_SUM_ERROR: Final = 2.0**-51


@dataclass(frozen=True)
class Stretches:
    """Distances that are constant along stretches of numbered outcomes, which follow each other without gaps.

    `starts` is the first outcome of each stretch, ascending from 0; `widths` how many outcomes it has. Secret.
    """

    starts: Integers
    widths: Integers
    distances: Integers

    @classmethod
    def of(cls, distances: Sequence[int] | Integers) -> "Stretches":
        """One stretch for each outcome."""
        given = np.asarray(distances, dtype=np.int64)
        return cls(np.arange(given.size), np.ones(given.size, dtype=np.int64), given)

    def __repr__(self) -> str:
        return "Stretches(<secret>)"


@dataclass(frozen=True)
class InverseSensitivity:
    """Chooses t with `P(t)` exactly proportional to `exp(-epsilon D(t) / 2)`; with `whole`, the 1/2 is dropped.

    Guarantee: `Pure(epsilon)`, if the outcomes do not depend on data and each distance D(t), a whole number, changes by
    at most 1 between neighbours. The log-likelihood ratios lie in an interval of length epsilon, hence it is
    (epsilon^2/8)-zCDP. `whole` needs more: that up to a constant all distances change in one direction, as `largest
    count - count` does when a unit is added; or that there are two outcomes, one of distance 0, where the zCDP is lost.

    Source: theory section 2; Asi, Duchi 2020.

    >>> chooser = InverseSensitivity(1)
    >>> [round(p, 4) for p in chooser.law(Stretches.of([2, 0, 1])).probabilities()]
    [0.5065, 0.3072, 0.1863]
    >>> chooser.distance_up(121, "0.05")
    15
    """

    epsilon: Number
    whole: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Pure(self.epsilon).epsilon)

    @property
    def unit(self) -> Fraction:
        """The exponent of a step of distance."""
        return positive(self.epsilon, "epsilon") / (1 if self.whole else 2)

    def law(self, stretches: Stretches) -> "LevelLaw":
        """The exact law of the level, the distance of the chosen outcome. It depends on data."""
        levels, of = np.unique(stretches.distances, return_inverse=True)
        totals = np.bincount(of, weights=stretches.widths.astype(np.float64))
        return LevelLaw(totals.astype(np.int64), self.unit, levels)

    def step(self, stretches: Stretches, source: noise.Source) -> int:
        """The chosen outcome: a level by its law, then any outcome of that level."""
        law = self.law(stretches)
        level = law.levels[law.draw(source)]
        chosen = np.flatnonzero(stretches.distances == level)
        ends = np.cumsum(stretches.widths[chosen])
        at = int(noise.uniform_integers(source, int(ends[-1]), 1)[0])
        stretch = int(np.searchsorted(ends, at, side="right"))
        before = int(ends[stretch - 1]) if stretch else 0
        return int(stretches.starts[chosen[stretch]]) + at - before

    def pick(self, distances: Sequence[int] | Integers, source: noise.Source) -> int:
        """The chosen one of a list of outcomes, given the distance of each."""
        return noise.ExponentialLaw(distances, self.unit).draw(source)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)

    def distance_up(self, outcomes: int, beta: Number) -> int:
        """The distance that is exceeded with a chance of at most beta, whatever the data: `ln(outcomes/beta)/unit`.

        Some outcome must have distance 0.
        """
        return math.floor(math.log(whole(outcomes, "outcomes") / probability(beta, "beta")) / float(self.unit) + 1e-9)


class LevelLaw(noise.FiniteLaw):
    """`P(j)` exactly proportional to `totals[j] * exp(-unit * levels[j])`, for whole totals that sum to at most 2**53.

    Levels ascend from 0, without others 0, 1, 2, ...; `totals[0]` must be positive. A million take milliseconds; only
    where a cut point is closer to the random word than its error bound, once in a million draws of that size, are all
    weights computed to more bits.

    >>> [round(p, 4) for p in LevelLaw(np.array([1, 10]), Fraction(1)).probabilities()]
    [0.2137, 0.7863]
    """

    def __init__(self, totals: Integers, unit: Fraction, levels: Integers | None = None) -> None:
        self.levels = np.arange(totals.size) if levels is None else levels
        if not totals.size or self.levels[0] or totals[0] < 1 or totals.min() < 0 or int(totals.sum()) > MOST_OUTCOMES:
            raise InvalidParameter("a law of distances needs an outcome of distance 0 and at most 2**53 outcomes")
        self._totals, self._unit = totals, unit

    @property
    def size(self) -> int:
        return len(self._totals)

    def bounds(self, bits: int) -> list[Bounds]:
        """Every power errs by at most one unit more than the one before it, which the guard bits hold."""
        work = bits + GUARD_BITS + 2 * self.size.bit_length() + MOST_OUTCOMES.bit_length()
        pairs = zip(self._totals.tolist(), _powers(self._unit, self.levels, work), strict=True)
        weights = [(total * lower, total * upper) for total, (lower, upper) in pairs]
        least, most = (sum(column) for column in zip(*weights, strict=True))
        return [((lower << bits) // most, -((-upper << bits) // least)) for lower, upper in weights]

    def near(self) -> tuple[Floats, float]:
        """Each weight errs by `(x + 8) 2**-52` of itself, x being its exponent; by the law's own weights x averages at
        most 75, because the weights sum to 1 at least and the totals to 2**53 at most. Each sum errs by a rounding.
        """
        sums = self._weights.cumsum()
        points: Floats = sums[:-1] / sums[-1]
        return points, _TERM_ERROR + self.size * _SUM_ERROR

    @cached_property
    def _weights(self) -> Floats:
        with np.errstate(under="ignore"):
            powers = np.exp(-float(self._unit) * self.levels.astype(np.float64))
            weights: Floats = self._totals.astype(np.float64) * powers
        return weights


def _powers(unit: Fraction, levels: Integers, bits: int) -> list[Bounds]:
    """Bounds of `exp(-unit * level) * 2**bits` for levels that ascend from 0."""
    gaps = np.diff(levels).tolist()
    ratios = {gap: Enclosure.exponential(unit * gap).bounds(bits) for gap in set(gaps)}

    def times(power: Bounds, gap: Any) -> Bounds:
        return power[0] * ratios[gap][0] >> bits, -(-power[1] * ratios[gap][1] >> bits)

    return list(accumulate(gaps, times, initial=(1 << bits, 1 << bits)))


def mode_distances(counts: Integers, *, replace: bool) -> Integers:
    """For each key, how many units must change to make its count a largest one; each unit has one key.

    Adding units: the gap to the largest count. Replacing them: the least k at which the counts above this one by more
    than k exceed that by at most k in all, since each replaced unit leaves such a key and enters this one.

    >>> mode_distances(np.array([9, 4, 0]), replace=False), mode_distances(np.array([9, 4, 0]), replace=True)
    (array([0, 5, 9]), array([0, 3, 5]))
    """
    gaps: Integers = np.max(counts) - counts
    if not replace:
        return gaps
    ranked = np.sort(counts)[::-1]
    sums = np.concatenate([[0], np.cumsum(ranked)])
    low, high = np.full(len(counts), -1), gaps.copy()
    while np.any(high - low > 1):
        middle = (low + high) // 2
        leads = np.searchsorted(-ranked, -(counts + middle))
        enough = sums[leads] - leads * (counts + middle) <= middle
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def bits_distances(ones: int, size: int) -> Integers:
    """For each j = 0, ..., size, how many of `size` bits must be replaced for j of them to be 1.

    >>> bits_distances(2, 3)
    array([2, 1, 0, 1])
    """
    distances: Integers = np.abs(np.arange(whole(size, "size", least=0) + 1) - ones)
    return distances
