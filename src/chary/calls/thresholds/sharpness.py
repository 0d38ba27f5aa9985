"""What a caller wants of a sharp test, and the test that follows from it under the session's filter."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

from chary.accounting.sharp.chance_chain import LEAST_SPEED
from chary.accounting.sharp.half_widths import check_chance, half_width
from chary.accounting.sharp.sharp_event import SharpTest, least_price
from chary.accounting.sharp.sharp_table import sharp_table
from chary.errors import InvalidParameter, NoPrice
from chary.filters import Filter, RenyiFilter
from chary.mechanisms.thresholds.sharp import SharpSampler
from chary.numbers import Number, exact, plain
from chary.spine.interaction import KEPT
from chary.spine.within import Within

# Of the price of a hit, what its value takes: near the least error of values at full separation (theory 10).
VALUE_SHARE: Final = Fraction(1, 4)
SURE: Final = Fraction(19, 20)
# Halvings of a ratio of 16, or in rare cases of 2^62: the price is found to a part in 5,000, or in 400.
_HALVINGS: Final = 14
Width = Callable[[SharpTest, float], float]


def priced_by(filter_: Filter, otherwise: str) -> RenyiFilter:
    """The filter, if it has prices for sharp tests; `NoPrice` says what to do otherwise."""
    if isinstance(filter_, RenyiFilter):
        return filter_
    raise NoPrice(
        f"the {filter_.kind} filter has no price for a sharp test: open the session with a delta and the Renyi filter, "
        f"or {otherwise}"
    )


@dataclass(frozen=True)
class WantedTest:
    """What a call says of how sharply it tests."""

    hits: int | None
    price: Number | None
    within: Number | None
    tests: int | None
    sure: Number

    @property
    def chance(self) -> Fraction | None:
        """The chance of an error, on either side, of each of the tests that are named; refuses one below all tables."""
        if self.tests is None:
            return None
        chance = (1 - exact(self.sure, "sure")) / (2 * self.tests)
        check_chance(chance)
        return chance


@dataclass(frozen=True)
class Sharpness:
    """A sharp test of values that move by at most so many steps: its law, its bar, and the rho of the value of a hit.

    `event` is the price of a hit with its value; `bar` is added to the steps above the threshold.
    """

    event: SharpTest
    sampler: SharpSampler
    bar: int
    value_rho: Fraction | None
    grid: Fraction

    def wrong_call(self, distance: int) -> float:
        """The chance that a value so many steps above (negative: below) the threshold is called wrongly."""
        hit = self.sampler.table.hit_chance(distance + self.bar)
        return float(hit if distance < 0 else 1 - hit)

    def within(self, tests: int, confidence: Number) -> Within:
        """How far off so many tests may be together; the bar is placed for as many as the call names."""
        chance = float(1 - exact(confidence, "confidence")) / (2 * tests)
        table = self.sampler.table
        low, high = table.false_alarm_reach(Fraction(chance)), table.miss_reach(Fraction(chance))
        return Within(tests, float(confidence), float(max(low + self.bar, high - self.bar) * self.grid), None)


@lru_cache(maxsize=KEPT)
def sharpest(asked: WantedTest, filter_: RenyiFilter, sensitivity: int, grid: Fraction, share: Fraction) -> Sharpness:
    """The test that is wanted, of values that move by at most so many steps, with this share for a value."""
    chance, price = asked.chance, priced(asked, filter_, sensitivity * grid, 1 - share)
    event = SharpTest(filter_.order, price)
    tested = event if share == 0 else SharpTest(filter_.order, price * (1 - share))
    table = sharp_table(order=filter_.order, price=Fraction(tested.price), steps=sensitivity)
    bar = 0 if chance is None else table.bar(chance)
    # Gaussian noise of rho has log-moment a (a - 1) rho at order a (theory 1.4).
    rho = price * share / (filter_.order * (filter_.order - 1)) if share else None
    return Sharpness(event, SharpSampler(table), bar, rho, grid)


def priced(
    asked: WantedTest,
    filter_: RenyiFilter,
    sensitivity: Fraction,
    tested: Fraction = Fraction(1),
    width: Width = half_width,
) -> Fraction:
    """The log-moment of a hit, in whole steps of the filter, of which the part `tested` is for the test.

    `width` is how near to its bar a test is right but for a chance, in sensitivities.
    """
    whole, steps, chance = filter_.capacity.main, filter_.steps, asked.chance
    if asked.hits is not None:
        return _some(whole // asked.hits, steps)
    if asked.price is not None:
        return _some(int(whole * exact(asked.price, "price")), steps)
    wanted = float(exact(asked.within or 0, "within") / sensitivity)

    def right(main: int) -> bool:
        price = tested * main / steps
        return chance is not None and _right(filter_.order, price, float(chance), wanted, width)

    if chance is None or not right(whole):
        raise InvalidParameter(
            f"not even the whole budget buys {asked.tests} tests that are right within "
            f"{plain(exact(asked.within or 0, 'within'))}: give a larger within= or fewer tests="
        )
    low, high = _around(filter_.order, float(chance), wanted, steps / float(tested))
    low = low if not right(low) else 1
    high = high if high < whole and right(high) else whole
    for _ in range(_HALVINGS):
        middle = isqrt(low * high)
        low, high = (low, middle) if right(middle) else (middle, high)
    return _some(high, steps)


def _around(order: Fraction, chance: float, wanted: float, unit: float) -> tuple[int, int]:
    """Amounts a fourth and four times of what the test of small losses takes, whose half-width is known (theory 10)."""
    speed = math.acosh(chance**-0.5) / (math.sqrt(2) * wanted)
    guess = float(order * (order - 1)) * speed**2 * unit
    return max(1, int(guess / 4)), max(2, int(min(4 * guess, 1e300)))


def _right(order: Fraction, price: Fraction, chance: float, wanted: float, width: Width) -> bool:
    """Whether the test of this price is right within so many sensitivities, and has a table."""
    if price < least_price(order, LEAST_SPEED):
        return False
    try:
        return width(SharpTest(order, price), chance) <= wanted
    except InvalidParameter:  # a price at which a test tells nothing
        return False


def _some(main: int, steps: int) -> Fraction:
    if main == 0:
        raise InvalidParameter("so small a part of this budget tells nothing: take fewer hits, or a larger price")
    return Fraction(main, steps)
