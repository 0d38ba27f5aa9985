"""The next chance of a hit in floats, by logits: where to look, never what is relied on."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from chary.accounting.sharp.sharp_event import SharpTest

# Powers are cut off here, where a side exceeds 1 by far, so that its slope is a float as well.
_LARGEST: Final = 300.0
_STEPS: Final = 100
# Newton's steps square their errors: behind one of this part of the move, only the rounding of floats is left.
_CLOSE: Final = 1e-8
_FACTOR: Final = 4.0
_FAR: Final = 1e6


@dataclass(frozen=True)
class LogitSteps:
    """Steps of one test between logits `ln(f / (1 - f))`, in which both ends of the chances are precise."""

    test: SharpTest

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        order = float(self.test.order)
        return order - 1, float(self.test.price), float(self.test.miss_price)

    @property
    def _usual(self) -> float:
        """The move at small chances in the limit of small prices (theory 10)."""
        power, price, _ = self._sizes
        return math.sqrt(2 * price / (power * (power + 1)))

    def step(self, logit: float, *, up: bool, guess: float | None = None) -> float:
        """How far the logit may move: up to the next chance of a hit, or down to the one whose next it is.

        Newton's method on the side that exceeds 1 most; as both sides are convex it comes from beyond. Where it leaves
        the bracket, or a side was cut off, the bracket is halved.
        """
        move, sign, low, high = guess or self._usual, 1.0 if up else -1.0, 0.0, math.inf
        for _ in range(_STEPS):
            excess, slope = self._excess(logit, sign * move)
            low, high = (low, move) if excess > 0 else (move, high)
            aim = move - excess / (sign * slope) if sign * slope > 0 and excess < _FAR else math.inf
            reached = min(aim if low < aim < high else (low + high) / 2, _FACTOR * move)
            if abs(aim - move) <= _CLOSE * move:
                return aim
            move = reached
        return low

    def _excess(self, logit: float, move: float) -> tuple[float, float]:
        """By how much the larger of both sides exceeds 1, and how fast it grows with the logit."""
        power, price, miss_price = self._sizes
        hit, miss = log_chances(logit)
        next_hit, next_miss = log_chances(logit + move)
        hits, misses = power * (next_hit - hit), power * (miss - next_miss)
        q, t, low = math.exp(next_hit), math.exp(next_miss), logit < 0
        rising, missed, made = _side(miss + misses - miss_price, hit - hits - price, low)
        falling, missed_back, made_back = _side(next_miss - misses - miss_price, next_hit + hits - price, low)
        if rising > falling:
            return rising, power * (missed * q - made * t)
        return falling, (power + 1) * (made_back * t - missed_back * q)


def log_chances(logit: float) -> tuple[float, float]:
    """The logarithms of the chances of a hit and of a miss.

    >>> log_chances(0.0) == (-math.log(2), -math.log(2))
    True
    """
    if logit > 0:
        hit = -math.log1p(math.exp(-logit))
        return hit, hit - logit
    miss = -math.log1p(math.exp(logit))
    return miss + logit, miss


def _side(miss: float, hit: float, low: bool) -> tuple[float, float, float]:
    """By how much two terms, given by logarithms, exceed 1, the one near 1 by `expm1`; and both."""
    missed, made = math.exp(min(miss, _LARGEST)), math.exp(min(hit, _LARGEST))
    excess = math.expm1(min(miss, _LARGEST)) + made if low else math.expm1(min(hit, _LARGEST)) + missed
    return excess, missed, made
