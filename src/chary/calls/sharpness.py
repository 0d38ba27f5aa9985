"""How accurate a test is to be: by epsilon, hits, privacy cost, or distance from the threshold."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Any, ClassVar, Final, Self

from chary.accounting import Event, Publication, Support, Targeted
from chary.accounting.intervals import Tails
from chary.accounting.sharp_tests import LEAST_SPEED, SharpTails, SharpTest, least_price, sharp_table
from chary.accounting.sharp_widths import check_chance, half_width
from chary.calls.answers import published
from chary.calls.call import Call
from chary.calls.fields import BelowMargin, Exact, Positive, Probability, Whole
from chary.core import forecast, plan
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Query
from chary.errors import InvalidParameter
from chary.filters import Filter, RenyiFilter
from chary.mechanisms import Additive, BarTests, Gaussian, Laplace
from chary.mechanisms.threshold_tests import SharpSampler, SharpTests
from chary.numbers import Number, exact, plain

# What a caller wants of an optimal threshold test, and the test that follows from it under the session's filter.

# Of the price of a hit, what its value takes: near the least error of values at full separation (theory chapter 2).
VALUE_SHARE: Final = Fraction(1, 4)
SURE: Final = Fraction(19, 20)
# Parts of a budget's epsilon that have orders of their own, of which the lower ones suit a few hits.
_GRAINS: Final = (10, 16, 20, 25, 32, 50, 100, 200)
# Halvings of a ratio of 16, or in rare cases of 2^62: the cost is found to a part in 5,000, or in 400.
_HALVINGS: Final = 14
# How near to its threshold a test is right but for a probability, in sensitivities.
Width = Callable[[SharpTest, float], float]


def chance_of_each(confidence: Number, tests: int) -> Fraction:
    """The probability of a false alarm, or of a miss, from where on each of this many tests counts as right.

    >>> chance_of_each("0.95", 100)
    Fraction(1, 4000)
    """
    return (1 - exact(confidence, "confidence")) / (2 * tests)


def rho_of(price: Fraction, order: Fraction) -> Fraction:
    """The Gaussian noise with this log-moment: that of rho is a (a - 1) rho at order a (theory 1.4)."""
    return price / (order * (order - 1))


@dataclass(frozen=True)
class Wanted:
    """The accuracy: by `hits`, or `price`, or `within` for all `tests` together; see `HowSharply`."""

    hits: int | None
    price: Number | None
    within: Number | None
    tests: int | None
    confidence: Number = SURE

    @classmethod
    def said(cls, call: Any, **instead: Any) -> Self:
        """The accuracy that a call asks for; `instead` replaces single fields."""
        named = {name: getattr(call, name, None) for name in ("hits", "price", "within", "tests")}
        return cls(**named | instead, confidence=call.confidence or SURE)

    @property
    def chance(self) -> Fraction | None:
        """The probability of a false alarm, or of a miss, of each test; None without a number of tests."""
        return None if self.tests is None else chance_of_each(self.confidence, self.tests)


@dataclass(frozen=True)
class Sharpness:
    """An optimal test of values of a given sensitivity in steps: its distribution, its threshold, and the rho of
    the value of a hit.

    `event` is the cost of a hit with its value; `bar` is added to the steps above the threshold.
    """

    event: SharpTest
    sampler: SharpSampler
    bar: int
    value_rho: Fraction | None
    grid: Fraction

    @property
    def tails(self) -> SharpTails:
        """How often such tests report a truth below the threshold, and miss one above it."""
        return SharpTails(self.sampler.table, self.bar)

    def value_noise(self, sensitivity: int) -> Gaussian:
        """The noise of a hit's value, for values that one unit moves by this many steps."""
        return Gaussian.for_rho(self.value_rho or 0, l2_squared=sensitivity**2)

    def wrong_call(self, distance: int) -> float:
        """The probability that a value this many steps above (negative: below) the threshold is called wrongly."""
        hit = self.sampler.table.hit_chance(distance + self.bar)
        return float(hit if distance < 0 else 1 - hit)

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """The margin of this many tests together; the threshold is placed for as many as the call names."""
        table, chance = self.sampler.table, chance_of_each(confidence, tests)
        steps = max(table.false_alarm_reach(chance) + self.bar, table.miss_reach(chance) - self.bar)
        return forecast.Within(tests, float(exact(confidence, "confidence")), float(steps * self.grid), None)


@lru_cache(maxsize=plan.KEPT)
def sharpness_at(
    filter_: RenyiFilter, price: Fraction, share: Fraction, chance: Fraction | None, sensitivity: int, grid: Fraction
) -> Sharpness:
    """The test of a hit at this cost, of which the part `share` is for its value, and where its threshold lies.

    `chance` is that of an error of either kind. Without it, a value at the threshold hits with probability one half.
    """
    event = SharpTest(filter_.order, price)
    tested = event if share == 0 else SharpTest(filter_.order, price * (1 - share))
    table = sharp_table(order=filter_.order, price=Fraction(tested.price), steps=sensitivity)
    bar = 0 if chance is None else table.bar(chance)
    return Sharpness(event, SharpSampler(table), bar, rho_of(price * share, filter_.order) if share else None, grid)


@lru_cache(maxsize=plan.KEPT)
def price_of(
    wanted: Wanted, filter_: RenyiFilter, sensitivity: Fraction, share: Fraction, width: Width = half_width
) -> Fraction:
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
        return _some(filter_.shares.cap(exact(wanted.price, "price")).main, steps)
    near = _Near(float(exact(wanted.within or 0, "within") / sensitivity), float(chance or 0), width)

    def right(main: int) -> bool:
        return near.reached(filter_.order, tested * main / steps)

    if chance is None or not right(whole):
        grain = _selling_grain(filter_, tested, near)
        orders = f", or open a new dataset with grain={plain(grain)}, for whose order it fits" if grain else ""
        raise InvalidParameter(
            f"not even the whole budget buys {wanted.tests} tests that are right within "
            f"{plain(exact(wanted.within or 0, 'within'))}: let them be farther off, or give fewer tests={orders}"
        )
    low, high = near.around(filter_.order, steps / float(tested))
    low = low if not right(low) else 1
    high = high if high < whole and right(high) else whole
    for _ in range(_HALVINGS):
        middle = isqrt(low * high)
        low, high = (low, middle) if right(middle) else (middle, high)
    return _some(high, steps)


@dataclass(frozen=True)
class _Near:
    """A test that is right within this many sensitivities, but for this probability."""

    wanted: float
    chance: float
    width: Width

    def reached(self, order: Fraction, price: Fraction) -> bool:
        """Whether the test of this cost is so near, and has a table."""
        if price < least_price(order, LEAST_SPEED):
            return False
        try:
            return self.width(SharpTest(order, price), self.chance) <= self.wanted
        except InvalidParameter:  # a cost at which a test says nothing
            return False

    def around(self, order: Fraction, unit: float) -> tuple[int, int]:
        """A bracket of the cost: a quarter and four times that of the test for small losses, whose width has a closed
        form (theory chapter 2)."""
        speed = math.acosh(self.chance**-0.5) / (math.sqrt(2) * self.wanted)
        guess = float(order * (order - 1)) * speed**2 * unit
        return max(1, int(guess / 4)), max(2, int(min(4 * guess, 1e300)))


def _selling_grain(filter_: RenyiFilter, tested: Fraction, near: _Near) -> Fraction | None:
    """A granularity for whose Renyi order the whole budget buys such a test; None if none of the usual ones does.

    A dataset has one granularity, fixed when it is opened.
    """
    for part in _GRAINS:
        grain = filter_.budget.exact[0] / part
        other = RenyiFilter.best(filter_.budget, grain=grain, delta_reserve=filter_.delta_reserve)
        if near.reached(other.order, tested * Fraction(other.capacity.main, other.steps)):
            return grain
    return None


def _some(main: int, steps: int) -> Fraction:
    if main == 0:
        raise InvalidParameter("this part of the budget is too small for any test: take fewer hits, or a larger price=")
    return Fraction(main, steps)


# What the opening of a run fixes for its optimal threshold tests: the price of a hit, kept in the ledger, and what it
# buys.

_BITS: Final = 8


@dataclass(frozen=True)
class HitTerms:
    """The cost of a hit, the part of it that its value takes, and the probability of an error for which thresholds are
    placed."""

    filter: RenyiFilter
    price: Fraction
    share: Fraction
    chance: Fraction | None = None

    @classmethod
    def found(
        cls, wanted: Wanted, filter_: RenyiFilter, sensitivity: Fraction, share: Fraction, width: Width = half_width
    ) -> Self:
        """The terms for this accuracy or cost, for values that one unit moves by at most `sensitivity`."""
        return cls(filter_, price_of(wanted, filter_, sensitivity, share, width), share, wanted.chance)

    @property
    def event(self) -> SharpTest:
        """What a test may reveal, with the value of its hit."""
        return SharpTest(self.filter.order, self.price)

    def slower(self, part: Fraction) -> Self:
        """The tests at this fraction, at most 1, of the speed; their cost falls with its square.

        It never falls below that of the slowest test that has a table.
        """
        least = least_price(self.filter.order, LEAST_SPEED) / (1 - self.share) * Fraction(1001, 1000)
        return replace(self, price=min(self.price, max(self.price * part**2, least)))

    def sharpness(self, sensitivity: int = 1, grid: Fraction = Fraction(1)) -> Sharpness:
        """The test of values that one unit moves by this many steps of the grid."""
        return sharpness_at(self.filter, self.price, self.share, self.chance, sensitivity, grid)

    def noise(self, sensitivity: int = 1) -> Gaussian:
        """The noise of a hit's value, for values that one unit moves by this many steps."""
        return Gaussian.for_rho(rho_of(self.price * self.share, self.filter.order), l2_squared=sensitivity**2)


def coarse_down(size: int) -> int:
    """A size taken down to its 8 leading bits, by less than 1 %: not a new table for every row that comes.

    >>> coarse_down(1000), coarse_down(48842)
    (1000, 48640)
    """
    spare = max(0, size.bit_length() - _BITS)
    return size >> spare << spare


# The options for the accuracy of a test, which all calls that test have in common.

_WAYS: Final = ("epsilon", "hits", "price", "within")
_TOLD: Final = "hits=20 (for the whole budget), price=, within= with tests=, or epsilon= for Laplace noise"
_LAPLACE: Final = "ask with epsilon= for Laplace noise"


@dataclass(frozen=True)
class HowSharply(Call[plan.AnswerT]):
    """A call that tests.

    The accuracy is chosen in one of four ways. `hits` is the number of hits that must fit into the whole budget.
    `price` is the fraction of the whole budget that a hit may take. `within` with `tests` is a margin: all `tests`
    tests are right, with probability `confidence` (default 0.95), for values farther than that from the threshold.
    `epsilon` means a test by Laplace noise. The first three are the most accurate test there is for its cost
    (docs/theory/thresholds.md) and need a session with a delta.
    """

    # Whether `hits` of a grouped query means optimal threshold tests where a command gives no other accuracy.
    groups_sharply: ClassVar[bool] = True
    _: KW_ONLY
    epsilon: Positive | None = None
    hits: Whole | None = None
    price: Probability | None = None
    within: Positive | None = None
    tests: Whole | None = None
    confidence: Probability | None = None

    def __post_init__(self) -> None:
        check_one_way(self, _WAYS, _TOLD)
        check_tests(self)

    @property
    def ways(self) -> dict[str, Any]:
        """The given options of accuracy, with `value` and `below_margin`, to pass on to another call."""
        said = {name: getattr(self, name, None) for name in (*_WAYS, "tests", "confidence", "below_margin", "value")}
        return {name: value for name, value in said.items() if value is not None}

    def sharpness(self, filter_: Filter, sensitivity: int, grid: Fraction, value_share: Fraction) -> Sharpness:
        """The optimal test under this filter, of a call without epsilon; `NotPriced` but under a Renyi filter."""
        terms = HitTerms.found(Wanted.said(self), filter_.for_sharp_tests(_LAPLACE), sensitivity * grid, value_share)
        return terms.sharpness(sensitivity, grid)

    def clear_terms(self, filter_: Filter, sensitivity: Fraction, width: Width) -> HitTerms:
        """The cost of an unclear answer under this filter, of a call without epsilon; `width` says what is right."""
        return HitTerms.found(Wanted.said(self), filter_.for_sharp_tests(_LAPLACE), sensitivity, Fraction(0), width)


def check_one_way(call: Call[Any], ways: tuple[str, ...], told: str) -> None:
    """Refuse a call that does not give exactly one of these options of accuracy; `told` lists them for the error."""
    said = [way for way in ways if getattr(call, way) is not None]
    if not said:
        raise InvalidParameter(f"specify the accuracy or the cost of the test: {told}")
    if len(said) > 1:
        raise InvalidParameter(f"{'= and '.join(said)}= exclude one another: give one of {told}")


def check_tests(call: Any) -> None:
    """Refuse `within` and `confidence` without `tests`, and options of optimal tests next to `epsilon`."""
    if call.tests is None and (alone := next((name for name in ("within", "confidence") if _says(call, name)), None)):
        raise InvalidParameter(f"{alone}= needs the number of tests: give tests= as well, such as tests=1000")
    if call.epsilon is not None and (other := next((name for name in ("tests", "value") if _says(call, name)), None)):
        raise InvalidParameter(f"{other}= belongs to an optimal test: give price= instead of epsilon=, or hits=")


def _says(call: Any, name: str) -> bool:
    return getattr(call, name, None) is not None


def value_part(said: Number | None) -> Fraction:
    """The part of the cost of a hit that its value takes."""
    return VALUE_SHARE if said is None else exact(said, "value")


@dataclass(frozen=True)
class FreshlyValued(HowSharply[plan.AnswerT]):
    """A test whose hit comes with a value, for the part `value` of the cost of a hit (default: a quarter)."""

    _: KW_ONLY
    value: Probability | None = None

    @property
    def value_share(self) -> Fraction:
        """The part of the cost of a hit that its value takes."""
        return value_part(self.value)


@dataclass(frozen=True)
class Threshold(HowSharply[plan.AnswerT]):
    """A call that tests against a threshold, from which on values are hits.

    Many tests at once (groups, or the `tests` that are named) may be expected to report at least one value even if all
    are as small as they can be. That is 0 for counts and sums of values from 0 on. Such tests would mostly buy false
    alarms. They raise `InvalidParameter` before anything is reserved, unless `below_margin=True` confirms the call.
    Stored answers of repeated requests are returned in either case."""

    _: KW_ONLY
    above: Exact
    below_margin: BelowMargin | None = None

    def law(self, spine: Spine, query: Query) -> "TestLaw":
        """How a query, or each key of it, is tested; refuses noise out of range, and what has no optimal test."""
        change = query.sensitivity(spine.rows.neighbor_relation)
        if self.epsilon is not None:
            return TestLaw.laplace(Laplace.for_epsilon(self.epsilon, sensitivity=change), self.epsilon)
        found = self.sharply(spine, query)
        return TestLaw.sharp(found, None if found.value_rho is None else found.value_noise(change))

    def sharply(self, spine: Spine, query: Query) -> Sharpness:
        """The optimal test of it, with a value at a hit where the call has one."""
        share = self.value_share if isinstance(self, FreshlyValued) else Fraction(0)
        return self.sharpness(spine.filter, query.sensitivity(spine.rows.neighbor_relation), query.grid, share)


@dataclass(frozen=True)
class Valued(FreshlyValued[plan.AnswerT], Threshold[plan.AnswerT]):
    """A threshold whose hit comes with a value."""


def together(call: Any, within: Callable[[int, Number], forecast.Within | None]) -> forecast.Within | None:
    """The margin of the `tests` that a call names, with its confidence; None for a call without `tests`."""
    return None if call.tests is None else within(call.tests, call.confidence or SURE)


# How a value is tested against a threshold: by Laplace noise, which is that of its value too, or by an optimal
# threshold test.


@dataclass(frozen=True, eq=False)
class TestLaw:
    """How steps are tested against a threshold.

    - `event` is what a test may reveal, with the value of its hit; `tails` how often it reports.
    - `noise` is that of the value of a hit, None where there are none. It `decides` what is a hit in tests by Laplace
      noise; after an optimal test it is drawn for the value alone.
    - `machine` makes the tests of a threshold in steps, halting after this many hits where a number is given.
    - `wrong` is the probability that a value this many steps above the threshold (negative: below) is called wrongly,
      and `within` how far off this many optimal tests may be together.
    """

    # A module of tests that imports it must not have it collected.
    __test__: ClassVar[bool] = False

    event: Event
    tails: Tails
    noise: Additive | None
    decides: bool
    machine: Callable[[int, int | None], BarTests | SharpTests]
    wrong: Callable[[int], float]
    within: Callable[[int, Number], forecast.Within] | None = None

    @classmethod
    def laplace(cls, noise: Additive, epsilon: Number) -> Self:
        """Tests by this Laplace noise, which is that of `epsilon`."""
        return cls(Targeted(epsilon), noise.law(), noise, True, partial(BarTests, noise), noise.wrong_call)

    @classmethod
    def sharp(cls, found: Sharpness, noise: Additive | None) -> Self:
        """Optimal threshold tests, with this noise for the value of a hit."""

        def machine(threshold: int, most_hits: int | None) -> SharpTests:
            return SharpTests(found.sampler, threshold - found.bar, noise, most_hits)

        return cls(found.event, found.tails, noise, False, machine, found.wrong_call, found.within)

    def error_bar(self, grid: Fraction) -> float | None:
        """Half the width of the 95 % interval of a hit's value, in the query's units; None without values."""
        return None if self.noise is None else forecast.error_bar((self.noise, grid))

    def published(self, query: Query, neighbor_relation: NeighborRelation, threshold: int) -> Publication:
        """How the value of a hit was published: because of its noise, or with noise of its own."""
        if self.noise is None:
            raise TypeError("these tests publish no values")
        if self.decides:
            return published(self.noise, query, neighbor_relation, Support.at_least(threshold))
        return published(self.noise, query, neighbor_relation, bar=threshold)
