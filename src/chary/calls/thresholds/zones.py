"""Answers that are nearly free while they are clear: between two bars, and decisions that may say "boundary"."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal

from chary.accounting import Event
from chary.answers import Answer, scalar
from chary.calls.answers import Classified
from chary.calls.call import Bound, call
from chary.calls.fields import AnyQuery, Exact
from chary.calls.thresholds.clear_answers import (
    AskLargest,
    AskSides,
    Wrapped,
    clear_beyond,
    clear_by,
    draws_between,
    label_draws,
)
from chary.calls.thresholds.how_sharply import HowSharply
from chary.core.plan import Json, Question, Ran, Touched, laplace_for_each, steps_at_least
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import BOUNDARY, Additive, BoundaryWrapper, Exponential, Laplace, ThreeZones, ThresholdTest

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class Zoned(Answer):
    """Below the lower bar, from the higher one on, or between them, which is the hit."""

    value: Zone

    @property
    def hit(self) -> bool:
        return self.value == "between"


@call("between", subject="thresholds")
class Between(HowSharply[Zoned]):
    """ "low" (below `low`) or "high" (from `high` on), both free; "between" is charged.

    Guarantee: with `epsilon`, one epsilon-DP call in which "between" is a q-target; the nearer the bars, the dearer a
    hit ([TCT] section 4; discrete noise: docs/theory.md). With `hits`, `price` or `within` (as for `Test`; within is
    how far beyond a bar all are told clearly) a `SharpTest` whose hit is "between", at any distance of the bars: both
    sides are told half of the time at their bars, or where they meet if that is nearer.
    """

    query: AnyQuery
    _: KW_ONLY
    low: Exact
    high: Exact

    def bind(self, spine: Spine) -> "AskBetween | AskSides":
        query, neighbouring = _single(self.query, "between"), spine.rows.neighbouring
        if self.epsilon is not None:
            return AskBetween(self, neighbouring, query)
        low, high = bars(self, query)
        steps = query.sensitivity(neighbouring)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_beyond).event
        return AskSides(self, neighbouring, query, draws_between(event, high - low, steps), _zoned, low, high)


def bars(call: Between, query: Query) -> tuple[int, int]:
    """Both bars in grid steps; refuses bars in the wrong order."""
    low, high = (steps_at_least(bar, query.grid) for bar in (call.low, call.high))
    if low >= high:
        raise InvalidParameter("low must be below high by a step of the query's grid at least")
    return low, high


def _zoned(call: int, outcome: int | None) -> Zoned:
    return Zoned(call, "between" if outcome is None else "high" if outcome else "low")


@dataclass(frozen=True)
class AskBetween(Bound[Between]):
    """The three zones, as they are told apart."""

    raced = True

    query: Query
    decides = True

    @cached_property
    def mechanism(self) -> ThreeZones:
        """The noisy zones; refuses noise out of range."""
        low, high = bars(self.call, self.query)
        return ThreeZones(laplace_for_each(self.query, self.neighbouring, self.call.epsilon or 0), low, high)

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
class Decide(HowSharply[Decided]):
    """Whether the query is at or above a bar: True and False are free, "boundary" (not clear) is charged.

    Guarantee: with `epsilon`, a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(epsilon, 2)`: about
    4/3 epsilon-DP ([TCT] Algorithm 4). With `hits`, `price` or `within` (as for `Test`; within is how far from the bar
    all are told clearly) a `SharpTest` whose hit is "boundary": two draws that differ (docs/theory.md). Unlike `Test`,
    a yes is as cheap as a no.
    """

    query: AnyQuery
    _: KW_ONLY
    above: Exact

    def bind(self, spine: Spine) -> "AskDecide | AskSides":
        query, neighbouring = _single(self.query, "decide"), spine.rows.neighbouring
        if self.epsilon is not None:
            return AskDecide(self, neighbouring, query)
        bar, steps = steps_at_least(self.above, query.grid), query.sensitivity(neighbouring)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(2)).event
        return AskSides(self, neighbouring, query, label_draws(event, 2, steps), _decided, bar, bar)


def _decided(call: int, outcome: int | None) -> Decided:
    return Decided(call, BOUNDARY if outcome is None else bool(outcome))


@dataclass(frozen=True)
class AskDecide(Wrapped[Decide]):
    """The decision, as it is made."""

    decides = True

    @cached_property
    def mechanism(self) -> BoundaryWrapper[int]:
        return BoundaryWrapper(ThresholdTest(self._noise, steps_at_least(self.call.above, self.query.grid)))

    @cached_property
    def _noise(self) -> Laplace:
        return laplace_for_each(self.query, self.neighbouring, self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self._noise, self.query.grid

    def value(self, touched: Touched) -> int:
        return touched.integer()

    def present(self, answer: Json, call: int) -> Decided:
        return _decided(call, None if answer["outcome"] == BOUNDARY else answer["outcome"])


@call("classify", subject="thresholds")
class Classify(HowSharply[Classified]):
    """The key with the largest answer, free while it is clear; "boundary", which is charged, when it is not.

    Guarantee: with `epsilon`, the epsilon-DP exponential mechanism over the keys, each of which may change by the
    query's sensitivity, inside the boundary wrapper: `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `hits`, `price`
    or `within` (as for `Test`; within is by how much the largest must lead for all to be clear) a `SharpTest` whose
    hit is "boundary": two draws that differ (docs/theory.md). While the lead is small a sharp choice may name any key
    as clear, also one far behind (each of k with chance 1/k^2 at a tie); the exponential mechanism favours the larger
    ones even then. Where neighbours change all answers in one direction (counts, histograms and totals of one sign
    under add/remove) the noise is half. A key is a scalar for one column, a tuple for several.
    """

    # Where the lead is small, a sharp choice may name a key far behind.
    usually_sharp = False
    query: AnyQuery

    def bind(self, spine: Spine) -> "AskClassify | AskLargest":
        query, neighbouring = self.query, spine.rows.neighbouring
        if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
            raise InvalidQuery('classify chooses among at least two public keys: count().by("clinic", ["a", "b"])')
        if self.epsilon is not None:
            return AskClassify(self, neighbouring, query)
        labels, single = len(query.keys), query.sensitivity(neighbouring)
        steps = single if query.one_direction(neighbouring) else 2 * single
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(labels)).event
        return AskLargest(self, neighbouring, query, label_draws(event, labels, steps), partial(_classified, query))


def _classified(query: Query, call: int, outcome: int | None) -> Classified:
    told = BOUNDARY if outcome is None else scalar((query.keys or ())[outcome])
    return Classified(call, told, clear=outcome is not None)


@dataclass(frozen=True)
class AskClassify(Wrapped[Classify]):
    """The classification, as it is made."""

    @cached_property
    def mechanism(self) -> BoundaryWrapper[Any]:
        single, together = self.query.sensitivity(self.neighbouring), self.query.one_direction(self.neighbouring)
        return BoundaryWrapper(Exponential(self.call.epsilon or 0, single, monotone=together))

    def value(self, touched: Touched) -> Any:
        return touched.integers()

    def present(self, answer: Json, call: int) -> Classified:
        return _classified(self.query, call, None if answer["outcome"] == BOUNDARY else answer["outcome"])


def _single(query: Question, name: str) -> Query:
    if not isinstance(query, Query) or query.keys is not None:
        raise InvalidQuery(f"{name} asks a single count or total, such as count('age >= 65')")
    return query
