"""Sparse vector with one-sided noise: no test is lost to noise that pulls a value down, or the threshold."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from chary import noise
from chary.accounting import Event, OneSidedNoise, one_sided_error_up
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers, Laplace
from chary.mechanisms.sparse.hidden_threshold import Crossed, HiddenThreshold, answered
from chary.noise.laplace import Ladder, ladder
from chary.numbers import Number


@dataclass(frozen=True)
class Geometric:
    """Geometric noise `P(k) ~ exp(-k / scale)` on k >= 0.

    >>> Geometric(Fraction(50)).at_least(0), round(Geometric(Fraction(50)).at_least(50), 3)
    (1.0, 0.368)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        noise.checked_scale(self.scale)

    def draw_one(self, source: noise.Source) -> int:
        """One exact sample."""
        return self._ladder.draw_one(source)

    def apply(self, values: Integers, source: noise.Source) -> Integers:
        """Noisy integers, one for each value; the sum never wraps around."""
        return noise.add(values, noise.geometric(source, self.scale, len(values)))

    def at_least(self, distance: int) -> float:
        """The probability that the noise is `distance` or more."""
        return math.exp(-max(distance, 0) / float(self.scale))

    @cached_property
    def _ladder(self) -> Ladder:
        return ladder(self.scale, False)


@dataclass(frozen=True)
class OneSidedMachine:
    """Whether each integer and its fresh noise reach a bar and its hidden noise; it ends at the last of `hits`.

    Guarantee: `sizes.event`, for any number of values, chosen adaptively, each of which moves by at most
    `sizes.sensitivity` steps between neighbours (and all in one direction, if the noise was made for that); the proof
    is in docs/sparse_vector.md. The bar that is tested lies `sizes.shift` above the public one. All in grid steps.

    Source: theory section 10, "Few hits".

    >>> from chary.accounting import one_sided_noise
    >>> sure = OneSidedMachine(one_sided_noise(epsilon=10**6, hits=2))
    >>> source = noise.OperatingSystem()
    >>> state, crossed = sure.step(sure.start(source), np.array([3, 9, 4, 9, 9]), 5, source)
    >>> crossed, state
    (Crossed(tested=4, positions=[1, 3], values=None), HiddenThreshold(<secret>, used=2))
    """

    sizes: OneSidedNoise

    def __post_init__(self) -> None:
        self.answers  # noqa: B018 - refuses noise out of range
        self._laws()

    @property
    def sensitivity(self) -> int:
        """By how many steps a value may move."""
        return self.sizes.sensitivity

    @property
    def answers(self) -> Laplace | None:
        """The noise of a published value."""
        scale = self.sizes.answer
        return None if scale is None else Laplace(max(noise.SMALLEST_SCALE, scale), self.sensitivity)

    @property
    def event(self) -> Event:
        """What everything that is answered may reveal."""
        return self.sizes.event

    @property
    def tests_alone(self) -> "OneSidedMachine":
        """The same without values."""
        return OneSidedMachine(replace(self.sizes, answer=None))

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a test and its threshold together."""
        return math.hypot(self.sizes.threshold, self.sizes.test)

    def error_up(self, tests: int, confidence: Number) -> int:
        """How far off so many tests may be together, in grid steps."""
        return one_sided_error_up(self.sizes, tests=tests, confidence=confidence)

    def start(self, source: noise.Source) -> HiddenThreshold:
        """Draw the threshold's noise."""
        return HiddenThreshold(self._laws()[0].draw_one(source))

    def step(
        self, state: HiddenThreshold, values: Integers, threshold: int, source: noise.Source
    ) -> tuple[HiddenThreshold, Crossed]:
        """Test exact values in order, as if one by one; values after the last allowed hit stay untested."""
        left = self.sizes.hits - state.used
        if left <= 0:
            raise InvalidParameter("all hits of this sparse vector are used up")
        bar = threshold + self.sizes.shift + state.shift
        found = np.flatnonzero(self._laws()[1].apply(values, source) >= bar)[:left]
        above = [int(position) for position in found]
        tested = above[-1] + 1 if len(above) == left else len(values)
        after = HiddenThreshold(state.shift, state.used + len(above))
        return after, Crossed(tested, above, answered(self.answers, values, above, source))

    def _laws(self) -> tuple[Geometric, Geometric]:
        """The noise of the threshold and of a test."""
        threshold, test = (max(noise.SMALLEST_SCALE, scale) for scale in (self.sizes.threshold, self.sizes.test))
        return Geometric(threshold), Geometric(test)
