"""Answers that are nearly free while they are clear: between two bars, and decisions that may say "boundary"."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, Literal

from chary.accounting import Event
from chary.answer import Answer, scalar
from chary.calls.answers import Classified
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import AnyQuery, Exact, Positive
from chary.data import Count, Query, Relation
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import BOUNDARY, Additive, BoundaryWrapper, Exponential, Laplace, ThreeZones, ThresholdTest
from chary.spine.interaction import Json, Question, Ran, Touched, laplace_for_each, steps_at_least
from chary.spine.spine import Spine

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class Zoned(Answer):
    """Below the lower bar, from the higher one on, or between them, which is the hit."""

    value: Zone

    @property
    def hit(self) -> bool:
        return self.value == "between"


@call("between", subject="thresholds")
class Between(Call[Zoned]):
    """ "low" (below `low`) or "high" (from `high` on), both free; "between" is charged.

    Guarantee: one epsilon-DP call in which "between" is a q-target; the nearer the bars, the dearer a hit
    ([TCT] section 4; discrete noise: docs/theory.md).
    """

    query: AnyQuery
    _: KW_ONLY
    low: Exact
    high: Exact
    epsilon: Positive

    def bind(self, spine: Spine) -> "AskBetween":
        return AskBetween(self, spine.rows.neighbouring, _single(self.query, "between"))


@dataclass(frozen=True)
class AskBetween(Bound[Between]):
    """The three zones, as they are told apart."""

    query: Query
    decides = True

    @cached_property
    def mechanism(self) -> ThreeZones:
        """Both bars in grid steps; refuses bars in the wrong order and noise out of range."""
        low, high = (steps_at_least(bar, self.query.grid) for bar in (self.call.low, self.call.high))
        if low >= high:
            raise InvalidParameter("low must be below high by a step of the query's grid at least")
        return ThreeZones(laplace_for_each(self.query, self.neighbouring, self.call.epsilon), low, high)

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.mechanism.additive, self.query.grid

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        zone = self.mechanism.step(touched.integer(), touched.source)
        return Ran({"zone": zone}, hits=int(zone == "between"), tests=1)

    def present(self, answer: Json, call: int) -> Zoned:
        return Zoned(call, answer["zone"])


@dataclass(frozen=True)
class Decided(Answer):
    """Whether the query is at or above the bar; "boundary" where that is not clear, which is the hit.

    As a condition it is its `value`, and `InvalidParameter` where it is not clear.
    """

    value: bool | Literal["boundary"]

    @property
    def hit(self) -> bool:
        return self.value == BOUNDARY

    @property
    def clear(self) -> bool:
        """Whether it is clear, which is free."""
        return not self.hit

    def __bool__(self) -> bool:
        if self.value == BOUNDARY:
            raise InvalidParameter("what is not clear is neither true nor false: look at answer.clear first")
        return self.value


@call("decide", subject="thresholds")
class Decide(Call[Decided]):
    """Whether the query is at or above a bar: True and False are free, "boundary" (not clear) is charged.

    Guarantee: a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(epsilon, 2)`: about 4/3 epsilon-DP
    ([TCT] Algorithm 4). Unlike `Test`, a yes is as cheap as a no.
    """

    query: AnyQuery
    _: KW_ONLY
    above: Exact
    epsilon: Positive

    def bind(self, spine: Spine) -> "AskDecide":
        return AskDecide(self, spine.rows.neighbouring, _single(self.query, "decide"))


@dataclass(frozen=True)
class _Wrapped(Bound[CallT], Generic[CallT]):
    """A mechanism inside the boundary wrapper; a hit is `BOUNDARY`."""

    query: Query

    @property
    @abstractmethod
    def mechanism(self) -> BoundaryWrapper[Any]:
        """The wrapper around the mechanism; refuses noise out of range and calls too large for the wrapper."""

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        outcome = self.mechanism.step(self._value(touched), touched.source)
        return Ran({"outcome": outcome}, hits=int(outcome == BOUNDARY), tests=1)

    @abstractmethod
    def _value(self, touched: Touched) -> Any:
        """What the mechanism is run on."""


@dataclass(frozen=True)
class AskDecide(_Wrapped[Decide]):
    """The decision, as it is made."""

    decides = True

    @cached_property
    def mechanism(self) -> BoundaryWrapper[int]:
        return BoundaryWrapper(ThresholdTest(self._noise, steps_at_least(self.call.above, self.query.grid)))

    @cached_property
    def _noise(self) -> Laplace:
        return laplace_for_each(self.query, self.neighbouring, self.call.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self._noise, self.query.grid

    def _value(self, touched: Touched) -> int:
        return touched.integer()

    def present(self, answer: Json, call: int) -> Decided:
        return Decided(call, BOUNDARY if answer["outcome"] == BOUNDARY else bool(answer["outcome"]))


@call("classify", subject="thresholds")
class Classify(Call[Classified]):
    """The key with the largest answer, free while it is clear; "boundary", which is charged, when it is not.

    Guarantee: the epsilon-DP exponential mechanism over the keys, each of which may change by the query's sensitivity,
    inside the boundary wrapper: `BoundaryCall(epsilon)` ([TCT] Algorithm 4). Counts under add/remove all change in one
    direction, which halves the noise. A key is a scalar for one column, a tuple for several.
    """

    query: AnyQuery
    _: KW_ONLY
    epsilon: Positive

    def bind(self, spine: Spine) -> "AskClassify":
        query = self.query
        if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
            raise InvalidQuery('classify chooses among at least two public keys: count().by("clinic", ["a", "b"])')
        return AskClassify(self, spine.rows.neighbouring, query)


@dataclass(frozen=True)
class AskClassify(_Wrapped[Classify]):
    """The classification, as it is made."""

    @cached_property
    def mechanism(self) -> BoundaryWrapper[Any]:
        one_direction = isinstance(self.query, Count) and self.neighbouring.relation is Relation.ADD_REMOVE
        single = self.query.sensitivity(self.neighbouring)
        return BoundaryWrapper(Exponential(self.call.epsilon, single, monotone=one_direction))

    def _value(self, touched: Touched) -> Any:
        return touched.integers()

    def present(self, answer: Json, call: int) -> Classified:
        if answer["outcome"] == BOUNDARY:
            return Classified(call, BOUNDARY, clear=False)
        return Classified(call, scalar((self.query.keys or ())[answer["outcome"]]), clear=True)


def _single(query: Question, name: str) -> Query:
    if not isinstance(query, Query) or query.keys is not None:
        raise InvalidQuery(f"{name} asks a single count or total, such as count('age >= 65')")
    return query
