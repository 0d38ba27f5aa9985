"""The largest of many bounded values after Gaussian noise: the winning key, and nothing else, is published."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from chary.accounting import Concentrated, Event, noisy_max_epsilon_up, noisy_max_noise
from chary.accounting.accuracy import gaussian_loss_up
from chary.accounting.calibration import four_digits_up
from chary.answers import Answer, Key, scalar
from chary.calls.call import Bound, Call, call
from chary.calls.fields import AnyQuery, Exact, Positive
from chary.core.plan import BETA, KEPT, Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Neighbouring, Query
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms.gaussian import GaussianMax
from chary.numbers import SMALLEST_EPSILON, plain

# Clipped values and their differences fit into the 64-bit integers that are compared.
FARTHEST = 2**62


@dataclass(frozen=True)
class Winner(Answer):
    """The key whose value was the largest after noise. Values were clipped to `clipped_to` before.

    `noise` is the standard deviation of the Gaussian noise on each value, in the query's units. 95 times in 100 the
    clipped value of the key is at most `shortfall` below the largest, whatever the data.
    """

    key: Key
    clipped_to: tuple[float, float]
    noise: float
    shortfall: float

    @property
    def value(self) -> Any:
        """The key; one of one column is a scalar."""
        return scalar(self.key)

    @property
    def interval_says(self) -> str:
        return (
            f"no interval: a key was chosen and nothing measured; within {plain(self.shortfall)} of the best, 95 in 100"
        )


@call("noisy_max", subject="gaussian")
class NoisyMax(Call[Winner]):
    """The key with the largest value, values clipped to `low` and `high` and made noisy by Gaussian noise.

    Guarantee: pure epsilon-DP ([GAUSS] Theorem 8), and rho-zCDP as part of a release of all values (`Concentrated`);
    charged whole, under a session with a delta by the cheaper of both. Give `epsilon`, from which the noise follows, or
    the standard deviation of the `noise`, from which epsilon follows. The noise is exactly normal. What counts is how
    far gaps between values can move: twice the sensitivity, or once where one unit moves all values in one direction
    (add/remove, contributions of one sign). Errors: `InvalidQuery` for fewer than two keys; `InvalidParameter` for
    bounds less than a step of the query's grid apart.
    """

    query: AnyQuery
    _: KW_ONLY
    low: Exact
    high: Exact
    noise: Positive | None = None
    epsilon: Positive | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('a maximum needs at least two public keys: count().by("clinic", ["a", "b"])')
        if (self.noise is None) == (self.epsilon is None):
            raise InvalidParameter("give one of noise= (its standard deviation, in the query's units) and epsilon=")

    def bind(self, spine: Spine) -> "AskNoisyMax":
        return AskNoisyMax(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Gaps:
    """How the public bounds limit the values of a query: `spread` steps apart at most, `lowest` the smallest one.

    `sensitivity` is half of how far the gap of two values can move between neighbours, in steps: the largest change of
    a value, or half of it where all move in one direction (`together`). Neighbours differ in `reach` keys at most.
    """

    keys: int
    lowest: int
    spread: int
    sensitivity: Fraction
    reach: int
    together: bool

    @classmethod
    def of(cls, query: Query, neighbouring: Neighbouring, low: Fraction, high: Fraction) -> "Gaps":
        """Bounds are rounded inwards to the query's grid."""
        lowest, highest = math.ceil(low / query.grid), math.floor(high / query.grid)
        if not -FARTHEST <= lowest < highest <= FARTHEST:
            raise InvalidParameter("low and high must be at least one step of the query's grid apart, at most 2**62")
        most = min(query.sensitivity(neighbouring), highest - lowest)
        together, keys = query.one_direction(neighbouring), len(query.keys or ())
        halved, reach = Fraction(most, 2 if together else 1), min(query.reach(neighbouring), keys)
        return cls(keys, lowest, highest - lowest, halved, reach, together)

    def rho_up(self, noise: Fraction) -> Fraction:
        """The zCDP of all noisy values up to a common shift, which leaves the winner as it is (docs/theory.md).

        Of c values that move by D in one direction, c D (1 - c / keys) D stays, most where c is half of the keys.
        """
        if not self.together:
            return self.reach * self.sensitivity**2 / (2 * noise**2)
        moved = min(self.reach, self.keys // 2)
        return Fraction(moved * (self.keys - moved), self.keys) * 2 * self.sensitivity**2 / noise**2

    def epsilon_up(self, noise: Fraction) -> Fraction:
        """The pure epsilon for noise of this many steps."""
        found = noisy_max_epsilon_up(self.keys, sensitivity=self.sensitivity, noise=noise, spread=self.spread)
        return max(Fraction(found), SMALLEST_EPSILON)

    def noise_for(self, epsilon: Fraction) -> Fraction:
        """The least noise that is epsilon-DP, rounded up to four digits."""
        return _noise_for(self, epsilon)


class AskNoisyMax(Bound[NoisyMax]):
    """The maximum, as it is run; refuses bounds without room, and an epsilon for which there is no noise."""

    kind = "noisy_max_gaussian"

    @cached_property
    def query(self) -> Query:
        """What is asked of the rows."""
        return cast("Query", self.call.query)

    @cached_property
    def gaps(self) -> Gaps:
        """What the bounds and the neighbouring relation say about the values."""
        return Gaps.of(self.query, self.neighbouring, Fraction(self.call.low), Fraction(self.call.high))

    @cached_property
    def mechanism(self) -> GaussianMax:
        """The exact choice."""
        if self.call.epsilon is not None:
            return GaussianMax(self.gaps.noise_for(Fraction(self.call.epsilon)))
        return GaussianMax(Fraction(self.call.noise or 0) / self.query.grid)

    @cached_property
    def event(self) -> Event:
        noise, epsilon = Fraction(self.mechanism.noise), self.call.epsilon
        pure = self.gaps.epsilon_up(noise) if epsilon is None else Fraction(epsilon)
        return Concentrated(pure, self.gaps.rho_up(noise))

    def shortfall(self, beta: Fraction) -> float:
        return self._short(Fraction(self.mechanism.noise), beta)

    def _short(self, noise: Fraction, beta: Fraction) -> float:
        """The same for noise of so many steps: no value is farther below another than the bounds are apart."""
        steps = max(0, math.ceil(gaussian_loss_up(noise, self.gaps.keys, beta)) - 1)
        return float(min(steps, self.gaps.spread) * self.query.grid)

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        lowest = self.gaps.lowest
        values = np.clip(touched.integers(), lowest, lowest + self.gaps.spread)
        noise = Fraction(self.mechanism.noise) * self.query.grid
        return Ran({"position": self.mechanism.step(values, touched.source), "noise": str(noise)}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Winner:
        keys: Sequence[Any] = self.query.keys or ()
        bounds = (float(self.call.low), float(self.call.high))
        noise = Fraction(answer["noise"])
        # That of the answer: what epsilon makes of it may come out otherwise elsewhere.
        short = self._short(noise / self.query.grid, BETA)
        return Winner(call, keys[answer["position"]], bounds, float(noise), short)


@lru_cache(maxsize=KEPT)
def _noise_for(gaps: Gaps, epsilon: Fraction) -> Fraction:
    return four_digits_up(noisy_max_noise(epsilon, gaps.keys, sensitivity=gaps.sensitivity, spread=gaps.spread))
