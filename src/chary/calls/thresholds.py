"""Tests against a threshold: one, per group, with a fresh value of a hit, and on change."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Required, Self, TypedDict, Unpack, overload

import numpy as np

from chary.accounting import Targeted, ZeroConcentrated, intervals, sharp_tests
from chary.answers import NoisyNumber, NoisyNumbers, with_bytes
from chary.calls import compute, fields, releases
from chary.calls.algorithm import EVERYTHING, UNSAID, Algorithm, not_prior
from chary.calls.answers import (
    Conditional,
    TestedKeys,
    Tracked,
    WatchResult,
    YesOrNo,
    above_or_not,
    hit_values,
    published,
    silent,
)
from chary.calls.call import Call, call
from chary.calls.sharpness import FreshlyValued, Sharpness, TestLaw, Threshold, Valued, together
from chary.calls.withheld import Widen, extension
from chary.core import forecast, plan
from chary.core.plan import AnswerT, Data, Json, PerHit, Plan, Question, Result, natural, reading, steps_at_least
from chary.core.transaction import Spine
from chary.data import Mean, NeighborRelation, Query
from chary.data.queries.bodies import query_of
from chary.data.queries.query import AnsweredT
from chary.data.queries.stored import current
from chary.errors import InvalidParameter, InvalidQuery, NotWithheld
from chary.mechanisms import Additive, Held, Laplace, Published, judge, revise
from chary.mechanisms.threshold_tests import AdditiveTest, TwoSidedSampler
from chary.numbers import Number, exact, positive, work_out

# A value that is reported again only when it has changed, by a two-sided optimal threshold test against the last one
# that was reported.

# The share of all times at which an unchanged answer is farther from the truth than its error bar: half of 5 %.
_MISSED: Final = Fraction(1, 40)


def changed(
    call: "OnChange",
    query: Query,
    neighbor_relation: NeighborRelation,
    sharpness: Sharpness,
    noise: Additive,
    far: TwoSidedSampler,
    prior: int | None = None,
) -> Plan[Tracked]:
    """The first value, or whether it is a step or more from the `prior`, the last published value in grid steps, and
    then a fresh one.

    The first is an ordinary release with the noise of all later ones, and costs no more than that. `far` tests a
    difference from the prior.
    """
    grid, change = query.grid, steps_at_least(call.step or 0, query.grid, "step")
    event = sharpness.event if prior is not None else ZeroConcentrated(sharpness.value_rho or 0)

    def run(data: Data) -> Result:
        value = data.integer()
        if prior is not None and not far.step(value - prior, data.source):
            return Result({"value": prior, "hit": False}, hits=0, tests=1)
        return Result({"value": noise.apply_one(value, data.source), "hit": True}, hits=1, tests=1)

    def present(answer: Json, number: int) -> Tracked:
        value = natural(answer["value"], grid)
        if answer["hit"]:
            bar = forecast.error_bar((noise, grid))
            return Tracked(number, value, True, bar, publication=published(noise, query, neighbor_relation))
        # Beyond this distance from the prior a value is reported as changed, but for the share `_MISSED` of all times.
        return Tracked(number, value, False, float(max(0, far.table.miss_reach(_MISSED) - 1) * grid))

    def foretold() -> forecast.Forecast:
        tails, tests = sharpness.tails, call.tests or 1
        return forecast.Forecast(
            error_bar=forecast.error_bar((noise, grid)),
            step=grid,
            wrong=sharpness.wrong_call,
            # How far the value is from the prior, against the step; a first value is reported in any case.
            tests=None if prior is None else forecast.TestForecast(tails, change, grid, tests, 0),
            within=sharpness.within,
            foreseen=together(call, sharpness.within),
        )

    # The question without the prior, so that the next time finds this answer by it.
    body = call.question_body()
    text = plan.ENCODER.encode({"query": body.pop("question")} | body)
    return Plan(call.kind, text, event, run, present, reading(query), forecast=foretold)


def far_by(step: Number, sharpness: Sharpness) -> TwoSidedSampler:
    """Whether values are a step or more from 0, with this accuracy."""
    change = steps_at_least(step, sharpness.grid, "step")
    return TwoSidedSampler(sharp_tests.TwoSidedTable(sharpness.sampler.table, change - sharpness.bar))


# Asking the same again and again, and paying only when the answer changes.


@call("track", subject="algorithms", publishes=True, again=True, by_hits=True)
class OnChange(FreshlyValued[Tracked]):
    """Ask one query again and again, and pay only when the answer changes.

    With `hits`, `price` or `within` (as for `ThresholdTest`) a new answer is published when it is `step` or more from
    the last one. It has noise of its own, for the part `value` of the cost of a change. With `epsilon` it is a noisy
    value rounded to a multiple of `step`. Without rounding, noise would change every answer: take a step of several
    error bars. An `Algorithm` brings its own epsilon.

    Guarantee: with `epsilon`, one epsilon-DP call whose NotPrior target is "not the last published answer to this
    question", which is read from the ledger. Otherwise it is a `SharpTest` of the distance from that answer, on both
    sides (docs/theory/thresholds.md), and at a change a fresh value. The first answer is charged: by optimal threshold
    tests as a value alone. Once there is one, the outlook of a quote is about distances from it, compared with `step`.
    """

    question: fields.AnyQuestion
    _: KW_ONLY
    step: fields.Positive | None = None
    # Only with an algorithm, which no command line brings, may it be left out.
    stated = "step"

    def __post_init__(self) -> None:
        if not isinstance(self.question, (Algorithm, Call)):
            super().__post_init__()
            if self.step is None:
                raise InvalidParameter(
                    "a question is tracked with step=, how far it must have changed, such as step=100"
                )
            positive(self.step, "step")
        elif len(self.ways) > (self.epsilon is not None):
            raise InvalidParameter("an algorithm brings its own epsilon: leave hits=, price=, within= and value= out")

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"question": body.get("query")})

    @property
    def numeric(self) -> bool:
        return True

    def plan(self, spine: Spine) -> Plan[Tracked]:
        first = self._after(spine, UNSAID)
        stored = spine.ledger.last_settled(spine.dataset, "track", first.body, spine.scope(first))
        return first if stored is None else self._after(spine, json.loads(stored.answer or "{}").get("value", UNSAID))

    def _after(self, spine: Spine, prior: Any) -> Plan[Tracked]:
        question, neighbor_relation = self.question, spine.rows.neighbor_relation
        if isinstance(question, (Algorithm, Call)):
            return run_again(self, compute.private(question, spine), prior)
        if not isinstance(question, Query) or question.keys is not None:
            raise InvalidQuery("track a single count or sum, or an Algorithm")
        known = None if prior is UNSAID else prior
        if self.epsilon is not None:
            noise = plan.laplace_for(question, neighbor_relation, self.epsilon)
            return rounded(self, question, neighbor_relation, noise, known)
        change = question.sensitivity(neighbor_relation)
        found = self.sharpness(spine.filter, change, question.grid, self.value_share)
        fresh, far = found.value_noise(change), far_by(self.step or 0, found)
        return changed(self, question, neighbor_relation, found, fresh, far, known)


def run_again(call: OnChange, algorithm: Algorithm, prior: Any) -> Plan[Tracked]:
    """Another run of the algorithm, with the last outcome as its prior, which the stored question does not contain."""
    work_out(algorithm.size)  # refuses a rho, which the second time could have no prior
    target = EVERYTHING if prior is UNSAID else not_prior(algorithm, prior)

    def tell(answer: Json, number: int) -> Tracked:
        return Tracked(number, with_bytes(answer["value"]), answer["hit"], None)

    made = compute.judging(call, algorithm, target, {}, target.event(algorithm), tell)
    return compute.bounded(made, target.event_by_laws(algorithm))


def rounded(
    call: OnChange, query: Query, neighbor_relation: NeighborRelation, noise: Additive, prior: int | None = None
) -> Plan[Tracked]:
    """A noisy value rounded to a multiple of the step, paid when it is not the `prior` (None: nothing is known yet)."""
    grid, epsilon, step = query.grid, Fraction(call.epsilon or 0), Fraction(call.step or 0)

    def run(data: Data) -> Result:
        noisy = noise.apply_one(data.integer(), data.source)
        cell = (noisy * grid / step + Fraction(1, 2)).__floor__()
        hit = cell != prior
        return Result({"value": cell, "hit": hit, "prior": prior}, hits=int(hit), tests=1)

    def changed_from(last: int | None) -> intervals.Publication | None:
        """A change is reported where the noisy value no longer rounds to the last answer, a first answer in any
        case."""
        if last is None:
            return None
        low, high = (ceil((2 * cell - 1) * step / (2 * grid)) for cell in (last, last + 1))
        return published(noise, query, neighbor_relation, intervals.Support.outside(low, high - 1), step=step)

    def present(answer: Json, number: int) -> Tracked:
        # Answers of old ledgers do not contain the prior, so the publication of a change is not known.
        told = changed_from(answer.get("prior")) if answer["hit"] else None
        known = told is None and ("prior" in answer or not answer["hit"])
        bar = float(step) / 2 + (forecast.error_bar((noise, grid)) or 0.0) if known else None
        return Tracked(number, natural(answer["value"], step), answer["hit"], bar, publication=told)

    def at(other: Fraction) -> Plan[Tracked]:
        drawn = plan.laplace_for(query, neighbor_relation, other)
        return rounded(replace(call, epsilon=other), query, neighbor_relation, drawn, prior)

    def foretold() -> forecast.Forecast:
        return forecast.Forecast(forecast.error_bar((noise, grid)), True, grid, noise.wrong_call)

    body = plan.ENCODER.encode({"query": query.body(), "step": str(step), "epsilon": str(call.epsilon)})
    size = plan.Size(epsilon, at)
    return Plan(call.kind, body, Targeted(epsilon), run, present, reading(query), forecast=foretold, size=size)


# The options of a test beside its query, for type checkers: the type of the query decides that of the answer.


class Terms(TypedDict, total=False):
    """How a query is tested; see `Threshold`."""

    above: Required[Number]
    epsilon: Number | None
    hits: int | None
    price: Number | None
    within: Number | None
    tests: int | None
    confidence: Number | None
    below_margin: bool | None


class ValuedTerms(Terms, total=False):
    """The same where a hit comes with a value."""

    value: Number | None


# What all tests against a threshold have in common, and a refusal of those that would mostly buy false alarms.

_ALONE: Final = PerHit()


class Asked(NamedTuple):
    """A question as it is tested: the queries that are read, the noise of the value, the threshold in steps, how the
    test is made, and the stored text.

    All of it is public. For Laplace noise it is cached, since the same question is asked again and again.
    """

    parts: tuple[Query, ...]
    noises: tuple[Additive, ...]
    threshold: int
    law: TestLaw
    text: str


def against_threshold(
    call: Threshold[AnswerT],
    spine: Spine,
    query: Question,
    threshold: int,
    law: TestLaw,
    run: Callable[[Data], Result],
    present: Callable[[Json, int], AnswerT],
    *,
    reads: Sequence[Query],
    text: str,
    cost: PerHit = _ALONE,
    at_once: int = 1,
    kind: str | None = None,
) -> Plan[AnswerT]:
    """Tests of a query by this distribution, `at_once` of them, against a threshold in steps.

    Many tests that are expected to report a truth where none is above are refused before anything is reserved, unless
    the call says `below_margin`. The noise of a mean depends on the data, so nothing is foretold of that.
    """
    tests = max(call.tests or 1, at_once)

    def expected() -> forecast.TestForecast | None:
        if isinstance(query, Mean):
            return None
        least = forecast.least_of(query, spine.rows.neighbor_relation)
        shared = law.noise.law() if law.noise and law.decides and isinstance(call, Valued) else None
        return forecast.TestForecast(law.tails, threshold, query.grid, tests, least, shared)

    def check(secret: bytes | None) -> None:
        if tests > 1 and not call.below_margin and (found := expected()) is not None:
            found.refuse_false_alarms()

    def foretold() -> forecast.Forecast:
        agreed = None if law.within is None else together(call, law.within)
        if isinstance(query, Mean):
            return forecast.Forecast(decides=law.decides, within=law.within, foreseen=agreed)
        return forecast.Forecast(
            law.error_bar(query.grid), law.decides, query.grid, law.wrong, expected(), law.within, agreed
        )

    kind, read, size = kind or call.kind, reading(*reads), call.size(spine)
    return Plan(kind, text, law.event, run, present, read, cost, foretold, check=check, size=size)


# Conditional release and its revisions: the noisy value if it is above the threshold, otherwise nothing, free and held.

# A mean lies between the points of its grid; a threshold for it is kept to a millionth of a step.
FINER: Final = 10**6


@call("release_if", subject="thresholds", publishes=True, by_hits=True)
class ReleaseIf(Valued[AnsweredT]):
    """Publish the noisy value if it is at or above the threshold. Otherwise nothing is published, which is free; see
    `Widen`. A query with groups is tested group by group, in order and in one scan.

    Guarantee: with `epsilon`, an epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2). The value
    costs no more than the bare answer "above", and an outcome below the threshold becomes secret state. With `hits`,
    `price` or `within`, a `SharpTest` (see `ThresholdTest`), and at a hit an unbiased value with Gaussian noise of its
    own. That value takes the part `value` of the price of a hit (a quarter); nothing is withheld. Each group is such a
    call of its own, of which nothing is withheld. `ThresholdTest` says how many of them are charged, and where it
    halts.

    >>> from chary import count
    >>> ReleaseIf(count().by("clinic", ["north", "south"]), above=500, epsilon="0.02").epsilon
    Fraction(1, 50)
    """

    query: fields.AnyQuery

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "ReleaseIf[Conditional]", query: Query[NoisyNumber] | Mean[Any], **terms: Unpack[ValuedTerms]
        ) -> None: ...

        @overload
        def __init__(
            self: "ReleaseIf[WatchResult]", query: Query[NoisyNumbers], **terms: Unpack[ValuedTerms]
        ) -> None: ...

        def __init__(self, query: Any, **terms: Any) -> None:
            """See the fields."""

    @property
    def numeric(self) -> bool:
        return self.query.keys is None

    def plan(self, spine: Spine) -> Plan[Any]:
        if self.query.keys is not None:
            return tested_keys(self, spine, keyed(self.query))
        query, neighbor_relation = self.query, spine.rows.neighbor_relation
        if self.epsilon is None:
            return released_if(self, spine, self._sharply_asked(spine))
        return released_if(self, spine, asked_release(query, neighbor_relation, self.above, self.epsilon))

    @classmethod
    def widened(cls, widen: Widen, original: Json, spine: Spine) -> Plan[Conditional]:
        if "epsilon" not in original:
            raise NotWithheld(f"call {widen.held} withholds no outcome: only a test with epsilon= keeps one")
        return revision(widen, original, spine.rows.neighbor_relation)

    def _sharply_asked(self, spine: Spine) -> Asked:
        """The parts of the value, the last of which is tested; for a mean none of them is, but a sum after them."""
        query, neighbor_relation = self.query, spine.rows.neighbor_relation
        tested, threshold = tested_query(query, neighbor_relation, exact(self.above, "above"))
        found = self.sharply(spine, tested)
        drawn = releases.noises(query, neighbor_relation, epsilon=None, rho=found.value_rho)
        parts = releases.parts_of(query, neighbor_relation)
        reads = (*parts, tested) if isinstance(query, Mean) else parts
        return Asked(reads, drawn, threshold, TestLaw.sharp(found, drawn[0]), self.text())


def released_if(call: ReleaseIf[Any], spine: Spine, asked: Asked) -> Plan[Conditional]:
    """By Laplace noise the noisy value, which is withheld below the threshold. By an optimal threshold test at a hit a
    value that is drawn for that purpose alone, so that it is unbiased and its interval is an ordinary one."""
    query, law, threshold = call.query, asked.law, asked.threshold
    tests = law.machine(threshold, None)

    def run(data: Data) -> Result:
        if not law.decides and not tests.reached(data.integer(-1), data.source):
            return Result({"value": None}, hits=0, tests=1)
        noisy = releases.noisy_parts(asked.noises, data)
        if isinstance(query, Mean):
            value: int | float = query.combine(*noisy)
            score = math.floor(Fraction(value) / step_of(query))
        else:
            value, score = natural(noisy[0], query.grid), noisy[0]
        return settled(judge(value, score, threshold) if law.decides else Published(value))

    def present(answer: Json, number: int) -> Conditional:
        if isinstance(query, Mean):
            return Conditional(number, answer["value"], None, number)
        bar = None if law.decides else forecast.error_bar((asked.noises[0], query.grid))
        hit = answer["value"] is not None
        told = law.published(query, spine.rows.neighbor_relation, threshold) if hit else None
        return Conditional(number, answer["value"], bar, number, publication=told)

    return against_threshold(call, spine, query, threshold, law, run, present, reads=asked.parts, text=asked.text)


@lru_cache(maxsize=plan.KEPT)
def asked_release(query: Question, neighbor_relation: NeighborRelation, above: Fraction, epsilon: Fraction) -> Asked:
    """The conditional release of a query by Laplace noise; refuses a query for which there is no noise."""
    drawn = releases.noises(query, neighbor_relation, epsilon=epsilon)
    bar = None if isinstance(query, Mean) else forecast.error_bar((drawn[0], query.grid))
    threshold, law = steps_at_least(above, step_of(query)), TestLaw.laplace(drawn[0], epsilon)
    text = plan.ENCODER.encode(_body(query, above, epsilon, bar))
    return Asked(releases.parts_of(query, neighbor_relation), drawn, threshold, law, text)


def _body(query: Question, above: Number, epsilon: Number, bar: float | None) -> Json:
    """The stored body. A later revision is made from it alone."""
    return plan.threshold_body(query, above, epsilon) | {"grid": str(step_of(query)), "error_bar": bar}


def step_of(query: Question) -> Fraction:
    """What scores and thresholds are counted in: the grid, or for a mean, which lies between its points, a
    millionth."""
    return query.grid / FINER if isinstance(query, Mean) else query.grid


def settled(outcome: Held | Published, replaces: int | None = None, below: int | None = None) -> Result:
    """The public answer and the secret state after a conditional release, or after a revision of call `replaces`, whose
    last threshold was `below`: what it published lies below that."""
    hit = isinstance(outcome, Published)
    secret = outcome.dump() if isinstance(outcome, Held) else None
    answer: Json = {"value": outcome.value if hit else None}
    if replaces is None:
        return Result(answer, hits=int(hit), tests=1, secret=secret)
    told = answer | ({"below": below} if hit else {})
    return Result(told, hits=int(hit), tests=1, secrets={replaces: secret})


def revision(widen: Widen, original: Json, neighbor_relation: NeighborRelation) -> Plan[Conditional]:
    """The revision, as it is run; `original` is the public body of the call that holds the outcome."""
    if widen.above is None:
        raise InvalidParameter("what a release withheld is published by a lower threshold: give above=, not when=")
    grid = Fraction(original["grid"])
    threshold = steps_at_least(widen.above, grid)

    def check(secret: bytes) -> None:
        if threshold >= (floor := Held.load(secret).floor):
            raise InvalidParameter(
                f"the threshold must be lower than the last one tried: give above less than {natural(floor, grid)}"
            )

    def run(data: Data) -> Result:
        held = Held.load(data.secret or b"")
        return settled(revise(held, threshold), replaces=widen.held, below=held.floor)

    def told(below: int | None) -> intervals.Publication | None:
        """A value is published from this threshold on, where it is below the last one tried."""
        query = query_of(current(original["query"]))
        if below is None or isinstance(query, Mean):
            return None
        noise = plan.laplace_for(query, neighbor_relation, original["epsilon"])
        return published(noise, query, neighbor_relation, intervals.Support.between(threshold, below))

    def present(answer: Json, number: int) -> Conditional:
        # Answers of old ledgers do not contain the earlier threshold, so the publication is not known.
        publication = told(answer.get("below"))
        return Conditional(number, answer["value"], None, widen.held, publication=publication)

    return extension(widen, "revise", original, run, present, check)


# Private tests, alone or over many groups: True and the published values are hits, False is free.


@dataclass(frozen=True)
class Tested(YesOrNo):
    """Whether the query is at or above the threshold, up to noise. Its truth value (`bool`) is `value`."""

    hit_if = "value"

    @property
    def in_words(self) -> str:
        return above_or_not(self.value)


@call("test", subject="thresholds", name="test", by_hits=True, tells="above")
class ThresholdTest(Threshold[AnsweredT]):
    """Test whether a value is at or above a threshold, up to noise. True is charged, False is free. A query with groups
    is tested group by group, in order and in one scan.

    Guarantee: with `epsilon`, one epsilon-DP call with the NotPrior target "True" ([TCT] section 2.1); otherwise
    `SharpTest` at the order of the session's filter. A mean is tested through the sum of its differences from the
    threshold, which needs no count. With `tests` the threshold lies half way between false alarms and misses; without,
    a value at the threshold hits with probability one half. Each group is such a call of its own. One unit can be in a
    limited number of groups (`max_groups_per_unit`, `assumed_groups_per_unit`, or all of them), and at most that many
    hits are charged (theory 1.6). When the budget cannot pay for that many, it halts at the last hit that fits; later
    groups are `untested`.

    >>> from chary import count
    >>> ThresholdTest(count("age >= 65"), above=500, epsilon="0.02").body()["above"]
    '500'
    """

    query: fields.AnyQuery

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "ThresholdTest[Tested]", query: Query[NoisyNumber] | Mean[Any], **terms: Unpack[Terms]
        ) -> None: ...

        @overload
        def __init__(self: "ThresholdTest[TestedKeys]", query: Query[NoisyNumbers], **terms: Unpack[Terms]) -> None: ...

        def __init__(self, query: Any, **terms: Any) -> None:
            """See the fields."""

    def plan(self, spine: Spine) -> Plan[Any]:
        if self.query.keys is not None:
            return tested_keys(self, spine, keyed(self.query))
        neighbor_relation = spine.rows.neighbor_relation
        if self.epsilon is not None:
            return tested_once(self, spine, asked_test(self.query, neighbor_relation, self.above, self.epsilon))
        query, threshold = tested_query(self.query, neighbor_relation, exact(self.above, "above"))
        return tested_once(self, spine, Asked((query,), (), threshold, self.law(spine, query), self.text()))


def tested_once(call: ThresholdTest[Any], spine: Spine, asked: Asked) -> Plan[Tested]:
    """One test, whose answer is whether it hit."""
    tests = asked.law.machine(asked.threshold, None)

    def run(data: Data) -> Result:
        hit = tests.reached(data.integer(), data.source)
        return Result({"hit": hit}, hits=int(hit), tests=1)

    made = against_threshold(
        call, spine, call.query, asked.threshold, asked.law, run, _tell, reads=asked.parts, text=asked.text
    )
    noise = asked.law.noise
    if not asked.law.decides or not isinstance(noise, Laplace):
        return made
    test = AdditiveTest(noise, asked.threshold)
    return replace(made, outcomes=({"hit": False}, {"hit": True}), law=lambda data: test.law(data.integer()))


def _tell(answer: Json, number: int) -> Tested:
    return Tested(number, bool(answer["hit"]))


@lru_cache(maxsize=plan.KEPT)
def asked_test(query: Question, neighbor_relation: NeighborRelation, above: Fraction, epsilon: Fraction) -> Asked:
    """The test of a query by Laplace noise; refuses a mean that this threshold cannot shift, and noise out of range."""
    read, threshold = tested_query(query, neighbor_relation, above)
    noise = plan.laplace_for_each(read, neighbor_relation, epsilon)
    text = plan.ENCODER.encode(plan.threshold_body(query, above, epsilon))
    return Asked((read,), (noise,), threshold, TestLaw.laplace(noise, epsilon), text)


def tested_query(query: Question, neighbor_relation: NeighborRelation, above: Fraction) -> tuple[Query, int]:
    """The query that is read, and its threshold in steps; a mean is read as its differences from the threshold."""
    if isinstance(query, Mean):
        query.parts(neighbor_relation)  # refuses a mean without a limit on rows, in the words of a mean
        return query.shifted(above), 0
    return query, steps_at_least(above, query.grid)


# Many tests at once: one for each group of a query, in order and in one scan.


# The kind under which ledgers store the release of groups above a threshold (`stored.current_kind`).
_WATCH: Final = "watch"


def tested_keys(call: Threshold[Any], spine: Spine, query: Query, law: TestLaw | None = None) -> Plan[Any]:
    """Each key by the distribution of the call, or another: a `WatchResult` where hits come with values, else
    `TestedKeys`."""
    neighbor_relation, keys = spine.rows.neighbor_relation, tuple(query.keys or ())
    threshold, valued = steps_at_least(call.above, query.grid), isinstance(call, Valued)
    own = call.law(spine, query) if law is None else law

    def present(answer: Json, number: int) -> TestedKeys:
        above: Any = hit_values(keys, answer["positions"], answer.get("noisy"), query.grid)
        silence, tested = silent(own.tails, query, neighbor_relation, threshold), answer["tested"]
        if not valued:
            return TestedKeys(number, query.columns, keys, above, tested, None, silence=silence)
        bar = None if own.decides else own.error_bar(query.grid)
        told = own.published(query, neighbor_relation, threshold)
        return WatchResult(number, query.columns, keys, above, tested, bar, publication=told, silence=silence)

    parts, kind = query.reach(neighbor_relation), _WATCH if valued else call.kind
    return in_order(
        call, spine, query, threshold, own, present, reads=[query], parts=parts, at_once=len(keys), kind=kind
    )


def in_order(
    call: Threshold[AnswerT],
    spine: Spine,
    query: Query,
    threshold: int,
    law: TestLaw,
    present: Callable[[Json, int], AnswerT],
    *,
    reads: Sequence[Query],
    parts: int,
    at_once: int,
    kind: str | None = None,
) -> Plan[AnswerT]:
    """Tests by one distribution, of what is read, in order; neighbours differ in at most `parts` of them.

    `query` has the sensitivity and the grid of all. It halts right after the last hit that is paid. The noisy values
    that decide hits are published only where the call has values.
    """

    def run(data: Data) -> Result:
        values = np.concatenate([data.integers(position) for position in range(len(reads))])
        found = law.machine(threshold, data.most_hits).step(values, data.source)
        answer: Json = {"tested": found.tested, "positions": found.positions}
        answer |= {"noisy": found.noisy} if isinstance(call, Valued) else {}
        return Result(answer, hits=len(found.positions), tests=found.tested)

    text = plan.ENCODER.encode(call.question_body() | {"parallel": parts})
    cost = PerHit(parts, halts=True)
    return against_threshold(
        call, spine, query, threshold, law, run, present, reads=reads, text=text, cost=cost, at_once=at_once, kind=kind
    )


def keyed(query: Question) -> Query:
    """The query if its groups can be tested: it has public keys and one value for each; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None:
        raise InvalidQuery(
            'tests of groups need a count, a sum or a series with public keys, such as count().by("clinic", ["a", "b"])'
        )
    return query
