"""Sparse vector: which values are above a threshold whose noise stays hidden, until so many were."""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from chary import noise
from chary.accounting import SparseNoise, error_up
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers, Laplace
from chary.mechanisms.padding import SMALL, padded, unpadded
from chary.numbers import Number, whole


@dataclass(frozen=True)
class HiddenThreshold:
    """The noise of the threshold, which is secret and shown nowhere, and how many hits are used up."""

    shift: int
    used: int = 0

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        return padded(json.dumps([self.shift, self.used]).encode(), SMALL)

    @classmethod
    def load(cls, data: bytes) -> "HiddenThreshold":
        """The state that `dump` wrote."""
        return cls(*json.loads(unpadded(data)))

    def __repr__(self) -> str:
        return f"HiddenThreshold(<secret>, used={self.used})"


@dataclass(frozen=True)
class Crossed:
    """How many values were tested in order, the positions of those above, their noisy values if any are published."""

    tested: int
    positions: list[int]
    values: list[int] | None


@dataclass(frozen=True)
class SparseVectorMachine:
    """Whether each integer, with fresh noise, reaches a threshold with noise of its own; it ends at the last of `hits`.

    Guarantee: that of its `sizes`, for any number of values, chosen adaptively, each of which moves by at most
    `sensitivity` steps between neighbours (and all in one direction, if the noise was made for that). The published
    proofs hold for discrete noise because the sensitivity is whole (docs/sparse_vector.md). All in grid steps.

    >>> from chary.accounting import sparse_noise
    >>> sure = SparseVectorMachine(sparse_noise(epsilon=10**6, hits=2), sensitivity=1)
    >>> source = noise.OperatingSystem()
    >>> state, crossed = sure.step(sure.start(source), np.array([3, 9, 4, 9, 9]), 5, source)
    >>> crossed, state
    (Crossed(tested=4, positions=[1, 3], values=None), HiddenThreshold(<secret>, used=2))
    """

    sizes: SparseNoise
    sensitivity: int

    def __post_init__(self) -> None:
        whole(self.sensitivity, "sensitivity")
        self.answers  # noqa: B018 - refuses noise out of range
        self._laws()

    @property
    def answers(self) -> Laplace | None:
        """The noise of a published value."""
        scale = self.sizes.scaled(self.sensitivity).answer
        return None if scale is None else self._law(scale)

    @property
    def tests_alone(self) -> "SparseVectorMachine":
        """The same without values."""
        return SparseVectorMachine(replace(self.sizes, answer=None), self.sensitivity)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a test and its threshold together."""
        scaled = self.sizes.scaled(self.sensitivity)
        return math.sqrt(2) * math.hypot(scaled.threshold, scaled.test)

    def error_up(self, tests: int, confidence: Number) -> int:
        """How far off so many tests may be together, in grid steps."""
        return error_up(self.sizes.scaled(self.sensitivity), tests=tests, confidence=confidence)

    def start(self, source: noise.Source) -> HiddenThreshold:
        """Draw the threshold's noise."""
        return HiddenThreshold(self._laws()[0].draw_one(source))

    def step(
        self, state: HiddenThreshold, values: Integers, threshold: int, source: noise.Source
    ) -> tuple[HiddenThreshold, Crossed]:
        """Test exact values in order, as if one by one; values after the last allowed hit stay untested."""
        if state.used >= self.sizes.hits:
            raise InvalidParameter("all hits of this sparse vector are used up")
        noisy = self._laws()[1].apply(values, source)
        above: list[int] = []
        tested = 0
        while tested < len(values) and state.used < self.sizes.hits:
            most = 1 if self.sizes.redrawn else self.sizes.hits - state.used
            found = tested + np.flatnonzero(noisy[tested:] >= threshold + state.shift)[:most]
            above += [int(position) for position in found]
            tested = above[-1] + 1 if len(found) == most else len(values)
            state = self._after(state, len(found), source)
        return state, Crossed(tested, above, answered(self.answers, values, above, source))

    def _after(self, state: HiddenThreshold, found: int, source: noise.Source) -> HiddenThreshold:
        used = state.used + found
        if found and self.sizes.redrawn and used < self.sizes.hits:
            return HiddenThreshold(self.start(source).shift, used)
        return HiddenThreshold(state.shift, used)

    def _laws(self) -> tuple[Laplace, Laplace]:
        """The noise of the threshold and of a test."""
        scaled = self.sizes.scaled(self.sensitivity)
        return self._law(scaled.threshold), self._law(scaled.test)

    def _law(self, scale: Fraction) -> Laplace:
        return Laplace(max(noise.SMALLEST_SCALE, scale), self.sensitivity)


def answered(answers: Laplace | None, values: Integers, above: list[int], source: noise.Source) -> list[int] | None:
    """Published values have noise of their own: that of the tests must stay hidden."""
    return None if answers is None else [int(value) for value in answers.apply(values[above], source)]
