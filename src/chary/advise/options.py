"""What advice is made of: what is wanted, what can be afforded, options, and the accuracy of optimal tests."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Required, Self, TypedDict

import numpy as np

from chary.accounting import Event, four_digits_down, gaussian_error_up, largest_size
from chary.accounting.numerics import largest
from chary.accounting.sharp_tests import ONE, SharpTable, SharpTest
from chary.accounting.sharp_widths import half_width
from chary.amounts import Accounts, Amount
from chary.data import NeighborRelation, Neighbors
from chary.errors import BudgetExceeded, CharyError, InvalidParameter
from chary.filters import ExactFilter, Filter, Price, PureFilter
from chary.mechanisms import Gaussian
from chary.numbers import MISSES_ENDED, Number, exact, plain, positive, probability, sure, whole, work_out

# Advice: every way to run threshold tests under a budget, with its error, its cost and the call to write.


@dataclass(frozen=True)
class Option:
    """A mechanism that fits, calibrated. Nothing in it depends on the data.

    `error`: with the advice's confidence, all tests together are answered rightly for values that are farther than this
    from the threshold, and all published values are within it. This holds whatever the data and however adaptive the
    questions. `test_error` and `value_error` are the same for the tests and for the values alone (None: no values are
    published). All are rounded up, in the units of the questions.

    `share` is the fraction of the whole budget that it takes if there are as many hits as expected. `epsilon` is that
    of the call in `code`, or of the whole sparse vector. `test_deviation` and `value_deviation` are standard deviations
    of the noise of a test (with that of its threshold) and of a value.

    `code` is the call to write, where `session`, `query` and `above` are yours and runs are imported from
    `chary.calls`. `by_key` is the same for a query with groups, in one scan. Both are None for what chary does not
    offer and lists as a comparison. `opening` is how to open a new dataset for it, None where there is a session
    already."""

    mechanism: str
    error: float
    test_error: float
    value_error: float | None
    share: float
    epsilon: Fraction | None
    test_deviation: float
    value_deviation: float | None
    code: str | None = None
    by_key: str | None = None
    opening: str | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self) | {"epsilon": None if self.epsilon is None else float(self.epsilon)}


@dataclass(frozen=True)
class Unfit:
    """A mechanism that cannot be used here, and why."""

    mechanism: str
    reason: str


@dataclass(frozen=True)
class Advice:
    """Ways to run this many tests of which this many hit: the smallest error first; then what does not apply, and why.

    With equal errors the lower cost is first. Advice is free: nothing is read and nothing is charged.
    """

    tests: int
    hits: int
    values: bool
    confidence: float
    options: tuple[Option, ...]
    unfit: tuple[Unfit, ...]

    @property
    def best(self) -> Option | None:
        """The first option with a call to write; None where nothing fits."""
        return next((option for option in self.options if option.code is not None), None)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        told = {"tests": self.tests, "hits": self.hits, "values": self.values, "confidence": self.confidence}
        options = [option.as_dict() for option in self.options]
        return told | {"options": options, "unfit": [asdict(unfit) for unfit in self.unfit]}

    def __str__(self) -> str:
        lines = [self.title, *_columns([HEADINGS, *(row(option) for option in self.options)])]
        lines += [f"does not apply: {unfit.mechanism}: {unfit.reason}" for unfit in self.unfit]
        return "\n".join([*lines, *self.calls])

    @property
    def title(self) -> str:
        """What was asked."""
        what = "tests and values" if self.values else "tests"
        return f"{self.tests:,} tests, {self.hits:,} hits; errors of all {what}, {sure(self.confidence)}"

    @property
    def calls(self) -> list[str]:
        """The calls of the best option, one a line."""
        if self.best is None:
            return []
        calls = (self.best.opening, self.best.code, self.best.by_key)
        return [f"best: {self.best.mechanism}", *(f"  {call}" for call in dict.fromkeys(calls) if call is not None)]


HEADINGS = ["", "error", "of tests", "of values", "% of budget", "call"]


def row(option: Option) -> list[str]:
    """One line of the table."""
    errors = [_rounded(error) for error in (option.error, option.test_error, option.value_error)]
    told = option.code or "(comparison)"
    return [option.mechanism, *errors, plain(float(f"{100 * option.share:.3g}")), told]


def _rounded(error: float | None) -> str:
    """Three digits, rounded up."""
    if error is None:
        return "-"
    unit = Fraction(10) ** (len(str(int(error))) - 3 if error >= 1 else -3)
    up = -(-Fraction(error) // unit) * unit
    return f"{float(up):,.6g}" if up < 10**6 else f"{int(up):,}"


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in rows]


# What advice is asked for, and the room it must fit into.

# At a rho of 10**4 the noise is below a hundredth of a step: no budget that is one pays for more.
LARGEST_RHO = 10**4
_DIGITS: Final = 8


class WantedTerms(TypedDict, total=False):
    """What is wanted, by name: see `Wanted.asked` for the numbers of tests, and `Wanted` for the others."""

    hits: Required[int]
    tests: int | None
    keys: int | None
    reach: int | None
    overlap: int
    steps: int
    values: bool
    low: Number | None
    high: Number | None
    above: Number | None
    sensitivity: Number
    grid: Number
    monotone: bool | None
    confidence: Number


@dataclass(frozen=True)
class Wanted:
    """Tests to be run, of which `hits` are expected to be above; checked when it is made.

    `sensitivity`, `low`, `high` and `above` are in the units of the questions, in steps of `grid`; without bounds the
    range is unknown. `monotone=None`: as the relation says. `reach`: the tests are the keys of questions, of each of
    which a unit is in this many at most; None: one unit may be in all tests. `times` is how many such questions there
    are, all asked of the same units.
    """

    neighbor_relation: NeighborRelation
    tests: int
    hits: int
    values: bool = True
    low: Number | None = None
    high: Number | None = None
    above: Number | None = None
    sensitivity: Number = 1
    grid: Number = 1
    monotone: bool | None = None
    confidence: Number = "0.95"
    reach: int | None = None
    times: int = 1

    @classmethod
    def asked(
        cls,
        neighbor_relation: NeighborRelation,
        *,
        tests: int | None = None,
        keys: int | None = None,
        reach: int | None = None,
        overlap: int = 1,
        steps: int = 1,
        **terms: Any,
    ) -> Self:
        """This many single `tests`, or the `keys` of questions: `overlap` of them at a time, `steps` times."""
        if (tests is None) == (keys is None):
            raise InvalidParameter("say how many tests=, or how many keys= a question has")
        times = whole(overlap, "overlap") * whole(steps, "steps")
        if keys is None:
            if reach is not None:
                raise InvalidParameter("reach= is about the groups of a question: give keys= instead of tests=")
            return cls(neighbor_relation, tests=whole(tests or 0, "tests") * times, **terms)
        reach = keys if reach is None and not cls.is_series(neighbor_relation) else reach
        return cls(neighbor_relation, tests=whole(keys, "keys") * times, reach=reach, times=times, **terms)

    def __post_init__(self) -> None:
        if whole(self.hits, "hits") > whole(self.tests, "tests"):
            raise InvalidParameter("there cannot be more hits than tests: give tests= of at least hits=")
        if type(self.values) is not bool or type(self.monotone) not in (bool, type(None)):
            raise InvalidParameter("values is True or False, and so is monotone where it is given")
        if self.monotone and not self.adds:
            raise InvalidParameter("questions are monotone under add/remove only: leave monotone= out")
        positive(self.grid, "grid")
        probability(self.confidence, "confidence")
        work_out(self.steps)  # refuses a sensitivity off the grid
        if self.reach is not None:
            whole(self.reach, "reach")
            if self.series:
                raise InvalidParameter("one change of a series may move all of its values: leave reach= out")
        self._check_range()

    def _check_range(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InvalidParameter("give low= and high= together, or neither")
        if self.above is not None:
            exact(self.above, "above")
        if self.low is not None and self.high is not None and exact(self.low, "low") >= exact(self.high, "high"):
            raise InvalidParameter("low must be less than high, such as low=0, high=1000")

    @property
    def steps(self) -> int:
        """By how many steps of the grid one unit can move a question."""
        steps = positive(self.sensitivity, "sensitivity") / positive(self.grid, "grid")
        if steps.denominator != 1:
            raise InvalidParameter("sensitivity must be a multiple of the grid")
        return int(steps)

    @property
    def adds(self) -> bool:
        """Whether neighbours differ by a unit that one of them lacks."""
        return self.neighbor_relation.neighbors is Neighbors.ADD_REMOVE

    @property
    def series(self) -> bool:
        """Whether all tests are one question, the values of a series."""
        return self.is_series(self.neighbor_relation)

    @staticmethod
    def is_series(neighbor_relation: NeighborRelation) -> bool:
        """Whether neighbours differ by a bounded change of a series."""
        return neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE

    @property
    def keyed(self) -> bool:
        """Whether all tests are asked at once: of a series, or of groups."""
        return self.series or self.reach is not None

    @property
    def paid_tests(self) -> int:
        """How many tests one unit can be in, and so how many are charged where all are."""
        return self.tests if self.reach is None else min(self.tests, self.reach * self.times)

    @property
    def paid_hits(self) -> int:
        """How many hits are charged: of keys, at most this many as one unit can be in (theory 1.6)."""
        return min(self.hits, self.paid_tests)

    def whole(self, size: Fraction) -> str:
        """The epsilon or rho of a release, as code: for all values that are asked at once, otherwise for each."""
        return written(size * self.paid_tests / self.times if self.keyed else size)

    @property
    def bar(self) -> str:
        """The threshold in code: the number, or a name of yours."""
        return "above" if self.above is None else written(exact(self.above, "above"))

    def units(self, steps: float) -> float:
        """Steps of the grid in the units of the questions, rounded up."""
        units = Fraction(steps) * exact(self.grid, "grid")
        nearest = float(units)
        return nearest if nearest >= units else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class Room:
    """What is left under a filter, and for a new dataset how it is opened.

    `grain` is the epsilon of a call for which the hits that are wanted were found to fit. Where free misses have
    `ended`, the filter is one that adds epsilons up, which is all that is charged there.
    """

    filter: Filter
    left: Amount
    opening: str | None = None
    grain: Fraction | None = None
    ended: bool = False

    @classmethod
    def within(cls, filter_: Filter, left: Accounts) -> "Room":
        """What is left of a dataset, in the account that is in force."""
        if left.basic is None or not left.alone:
            return cls(filter_, left.left)
        added = epsilons_of(filter_)
        return cls(added, Amount(0 if left.own is not None else left.basic_left, left.left.delta), ended=True)

    @classmethod
    def new(cls, filter_: Filter, told: str = "", grain: Fraction | None = None) -> "Room":
        """A dataset that is not opened yet; `told` are further arguments."""
        epsilon, delta = filter_.budget.exact
        budget = f"epsilon={written(epsilon)}" + (f", delta={written(delta)}" if delta else "")
        begin = "session = chary.open(rows, privacy_unit=unit, ledger=ledger, "
        told = f'filter="{filter_.kind}"{told}' + (f", grain={written(grain)}" if grain is not None else "")
        return cls(filter_, filter_.capacity, f"{begin}budget=chary.Budget({budget}), {told})", grain)

    @property
    def fresh(self) -> bool:
        """Whether nothing is spent."""
        return self.left == self.filter.capacity

    def total(self, price: Price, wanted: Wanted) -> Amount:
        """What the tests cost if as many hit as expected."""
        return price.hit.times(wanted.paid_hits if price.free_miss else wanted.paid_tests)

    def largest(self, event: Callable[[Fraction], Event], cost: Callable[[Price], Amount], most: Fraction) -> Fraction:
        """The largest size (four digits, rounded down) whose cost fits; of those on the menu of an exact filter.

        Errors: `NotPriced` where the filter has no cost at all, `BudgetExceeded` where nothing fits.
        """

        def fits(size: Fraction) -> bool:
            try:
                return cost(self.filter.price(event(size))).fits_into(self.left)
            except CharyError:
                return False

        if isinstance(self.filter, ExactFilter):
            return _listed(self, self.filter, event, fits)
        self.filter.price(event(most / 2**20))
        try:
            return four_digits_down(Fraction(largest_size(lambda size: fits(four_digits_down(size)), float(most))))
        except InvalidParameter:
            raise BudgetExceeded(f"it does not fit into what is left, {self.told_left}") from None

    @property
    def told_left(self) -> str:
        """What is left, in words."""
        told = f"{plain(100 * self.filter.shares.left(self.left))} % of the budget"
        return f"{told}; {MISSES_ENDED}" if self.ended else told


def epsilons_of(filter_: Filter) -> PureFilter:
    """The filter that is in force once free misses have ended: it adds epsilons up."""
    return PureFilter(filter_.budget, filter_.delta_reserve, steps=filter_.basic_steps)


def _listed(
    room: Room, menu: ExactFilter, event: Callable[[Fraction], Event], fits: Callable[[Fraction], bool]
) -> Fraction:
    sizes = sorted(menu.sizes, reverse=True)
    fitting = next((size for size in sizes if fits(size)), None)
    if fitting is None:
        menu.price(event(menu.grain))
        raise BudgetExceeded(f"no size of the menu fits into what is left, {room.told_left}")
    return fitting


def eight_digits_down(number: Fraction) -> Fraction:
    """A positive number rounded down to eight digits, short in code and all that is left but for a part in 10^7.

    >>> eight_digits_down(Fraction(1, 3)), eight_digits_down(Fraction(3, 80))
    (Fraction(33333333, 100000000), Fraction(3, 80))
    """
    unit = Fraction(10) ** (math.floor(math.log10(number)) - _DIGITS + 1)
    return number // unit * unit


def written(number: Fraction) -> str:
    """A number as it is written in code, read back exactly.

    >>> written(Fraction(1929, 100000)), written(Fraction(1, 3)), written(Fraction(5))
    ('0.01929', '"1/3"', '5')
    """
    decimal = Decimal(number.numerator) / Decimal(number.denominator)
    if Fraction(decimal) != number:
        return f'"{number}"'
    text = format(decimal.normalize(), "f")
    return text if exact(float(text), "number") == number else f'"{text}"'


# What optimal threshold tests and the values of their hits have in common in an advice: probabilities, errors, how a
# cost is split.

# Errors meet at one share to a part in 2^8 of its logarithm; two digits of it are written.
_HALVINGS: Final = 8
_LEAST_SHARE, _LARGEST_SHARE = 0.01, 0.9
_FINE_SHARES: Final = 1000


def wrong_chance(wanted: Wanted) -> Fraction:
    """How likely one test may be wrong: each errs on one side only, and all of them have half of the failures."""
    return (1 - exact(wanted.confidence, "confidence")) / (2 * wanted.tests)


@dataclass(frozen=True)
class HitValues:
    """Fresh Gaussian values of all hits, in steps."""

    wanted: Wanted
    rho: Fraction

    @cached_property
    def noise(self) -> Gaussian:
        """The noise of one value."""
        return Gaussian.for_rho(self.rho, l2_squared=self.wanted.steps**2)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of one value."""
        return math.sqrt(self.noise.sigma_squared)

    @property
    def alone(self) -> int:
        """The error of all values together, if they may use all of the failure probability."""
        return self._error(exact(self.wanted.confidence, "confidence"))

    @property
    def beside_tests(self) -> int:
        """The same if values have half of the failure probability, and tests the other half."""
        return self._error((1 + exact(self.wanted.confidence, "confidence")) / 2)

    def _error(self, confidence: Fraction) -> int:
        return gaussian_error_up(self.noise.sigma_squared, tests=self.wanted.hits, confidence=confidence)


def balanced_share(wanted: Wanted, event: SharpTest) -> Fraction:
    """The part of a hit's cost with which its value errs as much as tests, to two digits, by halving."""
    order, price, chance = Fraction(event.order), Fraction(event.price), float(wrong_chance(wanted))

    # In steps so small that the proportion is the same whatever the grid.
    finely = replace(wanted, sensitivity=_FINE_SHARES, grid=1)

    def tests_err_more(share: Fraction) -> bool:
        if price * (1 - share) < Fraction(event.miss_price):
            return True
        width = half_width(SharpTest(order, price * (1 - share), event.miss_price), chance)
        return width > HitValues(finely, price * share / (order * (order - 1))).beside_tests / _FINE_SHARES

    ends = math.log(_LEAST_SHARE), math.log(_LARGEST_SHARE)
    return _two_digits(largest(lambda log: not tests_err_more(_two_digits(log)), *ends, times=_HALVINGS))


def _two_digits(log_share: float) -> Fraction:
    return Fraction(f"{math.exp(log_share):.2g}")


def deviation(table: SharpTable) -> float:
    """In steps, of the noise which, added to a value, would be above the centre with the probabilities of the table.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> round(deviation(sharp_table(order=18, price="0.19295", steps=10)))
    442
    """
    chances = np.array([chance / ONE for chance in table.chances])
    places, climbs = np.arange(len(chances) - 1), np.diff(chances) / (chances[-1] - chances[0])
    return table.spacing * math.sqrt(np.average((places - np.average(places, weights=climbs)) ** 2, weights=climbs))
