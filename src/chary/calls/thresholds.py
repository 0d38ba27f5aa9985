"""Tests against a threshold: one, per group, with a fresh value of a hit, and on change."""

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import Any, Final, Generic, Self

from chary.accounting import Event, NoiseLaw, Targeted, ZeroConcentrated, intervals, sharp_tests
from chary.calls import compute, fields, releases
from chary.calls.algorithm import EVERYTHING, UNSAID, Algorithm, not_prior
from chary.calls.answers import Conditional, Tracked, WatchResult, YesOrNo, published, silent
from chary.calls.call import Bound, Call, CallT, call, widened
from chary.calls.sharpness import FreshlyValued, Sharply, Sharpness, Threshold, Valued
from chary.core import forecast, plan
from chary.core.plan import Plan
from chary.core.transaction import Spine, earlier
from chary.data import Mean, NeighborRelation, Query
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current
from chary.errors import InvalidParameter, InvalidQuery, NotWithheld
from chary.mechanisms import Additive, BarTests, Gaussian, Held, Laplace, Published, judge, revise
from chary.mechanisms.additive import Integers
from chary.mechanisms.threshold_tests import SharpTests, TwoSidedSampler
from chary.numbers import Number, exact, positive

# A value that is told again only when it has changed, by a two-sided sharp test against the last one that was told.

# An answer that did not change covers the truth but for so many of all times: half of what an error bar leaves out.
_MISSED: Final = Fraction(1, 40)


@dataclass(frozen=True)
class AskChanged(Sharply, Bound[FreshlyValued[Tracked]]):
    """The first value, or whether it is `step` or more from the `prior`, the last value told in grid steps, and then a
    fresh one.

    The first is an ordinary release with the noise of all later ones, and costs no more than that.
    """

    sharpness: Sharpness
    query: Query
    step: Number
    prior: int | None = None

    @cached_property
    def noise(self) -> Gaussian:
        """The noise of a value."""
        change = self.query.sensitivity(self.neighbor_relation)
        return Gaussian.for_rho(self._rho, l2_squared=change**2)

    @property
    def _rho(self) -> Fraction:
        return self.sharpness.value_rho or Fraction(0)

    @cached_property
    def sampler(self) -> TwoSidedSampler:
        """The test of a difference from the prior."""
        change = plan.steps_at_least(self.step, self.query.grid, "step")
        return TwoSidedSampler(sharp_tests.TwoSidedTable(self.sharpness.sampler.table, change - self.sharpness.bar))

    @property
    def barred(self) -> forecast.TestForecast | None:
        """How far the value is from the prior, against the step; a first value is told in any case."""
        if self.prior is None:
            return None
        change = plan.steps_at_least(self.step, self.query.grid, "step")
        return forecast.TestForecast(self.sharpness.tails, change, self.query.grid, self.call.tests or 1, 0)

    @property
    def event(self) -> Event:
        return ZeroConcentrated(self._rho) if self.prior is None else self.sharpness.event

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    def body(self) -> plan.Json:
        """The question without the prior, so that the next time finds this answer by it."""
        asked: dict[str, Any] = super().body()
        return {"query": asked.pop("question")} | asked

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: plan.Data) -> plan.Result:
        value, prior = data.integer(), self.prior
        if prior is not None and not self.sampler.step(value - prior, data.source):
            return plan.Result({"value": prior, "hit": False}, hits=0, tests=1)
        told = self.noise.apply_one(value, data.source)
        return plan.Result({"value": told, "hit": True}, hits=1, tests=1)

    def present(self, answer: plan.Json, call: int) -> Tracked:
        told = published(self.noise, self.query, self.neighbor_relation) if answer["hit"] else None
        bar = self.error_bar if answer["hit"] else float(self._unnoticed * self.query.grid)
        return Tracked(call, plan.natural(answer["value"], self.query.grid), answer["hit"], bar, publication=told)

    @property
    def _unnoticed(self) -> int:
        """How many steps from the prior a value may be, but for a part of all times, without being told anew."""
        return max(0, self.sampler.table.miss_reach(_MISSED) - 1)


# Asking the same again and again, and paying only when the answer changes.


@call("track", subject="algorithms")
class OnChange(FreshlyValued[Tracked]):
    """One question, asked as often as you like, and paid only when the answer changes.

    With `hits`, `price` or `within` (as for `ThresholdTest`) the answer is told again when it is `step` or more from
    the one told last, with noise of its own, for the part `value` of the price of a change. With `epsilon` it is a
    noisy value rounded to a multiple of `step` (without rounding, noise would change every answer: take a step of
    several error bars). An `Algorithm` brings its own epsilon.

    Guarantee: with `epsilon`, one epsilon-DP call whose NotPrior target is "not the last published answer to this
    question", which is read from the ledger; otherwise a `SharpTest` of the distance from that answer, on both sides
    (docs/theory.md), and at a change a fresh value. The first answer is charged: by sharp tests as a value alone. Once
    there is one, the outlook of a quote is about distances from it, against `step`.
    """

    question: fields.AnyQuestion
    _: KW_ONLY
    step: fields.Positive | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.question, Algorithm):
            super().__post_init__()
            if self.step is None:
                raise InvalidParameter(
                    "a question is tracked with step=, how far it must have changed, such as step=100"
                )
            positive(self.step, "step")
        elif len(self.ways) > (self.epsilon is not None):
            raise InvalidParameter("an algorithm brings its own epsilon: leave hits=, price=, within= and value= out")

    @classmethod
    def recorded(cls, body: plan.Json) -> Self:
        return super().recorded(body | {"question": body.get("query")})

    def plan(self, spine: Spine) -> Plan[Tracked]:
        first = self._after(spine, UNSAID)
        stored = spine.ledger.last_settled(spine.dataset, "track", first.body)
        return first if stored is None else self._after(spine, json.loads(stored.answer or "{}").get("value", UNSAID))

    def _after(self, spine: Spine, prior: Any) -> Plan[Tracked]:
        question, neighbor_relation = self.question, spine.rows.neighbor_relation
        if isinstance(question, Algorithm):
            return run_again(self, question, prior)
        if not isinstance(question, Query) or question.keys is not None:
            raise InvalidQuery("track a single count or sum, or an Algorithm")
        known = None if prior is UNSAID else prior
        if self.epsilon is not None:
            asked: Plan[Tracked] = AskTracked(self, neighbor_relation, question, known).plan()
            return asked
        change = question.sensitivity(neighbor_relation)
        sharpness = self.sharpness(spine.filter, change, question.grid, self.value_share)
        return AskChanged(self, neighbor_relation, sharpness, question, self.step or 0, known).plan()


def run_again(call: OnChange, algorithm: Algorithm, prior: Any) -> Plan[Tracked]:
    """The same algorithm once more; which outcome was the prior is told by the answer, not by the question."""
    algorithm.size  # noqa: B018 - refuses a rho, which the second time could have no prior
    target = EVERYTHING if prior is UNSAID else not_prior(algorithm, prior)

    def tell(answer: plan.Json, number: int) -> Tracked:
        return Tracked(number, answer["value"], answer["hit"], None)

    return compute.judging(call, algorithm, target, {}, target.event(algorithm), tell)


@dataclass(frozen=True)
class AskTracked(Bound[OnChange]):
    """A noisy value rounded to a multiple of the step, paid when it is not the `prior` (None: nothing is known yet)."""

    query: Query
    prior: int | None = None
    decides = True

    @cached_property
    def step(self) -> Fraction:
        """What answers are multiples of."""
        return Fraction(self.call.step or 0)

    @cached_property
    def noise(self) -> Laplace:
        """The noise before rounding; refuses noise out of range."""
        return plan.laplace_for(self.query, self.neighbor_relation, self.call.epsilon or 0)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    def body(self) -> plan.Json:
        return {"query": self.query.body(), "step": str(self.step), "epsilon": str(self.call.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: plan.Data) -> plan.Result:
        noisy = self.noise.apply_one(data.integer(), data.source)
        cell = (noisy * self.query.grid / self.step + Fraction(1, 2)).__floor__()
        hit = cell != self.prior
        return plan.Result({"value": cell, "hit": hit, "prior": self.prior}, hits=int(hit), tests=1)

    def present(self, answer: plan.Json, call: int) -> Tracked:
        # Answers of old ledgers do not say from what they changed, so a change says nothing by itself.
        told = self._published(answer.get("prior")) if answer["hit"] else None
        known = told is None and ("prior" in answer or not answer["hit"])
        bar = float(self.step) / 2 + (self.error_bar or 0.0) if known else None
        return Tracked(call, plan.natural(answer["value"], self.step), answer["hit"], bar, publication=told)

    def _published(self, prior: int | None) -> intervals.Publication | None:
        """A change is told where the noisy value no longer rounds to the last answer, a first answer in any case."""
        if prior is None:
            return None
        first, last = (ceil((2 * cell - 1) * self.step / (2 * self.query.grid)) for cell in (prior, prior + 1))
        support = intervals.Support.outside(first, last - 1)
        return published(self.noise, self.query, self.neighbor_relation, support, step=self.step)


# What every call against a bar foretells of it, and refuses where it would mostly buy false alarms.


class Barring(Bound[CallT], Generic[CallT]):
    """A `Threshold` against its bar: many tests that are expected to report a truth where none is above are refused
    before anything is reserved, unless the call says `below_margin`."""

    def check(self, secret: bytes | None) -> None:
        super().check(secret)
        said: Any = self.call
        if self.tests > 1 and not said.below_margin and self.barred is not None:
            self.barred.refuse_false_alarms()

    @property
    def tests(self) -> int:
        """How many tests the call is one of as it says, or makes."""
        said: Any = self.call
        return max(said.tests or 1, self.at_once)

    @property
    def at_once(self) -> int:
        """How many tests the call makes."""
        return 1

    def against(
        self, tails: intervals.Tails, query: Query, threshold: int, shared: NoiseLaw | None = None
    ) -> forecast.TestForecast:
        """The bar of the call for what is tested; `shared` is the noise of values where it is that of the tests."""
        return forecast.TestForecast(
            tails, threshold, query.grid, self.tests, forecast.least_of(query, self.neighbor_relation), shared
        )


# Conditional release and its revisions: the noisy value if it is above the bar, otherwise nothing, free and held.

# A mean lies between the points of its grid; a bar for it is kept to a millionth of a step.
FINER: Final = 10**6


@call("release_if", subject="thresholds")
class ReleaseIf(Valued[Conditional]):
    """The noisy value if it is at or above the bar, otherwise nothing, which is free; see `Revise`.

    Guarantee: with `epsilon`, an epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2). The value
    costs no more than the bare answer "above"; an outcome below the bar becomes secret state. With `hits`, `price` or
    `within`, a `SharpTest` (see `ThresholdTest`), and at a hit an unbiased value with noise of its own; nothing is
    held, so there is nothing to revise.

    >>> from chary import count
    >>> ReleaseIf(count("smoker"), above=500, epsilon="0.02").epsilon
    Fraction(1, 50)
    """

    query: fields.AnyQuery

    def bind(self, spine: Spine) -> "AskReleaseIf | AskSharpRelease":
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is released above a bar by session.watch(query, above=..., hits=...)")
        neighbor_relation = spine.rows.neighbor_relation
        if self.epsilon is not None:
            return AskReleaseIf(self, neighbor_relation, partial(_revised, spine))
        tested, threshold = tested_query(self.query, neighbor_relation, exact(self.above, "above"))
        sharpness = self.sharpness(spine.filter, tested.sensitivity(neighbor_relation), tested.grid, self.value_share)
        return AskSharpRelease(self, neighbor_relation, sharpness, tested, threshold)


@dataclass(frozen=True)
class AskReleaseIf(Barring[ReleaseIf]):
    """The conditional release, as it is run."""

    reviser: Callable[..., Conditional] | None = field(default=None, compare=False, repr=False)
    decides = True

    @cached_property
    def asked(self) -> plan.Asked:
        """What follows from the question; refuses one that has no noise."""
        return _release_asked(self.call.query, self.neighbor_relation, self.call.above, self.call.epsilon or 0)

    @property
    def event(self) -> Event:
        return self.asked.event

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        query = self.call.query
        return None if isinstance(query, Mean) else (self.asked.noises[0], query.grid)

    @property
    def barred(self) -> forecast.TestForecast | None:
        if isinstance(self.call.query, Mean):
            return None
        law = self.asked.noises[0].law()
        return self.against(law, self.call.query, self.asked.threshold, shared=law)

    def body(self) -> plan.Json:
        return _body(self.call.query, self.call.above, self.call.epsilon or 0, self.asked.error_bar)

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, data: plan.Data) -> plan.Result:
        query, noisy = self.call.query, releases.noisy_parts(self.asked.noises, data)
        value, score = plan.natural(noisy[0], query.grid), noisy[0]
        if isinstance(query, Mean):
            value = query.combine(*noisy)
            score = math.floor(Fraction(value) / step_of(query))
        return settled(judge(value, score, self.asked.threshold))

    def present(self, answer: plan.Json, call: int) -> Conditional:
        told = None if answer["value"] is None or isinstance(self.call.query, Mean) else self.published()
        return Conditional(call, answer["value"], None, call, self.reviser, publication=told)

    def published(self) -> intervals.Publication:
        """A value is told from the bar on."""
        query, support = self.asked.parts[0], intervals.Support.at_least(self.asked.threshold)
        return published(self.asked.noises[0], query, self.neighbor_relation, support)


@lru_cache(maxsize=plan.KEPT)
def _release_asked(
    query: plan.Question, neighbor_relation: NeighborRelation, above: Fraction, epsilon: Fraction
) -> plan.Asked:
    """Refuses a question that has no noise."""
    drawn = releases.noises(query, neighbor_relation, epsilon=epsilon)
    bar = None if isinstance(query, Mean) else forecast.error_bar((drawn[0], query.grid))
    text = plan.ENCODER.encode(_body(query, above, epsilon, bar))
    threshold = plan.steps_at_least(above, step_of(query))
    return plan.Asked(releases.parts_of(query, neighbor_relation), drawn, Targeted(epsilon), text, threshold, bar)


def _body(query: plan.Question, above: Number, epsilon: Number, bar: float | None) -> plan.Json:
    """A revision knows nothing but what is written here."""
    return plan.threshold_body(query, above, epsilon) | {"grid": str(step_of(query)), "error_bar": bar}


def step_of(query: plan.Question) -> Fraction:
    """What scores and bars are counted in: the grid, or for a mean, which lies between its points, a millionth."""
    return query.grid / FINER if isinstance(query, Mean) else query.grid


def settled(outcome: Held | Published, replaces: int | None = None, below: int | None = None) -> plan.Result:
    """The public answer and the secret state after a conditional release, or after a revision of call `replaces`, whose
    last bar was `below`: what it published lies below that."""
    hit = isinstance(outcome, Published)
    secret = outcome.dump() if isinstance(outcome, Held) else None
    answer: plan.Json = {"value": outcome.value if hit else None}
    if replaces is None:
        return plan.Result(answer, hits=int(hit), tests=1, secret=secret)
    told = answer | ({"below": below} if hit else {})
    return plan.Result(told, hits=int(hit), tests=1, secrets={replaces: secret})


@call("revise", subject="thresholds")
class Revise(Call[Conditional]):
    """Lower the bar for the outcome held by an earlier conditional release, also after a restart; no data are read.

    Guarantee: an extension of the target of that call (`Extendable`, [TCT] Algorithm 2): the first call and all its
    revisions together hit at most once. It is charged like a hit of that call if it publishes now, and free where the
    first call was charged hit or miss, which paid for the outcome. Errors: `NotWithheld` when that call holds nothing,
    `InvalidParameter` when the bar is not below the last one tried.
    """

    held: fields.Whole
    _: KW_ONLY
    above: fields.Exact

    def plan(self, spine: Spine) -> Plan[Conditional]:
        original = earlier(spine, self.held, "release_if", "a conditional release")
        if "epsilon" not in original:
            raise NotWithheld(f"call {self.held} holds no outcome: a sharp test keeps none, only epsilon= does")
        return revision(self, original, spine.rows.neighbor_relation, partial(_revised, spine))


def revision(
    call: Revise,
    original: plan.Json,
    neighbor_relation: NeighborRelation,
    reviser: Callable[..., Conditional] | None = None,
) -> Plan[Conditional]:
    """The revision, as it is run; `original` is the public body of the call that holds the outcome."""
    grid = Fraction(original["grid"])
    threshold = plan.steps_at_least(call.above, grid)

    def check(secret: bytes) -> None:
        if threshold >= (floor := Held.load(secret).floor):
            raise InvalidParameter(
                f"a revision must lower the bar below the last one tried: give above less than "
                f"{plan.natural(floor, grid)}"
            )

    def run(data: plan.Data) -> plan.Result:
        held = Held.load(data.secret or b"")
        return settled(revise(held, threshold), replaces=call.held, below=held.floor)

    def told(below: int | None) -> intervals.Publication | None:
        """A value is told from this bar on, where it is below the last one tried."""
        query = query_of(current(original["query"]))
        if below is None or isinstance(query, Mean):
            return None
        noise = plan.laplace_for(query, neighbor_relation, original["epsilon"])
        return published(noise, query, neighbor_relation, intervals.Support.between(threshold, below))

    def present(answer: plan.Json, number: int) -> Conditional:
        # Answers of old ledgers do not say below which bar the value lay, so it says nothing by itself.
        publication = told(answer.get("below"))
        return Conditional(number, answer["value"], None, call.held, reviser, publication=publication)

    return widened(call, call.held, original, run, present, check)


def _revised(spine: Spine, held: int, *, above: Number, request: str | None = None) -> Conditional:
    return Revise(held, above=above).perform(spine, request)


# A conditional release by a sharp test: at a hit the value with noise of its own, otherwise nothing, free.


@dataclass(frozen=True)
class AskSharpRelease(Sharply, Barring[Any]):
    """The sharp test of `tested` against a threshold in steps, and at a hit a release of the query.

    The value is drawn for that purpose alone, so it is unbiased and its interval is an ordinary one; nothing is held.
    """

    sharpness: Sharpness
    tested: Query
    threshold: int

    @cached_property
    def noises(self) -> tuple[Additive, ...]:
        """The noise of each part of the value."""
        return releases.noises(self.call.query, self.neighbor_relation, epsilon=None, rho=self.sharpness.value_rho)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        drawn = self.noises
        return None if isinstance(self.call.query, Mean) else (drawn[0], self.call.query.grid)

    @property
    def barred(self) -> forecast.TestForecast | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(self.sharpness.tails, self.tested, self.threshold)

    def queries(self) -> Sequence[Query]:
        """The parts of the value, the last of which is tested; for a mean none of them is, but a sum after them."""
        parts = releases.parts_of(self.call.query, self.neighbor_relation)
        return (*parts, self.tested) if isinstance(self.call.query, Mean) else parts

    def run(self, data: plan.Data) -> plan.Result:
        above = data.integer(-1) - self.threshold + self.sharpness.bar
        if not self.sharpness.sampler.step(above, data.source):
            return plan.Result({"value": None}, hits=0, tests=1)
        noisy, query = releases.noisy_parts(self.noises, data), self.call.query
        value = query.combine(*noisy) if isinstance(query, Mean) else plan.natural(noisy[0], query.grid)
        return plan.Result({"value": value}, hits=1, tests=1)

    def present(self, answer: plan.Json, call: int) -> Conditional:
        told = None if isinstance(self.call.query, Mean) else self.published()
        return Conditional(call, answer["value"], forecast.error_bar(self.accuracy()), call, publication=told)

    def published(self) -> intervals.Publication:
        """A value with noise of its own, after a test against the bar."""
        return published(self.noises[0], self.tested, self.neighbor_relation, bar=self.threshold)


# Private tests, alone or over many keys: True and the published values are hits, False is free.


@dataclass(frozen=True)
class Tested(YesOrNo):
    """Whether the query is at or above the bar, up to noise; as a condition it is its `value`."""

    @property
    def hit(self) -> bool:
        return self.value


@call("test", subject="thresholds", name="test", raced=True)
class ThresholdTest(Threshold[Tested]):
    """Whether a query is at or above a threshold, up to noise: True is charged, False is free.

    Guarantee: with `epsilon`, one epsilon-DP call with the NotPrior target "True" ([TCT] section 4); otherwise
    `SharpTest` at the order of the session's filter. A mean is tested through the sum of its differences from the
    threshold, which needs no count. With `tests` the bar lies half way between false alarms and misses; without, a
    value at the bar hits with one half.

    >>> from chary import count
    >>> ThresholdTest(count("age >= 65"), above=500, epsilon="0.02").body()["above"]
    '500'
    """

    query: fields.AnyQuery

    def bind(self, spine: Spine) -> "AskTest | AskSharpTest":
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is tested by session.watch(query, above=..., hits=...)")
        neighbor_relation = spine.rows.neighbor_relation
        if self.epsilon is not None:
            return AskTest(self, neighbor_relation)
        tested, threshold = tested_query(self.query, neighbor_relation, exact(self.above, "above"))
        sharpness = self.sharpness(spine.filter, tested.sensitivity(neighbor_relation), tested.grid, Fraction(0))
        return AskSharpTest(self, neighbor_relation, sharpness, tested, threshold)


class AskTest(Barring[ThresholdTest]):
    """The test, as it is run."""

    decides = True

    @cached_property
    def asked(self) -> plan.Asked:
        """What follows from the question; refuses a mean that cannot be shifted, and noise out of range."""
        return _test_asked(self.call.query, self.neighbor_relation, self.call.above, self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        query = self.call.query
        return None if isinstance(query, Mean) else (self.asked.noises[0], query.grid)

    @property
    def barred(self) -> forecast.TestForecast | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(self.asked.noises[0].law(), self.call.query, self.asked.threshold)

    @property
    def event(self) -> Event:
        return self.asked.event

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, data: plan.Data) -> plan.Result:
        hit = BarTests(self.asked.noises[0], self.asked.threshold).reached(data.integer(), data.source)
        return plan.Result({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: plan.Json, call: int) -> Tested:
        return Tested(call, bool(answer["hit"]))


@dataclass(frozen=True)
class AskSharpTest(Sharply, Barring[ThresholdTest]):
    """The sharp test, as it is run: of one integer against a threshold in steps."""

    sharpness: Sharpness
    tested: Query
    threshold: int

    @property
    def bar_step(self) -> Fraction | None:
        return None if isinstance(self.call.query, Mean) else self.tested.grid

    @property
    def barred(self) -> forecast.TestForecast | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(self.sharpness.tails, self.tested, self.threshold)

    def queries(self) -> Sequence[Query]:
        return (self.tested,)

    def run(self, data: plan.Data) -> plan.Result:
        above = data.integer() - self.threshold + self.sharpness.bar
        hit = self.sharpness.sampler.step(above, data.source)
        return plan.Result({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: plan.Json, call: int) -> Tested:
        return Tested(call, bool(answer["hit"]))


@lru_cache(maxsize=plan.KEPT)
def _test_asked(
    query: plan.Question, neighbor_relation: NeighborRelation, above: Fraction, epsilon: Fraction
) -> plan.Asked:
    """Refuses a mean that cannot be shifted by this threshold, and noise out of range."""
    tested, threshold = tested_query(query, neighbor_relation, above)
    noises = (plan.laplace_for_each(tested, neighbor_relation, epsilon),)
    text = plan.ENCODER.encode(plan.threshold_body(query, above, epsilon))
    return plan.Asked((tested,), noises, Targeted(epsilon), text, threshold)


def tested_query(query: plan.Question, neighbor_relation: NeighborRelation, above: Fraction) -> tuple[Query, int]:
    """What is read instead of the question, and its threshold in steps."""
    if isinstance(query, Mean):
        query.parts(neighbor_relation)  # refuses a mean without a limit on rows, in the words of a mean
        return query.shifted(above), 0
    return query, plan.steps_at_least(above, query.grid)


# Many tests at once: one for each key of a query, in order and in one scan.


@call("watch", subject="thresholds")
class Watch(Valued[WatchResult]):
    """Test every key of a keyed query, in order and in one scan; keys that hit come with their noisy value.

    Guarantee: each key is an epsilon-DP call with the NotPrior target "published", or a `SharpTest` (see
    `ThresholdTest`) whose hit comes with a fresh value: Gaussian noise of its own, unbiased, for the part `value` of
    the price of a hit (a quarter). One unit can be in only so many keys (`max_groups_per_unit`,
    `assumed_groups_per_unit`, or all of them), and at most that many hits are charged (theory 1.6). When the budget
    cannot pay for that many, the watch halts at the last hit that fits; later keys are `untested`.

    >>> from chary import count
    >>> Watch(count().by("clinic", ["north", "south"]), above=500, epsilon="0.02").kind
    'watch'
    """

    query: fields.AnyQuery

    def bind(self, spine: Spine) -> "AskWatch | AskSharpWatch":
        neighbor_relation, query = spine.rows.neighbor_relation, keyed(self.query)
        if self.epsilon is not None:
            return AskWatch(self, neighbor_relation, query)
        sharpness = self.sharpness(spine.filter, query.sensitivity(neighbor_relation), query.grid, self.value_share)
        return AskSharpWatch(self, neighbor_relation, query, sharpness)


def keyed(query: plan.Question) -> Query:
    """The query if it can be watched: it has public keys and one value for each; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None:
        raise InvalidQuery(
            'watch needs a count, a sum or a series with public keys, such as count().by("clinic", ["a", "b"])'
        )
    return query


@dataclass(frozen=True)
class AskEachKey(Barring[Any]):
    """Many values against a bar, as they are tested: one test for each.

    The call has a bar `above` and says how sharply; `query` has the sensitivity, the grid and, if any, the keys.
    """

    query: Query
    halts = True

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbor_relation)

    @property
    def at_once(self) -> int:
        return len(self.query.keys or ())

    def body(self) -> plan.Json:
        return super().body() | {"parallel": self.parallel}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    @cached_property
    def threshold(self) -> int:
        """The bar in steps."""
        return plan.steps_at_least(self.call.above, self.query.grid)

    @abstractmethod
    def watch(self, most_hits: int | None) -> BarTests | SharpTests:
        """The tests of all keys."""

    def run(self, data: plan.Data) -> plan.Result:
        found = self.watch(data.most_hits).step(self.exact(data), data.source)
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        return plan.Result(answer, hits=len(found.positions), tests=found.tested)

    def exact(self, data: plan.Data) -> Integers:
        """What is tested, in order."""
        return data.integers()

    def present(self, answer: plan.Json, call: int) -> Any:
        keys = tuple(self.query.keys or ())
        values = [plan.natural(steps, self.query.grid) for steps in answer["noisy"]]
        above = {keys[position]: value for position, value in zip(answer["positions"], values, strict=True)}
        told = self.published()
        bar = None if told.bar is None else forecast.error_bar(self.accuracy())
        said = (call, self.query.columns, keys, above, answer["tested"], bar)
        return WatchResult(*said, publication=told, silence=self.silence)

    @property
    def silence(self) -> intervals.Silence:
        """What it says of a key that it did not hit."""
        return silent(self.tails, self.query, self.neighbor_relation, self.threshold)

    @property
    @abstractmethod
    def tails(self) -> intervals.Tails:
        """How often a test reports."""

    @abstractmethod
    def published(self) -> intervals.Publication:
        """How the values of hits were published: because of their noise, or with noise of their own."""


@dataclass(frozen=True)
class AskWatch(AskEachKey):
    """By Laplace noise, which is that of the value as well."""

    decides = True

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each key's value."""
        return plan.laplace_for_each(self.query, self.neighbor_relation, self.call.epsilon or 0)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    @property
    def tails(self) -> NoiseLaw:
        return self.noise.law()

    @property
    def barred(self) -> forecast.TestForecast:
        return self.against(self.tails, self.query, self.threshold, shared=self.tails)

    def watch(self, most_hits: int | None) -> BarTests:
        return BarTests(self.noise, self.threshold, most_hits)

    def published(self) -> intervals.Publication:
        return published(self.noise, self.query, self.neighbor_relation, intervals.Support.at_least(self.threshold))


@dataclass(frozen=True)
class AskSharpWatch(Sharply, AskEachKey):
    """By sharp tests, each hit with a fresh value."""

    sharpness: Sharpness

    @property
    def tails(self) -> sharp_tests.SharpTails:
        return self.sharpness.tails

    @property
    def barred(self) -> forecast.TestForecast:
        return self.against(self.tails, self.query, self.threshold)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def noise(self) -> Gaussian:
        """The noise of the value of a hit."""
        change = self.query.sensitivity(self.neighbor_relation)
        return Gaussian.for_rho(self.sharpness.value_rho or 0, l2_squared=change**2)

    def watch(self, most_hits: int | None) -> SharpTests:
        return SharpTests(self.sharpness.sampler, self.threshold - self.sharpness.bar, self.noise, most_hits)

    def published(self) -> intervals.Publication:
        return published(self.noise, self.query, self.neighbor_relation, bar=self.threshold)
