"""Answers that are clear or cost privacy: classes of a query, outcomes of algorithms, unanimous runs."""

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np

from chary import noise
from chary.accounting import Event, Failing, TwiceCall, UnanimousCall
from chary.accounting.numerics import largest
from chary.accounting.sharp_tests import SharpTest
from chary.accounting.sharp_widths import clear_depth, draw_table
from chary.answers import scalar, with_bytes
from chary.calls import answers, compute, fields, sharpness
from chary.calls.algorithm import Algorithm, canonical_outcome, handed, plain_outcome
from chary.calls.call import Call, call, numbers_among
from chary.core.forecast import Forecast, Within, error_bar
from chary.core.plan import KEPT, Data, Json, Plan, Result, laplace_for_each, reading, steps_at_least
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Query
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery
from chary.mechanisms import additive, boundaries, choices, threshold_tests
from chary.numbers import Number, exact, work_out

# Any algorithm whose distribution is known, in the boundary wrapper: an outcome that is nearly certain is nearly free.

# More runs settle nothing that these do not, and each one takes its time.
_MOST_RUNS: Final = 1000
# The kind under which ledgers store two runs that are both published (`stored.current_kind`).
_TWICE: Final = "call_twice"


@call("boundary", subject="algorithms")
class Boundary(Call[answers.Classified | answers.Pair]):
    """Publish the outcome of an algorithm of known distribution. It is free while it is clear; otherwise "boundary" is
    published and charged.

    The algorithm declares its outcomes and their `probabilities`; the outcome is drawn from these. A `Choose` by
    "exponential" or "permute_and_flip" has them, and so has a `ThresholdTest` of one query by Laplace noise. One
    `Quantile` has them among at most 1,000 values (32 under filters that take permute-and-flip for it). With `runs` the
    algorithm needs no probabilities. It is run that many times, and what all runs agree on is published, else
    "boundary". With `runs=2, publish=True` both outcomes are published (a `Pair`), whether they agree or not.

    Guarantee: the algorithm inside the boundary wrapper, `BoundaryCall(epsilon)` for its number of outcomes. That is a
    call of 4/3 epsilon at most whose q-target is "boundary" ([TCT] Algorithm 4). With runs it is
    `UnanimousCall(epsilon, runs)` (this work); a run that failed agrees with none. Where both are published it is
    `TwiceCall( epsilon)`, 2 epsilon-DP (black-box boundary, [TCT] Lemma F.1). A delta of the algorithm is paid for each
    run, in the wrapper twice (docs/theory/charging.md).

    Errors: `InvalidParameter` for an algorithm without outcomes or probabilities where there are no runs, and for one
    with a rho. The same for a number of runs outside 2 to 1000, and for more than two published ones. The same for
    invalid probabilities of an empty table, where units are added or removed. `AlgorithmFailed`, charged, for
    probabilities that raise or are no distribution, which their author asserts not to happen, and for a run of two
    published ones that failed.

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
    publish: fields.Flag | None = None

    def __post_init__(self) -> None:
        if self.publish and self.runs != 2:
            raise InvalidParameter("both outcomes of two runs are published: Boundary(algorithm, runs=2, publish=True)")
        if self.runs is not None:
            if self.runs < 2:
                raise InvalidParameter("one run agrees with itself: Boundary(algorithm, runs=2) or more")
            if self.runs > _MOST_RUNS:
                raise InvalidParameter(f"an algorithm is run at most {_MOST_RUNS} times in one call")
        if isinstance(self.algorithm, Algorithm):
            self._check(self.algorithm)

    def _check(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm, if it meets the requirements of this call; otherwise `InvalidParameter`."""
        work_out(algorithm.size)  # a rho has no price of a hit
        if self.runs is None and (not algorithm.lawful or len(algorithm.outcomes or ()) < 2):
            raise InvalidParameter(
                "say what can come out and how likely: Algorithm(..., outcomes=, probabilities=), or Choose; or runs=2"
            )
        return algorithm

    @property
    def numeric(self) -> bool:
        return not self.publish

    def plan(self, spine: Spine) -> Plan[Any]:
        algorithm = self._check(compute.private(self.algorithm, spine))
        outcomes, (epsilon, delta) = algorithm.outcomes or (), algorithm.size
        if self.publish:
            twice = Failing.of(TwiceCall(epsilon), 2 * delta)
            plan = compute.running(self, algorithm, {}, twice, partial(_both, algorithm), _pair)
            return compute.bounded(replace(plan, kind=_TWICE), _by_laws(algorithm, twice))

        def tell(answer: Json, number: int) -> answers.Classified:
            if "agreed" in answer:
                return answers.Classified(number, with_bytes(answer["agreed"]), clear=True)
            if answer["outcome"] == boundaries.BOUNDARY:
                return answers.Classified(number, boundaries.BOUNDARY, clear=False)
            return answers.Classified(number, handed(outcomes[answer["outcome"]]), clear=True)

        if self.runs is not None:
            told, event = {"runs": self.runs}, Failing.of(UnanimousCall(epsilon, self.runs), self.runs * delta)
            plan = compute.running(self, algorithm, told, event, partial(_unanimous, algorithm, self.runs), tell)
            return compute.bounded(plan, _by_laws(algorithm, event, self.runs))
        mechanism = boundary_wrapper(algorithm)
        algorithm.rehearse(spine.rows)

        def run(data: Data) -> Result:
            return _clear(mechanism.step(data.values[0], data.source))

        told = {"outcomes": plain_outcome(algorithm.outcomes)}
        # For an (epsilon, delta) distribution the wrapper's guarantee holds up to 2 delta.
        return compute.running(self, algorithm, told, Failing.of(mechanism.event(), 2 * delta), run, tell)


def boundary_wrapper(algorithm: Algorithm) -> boundaries.BoundaryWrapper[Any]:
    """The wrapper around an algorithm; refuses one that is too large for it."""
    return boundaries.BoundaryWrapper(_Stated(algorithm))


def _clear(outcome: boundaries.InnerOutcome) -> Result:
    """The result of a wrapped mechanism: clear and free, or "boundary", which is the hit."""
    return Result({"outcome": outcome}, hits=int(outcome == boundaries.BOUNDARY), tests=1)


def _unanimous(algorithm: Algorithm, runs: int, data: Data) -> Result:
    """The result of all runs, which are made whatever the first ones return. A failed run (None) agrees with none."""
    found = [_once(algorithm, data) for _ in range(runs)]
    if None in found or len(set(found)) > 1:
        return _clear(boundaries.BOUNDARY)
    return Result({"agreed": json.loads(found[0] or "")}, hits=0, tests=1)


def _by_laws(algorithm: Algorithm, event: Event, agreed: int | None = None) -> Event:
    """The event of two published runs, or of `agreed` runs that have to agree, by the stated distributions; `event`
    where none are stated or too many would follow from them."""
    if algorithm.laws is None:
        return event
    one = algorithm.stated([True] * len(algorithm.outcomes or ()))
    try:
        return one.twice() if agreed is None else one.unanimous(agreed)
    except InvalidParameter:
        return event


def _both(algorithm: Algorithm, data: Data) -> Result:
    """The result of two runs, with both outcomes."""
    runs = boundaries.TwoRuns(algorithm.size[0]).step(
        lambda source: algorithm.outcome(data.values[0], source), data.source
    )
    differ = canonical_outcome(runs.first) != canonical_outcome(runs.second)
    return Result({"first": runs.first, "second": runs.second}, hits=int(differ), tests=1)


def _pair(answer: Json, number: int) -> answers.Pair:
    return answers.Pair(number, with_bytes(answer["first"]), with_bytes(answer["second"]))


def _once(algorithm: Algorithm, data: Data) -> str | None:
    """One outcome, canonically."""
    try:
        return canonical_outcome(algorithm.outcome(data.values[0], data.source))
    except AlgorithmFailed:
        return None


@dataclass(frozen=True)
class _Stated:
    """An algorithm as a mechanism that knows the distribution of its outcome's position."""

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
        """The distribution that its author states for these rows."""
        return self.algorithm.law(value)


# Answers that are free while they are clear: by two draws of a label, or inside the boundary wrapper.

# Dummy labels, which no value has, sharpen the answer between two thresholds; beyond this number, no further.
_MOST_PHANTOMS: Final = 32
HALF: Final = Fraction(1, 2)


@lru_cache(maxsize=KEPT)
def clear_by(labels: int) -> sharpness.Width:
    """The depth from which on a value's label is reported, except with a given probability."""
    return partial(clear_depth, labels)


def clear_beyond(test: SharpTest, chance: float) -> float:
    """The distance beyond a threshold from which on a side is reported, except with probability `chance`.

    At the threshold itself it is reported half of the time. With more labels the distance is smaller.
    """
    return clear_depth(2, test, chance) - clear_depth(2, test, 0.5)


@dataclass(frozen=True)
class Clearly:
    """An answer by two draws of a label: of the group with the largest answer, or of the side. With `bars`, both in
    steps, the sides are below the lower one and from the higher one on. Labels 0 and 1 meet between these, or at a
    single threshold.

    A hit is that the draws differ, or agree on a label that no value has.
    """

    query: Query
    draws: boundaries.LabelDraws
    bars: tuple[int, ...] = ()

    @property
    def labels(self) -> int:
        """The number of labels that values can have."""
        return 2 if self.bars else self.draws.labels

    @cached_property
    def half(self) -> int:
        """The depth of a value at a threshold: there a side is reported half of the time, or, for thresholds close
        together, the two sides meet."""
        if not self.bars:
            return 0
        low, high = self.bars
        return min(self.draws.reach(HALF), (high - low + 1) // 2)

    def placed(self, data: Data) -> tuple[int, int]:
        """The label of the exact answer, and its depth; that of a group is its lead over the next one."""
        if not self.bars:
            values = data.integers()
            own = int(np.argmax(values))
            return own, int(values[own]) - int(np.delete(values, own).max())
        value, (low, high) = data.integer(), self.bars
        below, above = low - 1 + self.half - value, value - (high - self.half)
        return (0, below) if below > 0 else (1, max(0, above))

    def step(self, data: Data) -> boundaries.InnerOutcome:
        """The label that is reported."""
        told = self.draws.step(*self.placed(data), data.source)
        return boundaries.BOUNDARY if told is None or told >= self.labels else told

    def wrong_call(self, distance: int) -> float:
        """The probability that a value this far beyond a threshold is not reported clearly and rightly."""
        return float(1 - self.draws.clear_chance(self.half + abs(distance)))

    def within(self, tests: int, confidence: Number) -> Within:
        """The distance beyond the threshold from which on this many values are all reported clearly and rightly."""
        steps = self.draws.reach(sharpness.chance_of_each(confidence, tests)) - self.half
        return Within(tests, float(exact(confidence, "confidence")), float(steps * self.query.grid), None)

    def forecast(self, call: sharpness.HowSharply[Any]) -> Forecast:
        """The accuracy that is known beforehand."""
        together = sharpness.together(call, self.within)
        if not self.bars:
            return Forecast(within=self.within, foreseen=together)
        return Forecast(step=self.query.grid, wrong=self.wrong_call, within=self.within, foreseen=together)


@lru_cache(maxsize=KEPT)
def label_draws(test: SharpTest, labels: int, steps: int) -> boundaries.LabelDraws:
    """The draws of this many `labels` by this test, of depths that one unit moves by at most `steps` steps."""
    return boundaries.LabelDraws(draw_table(test, labels, steps), labels)


@lru_cache(maxsize=KEPT)
def draws_between(test: SharpTest, zone: int, steps: int) -> boundaries.LabelDraws:
    """The draws of two sides whose thresholds are `zone` steps apart, with as many labels as fit in between."""

    def fits(bits: int) -> bool:
        return 2 * clear_depth(2**bits, test, 0.5) * steps <= zone

    return label_draws(test, 2 ** largest(fits, 1, _MOST_PHANTOMS + 1), steps)


# A query whose answer is free while it is clear: about one threshold, about two, or which group is the largest.

# The kinds under which ledgers store it, by its number of thresholds (`stored.current_kind`).
_STORED: Final = ("classify", "decide", "between")


@call(
    "classify",
    subject="thresholds",
    by_hits=True,
    tells="class",
    meanings={
        "above": "One threshold: the answer says whether it is reached; an unclear answer is a hit.",
        "high": "Upper threshold: at or above it the answer is high.",
        "low": "Lower threshold: below it the answer is low.",
    },
)
class Classify(sharpness.HowSharply[answers.Classified]):
    """Publish between which thresholds a value lies, or which group is largest. It is free if the answer is clear.

    With `above` True (at or above it) or False, and "boundary" where that is not clear. With `low` and `high` "low"
    (below `low`) or "high" (from `high` on), and "between". Of a query with groups the group with the largest answer (a
    scalar for one column, a tuple for several), and "boundary".

    Guarantee: with `epsilon` and one threshold a noisy epsilon-DP test inside the boundary wrapper, `BoundaryCall(
    epsilon, 2)`: about 4/3 epsilon-DP ([TCT] Algorithm 4). With two thresholds it is one epsilon-DP call in which
    "between" is a q-target. The nearer the thresholds, the more expensive is a hit ([TCT] Lemma G.1; discrete noise:
    docs/theory/charging.md). With groups it is the epsilon-DP exponential mechanism over them, inside the boundary
    wrapper: `BoundaryCall(epsilon)`. Each group may change by the query's sensitivity. Where neighbours change all
    answers in one direction (counts, histograms and sums of one sign under add/remove) its noise is half.

    With `hits`, `price` or `within` (as for `ThresholdTest`) it is a `SharpTest` whose hit is an unclear answer: two
    draws that differ (docs/theory/thresholds.md). `within` is a distance: from the threshold, beyond one of two, or in
    the lead. From it on all are reported clearly. Two sides are reported half of the time at their thresholds, or where
    they meet if that is nearer. While the lead is small, such a choice may report any group as clear, even one far
    behind (each of k with probability 1/k^2 at a tie). The exponential mechanism favours the larger ones even then.

    Errors: `InvalidQuery` for a mean, for groups with a threshold and for less than two of them. `InvalidParameter` for
    a query without groups, unless it has one threshold, or two of which `low` is below `high`.

    >>> from chary import count
    >>> Classify(count("age >= 65"), low=400, high=600, epsilon="0.02").thresholds
    (400, 600)
    """

    # Where the lead is small, a sharp choice may name a group far behind.
    groups_sharply = False
    query: fields.AnyQuery
    _: KW_ONLY
    above: fields.Exact | None = None
    low: fields.Exact | None = None
    high: fields.Exact | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        said, groups = [self.above is not None, self.low is not None, self.high is not None], self._counted.keys
        if groups is not None and any(said):
            raise InvalidQuery(
                "the largest of groups has no threshold: leave above=, low= and high= out, or the groups"
            )
        if groups is not None and len(groups) < 2:
            raise InvalidQuery('classify at least two groups, such as count().by("clinic", ["a", "b"])')
        if groups is None and said not in ([True, False, False], [False, True, True]):
            raise InvalidParameter("give one threshold, above=, or two, low= and high=; groups need none")
        if len(self.thresholds) == 2 and self.thresholds[0] >= self.thresholds[1]:
            raise InvalidParameter("low must be below high by a step of the query's grid at least")

    @property
    def _counted(self) -> Query:
        if not isinstance(self.query, Query):
            raise InvalidQuery("classify a count or a sum, such as count('age >= 65')")
        return self.query

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Its thresholds in grid steps: one, two, or none for groups."""
        said = (self.above, self.low, self.high)
        return tuple(steps_at_least(threshold, self.query.grid) for threshold in said if threshold is not None)

    @property
    def numeric(self) -> bool:
        return numbers_among(self._counted.keys)

    def plan(self, spine: Spine) -> Plan[answers.Classified]:
        event, run, forecast = self._mechanism(spine)
        kind, reads = _STORED[len(self.thresholds)], reading(self._counted)
        return self.planned(spine, event, run, self._tell, reads, forecast=forecast, kind=kind)

    def clearly(self, spine: Spine) -> Clearly:
        """The mechanism of a call without epsilon; `NotPriced` under any but the Renyi filter."""
        query, thresholds, neighbor_relation = self._counted, self.thresholds, spine.rows.neighbor_relation
        steps = query.sensitivity(neighbor_relation)
        if not thresholds and not query.one_direction(neighbor_relation):
            steps *= 2
        labels = len(query.keys or _SIDES)
        width = clear_beyond if len(thresholds) == 2 else clear_by(labels)
        event = self.clear_terms(spine.filter, steps * query.grid, width).event
        if len(thresholds) == 2:
            return Clearly(query, draws_between(event, thresholds[1] - thresholds[0], steps), thresholds)
        return Clearly(query, label_draws(event, labels, steps), thresholds * 2)

    def _mechanism(self, spine: Spine) -> tuple[Event, Callable[[Data], Result], Callable[[], Forecast]]:
        """The event, the run and the forecast of the call."""
        if self.epsilon is None:
            found = self.clearly(spine)
            return found.draws.event(), lambda data: _clear(found.step(data)), partial(found.forecast, self)
        query, neighbor_relation = self._counted, spine.rows.neighbor_relation
        if not self.thresholds:
            largest = classifier(query, neighbor_relation, self.epsilon)
            return largest.event(), lambda data: _clear(largest.step(data.integers(), data.source)), Forecast
        noise = laplace_for_each(query, neighbor_relation, self.epsilon)
        forecast = partial(_by_noise, noise, query)
        if self.above is None:
            zones = threshold_tests.ThreeZones(noise, *self.thresholds)
            return zones.event(), partial(_zone, zones), forecast
        test = boundaries.BoundaryWrapper(threshold_tests.AdditiveTest(noise, *self.thresholds))
        return test.event(), lambda data: _clear(test.step(data.integer(), data.source)), forecast

    def _tell(self, answer: Json, number: int) -> answers.Classified:
        if (zone := answer.get("zone")) is not None:
            return answers.Classified(number, zone, clear=zone != _BETWEEN)
        if (place := answer["outcome"]) == boundaries.BOUNDARY:
            return answers.Classified(number, boundaries.BOUNDARY if self.low is None else _BETWEEN, clear=False)
        if self.query.keys is not None:
            return answers.Classified(number, scalar(self.query.keys[place]), clear=True)
        return answers.Classified(number, _SIDES[place] if self.above is None else bool(place), clear=True)


_SIDES: Final = ("low", "high")
_BETWEEN: Final = "between"


def _zone(mechanism: threshold_tests.ThreeZones, data: Data) -> Result:
    """The result of three zones: a side, or "between", which is the hit."""
    zone = mechanism.step(data.integer(), data.source)
    return Result({"zone": zone}, hits=int(zone == _BETWEEN), tests=1)


def _by_noise(noise: additive.Additive, query: Query) -> Forecast:
    """The forecast of an answer that this noise decides."""
    return Forecast(error_bar((noise, query.grid)), decides=True, step=query.grid, wrong=noise.wrong_call)


def classifier(
    query: Query, neighbor_relation: NeighborRelation, epsilon: Number
) -> boundaries.BoundaryWrapper[additive.Integers]:
    """The exponential mechanism over the groups, inside the boundary wrapper."""
    single, together = query.sensitivity(neighbor_relation), query.one_direction(neighbor_relation)
    return boundaries.BoundaryWrapper(choices.Exponential(epsilon, single, monotone=together))
