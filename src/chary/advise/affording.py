"""What advice is asked for, and the room it must fit into."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Self

from chary.accounting import Event, four_digits_down, largest_size
from chary.amounts import Accounts, Amount
from chary.data import Neighbouring, Relation
from chary.errors import BudgetRefused, CharyError, InvalidParameter
from chary.filters import ExactFilter, Filter, Price, PureFilter
from chary.numbers import MISSES_ENDED, Number, exact, plain, positive, probability, whole

# At a rho of 10**4 the noise is below a hundredth of a step: no budget that is one pays for more.
LARGEST_RHO = 10**4
_DIGITS: Final = 8


@dataclass(frozen=True)
class Wanted:
    """Tests to be run, of which `hits` are expected to be above; checked when it is made.

    `sensitivity`, `low`, `high` and `above` are in the units of the questions, in steps of `grid`; without bounds the
    range is unknown. `monotone=None`: as the relation says. `reach`: the tests are the keys of questions, of each of
    which a unit is in so many at most; None: one unit may be in all tests. `times` is how many such questions there
    are, all asked of the same units.
    """

    neighbouring: Neighbouring
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
        neighbouring: Neighbouring,
        *,
        tests: int | None = None,
        keys: int | None = None,
        reach: int | None = None,
        overlap: int = 1,
        steps: int = 1,
        **terms: Any,
    ) -> Self:
        """So many single `tests`, or the `keys` of questions: `overlap` of them at a time, `steps` times."""
        if (tests is None) == (keys is None):
            raise InvalidParameter("say how many tests=, or how many keys= a question has")
        times = whole(overlap, "overlap") * whole(steps, "steps")
        if keys is None:
            if reach is not None:
                raise InvalidParameter("reach= is about the keys of a question: give keys= instead of tests=")
            return cls(neighbouring, tests=whole(tests or 0, "tests") * times, **terms)
        reach = keys if reach is None and not cls.is_series(neighbouring) else reach
        return cls(neighbouring, tests=whole(keys, "keys") * times, reach=reach, times=times, **terms)

    def __post_init__(self) -> None:
        if whole(self.hits, "hits") > whole(self.tests, "tests"):
            raise InvalidParameter("there cannot be more hits than tests: give tests= of at least hits=")
        if type(self.values) is not bool or type(self.monotone) not in (bool, type(None)):
            raise InvalidParameter("values is True or False, and so is monotone where it is given")
        if self.monotone and not self.adds:
            raise InvalidParameter("questions are monotone under add/remove only: leave monotone= out")
        positive(self.grid, "grid")
        probability(self.confidence, "confidence")
        self.steps  # noqa: B018 - refuses a sensitivity off the grid
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
            raise InvalidParameter("sensitivity must be a whole number of steps of the grid")
        return int(steps)

    @property
    def adds(self) -> bool:
        """Whether neighbours differ by a unit that one of them lacks."""
        return self.neighbouring.relation is Relation.ADD_REMOVE

    @property
    def series(self) -> bool:
        """Whether all tests are one question, the values of a series."""
        return self.is_series(self.neighbouring)

    @staticmethod
    def is_series(neighbouring: Neighbouring) -> bool:
        """Whether neighbours differ by a bounded change of a series."""
        return neighbouring.relation is Relation.BOUNDED_CHANGE

    @property
    def keyed(self) -> bool:
        """Whether all tests are asked at once: of a series, or of keys."""
        return self.series or self.reach is not None

    @property
    def paid_tests(self) -> int:
        """How many tests one unit can be in, and so how many are charged where all are."""
        return self.tests if self.reach is None else min(self.tests, self.reach * self.times)

    @property
    def paid_hits(self) -> int:
        """How many hits are charged: of keys, at most so many as one unit can be in (theory 1.6)."""
        return min(self.hits, self.paid_tests)

    def whole(self, size: Fraction) -> str:
        """The size of an ordinary release in code: of all values that are asked at once together, otherwise of each."""
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
        """What is left of a dataset, of the account that lives."""
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

        Errors: `NoPrice` where the filter has no price at all, `BudgetRefused` where nothing fits.
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
            raise BudgetRefused(f"it does not fit into what is left, {self.told_left}") from None

    @property
    def told_left(self) -> str:
        """What is left, in words."""
        told = f"{plain(100 * self.filter.shares.left(self.left))} % of the budget"
        return f"{told}; {MISSES_ENDED}" if self.ended else told


def epsilons_of(filter_: Filter) -> PureFilter:
    """The filter that prices what is charged once free misses have ended."""
    return PureFilter(filter_.budget, filter_.approximate_delta, steps=filter_.basic_steps)


def _listed(
    room: Room, menu: ExactFilter, event: Callable[[Fraction], Event], fits: Callable[[Fraction], bool]
) -> Fraction:
    sizes = sorted(menu.sizes, reverse=True)
    fitting = next((size for size in sizes if fits(size)), None)
    if fitting is None:
        menu.price(event(menu.grain))
        raise BudgetRefused(f"no size of the menu fits into what is left, {room.told_left}")
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
