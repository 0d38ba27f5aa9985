"""What a caller wants of a sharp test, and the test that follows from it under the session's filter."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, Final, TypedDict

from chary.accounting import Event
from chary.accounting.sharp.chance_chain import LEAST_SPEED
from chary.accounting.sharp.half_widths import check_chance, half_width
from chary.accounting.sharp.sharp_event import SharpTest, least_price
from chary.accounting.sharp.sharp_table import sharp_table
from chary.accounting.sharp.sharp_tails import SharpTails
from chary.calls.call import AnswerT, Call
from chary.calls.fields import AnyQuery, Exact, Flag, Positive, Probability, Whole
from chary.errors import InvalidParameter, NoPrice
from chary.filters import Filter, RenyiFilter
from chary.mechanisms.thresholds.sharp import SharpSampler
from chary.numbers import Number, exact, plain
from chary.spine.interaction import KEPT, Interaction
from chary.spine.within import Within

# Of the price of a hit, what its value takes: near the least error of values at full separation (theory 10).
VALUE_SHARE: Final = Fraction(1, 4)
SURE: Final = Fraction(19, 20)
_WAYS: Final = ("epsilon", "hits", "price", "within")
_TOLD: Final = "hits=20 (so many fit), price=, within= with tests=, or epsilon= for Laplace noise"
# Parts of a budget's epsilon that have orders of their own, of which the lower ones suit a few hits.
_GRAINS: Final = (10, 16, 20, 25, 32, 50, 100, 200)
# Halvings of a ratio of 16, or in rare cases of 2^62: the price is found to a part in 5,000, or in 400.
_HALVINGS: Final = 14


class How(TypedDict, total=False):
    """How sharply a threshold is tested: one of `epsilon`, `hits`, `price` and `within`; see `Threshold`."""

    epsilon: Number
    hits: int
    price: Number
    within: Number
    tests: int
    sure: Number
    below_margin: bool


class HowValued(How, total=False):
    """The same of a threshold whose hit comes with a value, and the part of the price of a hit for that."""

    value: Number


@dataclass(frozen=True)
class Threshold(Call[AnswerT]):
    """A call that tests against a bar.

    How sharply is said in one of four ways: `hits`, so many must fit into the whole budget; `price`, the share of the
    whole budget that a hit may take; `within` with `tests`, all of so many tests must be right, with probability `sure`
    (default 0.95), for values farther than that from the bar; or `epsilon`, a test by Laplace noise. The first three
    are the sharpest test there is for its price (docs/theory.md) and need a session with a delta.

    Many tests at once (keys, or the `tests` that are named) that are expected to report at least one truth even if all
    are the least they can be, 0 for counts and totals of values from 0 on, would mostly buy false alarms: they raise
    `InvalidParameter` before anything is reserved, unless `below_margin=True` says that this is meant. Stored answers
    of repeated requests are given whatever it says.
    """

    query: AnyQuery
    _: KW_ONLY
    above: Exact
    epsilon: Positive | None = None
    hits: Whole | None = None
    price: Probability | None = None
    within: Positive | None = None
    tests: Whole | None = None
    sure: Probability | None = None
    below_margin: Flag | None = None

    def __post_init__(self) -> None:
        check_one_way(self, _WAYS, _TOLD)
        check_tests(self)

    def sharpness(self, filter_: Filter, sensitivity: int, grid: Fraction, value_share: Fraction) -> "Sharpness":
        """The sharp test under this filter, of a call without epsilon; `NoPrice` but under a Renyi filter."""
        wanted = Wanted(self.hits, self.price, self.within, self.tests, self.sure or SURE)
        renyi = priced_by(filter_, "ask with epsilon= for Laplace noise")
        price = price_of(wanted, renyi, sensitivity * grid, value_share)
        return sharpness_at(renyi, price, value_share, wanted.chance, sensitivity, grid)


def check_one_way(call: Call[Any], ways: tuple[str, ...], told: str) -> None:
    """Refuse a call that does not say how sharply it tests in exactly one of these ways, which `told` shows."""
    said = [way for way in ways if getattr(call, way) is not None]
    if not said:
        raise InvalidParameter(f"say how sharply: {told}")
    if len(said) > 1:
        raise InvalidParameter(f"how sharply is said {len(said)} times, by {'= and '.join(said)}=: give one of {told}")


def check_tests(call: Any) -> None:
    """Refuse what is said of so many tests together without their number, and of sharp tests beside `epsilon`."""
    if call.tests is None and (alone := next((name for name in ("within", "sure") if _says(call, name)), None)):
        raise InvalidParameter(f"{alone}= is for so many tests together: give tests= as well, such as tests=1000")
    if call.epsilon is not None and (other := next((name for name in ("tests", "value") if _says(call, name)), None)):
        raise InvalidParameter(f"{other}= belongs to a sharp test: give price= instead of epsilon=, or hits=")


def _says(call: Any, name: str) -> bool:
    return getattr(call, name, None) is not None


def priced_by(filter_: Filter, otherwise: str) -> RenyiFilter:
    """The filter, if it has prices for sharp tests; `NoPrice` says what to do otherwise."""
    if isinstance(filter_, RenyiFilter):
        return filter_
    raise NoPrice(
        f"the {filter_.kind} filter has no price for a sharp test: open the session with a delta and the Renyi filter, "
        f"or {otherwise}"
    )


@dataclass(frozen=True)
class Valued(Threshold[AnswerT]):
    """A threshold whose hit comes with a value, for the part `value` of the price of a hit (default: a quarter)."""

    _: KW_ONLY
    value: Probability | None = None

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hit that its value takes."""
        return VALUE_SHARE if self.value is None else exact(self.value, "value")


@dataclass(frozen=True)
class Wanted:
    """How sharply: by `hits`, or `price`, or `within` for so many `tests` together; see `Threshold`."""

    hits: int | None
    price: Number | None
    within: Number | None
    tests: int | None
    sure: Number = SURE

    @property
    def chance(self) -> Fraction | None:
        """The chance of a false alarm, or of a miss, from where on each of so many tests counts as right."""
        return None if self.tests is None else (1 - exact(self.sure, "sure")) / (2 * self.tests)


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

    @property
    def tails(self) -> SharpTails:
        """How often such tests report a truth below the bar, and miss one above it."""
        return SharpTails(self.sampler.table, self.bar)

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

    def foreseen(self, call: Threshold[Any]) -> Within | None:
        """The same for as many tests as the call names, with the probability that it names."""
        return None if call.tests is None else self.within(call.tests, exact(call.sure or SURE, "sure"))


class Sharply(Interaction):
    """What every call by sharp tests tells of them."""

    call: Threshold[Any]
    sharpness: Sharpness

    @property
    def foreseen(self) -> Within | None:
        return self.sharpness.foreseen(self.call)

    @property
    def event(self) -> Event:
        return self.sharpness.event

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)


@lru_cache(maxsize=KEPT)
def sharpness_at(
    filter_: RenyiFilter, price: Fraction, share: Fraction, chance: Fraction | None, sensitivity: int, grid: Fraction
) -> Sharpness:
    """The test of a hit at this price, of which the part `share` is for its value, and where its bar lies.

    Without a chance, of errors of either kind, a value at the bar hits with one half.
    """
    event = SharpTest(filter_.order, price)
    tested = event if share == 0 else SharpTest(filter_.order, price * (1 - share))
    table = sharp_table(order=filter_.order, price=Fraction(tested.price), steps=sensitivity)
    bar = 0 if chance is None else table.bar(chance)
    # Gaussian noise of rho has log-moment a (a - 1) rho at order a (theory 1.4).
    rho = price * share / (filter_.order * (filter_.order - 1)) if share else None
    return Sharpness(event, SharpSampler(table), bar, rho, grid)


@lru_cache(maxsize=KEPT)
def price_of(wanted: Wanted, filter_: RenyiFilter, sensitivity: Fraction, share: Fraction) -> Fraction:
    """The log-moment of a hit, in whole steps of the filter, of which the part `share` is for its value.

    `within` is counted in the same units as the sensitivity.
    """
    chance = wanted.chance
    if chance is not None:
        check_chance(chance)
    whole, steps, tested = filter_.capacity.main, filter_.steps, 1 - share
    if wanted.hits is not None:
        return _some(whole // wanted.hits, steps)
    if wanted.price is not None:
        return _some(int(whole * exact(wanted.price, "price")), steps)
    near = float(exact(wanted.within or 0, "within") / sensitivity)
    if chance is None or not _right(filter_.order, tested * whole / steps, float(chance), near):
        grain = _selling_grain(filter_, tested, float(chance or 0), near)
        orders = f", or open a new dataset with grain={plain(grain)}, for whose order it fits" if grain else ""
        raise InvalidParameter(
            f"not even the whole budget buys {wanted.tests} tests that are right within "
            f"{plain(exact(wanted.within or 0, 'within'))}: give a larger within= or fewer tests={orders}"
        )
    low, high = _around(filter_.order, float(chance), near, steps / float(tested))
    low = low if not _right(filter_.order, tested * low / steps, float(chance), near) else 1
    high = high if high < whole and _right(filter_.order, tested * high / steps, float(chance), near) else whole
    for _ in range(_HALVINGS):
        middle = isqrt(low * high)
        right = _right(filter_.order, tested * middle / steps, float(chance), near)
        low, high = (low, middle) if right else (middle, high)
    return _some(high, steps)


def _selling_grain(filter_: RenyiFilter, tested: Fraction, chance: float, wanted: float) -> Fraction | None:
    """A grain for whose order, fixed when a dataset is opened, the whole budget buys a test so near to its bar."""
    for part in _GRAINS:
        grain = filter_.budget.exact[0] / part
        other = RenyiFilter.best(filter_.budget, grain=grain, approximate_delta=filter_.approximate_delta)
        if _right(other.order, tested * Fraction(other.capacity.main, other.steps), chance, wanted):
            return grain
    return None


def _around(order: Fraction, chance: float, wanted: float, unit: float) -> tuple[int, int]:
    """Amounts a fourth and four times of what the test of small losses takes, whose half-width is known (theory 10)."""
    speed = math.acosh(chance**-0.5) / (math.sqrt(2) * wanted)
    guess = float(order * (order - 1)) * speed**2 * unit
    return max(1, int(guess / 4)), max(2, int(min(4 * guess, 1e300)))


def _right(order: Fraction, price: Fraction, chance: float, wanted: float) -> bool:
    """Whether the test of this price is right within so many sensitivities, and has a table."""
    if price < least_price(order, LEAST_SPEED):
        return False
    try:
        return half_width(SharpTest(order, price), chance) <= wanted
    except InvalidParameter:  # a price at which a test tells nothing
        return False


def _some(main: int, steps: int) -> Fraction:
    if main == 0:
        raise InvalidParameter("so small a part of this budget tells nothing: take fewer hits, or a larger price")
    return Fraction(main, steps)
