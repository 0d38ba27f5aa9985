"""Answers that are clear or cost privacy: between two thresholds, decisions, classes, clear labels, unanimous runs."""

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Generic, Literal

import numpy as np

from chary import noise
from chary.accounting import Event, UnanimousCall
from chary.accounting.sharp_tests import SharpTest
from chary.accounting.sharp_widths import clear_depth, draw_table
from chary.answers import Answer, scalar
from chary.calls import answers, compute, fields, sharpness
from chary.calls.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.calls.call import Bound, Call, CallT, call
from chary.core.forecast import Within
from chary.core.plan import KEPT, Data, Json, Question, Result, laplace_for_each, steps_at_least
from chary.core.transaction import Spine
from chary.data import Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import additive, boundaries, choices, threshold_tests
from chary.numbers import Number, exact

# Any algorithm whose law is known, in the boundary wrapper: an outcome that is nearly certain is nearly free.

# More runs settle nothing that these do not, and each one takes its time.
_MOST_RUNS: Final = 1000


@call("boundary", subject="algorithms")
class Boundary(Call[answers.Classified]):
    """The outcome of any algorithm whose law is known, free while it is clear; "boundary", which is charged, if not.

    The algorithm declares its outcomes and their exact `probabilities`; it is these that are drawn from. With `runs`
    nothing need be known of it: it is run so often, and what all runs agree on is published, else "boundary".

    Guarantee: the algorithm inside the boundary wrapper, `BoundaryCall(epsilon)` for so many outcomes, a call of 4/3
    epsilon at most whose q-target is "boundary" ([TCT] Algorithm 4). With runs
    `UnanimousCall(epsilon, runs)` (ours); a run that failed agrees with none. Errors: `InvalidParameter` for an
    algorithm without outcomes or probabilities where there are no runs, with a delta or a rho, or not 2 to 1000 runs;
    `AlgorithmFailed`, charged, for probabilities that raise or are no law, which their author vouches not to happen.

    >>> from chary import Algorithm
    >>> def law(rows):
    ...     odd = Fraction(11 if rows.num_rows % 2 else 10, 21)
    ...     return [odd, 1 - odd]
    >>> odd = Algorithm("odd", lambda rows, source: 0, epsilon="0.1", outcomes=["odd", "even"], probabilities=law)
    >>> Boundary(odd).kind
    'boundary'
    """

    algorithm: fields.Brought
    _: KW_ONLY
    runs: fields.Whole | None = None

    def __post_init__(self) -> None:
        if self.algorithm.size[1]:
            raise InvalidParameter("an algorithm in the boundary wrapper has no delta")
        if self.runs is not None:
            if self.runs < 2:
                raise InvalidParameter("one run agrees with itself: Boundary(algorithm, runs=2) or more")
            if self.runs > _MOST_RUNS:
                raise InvalidParameter(f"an algorithm is run at most {_MOST_RUNS} times in one call")
        elif self.algorithm.probabilities is None or len(self.algorithm.outcomes or ()) < 2:
            raise InvalidParameter(
                "say what can come out and how likely: Algorithm(..., outcomes=, probabilities=); or runs=2"
            )

    def bind(self, spine: Spine) -> "AskBoundary":
        return (AskBoundary if self.runs is None else AskUnanimous)(self, spine.rows.neighbor_relation)


@dataclass(frozen=True)
class _Stated:
    """An algorithm as a mechanism that knows the law of its outcome's position."""

    algorithm: Algorithm

    @property
    def epsilon(self) -> Fraction:
        """Its pure privacy."""
        return self.algorithm.size[0]

    @property
    def outcomes(self) -> int:
        """How many it declares."""
        return len(self.algorithm.outcomes or ())

    def law(self, value: Any) -> noise.FiniteLaw:
        """The law that its author states for these rows."""
        return self.algorithm.law(value)


@dataclass(frozen=True)
class AskBoundary(Bound[Boundary]):
    """The wrapped algorithm, as it is run."""

    raced = True

    @cached_property
    def mechanism(self) -> boundaries.BoundaryWrapper[Any]:
        """The wrapper; refuses calls that are too large for it."""
        return boundaries.BoundaryWrapper(_Stated(self.call.algorithm))

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def body(self) -> Json:
        return self.call.algorithm.body() | {"outcomes": plain_outcome(self.call.algorithm.outcomes)}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.call.algorithm.prepare(rows)]

    def run(self, data: Data) -> Result:
        try:
            outcome = self.mechanism.step(data.values[0], data.source)
        except AlgorithmFailed:
            return Result({"failed": True}, hits=1, tests=1)
        return Result({"outcome": outcome}, hits=int(outcome == boundaries.BOUNDARY), tests=1)

    def present(self, answer: Json, call: int) -> answers.Classified:
        if "failed" in answer:
            raise compute.failure(self.call.algorithm.name)
        if answer["outcome"] == boundaries.BOUNDARY:
            return answers.Classified(call, boundaries.BOUNDARY, clear=False)
        return answers.Classified(
            call, plain_outcome((self.call.algorithm.outcomes or ())[answer["outcome"]]), clear=True
        )


class AskUnanimous(AskBoundary):
    """The runs of an algorithm of which nothing is known. All are made, whatever the first ones return."""

    @cached_property
    def event(self) -> Event:
        return UnanimousCall(self.call.algorithm.size[0], self.call.runs or 2)

    def body(self) -> Json:
        return self.call.algorithm.body() | {"runs": self.call.runs}

    def run(self, data: Data) -> Result:
        found = [self._once(data) for _ in range(self.call.runs or 2)]
        if None in found or len(set(found)) > 1:
            return Result({"outcome": boundaries.BOUNDARY}, hits=1, tests=1)
        return Result({"agreed": json.loads(found[0] or "")}, hits=0, tests=1)

    def _once(self, data: Data) -> str | None:
        """One outcome, canonically; None, which agrees with nothing, if the run failed."""
        try:
            return canonical_outcome(self.call.algorithm.outcome(data.values[0], data.source))
        except AlgorithmFailed:
            return None

    def present(self, answer: Json, call: int) -> answers.Classified:
        if "agreed" in answer:
            return answers.Classified(call, answer["agreed"], clear=True)
        return answers.Classified(call, boundaries.BOUNDARY, clear=False)


# The black-box boundary: any private algorithm run twice; agreement is free, difference is charged.


@call("call_twice", subject="algorithms")
class Twice(Call[answers.Pair]):
    """Run any private algorithm twice on the same rows: two outcomes that agree are free, two that differ are charged.

    Guarantee: `TwiceCall(epsilon)`, 2 epsilon-DP, with nothing else known of the algorithm (black-box boundary,
    [TCT] section 4); a run that failed is a hit as well. Errors: `InvalidParameter` for an algorithm with a delta;
    `AlgorithmFailed`, charged.
    """

    algorithm: fields.Brought

    def __post_init__(self) -> None:
        if self.algorithm.size[1]:
            raise InvalidParameter("bring an algorithm with delta 0: chary.Algorithm('median', run, epsilon=0.1)")

    def bind(self, spine: Spine) -> "CallTwice":
        return CallTwice(self, spine.rows.neighbor_relation)


@dataclass(frozen=True)
class CallTwice(Bound[Twice]):
    """The two runs, both of whose outcomes are published."""

    raced = True

    @cached_property
    def mechanism(self) -> boundaries.TwoRuns:
        """The rule of running twice."""
        return boundaries.TwoRuns(self.call.algorithm.size[0])

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def body(self) -> Json:
        return self.call.algorithm.body()

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.call.algorithm.prepare(rows)]

    def run(self, data: Data) -> Result:
        run, rows = self.call.algorithm.outcome, data.values[0]
        try:
            runs = self.mechanism.step(lambda source: run(rows, source), data.source)
        except AlgorithmFailed:
            return Result({"failed": True}, hits=1, tests=1)
        differ = canonical_outcome(runs.first) != canonical_outcome(runs.second)
        return Result({"first": runs.first, "second": runs.second}, hits=int(differ), tests=1)

    def present(self, answer: Json, call: int) -> answers.Pair:
        if "failed" in answer:
            raise compute.failure(self.call.algorithm.name)
        return answers.Pair(call, answer["first"], answer["second"])


# Answers that are free while they are clear: by two draws of a label, or inside the boundary wrapper.

# Labels that no value has make what lies between two bars clearer; more than so many tell no more.
_MOST_PHANTOMS: Final = 32
HALF: Final = Fraction(1, 2)


@lru_cache(maxsize=KEPT)
def clear_by(labels: int) -> sharpness.Width:
    """How deep a value must lie for its label to be told but for a chance."""
    return partial(clear_depth, labels)


def clear_beyond(test: SharpTest, chance: float) -> float:
    """How far beyond a bar at which it is told half of the time; with more labels it is less."""
    return clear_depth(2, test, chance) - clear_depth(2, test, 0.5)


@dataclass(frozen=True)
class AskClearly(sharpness.TestedTogether, Bound[sharpness.HowSharply[Any]]):
    """An answer by two draws; a hit is that they differ, or agree on a label that no value has."""

    raced = True

    query: Query
    draws: boundaries.LabelDraws
    teller: Callable[[int, int | None], Any] = field(compare=False, repr=False)

    @property
    def event(self) -> Event:
        return self.draws.event()

    @property
    def real(self) -> int:
        """How many labels values have."""
        return self.draws.labels

    @property
    def half(self) -> int:
        """The depth at the bar."""
        return 0

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        told = self.draws.step(*self.placed(data), data.source)
        clear = told is not None and told < self.real
        return Result({"outcome": told if clear else boundaries.BOUNDARY}, hits=int(not clear), tests=1)

    def present(self, answer: Json, call: int) -> Any:
        return self.teller(call, None if answer["outcome"] == boundaries.BOUNDARY else answer["outcome"])

    def within(self, tests: int, confidence: Number) -> Within:
        """How far beyond the bar all of so many values are told clearly and rightly."""
        steps = self.draws.reach(sharpness.chance_of_each(confidence, tests)) - self.half
        return Within(tests, float(exact(confidence, "confidence")), float(steps * self.query.grid), None)

    @abstractmethod
    def placed(self, data: Data) -> tuple[int, int]:
        """The own label of what is read, and its depth."""


@dataclass(frozen=True)
class AskSides(AskClearly):
    """Below `low` or from `high` on, in steps: labels 0 and 1, which meet between these, or at a single bar."""

    low: int
    high: int

    @property
    def real(self) -> int:
        return 2

    @cached_property
    def half(self) -> int:
        """Where a side is told half of the time, or all that there is between the bars."""
        return min(self.draws.reach(HALF), (self.high - self.low + 1) // 2)

    @property
    def bar_step(self) -> Fraction:
        return self.query.grid

    def wrong_call(self, distance: int) -> float:
        """The chance that a value so far beyond a bar is not told clearly and rightly."""
        return float(1 - self.draws.clear_chance(self.half + abs(distance)))

    def placed(self, data: Data) -> tuple[int, int]:
        value = data.integer()
        below, above = self.low - 1 + self.half - value, value - (self.high - self.half)
        return (0, below) if below > 0 else (1, max(0, above))


class AskLargest(AskClearly):
    """The key with the largest answer; its depth is how far the next one is behind."""

    def placed(self, data: Data) -> tuple[int, int]:
        values = data.integers()
        own = int(np.argmax(values))
        return own, int(values[own]) - int(np.delete(values, own).max())


@dataclass(frozen=True)
class Wrapped(Bound[CallT], Generic[CallT]):
    """A mechanism inside the boundary wrapper; a hit is `BOUNDARY`."""

    raced = True

    query: Query

    @property
    @abstractmethod
    def mechanism(self) -> boundaries.BoundaryWrapper[Any]:
        """The wrapper around the mechanism; refuses noise out of range and calls too large for the wrapper."""

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        outcome = self.mechanism.step(self.value(data), data.source)
        return Result({"outcome": outcome}, hits=int(outcome == boundaries.BOUNDARY), tests=1)

    @abstractmethod
    def value(self, data: Data) -> Any:
        """What the mechanism is run on."""


@lru_cache(maxsize=KEPT)
def label_draws(test: SharpTest, labels: int, steps: int) -> boundaries.LabelDraws:
    """The draws of so many labels at this price, of depths that one unit moves by so many steps."""
    return boundaries.LabelDraws(draw_table(test, labels, steps), labels)


@lru_cache(maxsize=KEPT)
def draws_between(test: SharpTest, zone: int, steps: int) -> boundaries.LabelDraws:
    """Those of two sides so many steps apart, with as many labels as fit between the bars."""
    low, high = 1, _MOST_PHANTOMS
    while high - low > 0:
        middle = (low + high + 1) // 2
        fits = 2 * clear_depth(2**middle, test, 0.5) * steps <= zone
        low, high = (middle, high) if fits else (low, middle - 1)
    return label_draws(test, 2**low, steps)


# Answers that are nearly free while they are clear: between two bars, and decisions that may say "boundary".

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class Zoned(Answer):
    """Below the lower bar, from the higher one on, or between them, which is the hit."""

    value: Zone

    @property
    def hit(self) -> bool:
        return self.value == "between"


@call("between", subject="thresholds")
class Between(sharpness.HowSharply[Zoned]):
    """ "low" (below `low`) or "high" (from `high` on), both free; "between" is charged.

    Guarantee: with `epsilon`, one epsilon-DP call in which "between" is a q-target; the nearer the bars, the dearer a
    hit ([TCT] section 4; discrete noise: docs/theory.md). With `hits`, `price` or `within` (as for `ThresholdTest`;
    within is how far beyond a bar all are told clearly) a `SharpTest` whose hit is "between", at any distance of the
    bars: both sides are told half of the time at their bars, or where they meet if that is nearer."""

    query: fields.AnyQuery
    _: KW_ONLY
    low: fields.Exact
    high: fields.Exact

    def bind(self, spine: Spine) -> "AskBetween | AskSides":
        query, neighbor_relation = _single(self.query, "between"), spine.rows.neighbor_relation
        if self.epsilon is not None:
            return AskBetween(self, neighbor_relation, query)
        low, high = bars(self, query)
        steps = query.sensitivity(neighbor_relation)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_beyond).event
        return AskSides(self, neighbor_relation, query, draws_between(event, high - low, steps), _zoned, low, high)


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
    def mechanism(self) -> threshold_tests.ThreeZones:
        """The noisy zones; refuses noise out of range."""
        low, high = bars(self.call, self.query)
        return threshold_tests.ThreeZones(
            laplace_for_each(self.query, self.neighbor_relation, self.call.epsilon or 0), low, high
        )

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def accuracy(self) -> tuple[additive.Additive, Fraction]:
        return self.mechanism.additive, self.query.grid

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: Data) -> Result:
        zone = self.mechanism.step(data.integer(), data.source)
        return Result({"zone": zone}, hits=int(zone == "between"), tests=1)

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
        return self.value == boundaries.BOUNDARY

    @property
    def clear(self) -> bool:
        """Whether it is clear, which is free."""
        return not self.hit

    def __bool__(self) -> bool:
        if self.value == boundaries.BOUNDARY:
            raise InvalidParameter("what is not clear is neither true nor false: look at answer.clear first")
        return self.value


@call("decide", subject="thresholds")
class Decide(sharpness.HowSharply[Decided]):
    """Whether the query is at or above a bar: True and False are free, "boundary" (not clear) is charged.

    Guarantee: with `epsilon`, a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(epsilon, 2)`: about
    4/3 epsilon-DP ([TCT] Algorithm 4). With `hits`, `price` or `within` (as for `ThresholdTest`; within is how far from
    the bar all are told clearly) a `SharpTest` whose hit is "boundary": two draws that differ (docs/theory.md). Unlike
    `ThresholdTest`, a yes is as cheap as a no."""

    query: fields.AnyQuery
    _: KW_ONLY
    above: fields.Exact

    def bind(self, spine: Spine) -> "AskDecide | AskSides":
        query, neighbor_relation = _single(self.query, "decide"), spine.rows.neighbor_relation
        if self.epsilon is not None:
            return AskDecide(self, neighbor_relation, query)
        bar, steps = steps_at_least(self.above, query.grid), query.sensitivity(neighbor_relation)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(2)).event
        return AskSides(self, neighbor_relation, query, label_draws(event, 2, steps), _decided, bar, bar)


def _decided(call: int, outcome: int | None) -> Decided:
    return Decided(call, boundaries.BOUNDARY if outcome is None else bool(outcome))


@dataclass(frozen=True)
class AskDecide(Wrapped[Decide]):
    """The decision, as it is made."""

    decides = True

    @cached_property
    def mechanism(self) -> boundaries.BoundaryWrapper[int]:
        return boundaries.BoundaryWrapper(
            threshold_tests.AdditiveTest(self._noise, steps_at_least(self.call.above, self.query.grid))
        )

    @cached_property
    def _noise(self) -> additive.Laplace:
        return laplace_for_each(self.query, self.neighbor_relation, self.call.epsilon or 0)

    def accuracy(self) -> tuple[additive.Additive, Fraction]:
        return self._noise, self.query.grid

    def value(self, data: Data) -> int:
        return data.integer()

    def present(self, answer: Json, call: int) -> Decided:
        return _decided(call, None if answer["outcome"] == boundaries.BOUNDARY else answer["outcome"])


@call("classify", subject="thresholds")
class Classify(sharpness.HowSharply[answers.Classified]):
    """The key with the largest answer, free while it is clear; "boundary", which is charged, when it is not.

    Guarantee: with `epsilon`, the epsilon-DP exponential mechanism over the keys, each of which may change by the
    query's sensitivity, inside the boundary wrapper: `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `hits`, `price`
    or `within` (as for `ThresholdTest`; within is by how much the largest must lead for all to be clear) a `SharpTest`
    whose hit is "boundary": two draws that differ (docs/theory.md). While the lead is small a sharp choice may name any
    key as clear, also one far behind (each of k with chance 1/k^2 at a tie); the exponential mechanism favours the
    larger ones even then. Where neighbours change all answers in one direction (counts, histograms and sums of one
    sign under add/remove) the noise is half. A key is a scalar for one column, a tuple for several."""

    # Where the lead is small, a sharp choice may name a key far behind.
    usually_sharp = False
    query: fields.AnyQuery

    def bind(self, spine: Spine) -> "AskClassify | AskLargest":
        query, neighbor_relation = self.query, spine.rows.neighbor_relation
        if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
            raise InvalidQuery('classify chooses among at least two public keys: count().by("clinic", ["a", "b"])')
        if self.epsilon is not None:
            return AskClassify(self, neighbor_relation, query)
        labels, single = len(query.keys), query.sensitivity(neighbor_relation)
        steps = single if query.one_direction(neighbor_relation) else 2 * single
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(labels)).event
        return AskLargest(
            self, neighbor_relation, query, label_draws(event, labels, steps), partial(_classified, query)
        )


def _classified(query: Query, call: int, outcome: int | None) -> answers.Classified:
    told = boundaries.BOUNDARY if outcome is None else scalar((query.keys or ())[outcome])
    return answers.Classified(call, told, clear=outcome is not None)


@dataclass(frozen=True)
class AskClassify(Wrapped[Classify]):
    """The classification, as it is made."""

    @cached_property
    def mechanism(self) -> boundaries.BoundaryWrapper[Any]:
        single, together = (
            self.query.sensitivity(self.neighbor_relation),
            self.query.one_direction(self.neighbor_relation),
        )
        return boundaries.BoundaryWrapper(choices.Exponential(self.call.epsilon or 0, single, monotone=together))

    def value(self, data: Data) -> Any:
        return data.integers()

    def present(self, answer: Json, call: int) -> answers.Classified:
        return _classified(self.query, call, None if answer["outcome"] == boundaries.BOUNDARY else answer["outcome"])


def _single(query: Question, name: str) -> Query:
    if not isinstance(query, Query) or query.keys is not None:
        raise InvalidQuery(f"{name} asks a single count or sum, such as count('age >= 65')")
    return query
