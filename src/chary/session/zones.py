"""Answers that are nearly free while they are clear: between two bars, and decisions that may say `BOUNDARY`."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from chary.accounting import Event
from chary.data import Count, Neighbouring, Query, Relation
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import BOUNDARY, Additive, Between, Boundary, Exponential, Laplace, ThresholdTest
from chary.numbers import Number, exact, positive
from chary.session.door import Door
from chary.session.interaction import (
    Interaction,
    Json,
    Ran,
    Touched,
    laplace_for_each,
    settle_numbers,
    steps_at_least,
    threshold_body,
)

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class SortBetween(Interaction):
    """Below `low`, from `high` on, or between. Guarantee: one epsilon-DP call, "between" a q-target (`Between`)."""

    query: Query
    neighbouring: Neighbouring
    low: Number
    high: Number
    epsilon: Number
    kind = "between"

    def __post_init__(self) -> None:
        _check_single(self.query, "between")
        for name in ("low", "high"):
            object.__setattr__(self, name, exact(getattr(self, name), name))
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.mechanism  # noqa: B018 - refuses bars in the wrong order and noise out of range

    @cached_property
    def mechanism(self) -> Between:
        """Both bars in grid steps."""
        low, high = (steps_at_least(bar, self.query.grid) for bar in (self.low, self.high))
        if low >= high:
            raise InvalidParameter("low must be below high by a step of the query's grid at least")
        return Between(laplace_for_each(self.query, self.neighbouring, self.epsilon), low, high)

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.mechanism.additive, self.query.grid

    def body(self) -> Json:
        bars = {"low": str(self.low), "high": str(self.high)}
        return {"query": self.query.body(), "epsilon": str(self.epsilon)} | bars

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        zone = self.mechanism.step(int(touched.integers()[0]), touched.source)
        return Ran({"zone": zone}, hits=int(zone == "between"), tests=1)

    def present(self, answer: Json, call: int) -> Zone:
        zone: Zone = answer["zone"]
        return zone


class _Wrapped(Interaction):
    """A mechanism inside the boundary wrapper; a hit is `BOUNDARY`."""

    query: Query

    @property
    @abstractmethod
    def mechanism(self) -> Boundary[Any]:
        """The wrapper around the mechanism."""

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
class Decide(_Wrapped):
    """A noisy test that says `BOUNDARY` instead of guessing. Guarantee: `BoundaryCall(epsilon, 2)`.

    Yes and no are both nearly free while they are clear; only `BOUNDARY` is a hit ([TCT] Algorithm 4).
    """

    query: Query
    neighbouring: Neighbouring
    above: Number
    epsilon: Number
    kind = "decide"

    def __post_init__(self) -> None:
        _check_single(self.query, "decide")
        settle_numbers(self)
        self.event  # noqa: B018 - refuses noise out of range and calls too large for the wrapper

    @cached_property
    def mechanism(self) -> Boundary[int]:
        return Boundary(ThresholdTest(self._noise, steps_at_least(self.above, self.query.grid)))

    @cached_property
    def _noise(self) -> Laplace:
        return laplace_for_each(self.query, self.neighbouring, self.epsilon)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self._noise, self.query.grid

    def body(self) -> Json:
        return threshold_body(self.query, self.above, self.epsilon)

    def _value(self, touched: Touched) -> int:
        return int(touched.integers()[0])

    def present(self, answer: Json, call: int) -> bool | str:
        return BOUNDARY if answer["outcome"] == BOUNDARY else bool(answer["outcome"])


@dataclass(frozen=True)
class Classify(_Wrapped):
    """The key with the largest answer, or `BOUNDARY` when it is not clear. Guarantee: `BoundaryCall(epsilon)`.

    The exponential mechanism on all keys at once; each answer may change by the query's sensitivity. Counts under
    add/remove all change in one direction, which halves the noise.
    """

    query: Query
    neighbouring: Neighbouring
    epsilon: Number
    kind = "classify"

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('classify chooses among at least two public keys: count().by("clinic", ["a", "b"])')
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.event  # noqa: B018 - refuses calls too large for the wrapper

    @cached_property
    def mechanism(self) -> Boundary[Any]:
        one_direction = isinstance(self.query, Count) and self.neighbouring.relation is Relation.ADD_REMOVE
        return Boundary(Exponential(self.epsilon, self.query.sensitivity(self.neighbouring), monotone=one_direction))

    def body(self) -> Json:
        return {"query": self.query.body(), "epsilon": str(self.epsilon)}

    def _value(self, touched: Touched) -> Any:
        return touched.integers()

    def present(self, answer: Json, call: int) -> Any:
        if answer["outcome"] == BOUNDARY:
            return BOUNDARY
        key = (self.query.keys or ())[answer["outcome"]]
        return key[0] if len(key) == 1 else key


def _check_single(query: Any, name: str) -> None:
    if not isinstance(query, Query) or query.keys is not None:
        raise InvalidQuery(f"{name} asks a single count or total, such as count('age >= 65')")


class Sorting(Door):
    """Questions whose answer is nearly free while it is clear."""

    def between(self, query: Query, *, low: Number, high: Number, epsilon: Number, request: str | None = None) -> Zone:
        """ "low" (below `low`) or "high" (from `high` on), both free; "between" is charged.

        Guarantee: one epsilon-DP call in which "between" is a q-target; the nearer the bars, the dearer a hit
        ([TCT] section 4; discrete noise: docs/theory.md).
        """
        made = SortBetween(query, self.spine.rows.neighbouring, low, high, epsilon)
        zone: Zone = self.spine.perform(made, request)
        return zone

    def decide(self, query: Query, *, above: Number, epsilon: Number, request: str | None = None) -> bool | str:
        """Whether the query is at or above a bar: True and False are free, "boundary" (not clear) is charged.

        Guarantee: a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(epsilon, 2)`: about 4/3 epsilon-DP
        ([TCT] Algorithm 4). Unlike `test`, a yes is as cheap as a no.
        """
        answer: bool | str = self.spine.perform(Decide(query, self.spine.rows.neighbouring, above, epsilon), request)
        return answer

    def classify(self, query: Query, *, epsilon: Number, request: str | None = None) -> Any:
        """The key with the largest answer, free while it is clear; "boundary", which is charged, when it is not.

        Guarantee: the epsilon-DP exponential mechanism over the keys inside the boundary wrapper,
        `BoundaryCall(epsilon)` ([TCT] Algorithm 4). A key is a scalar for one column, a tuple for several.
        """
        return self.spine.perform(Classify(query, self.spine.rows.neighbouring, epsilon), request)
