"""How sharply a call tests, as it is said in all calls that test, and what they tell of it."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Final, TypedDict, cast

from chary.accounting import Event
from chary.accounting.sharp.sharp_event import SharpTest
from chary.calls.call import AnswerT, Call
from chary.calls.fields import AnyQuery, Exact, Positive, Probability, Whole
from chary.calls.thresholds.sharpness import (
    SURE,
    VALUE_SHARE,
    Sharpness,
    WantedTest,
    Width,
    priced,
    priced_by,
    sharpest,
)
from chary.errors import InvalidParameter
from chary.filters import Filter, RenyiFilter
from chary.numbers import Number, exact
from chary.spine.interaction import Interaction
from chary.spine.within import Within

_WAYS: Final = "hits=20 (so many fit), price=, within= with tests=, or epsilon= for Laplace noise"


class How(TypedDict, total=False):
    """How sharply a threshold is tested: one of `epsilon`, `hits`, `price` and `within`; see `Threshold`."""

    epsilon: Number
    hits: int
    price: Number
    within: Number
    tests: int
    sure: Number


class HowValued(How, total=False):
    """The same of a threshold whose hit comes with a value, and the part of the price of a hit for that."""

    value: Number


@dataclass(frozen=True)
class HowSharply(Call[AnswerT]):
    """A call that tests.

    How sharply is said in one of four ways: `hits`, so many must fit into the whole budget; `price`, the share of the
    whole budget that a hit may take; `within` with `tests`, all of so many tests must be right, with probability `sure`
    (default 0.95), for values farther than that from the bar; or `epsilon`, a test by Laplace noise. The first three
    are the sharpest test there is for its price (docs/theory.md) and need a session with a delta.
    """

    _: KW_ONLY
    epsilon: Positive | None = None
    hits: Whole | None = None
    price: Probability | None = None
    within: Positive | None = None
    tests: Whole | None = None
    sure: Probability | None = None

    def __post_init__(self) -> None:
        ways = [way for way in ("epsilon", "hits", "price", "within") if getattr(self, way) is not None]
        if not ways:
            raise InvalidParameter(f"say how sharply: {_WAYS}")
        if len(ways) > 1:
            raise InvalidParameter(
                f"how sharply is said {len(ways)} times, by {'= and '.join(ways)}=: give one of {_WAYS}"
            )
        if self.within is not None and self.tests is None:
            raise InvalidParameter("within= is for so many tests together: give tests= as well, such as tests=1000")
        if self.tests is None and self.sure is not None:
            raise InvalidParameter("sure= is about so many tests together: give tests= as well, such as tests=1000")
        if self.epsilon is not None and self.tests is not None:
            raise InvalidParameter("tests= belongs to a sharp test: give hits=, price= or within= instead of epsilon=")

    @property
    def ways(self) -> HowValued:
        """What was said of how sharply, and of values, for another call."""
        said = {name: getattr(self, name, None) for name in HowValued.__annotations__}
        return cast("HowValued", {name: value for name, value in said.items() if value is not None})

    def sharpness(self, filter_: Filter, sensitivity: int, grid: Fraction, value_share: Fraction) -> "Sharpness":
        """The sharp test under this filter, of a call without epsilon; `NoPrice` but under a Renyi filter."""
        return sharpest(*self._wanted(filter_), sensitivity, grid, value_share)

    def clear_event(self, filter_: Filter, sensitivity: Fraction, width: Width) -> SharpTest:
        """The price of an unclear answer under this filter, of a call without epsilon; `width` says what is right."""
        wanted, renyi = self._wanted(filter_)
        return SharpTest(renyi.order, priced(wanted, renyi, sensitivity, width=width))

    def _wanted(self, filter_: Filter) -> tuple[WantedTest, RenyiFilter]:
        wanted = WantedTest(self.hits, self.price, self.within, self.tests, self.sure or SURE)
        return wanted, priced_by(filter_, "ask with epsilon= for Laplace noise")


@dataclass(frozen=True)
class FreshlyValued(HowSharply[AnswerT]):
    """A test whose hit comes with a value, for the part `value` of the price of a hit (default: a quarter)."""

    _: KW_ONLY
    value: Probability | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None and self.value is not None:
            raise InvalidParameter("value= belongs to a sharp test: give hits=, price= or within= instead of epsilon=")

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hit that its value takes."""
        return VALUE_SHARE if self.value is None else exact(self.value, "value")


@dataclass(frozen=True)
class Threshold(HowSharply[AnswerT]):
    """A call that tests a query against a bar."""

    query: AnyQuery
    _: KW_ONLY
    above: Exact


@dataclass(frozen=True)
class Valued(FreshlyValued[AnswerT], Threshold[AnswerT]):
    """A threshold whose hit comes with a value."""


class Sharply(Interaction):
    """What every call by sharp tests tells of them."""

    call: HowSharply[Any]
    sharpness: Sharpness

    @property
    def foreseen(self) -> Within | None:
        """For as many tests as the call names, with the probability that it names."""
        call = self.call
        return None if call.tests is None else self.within(call.tests, exact(call.sure or SURE, "sure"))

    @property
    def event(self) -> Event:
        return self.sharpness.event

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)
