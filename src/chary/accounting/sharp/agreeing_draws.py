"""Two draws of a label, charged where they disagree: which laws of a draw neighbours may have (docs/theory.md).

A draw is its own label with chance 1 - y and each of the other k - 1 with y/(k-1). With A = (1-y)^a (1-z)^(1-a) and
B = y^a z^(1-a) for neighbours y, z, two draws agree on the own label with A^2 and on another one with B^2/(k-1), free;
what is left is charged: `D (A + B)^2 + (1 - D) (A^2 + B^2/(k-1)) <= 1`, both ways round. A and B are convex, and this
is convex and rising in both, so allowed pairs (y, z) are a convex set with corner (0, 0), as those of one test are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

from chary.accounting.exponentials import decimal, precise
from chary.accounting.sharp.allowed_pairs import Chance
from chary.accounting.sharp.chance_chain import LEAST_EVEN_SPEED, ONE, check_price, tail
from chary.accounting.sharp.logit_steps import LogitSteps, log_chances
from chary.accounting.sharp.sharp_event import SharpTest
from chary.accounting.sharp.sharp_table import SharpTable
from chary.errors import InvalidParameter
from chary.numbers import whole

_SPARE_DIGITS: Final = 12
_TAIL: Final = ONE >> 12
_LARGEST: Final = 300.0
_MARGIN, _MORE, _TRIES = 1e-13, 16, 8


class DrawInequalities:
    """Both inequalities of two draws; make it and use it inside one `precise` block."""

    def __init__(self, test: SharpTest, labels: int) -> None:
        self._power = decimal(Fraction(test.order)) - 1
        self._kept = (-decimal(Fraction(test.price))).exp()
        self._others = labels - 1
        self._most = 1 - Decimal(10) ** (_SPARE_DIGITS - getcontext().prec)

    def allow(self, y: Chance, z: Chance) -> bool:
        """Whether both certainly hold."""
        hits, misses = ((z.hit / y.hit).ln() * self._power).exp(), ((y.miss / z.miss).ln() * self._power).exp()
        there = self._side(y.miss * misses, y.hit / hits)
        return there <= self._most and self._side(z.miss / misses, z.hit * hits) <= self._most

    def _side(self, own: Decimal, other: Decimal) -> Decimal:
        return self._kept * (own + other) ** 2 + (1 - self._kept) * (own**2 + other**2 / self._others)


@dataclass(frozen=True)
class DrawSteps(LogitSteps):
    """Steps of two draws between logits `ln(y / (1 - y))`, in floats: where to look."""

    labels: int

    def start(self) -> float:
        """The logit where all labels meet."""
        return math.log(self.labels - 1)

    def _excess(self, logit: float, move: float) -> tuple[float, float]:
        power, price, _ = self._sizes
        hit, miss = log_chances(logit)
        next_hit, next_miss = log_chances(logit + move)
        hits, misses = power * (next_hit - hit), power * (miss - next_miss)
        z, t = math.exp(next_hit), math.exp(next_miss)
        there = self._draws(miss + misses, hit - hits, power * z, -power * t, price)
        back = self._draws(next_miss - misses, next_hit + hits, -(power + 1) * z, (power + 1) * t, price)
        return max(there, back)

    def _draws(
        self, own: float, other: float, own_slope: float, other_slope: float, price: float
    ) -> tuple[float, float]:
        """By how much a side exceeds 1, given the logarithms of A and B, and its slope from theirs."""
        kept, alike = math.exp(-price), -math.expm1(-price) / (self.labels - 1)
        a, b = math.exp(min(own, _LARGEST / 2)), math.exp(min(other, _LARGEST / 2))
        excess = math.expm1(min(2 * own, _LARGEST)) + 2 * kept * a * b + (kept + alike) * b * b
        slope = own_slope * 2 * a * (a + kept * b) + other_slope * 2 * b * (kept * a + (kept + alike) * b)
        return excess, slope


@lru_cache(maxsize=64)
def draw_chain(test: SharpTest, labels: int) -> tuple[int, ...]:
    """The chances `u(j) 2^192` that a draw is its own label for certain, j sensitivities from where all labels meet.

    With the rest, 1 - u, it is uniform among all labels. Guarantee: u(0) = 0, u rises, each pair of neighbours
    satisfies both inequalities, and beyond the end, within 2^-100 of 1, u stays as it is. Each step is one
    sensitivity, so a price at which a test of its own would take several a step is refused: `InvalidParameter`, as for
    a price of misses.
    """
    check_price(test, LEAST_EVEN_SPEED)
    if test.miss_price:
        raise InvalidParameter("draws that agree are free: leave the price of a miss out")
    with precise(-18):
        rest = [ONE, *_Walk(test, labels).chances()]
    return tuple(ONE - value for value in (*rest, *tail(rest)))


def draw_table(test: SharpTest, labels: int, steps: int) -> SharpTable:
    """The chances of `draw_chain` by depth, in steps of which one unit moves a depth by at most so many."""
    return SharpTable(test, whole(steps, "steps"), draw_chain(test, labels), 0)


class _Walk:
    """Steps from where all labels meet; each is found in floats, drawn back a little and verified in decimals."""

    def __init__(self, test: SharpTest, labels: int) -> None:
        self._pairs, self._steps, self._labels = DrawInequalities(test, labels), DrawSteps(test, labels), labels

    def chances(self) -> Iterator[int]:
        """The chances of another draw than the certain one, times 2^192, until one factor does for the rest."""
        value, guess = ONE, None
        while value > _TAIL:
            logit = self._logit(value)
            guess = self._steps.step(logit, up=False, guess=guess)
            value = self._verified(value, logit, guess)
            yield value

    def _verified(self, value: int, logit: float, move: float) -> int:
        here, margin = self._chance(value), _MARGIN
        for _ in range(_TRIES):
            found = self._nearest(logit - move * (1 - margin))
            if 0 < found < value and self._pairs.allow(here, self._chance(found)):
                return found
            margin *= _MORE
        raise InvalidParameter("chances of neighbours cannot be told apart at these prices: take a larger price")

    def _chance(self, value: int) -> Chance:
        other, every = value * (self._labels - 1), ONE * self._labels
        return Chance(Decimal(other) / every, Decimal(every - other) / every)

    def _logit(self, value: int) -> float:
        other = value * (self._labels - 1)
        return math.log(other / (ONE * self._labels - other))

    def _nearest(self, logit: float) -> int:
        hit, miss = log_chances(logit)
        other = int(math.exp(hit) * float(ONE)) if hit < miss else ONE - int(math.exp(miss) * float(ONE))
        return other * self._labels // (self._labels - 1)


def clear_depth(labels: int, test: SharpTest, chance: float) -> float:
    """The sensitivities from where all labels meet to where the own one is told but for this chance.

    Errors: `InvalidParameter` for a price too small for a chain.
    """
    check_price(test, LEAST_EVEN_SPEED)
    steps = DrawSteps(test, labels)
    logit, reached, move = steps.start(), 0, None
    last = rare = 1 - labels**-2.0
    while rare > chance:
        move = steps.step(logit, up=False, guess=move)
        logit -= move
        y = 1 / (1 + math.exp(min(-logit, 700.0)))
        last, rare = rare, y * (2 - y)
        reached += 1
    return reached - (chance - rare) / (last - rare) if reached else 0.0
