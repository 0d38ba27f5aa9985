"""The largest of many bounded values after Gaussian noise: the winning key, and nothing else, is published."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chary.accounting import Event, Pure, noisy_max_epsilon_up, noisy_max_noise
from chary.accounting.calibration import four_digits_up
from chary.accounting.events import SMALLEST_EPSILON
from chary.data import Neighbouring, Query, Reading, Rows
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms.gaussian_selection import GaussianMax
from chary.numbers import Number, exact, positive
from chary.session.choosing import one_direction
from chary.session.interaction import KEPT, Interaction, Json, Ran, Touched
from chary.session.results import Key

FARTHEST = 2**62


@dataclass(frozen=True)
class Winner:
    """The key whose value was the largest after noise. Values were clipped to `clipped_to` before.

    `noise` is the standard deviation of the Gaussian noise on each value, in the query's units.
    """

    call: int
    key: Key
    clipped_to: tuple[float, float]
    noise: float


@dataclass(frozen=True)
class Gaps:
    """How the public bounds limit the values of a query: `spread` steps apart at most, `lowest` the smallest one.

    `sensitivity` is half of how far the gap of two values can move between neighbours, in steps: the largest change of
    a value, or half of it where all values move in one direction.
    """

    keys: int
    lowest: int
    spread: int
    sensitivity: Fraction

    @classmethod
    def of(cls, query: Query, neighbouring: Neighbouring, low: Fraction, high: Fraction) -> "Gaps":
        """Bounds are rounded inwards to the query's grid."""
        lowest, highest = math.ceil(low / query.grid), math.floor(high / query.grid)
        if not -FARTHEST <= lowest < highest <= FARTHEST:
            raise InvalidParameter("low and high must be at least one step of the query's grid apart, at most 2**62")
        most = min(query.sensitivity(neighbouring), highest - lowest)
        halved = Fraction(most, 2 if one_direction(query, neighbouring) else 1)
        return cls(len(query.keys or ()), lowest, highest - lowest, halved)

    def epsilon_up(self, noise: Fraction) -> Fraction:
        """The pure epsilon for noise of this many steps."""
        found = noisy_max_epsilon_up(self.keys, sensitivity=self.sensitivity, noise=noise, spread=self.spread)
        return max(Fraction(found), SMALLEST_EPSILON)

    def noise_for(self, epsilon: Fraction) -> Fraction:
        """The least noise that is epsilon-DP, rounded up to four digits."""
        return _noise_for(self, epsilon)


@dataclass(frozen=True)
class MaxGaussian(Interaction):
    """The key with the largest value after Gaussian noise on every value, values clipped to [low, high].

    Guarantee: `Pure(epsilon)`, the epsilon of [GAUSS] for `noise`, or `noise` chosen for `epsilon`. What counts is how
    far gaps between values can move: twice the sensitivity, or once where one unit moves all values in one direction
    (add/remove, contributions of one sign).
    """

    query: Query
    neighbouring: Neighbouring
    low: Number
    high: Number
    noise: Number | None = None
    epsilon: Number | None = None
    kind = "noisy_max_gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('a maximum needs at least two public keys: count().by("clinic", ["a", "b"])')
        if (self.noise is None) == (self.epsilon is None):
            raise InvalidParameter("give one of noise= (its standard deviation, in the query's units) and epsilon=")
        for name in ("low", "high"):
            object.__setattr__(self, name, exact(getattr(self, name), name))
        for name in ("noise", "epsilon"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        self.gaps  # noqa: B018 - refuses bounds without room

    @cached_property
    def gaps(self) -> Gaps:
        """What the bounds and the neighbouring relation say about the values."""
        return Gaps.of(self.query, self.neighbouring, Fraction(self.low), Fraction(self.high))

    @cached_property
    def mechanism(self) -> GaussianMax:
        """The exact choice."""
        if self.noise is not None:
            return GaussianMax(Fraction(self.noise) / self.query.grid)
        return GaussianMax(self.gaps.noise_for(Fraction(self.epsilon or 0)))

    @cached_property
    def event(self) -> Event:
        return Pure(self.gaps.epsilon_up(Fraction(self.mechanism.noise)) if self.epsilon is None else self.epsilon)

    def body(self) -> Json:
        size = {"noise": str(self.noise)} if self.epsilon is None else {"epsilon": str(self.epsilon)}
        return {"query": self.query.body(), "low": str(self.low), "high": str(self.high)} | size

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        self.mechanism  # noqa: B018 - refuses an epsilon for which there is no noise
        return super().prepare(rows)

    def run(self, touched: Touched) -> Ran:
        lowest = self.gaps.lowest
        values = np.clip(touched.integers(), lowest, lowest + self.gaps.spread)
        noise = Fraction(self.mechanism.noise) * self.query.grid
        return Ran({"position": self.mechanism.step(values, touched.source), "noise": str(noise)}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Winner:
        keys: Sequence[Any] = self.query.keys or ()
        bounds = (float(self.low), float(self.high))
        return Winner(call, keys[answer["position"]], bounds, float(Fraction(answer["noise"])))


@lru_cache(maxsize=KEPT)
def _noise_for(gaps: Gaps, epsilon: Fraction) -> Fraction:
    return four_digits_up(noisy_max_noise(epsilon, gaps.keys, sensitivity=gaps.sensitivity, spread=gaps.spread))
