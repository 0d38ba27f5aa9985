"""How sharply a call tests, as it is said in all calls that test, and what they tell of it."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from chary.accounting import Event
from chary.calls.call import AnswerT, Call
from chary.calls.fields import Exact, Flag, Positive, Probability, Whole
from chary.calls.thresholds.hit_terms import HitTerms
from chary.calls.thresholds.sharpness import SURE, VALUE_SHARE, Sharpness, Wanted, Width, priced_by
from chary.core.plan import Interaction, Within
from chary.errors import InvalidParameter
from chary.filters import Filter
from chary.numbers import Number, exact

_WAYS: Final = ("epsilon", "hits", "price", "within")
_TOLD: Final = "hits=20 (so many fit), price=, within= with tests=, or epsilon= for Laplace noise"
_LAPLACE: Final = "ask with epsilon= for Laplace noise"


@dataclass(frozen=True)
class HowSharply(Call[AnswerT]):
    """A call that tests.

    How sharply is said in one of four ways: `hits`, so many must fit into the whole budget; `price`, the share of the
    whole budget that a hit may take; `within` with `tests`, all of so many tests must be right, with probability `sure`
    (default 0.95), for values farther than that from the bar; or `epsilon`, a test by Laplace noise. The first three
    are the sharpest test there is for its price (docs/theory.md) and need a session with a delta.
    """

    # Whether so many hits are those of sharp tests where a command does not say how sharply.
    usually_sharp: ClassVar[bool] = True
    _: KW_ONLY
    epsilon: Positive | None = None
    hits: Whole | None = None
    price: Probability | None = None
    within: Positive | None = None
    tests: Whole | None = None
    sure: Probability | None = None

    def __post_init__(self) -> None:
        check_one_way(self, _WAYS, _TOLD)
        check_tests(self)

    @property
    def ways(self) -> dict[str, Any]:
        """What was said of how sharply, and of values and bars, for another call."""
        said = {name: getattr(self, name, None) for name in (*_WAYS, "tests", "sure", "below_margin", "value")}
        return {name: value for name, value in said.items() if value is not None}

    def sharpness(self, filter_: Filter, sensitivity: int, grid: Fraction, value_share: Fraction) -> Sharpness:
        """The sharp test under this filter, of a call without epsilon; `NoPrice` but under a Renyi filter."""
        terms = HitTerms.found(Wanted.said(self), priced_by(filter_, _LAPLACE), sensitivity * grid, value_share)
        return terms.sharpness(sensitivity, grid)

    def clear_terms(self, filter_: Filter, sensitivity: Fraction, width: Width) -> HitTerms:
        """The price of an unclear answer under this filter, of a call without epsilon; `width` says what is right."""
        return HitTerms.found(Wanted.said(self), priced_by(filter_, _LAPLACE), sensitivity, Fraction(0), width)


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


def value_part(said: Number | None) -> Fraction:
    """The part of the price of a hit that its value takes."""
    return VALUE_SHARE if said is None else exact(said, "value")


@dataclass(frozen=True)
class FreshlyValued(HowSharply[AnswerT]):
    """A test whose hit comes with a value, for the part `value` of the price of a hit (default: a quarter)."""

    _: KW_ONLY
    value: Probability | None = None

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hit that its value takes."""
        return value_part(self.value)


@dataclass(frozen=True)
class Threshold(HowSharply[AnswerT]):
    """A call that tests against a bar, from which on values are hits.

    Many tests at once (keys, or the `tests` that are named) that are expected to report at least one truth even if all
    are the least they can be, 0 for counts and totals of values from 0 on, would mostly buy false alarms: they raise
    `InvalidParameter` before anything is reserved, unless `below_margin=True` says that this is meant. Stored answers
    of repeated requests are given whatever it says.
    """

    _: KW_ONLY
    above: Exact
    below_margin: Flag | None = None


@dataclass(frozen=True)
class Valued(FreshlyValued[AnswerT], Threshold[AnswerT]):
    """A threshold whose hit comes with a value."""


def together(call: Any, within: Callable[[int, Number], Within | None]) -> Within | None:
    """How far off as many tests as a call names may be, with the probability that it names; None if it names none."""
    return None if call.tests is None else within(call.tests, call.sure or SURE)


class TestedTogether(Interaction):
    """A call that may say how many tests it is one of."""

    # A module of tests that imports it must not have it collected.
    __test__ = False

    call: HowSharply[Any]

    @property
    def foreseen(self) -> Within | None:
        return together(self.call, self.within)


class Sharply(TestedTogether):
    """What every call by sharp tests tells of them."""

    sharpness: Sharpness

    @property
    def event(self) -> Event:
        return self.sharpness.event

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)
