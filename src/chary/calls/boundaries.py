"""Answers that are clear or cost privacy: between two thresholds, decisions, classes, clear labels, unanimous runs."""

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Literal

import numpy as np

from chary import noise
from chary.accounting import Event, UnanimousCall
from chary.accounting.numerics import largest
from chary.accounting.sharp_tests import SharpTest
from chary.accounting.sharp_widths import clear_depth, draw_table
from chary.answers import Answer, scalar
from chary.calls import answers, compute, fields, sharpness
from chary.calls.algorithm import Algorithm, canonical_outcome, plain_outcome
from chary.calls.call import Call, call
from chary.core.forecast import Forecast, Within, error_bar
from chary.core.plan import (
    KEPT,
    AnswerT,
    Data,
    Json,
    Plan,
    Question,
    Result,
    laplace_for_each,
    reading,
    steps_at_least,
)
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Query
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import additive, boundaries, choices, threshold_tests
from chary.numbers import Number, exact

# Any algorithm whose law is known, in the boundary wrapper: an outcome that is nearly certain is nearly free.

# More runs settle nothing that these do not, and each one takes its time.
_MOST_RUNS: Final = 1000


@call("boundary", subject="algorithms", raced=True)
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

    def plan(self, spine: Spine) -> Plan[answers.Classified]:
        algorithm, outcomes = self.algorithm, self.algorithm.outcomes or ()

        def tell(answer: Json, number: int) -> answers.Classified:
            if "agreed" in answer:
                return answers.Classified(number, answer["agreed"], clear=True)
            if answer["outcome"] == boundaries.BOUNDARY:
                return answers.Classified(number, boundaries.BOUNDARY, clear=False)
            return answers.Classified(number, plain_outcome(outcomes[answer["outcome"]]), clear=True)

        if self.runs is not None:
            told, event = {"runs": self.runs}, UnanimousCall(algorithm.size[0], self.runs)
            return compute.running(self, algorithm, told, event, partial(_unanimous, algorithm, self.runs), tell)
        mechanism = boundary_wrapper(algorithm)

        def run(data: Data) -> Result:
            return _clear(mechanism.step(data.values[0], data.source))

        told = {"outcomes": plain_outcome(algorithm.outcomes)}
        return compute.running(self, algorithm, told, mechanism.event(), run, tell)


def boundary_wrapper(algorithm: Algorithm) -> boundaries.BoundaryWrapper[Any]:
    """The wrapper around an algorithm; refuses those that are too large for it."""
    return boundaries.BoundaryWrapper(_Stated(algorithm))


def _clear(outcome: boundaries.InnerOutcome) -> Result:
    """What is told where it is clear, free; the hit is that it is not."""
    return Result({"outcome": outcome}, hits=int(outcome == boundaries.BOUNDARY), tests=1)


def _unanimous(algorithm: Algorithm, runs: int, data: Data) -> Result:
    """All runs are made, whatever the first ones return; a run that failed, None, agrees with nothing."""
    found = [_once(algorithm, data) for _ in range(runs)]
    if None in found or len(set(found)) > 1:
        return _clear(boundaries.BOUNDARY)
    return Result({"agreed": json.loads(found[0] or "")}, hits=0, tests=1)


def _once(algorithm: Algorithm, data: Data) -> str | None:
    """One outcome, canonically."""
    try:
        return canonical_outcome(algorithm.outcome(data.values[0], data.source))
    except AlgorithmFailed:
        return None


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


# The black-box boundary: any private algorithm run twice; agreement is free, difference is charged.


@call("call_twice", subject="algorithms", raced=True)
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

    def plan(self, spine: Spine) -> Plan[answers.Pair]:
        algorithm, mechanism = self.algorithm, boundaries.TwoRuns(self.algorithm.size[0])

        def run(data: Data) -> Result:
            runs = mechanism.step(lambda source: algorithm.outcome(data.values[0], source), data.source)
            differ = canonical_outcome(runs.first) != canonical_outcome(runs.second)
            return Result({"first": runs.first, "second": runs.second}, hits=int(differ), tests=1)

        def tell(answer: Json, number: int) -> answers.Pair:
            return answers.Pair(number, answer["first"], answer["second"])

        return compute.running(self, algorithm, {}, mechanism.event(), run, tell)


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
class Clearly:
    """An answer by two draws of a label: of the key with the largest answer, or with `bars`, both in steps, of the
    side, below the lower one or from the higher one on. Labels 0 and 1 meet between these, or at a single bar.

    A hit is that the draws differ, or agree on a label that no value has.
    """

    query: Query
    draws: boundaries.LabelDraws
    bars: tuple[int, int] | None = None

    @property
    def labels(self) -> int:
        """How many labels values have."""
        return self.draws.labels if self.bars is None else 2

    @cached_property
    def half(self) -> int:
        """The depth at a bar: where a side is told half of the time, or all that there is between the bars."""
        if self.bars is None:
            return 0
        low, high = self.bars
        return min(self.draws.reach(HALF), (high - low + 1) // 2)

    def placed(self, data: Data) -> tuple[int, int]:
        """The own label of what is read, and its depth: for a key how far the next one is behind."""
        if self.bars is None:
            values = data.integers()
            own = int(np.argmax(values))
            return own, int(values[own]) - int(np.delete(values, own).max())
        value, (low, high) = data.integer(), self.bars
        below, above = low - 1 + self.half - value, value - (high - self.half)
        return (0, below) if below > 0 else (1, max(0, above))

    def step(self, data: Data) -> boundaries.InnerOutcome:
        """The label that is told."""
        told = self.draws.step(*self.placed(data), data.source)
        return boundaries.BOUNDARY if told is None or told >= self.labels else told

    def wrong_call(self, distance: int) -> float:
        """The chance that a value so far beyond a bar is not told clearly and rightly."""
        return float(1 - self.draws.clear_chance(self.half + abs(distance)))

    def within(self, tests: int, confidence: Number) -> Within:
        """How far beyond the bar all of so many values are told clearly and rightly."""
        steps = self.draws.reach(sharpness.chance_of_each(confidence, tests)) - self.half
        return Within(tests, float(exact(confidence, "confidence")), float(steps * self.query.grid), None)

    def plan(
        self,
        call: sharpness.HowSharply[AnswerT],
        spine: Spine,
        tell: Callable[[int, boundaries.InnerOutcome], AnswerT],
    ) -> Plan[AnswerT]:
        """The call that tells it."""

        def forecast() -> Forecast:
            together = sharpness.together(call, self.within)
            if self.bars is None:
                return Forecast(within=self.within, foreseen=together)
            return Forecast(step=self.query.grid, wrong=self.wrong_call, within=self.within, foreseen=together)

        return clear(call, spine, self.query, self.draws.event(), self.step, tell, forecast)


def clear(
    call: Call[AnswerT],
    spine: Spine,
    query: Query,
    event: Event,
    step: Callable[[Data], boundaries.InnerOutcome],
    tell: Callable[[int, boundaries.InnerOutcome], AnswerT],
    forecast: Callable[[], Forecast] = Forecast,
) -> Plan[AnswerT]:
    """An answer that is free while it is clear; the hit is `BOUNDARY`."""
    return Plan(
        call.kind,
        call.text(),
        event,
        lambda data: _clear(step(data)),
        lambda answer, number: tell(number, answer["outcome"]),
        reading(query),
        forecast=forecast,
        size=call.size(spine),
    )


@lru_cache(maxsize=KEPT)
def label_draws(test: SharpTest, labels: int, steps: int) -> boundaries.LabelDraws:
    """The draws of so many labels at this price, of depths that one unit moves by so many steps."""
    return boundaries.LabelDraws(draw_table(test, labels, steps), labels)


@lru_cache(maxsize=KEPT)
def draws_between(test: SharpTest, zone: int, steps: int) -> boundaries.LabelDraws:
    """Those of two sides so many steps apart, with as many labels as fit between the bars."""

    def fits(bits: int) -> bool:
        return 2 * clear_depth(2**bits, test, 0.5) * steps <= zone

    return label_draws(test, 2 ** largest(fits, 1, _MOST_PHANTOMS + 1), steps)


# Answers that are nearly free while they are clear: between two bars, and decisions that may say "boundary".

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class Zoned(Answer):
    """Below the lower bar, from the higher one on, or between them, which is the hit."""

    value: Zone

    @property
    def hit(self) -> bool:
        return self.value == "between"


@call("between", subject="thresholds", raced=True, by_hits=True, tells="zone")
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

    def plan(self, spine: Spine) -> Plan[Zoned]:
        if self.epsilon is None:
            return self.clearly(spine).plan(self, spine, lambda number, told: Zoned(number, _ZONES[told]))
        query = _single(self.query, "between")
        low, high = bars(self, query)
        noise = laplace_for_each(query, spine.rows.neighbor_relation, self.epsilon)
        mechanism = threshold_tests.ThreeZones(noise, low, high)

        def run(data: Data) -> Result:
            zone = mechanism.step(data.integer(), data.source)
            return Result({"zone": zone}, hits=int(zone == "between"), tests=1)

        return Plan(
            self.kind,
            self.text(),
            mechanism.event(),
            run,
            lambda answer, number: Zoned(number, answer["zone"]),
            reading(query),
            forecast=partial(_by_noise, noise, query),
            size=self.size(spine),
        )

    def clearly(self, spine: Spine) -> Clearly:
        """How it is told without epsilon; `NotPriced` but under a Renyi filter."""
        query = _single(self.query, "between")
        low, high = bars(self, query)
        steps = query.sensitivity(spine.rows.neighbor_relation)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_beyond).event
        return Clearly(query, draws_between(event, high - low, steps), (low, high))


_ZONES: Final[dict[boundaries.InnerOutcome, Zone]] = {boundaries.BOUNDARY: "between", 0: "low", 1: "high"}


def bars(call: Between, query: Query) -> tuple[int, int]:
    """Both bars in grid steps; refuses bars in the wrong order."""
    low, high = (steps_at_least(bar, query.grid) for bar in (call.low, call.high))
    if low >= high:
        raise InvalidParameter("low must be below high by a step of the query's grid at least")
    return low, high


def _by_noise(noise: additive.Additive, query: Query) -> Forecast:
    """What is known of an answer that this noise decides."""
    return Forecast(error_bar((noise, query.grid)), decides=True, step=query.grid, wrong=noise.wrong_call)


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


@call("decide", subject="thresholds", raced=True, by_hits=True, tells="above")
class Decide(sharpness.HowSharply[Decided]):
    """Whether the query is at or above a bar: True and False are free, "boundary" (not clear) is charged.

    Guarantee: with `epsilon`, a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(epsilon, 2)`: about
    4/3 epsilon-DP ([TCT] Algorithm 4). With `hits`, `price` or `within` (as for `ThresholdTest`; within is how far from
    the bar all are told clearly) a `SharpTest` whose hit is "boundary": two draws that differ (docs/theory.md). Unlike
    `ThresholdTest`, a yes is as cheap as a no."""

    query: fields.AnyQuery
    _: KW_ONLY
    above: fields.Exact

    def plan(self, spine: Spine) -> Plan[Decided]:
        if self.epsilon is None:
            return self.clearly(spine).plan(self, spine, _decided)
        query = _single(self.query, "decide")
        noise = laplace_for_each(query, spine.rows.neighbor_relation, self.epsilon)
        test = threshold_tests.AdditiveTest(noise, steps_at_least(self.above, query.grid))
        mechanism = boundaries.BoundaryWrapper(test)

        def step(data: Data) -> boundaries.InnerOutcome:
            return mechanism.step(data.integer(), data.source)

        return clear(self, spine, query, mechanism.event(), step, _decided, partial(_by_noise, noise, query))

    def clearly(self, spine: Spine) -> Clearly:
        """How it is told without epsilon; `NotPriced` but under a Renyi filter."""
        query = _single(self.query, "decide")
        bar, steps = steps_at_least(self.above, query.grid), query.sensitivity(spine.rows.neighbor_relation)
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(2)).event
        return Clearly(query, label_draws(event, 2, steps), (bar, bar))


def _decided(number: int, told: boundaries.InnerOutcome) -> Decided:
    return Decided(number, boundaries.BOUNDARY if told == boundaries.BOUNDARY else bool(told))


@call("classify", subject="thresholds", raced=True, by_hits=True, tells="key")
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

    def plan(self, spine: Spine) -> Plan[answers.Classified]:
        query = self._keyed()
        keys = query.keys or ()

        def tell(number: int, told: boundaries.InnerOutcome) -> answers.Classified:
            if told == boundaries.BOUNDARY:
                return answers.Classified(number, boundaries.BOUNDARY, clear=False)
            return answers.Classified(number, scalar(keys[told]), clear=True)

        if self.epsilon is None:
            return self.clearly(spine).plan(self, spine, tell)
        mechanism = classifier(query, spine.rows.neighbor_relation, self.epsilon)

        def step(data: Data) -> boundaries.InnerOutcome:
            return mechanism.step(data.integers(), data.source)

        return clear(self, spine, query, mechanism.event(), step, tell)

    def clearly(self, spine: Spine) -> Clearly:
        """How it is told without epsilon; `NotPriced` but under a Renyi filter."""
        query, neighbor_relation = self._keyed(), spine.rows.neighbor_relation
        labels, single = len(query.keys or ()), query.sensitivity(neighbor_relation)
        steps = single if query.one_direction(neighbor_relation) else 2 * single
        event = self.clear_terms(spine.filter, steps * query.grid, clear_by(labels)).event
        return Clearly(query, label_draws(event, labels, steps))

    def _keyed(self) -> Query:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('classify chooses among at least two public keys: count().by("clinic", ["a", "b"])')
        return self.query


def classifier(
    query: Query, neighbor_relation: NeighborRelation, epsilon: Number
) -> boundaries.BoundaryWrapper[additive.Integers]:
    """The exponential mechanism over the keys, inside the boundary wrapper."""
    single, together = query.sensitivity(neighbor_relation), query.one_direction(neighbor_relation)
    return boundaries.BoundaryWrapper(choices.Exponential(epsilon, single, monotone=together))


def _single(query: Question, name: str) -> Query:
    if not isinstance(query, Query) or query.keys is not None:
        raise InvalidQuery(f"{name} asks a single count or sum, such as count('age >= 65')")
    return query
