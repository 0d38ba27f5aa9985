"""Runs of threshold tests that are paid when they open: sparse vectors, and fixed numbers of tests, misses prepaid."""

import json
import math
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, Self, cast

from chary.accounting import Publication, events, intervals, sparse_vector
from chary.accounting.sharp_tests import LEAST_SPEED, SharpTest, least_price, sharp_table
from chary.accounting.sharp_widths import best_share, check_chance, half_width
from chary.amounts import Amount
from chary.answers import Key, Value
from chary.calls import answers, fields, run, thresholds
from chary.calls.call import call
from chary.calls.sharpness import SURE, Sharpness, TestLaw, chance_of_each, rho_of
from chary.core import forecast
from chary.core.plan import KEPT, Data, Json, PerHit, Plan, Question, Result, check_question, reading, steps_at_least
from chary.core.transaction import Spine
from chary.data import Mean, NeighborRelation, Neighbors, Query
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, RequestConflict
from chary.filters import Filter, Price, RenyiFilter
from chary.mechanisms import Gaussian, HiddenThreshold, OneSidedMachine, SparseVectorMachine
from chary.mechanisms.threshold_tests import Crossed, SharpSampler
from chary.numbers import Number, exact, failing, plain, whole

# The answers of sparse vectors.


@dataclass(frozen=True)
class SparseTest(answers.AboveOrNot):
    """Whether one question was above the threshold; its value where the sparse vector publishes values, else None.

    `hits_left` says how many hits were left after it. Nothing is charged, it was paid when the sparse vector was
    opened; a `hit` uses one up.
    """

    hits_left: int


@dataclass(frozen=True)
class SparseWatch(answers.TestedKeys):
    """The groups that were above the threshold of a sparse vector, in the order they were listed.

    `above` maps each group that hit to its noisy value, or to None where no values are published. The first `tested`
    groups were tested, the rest are `untested` because the hits were exhausted. `hits_left` hits were left after it.
    """

    hits_left: int
    also = "others_at_most error_bar hits_left"


# Sparse vector in a session: an opening that is charged once, whole, and questions that are free afterwards.

Form = Literal["one-sided", "tuned", "published"]
Machine = OneSidedMachine | SparseVectorMachine


@dataclass(frozen=True)
class SparseLaw:
    """The noise of a sparse vector, and the accuracy of its tests. All options of `call` are filled in.

    Counts are in steps of the grid of the call.
    """

    call: "SparseVector"
    neighbor_relation: NeighborRelation
    machine: Machine

    @property
    def grid(self) -> Fraction:
        """The common step of the questions."""
        return Fraction(self.call.grid)

    @cached_property
    def event(self) -> events.Event:
        """The event of all answers together."""
        if isinstance(self.machine, OneSidedMachine):
            return self.machine.event
        epsilon, delta = self.call.epsilon, self.call.delta
        return events.Approximate(epsilon, delta) if delta else events.Pure(epsilon)

    @property
    def error_bar(self) -> float | None:
        """The error bar of a published value; None where none are published."""
        noise = self.machine.answers
        return None if noise is None else forecast.error_bar((noise, self.grid))

    @property
    def tails(self) -> sparse_vector.SparseTails:
        """The probabilities with which one test hits."""
        return sparse_vector.SparseTails(self.machine.scaled)

    @property
    def thresholds(self) -> int:
        """The number of hidden thresholds that it may draw."""
        return self.machine.sizes.thresholds

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """The margin of this many tests, in the units of the questions; `published` for the published form."""
        call, published = self.call, None
        steps = self.machine.error_up(tests, confidence)
        if call.mechanism == "published":
            sizes: Json = {"epsilon": call.epsilon, "delta": call.delta, "hits": call.hits, "values": call.values}
            single = sparse_vector.published_error(**sizes, tests=tests, confidence=confidence)
            published = single * float(call.sensitivity)
        return forecast.Within(tests, float(confidence), float(steps * self.grid), published)

    def forecast(self) -> forecast.Forecast:
        """Truths are at least 0 where all questions are declared to be counts or sums of values from 0 on."""
        call, least = self.call, 0 if self.call.monotone else None
        bar, tests = steps_at_least(call.above, self.grid), call.tests or sparse_vector.USUAL_TESTS
        alarms = forecast.TestForecast(self.tails, bar, self.grid, tests, least, None, call.hits, bought=True)
        return forecast.Forecast(error_bar=self.error_bar, tests=alarms, within=self.within)

    def check(self, query: Question) -> None:
        """Refuse a question on another grid, of a larger sensitivity, or not monotone where that was declared."""
        if not isinstance(query, Query):
            raise InvalidQuery("a sparse vector tests counts, sums and series, such as count('age >= 65')")
        if (query.grid / self.grid).denominator != 1:
            raise InvalidQuery(
                f"the question has steps of {plain(query.grid)}: open the sparse vector with grid={plain(query.grid)}"
            )
        most = query.sensitivity(self.neighbor_relation) * query.grid
        if most > Fraction(self.call.sensitivity):
            raise InvalidQuery(
                f"one unit can move this question by {plain(most)}: open the sparse vector with "
                f"sensitivity={plain(most)}, which scales the noise of all its tests"
            )
        if self.call.monotone and query.contribution(self.neighbor_relation).low < 0:
            raise InvalidQuery(
                "this sum may move down when a unit is added, so it is not monotone: give it bounds from 0 on, or "
                "open the sparse vector with monotone=False"
            )

    def step(self, held: HiddenThreshold, query: Query, above: Number, data: Data) -> tuple[HiddenThreshold, Crossed]:
        """Test the values of a query in order."""
        values, multiple = data.integers(), int(query.grid / self.grid)
        if multiple != 1:
            values = values.astype(object) * multiple
        return self.machine.step(held, values, steps_at_least(above, self.grid), data.source)

    def published(self, query: Query, above: Number) -> intervals.Publication | None:
        """The publication of values, which have noise of their own; None where none are published."""
        if self.machine.answers is None:
            return None
        bar = steps_at_least(above, self.grid)
        return replace(answers.published(self.machine.answers, query, self.neighbor_relation, bar=bar), grid=self.grid)

    def silence(self, query: Query, above: Number) -> intervals.Silence:
        """What a missing hit says of a group."""
        bar = steps_at_least(above, self.grid)
        known = answers.silent(self.tails, query, self.neighbor_relation, bar)
        return replace(known, grid=self.grid, thresholds=self.thresholds)


# Sparse vectors as runs: opening one, asking it, and how accurate it is.


@dataclass(frozen=True)
class SparseState:
    """What is public of a sparse vector: `left` hits are left of those it was opened with."""

    law: SparseLaw = field(repr=False)
    left: int

    def accuracy(self, *, tests: int, confidence: Number = "0.95") -> forecast.Within:
        """The margin of this many tests from its opening on; nothing is read."""
        return self.law.within(whole(tests, "tests"), confidence)


class SparseRun(run.KeyedRun[SparseTest, SparseWatch, SparseState]):
    """`run.ask(query)`: is it at or above the threshold, up to noise? Of a grouped query each group in order, in one
    scan.

    Nothing is charged; a yes uses a hit. `above` moves the threshold for this question. A unit may be in any number of
    groups, since only how far it can move each single one matters. A grouped question ends at the last hit, and later
    groups are `untested`. Errors: `BudgetExceeded` when all hits are exhausted. `InvalidQuery` for a mean, another
    grid, a larger sensitivity or a question that is not monotone where that was declared."""

    kind = "sparse_vector"
    names = "sparse_vector"
    keeps = "threshold"
    most = "hits"
    questions = (run.AskedKind("sparse_test", publishes=True), run.AskedKind("sparse_watch", publishes=True))

    @cached_property
    def law(self) -> SparseLaw:
        """The noise it was opened with."""
        return SparseVector.recorded(self._terms).law(self._spine.rows.neighbor_relation)

    def plan(self, query: Question, *, above: Number | None = None) -> Plan[Any]:
        law, bar = self.law, exact(self.law.call.above if above is None else above, "above")
        grouped = isinstance(query, Query) and query.keys is not None
        asked = thresholds.keyed(query) if grouped else cast("Query", query)
        law.check(asked)
        keys = tuple(asked.keys or ((),))

        def ask(data: Data) -> Result:
            after, crossed = law.step(HiddenThreshold.load(data.secret or b""), asked, bar, data)
            found = {"tested": crossed.tested, "positions": crossed.positions, "values": crossed.values}
            answer = found | {"left": law.call.hits - after.used}
            return Result(answer, len(crossed.positions), crossed.tested, secrets={self.call: after.dump()})

        def shown(answer: Json) -> dict[Key, Value | None]:
            return answers.hit_values(keys, answer["positions"], answer["values"], law.grid)

        def one(answer: Json, number: int) -> SparseTest:
            hits, told = shown(answer), law.published(asked, bar)
            return SparseTest(number, bool(hits), hits.get(()), law.error_bar, answer["left"], publication=told)

        def table(answer: Json, number: int) -> SparseWatch:
            above, told = shown(answer), (answer["tested"], law.error_bar, answer["left"])
            published, silence = law.published(asked, bar), law.silence(asked, bar)
            return SparseWatch(number, asked.columns, keys, above, *told, publication=published, silence=silence)

        return self._plan(
            "sparse_watch" if grouped else "sparse_test",
            {"query": asked.body(), "above": str(bar)},
            law.event,
            ask,
            table if grouped else one,
            reads=reading(asked),
            forecast=lambda: forecast.Forecast(error_bar=law.error_bar),
            check=self._left,
        )

    def _left(self, held: bytes) -> None:
        hits = self.law.call.hits
        if HiddenThreshold.load(held).used >= hits:
            raise BudgetExceeded(
                f"all {hits} hits of the sparse vector of call {self.call} are used; another is opened, and "
                f"charged, by session.start(SparseVector(above=..., hits={hits}, epsilon=...))"
            )

    @property
    def state(self) -> SparseState:
        return SparseState(self.law, self.law.call.hits - HiddenThreshold.load(self._secret()).used)


@call("sparse_vector", subject="sparse")
class SparseVector(run.Opening[run.KeyedRun[SparseTest, SparseWatch, SparseState]]):
    """Test any number of queries against one noisy threshold, until `hits` of them were above it.

    Guarantee: epsilon-DP for all of it, charged now and whole; (epsilon, delta)-DP in the published form with a
    `delta`. Afterwards questions are free, also those that hit. `values` publishes a noisy value with each hit, for
    which part of epsilon is kept, with noise of its own. `mechanism` is one-sided by default. Its threshold is placed
    so that `tests` (default: 1,000) err least together, but any number may be asked. `monotone` says that adding a unit
    moves no question down, which halves the noise. It is the default under add/remove. Counts and sums of values from 0
    on are monotone, and others are refused. `sensitivity` is the largest change of a question by one unit, `grid` their
    common step. `Session.quote(..., tests=)` says how accurate it would be before it is paid.

    Errors: `InvalidParameter` for a form without a proof, `BudgetExceeded` if it does not fit.

    >>> SparseVector(above=500, hits=3, epsilon="0.1").hits
    3
    """

    _: KW_ONLY
    above: fields.Exact
    hits: fields.Whole
    epsilon: fields.Positive
    delta: fields.Exact = 0
    mechanism: Form | None = None
    monotone: fields.Flag | None = None
    values: fields.Flag = False
    sensitivity: fields.Positive = 1
    grid: fields.Positive = 1
    tests: fields.Whole | None = None

    def __post_init__(self) -> None:
        failing(self.delta)
        if self._form != "one-sided" and self.tests is not None:
            raise InvalidParameter(
                f"the {self._form} form has the same noise for any number of tests: leave tests= out"
            )
        if self._form == "one-sided" and self.delta:
            raise InvalidParameter('the one-sided form is pure: leave delta= out, or ask for mechanism="published"')

    @property
    def _form(self) -> Form:
        return self.mechanism or "one-sided"

    @classmethod
    def recorded(cls, body: Json) -> Self:
        """A stored body without a form is of the tuned one."""
        return super().recorded({"form": "tuned"} | body)

    def perform(self, spine: Spine, request: str | None = None) -> run.KeyedRun[SparseTest, SparseWatch, SparseState]:
        """Open it. A request without `mechanism` also finds an opening from when the tuned one was the default."""
        try:
            return super().perform(spine, request)
        except RequestConflict:
            if self.mechanism is not None:
                raise
            return replace(self, mechanism="tuned", tests=None).perform(spine, request)

    def law(self, neighbor_relation: NeighborRelation) -> SparseLaw:
        """The noise for these neighbours, with all options filled in.

        Errors: `InvalidParameter` for a form without a proof and noise out of range.
        """
        form, adds = self._form, neighbor_relation.neighbors is Neighbors.ADD_REMOVE
        if self.monotone and not adds:
            raise InvalidParameter("questions are monotone under add/remove only: leave monotone= out")
        monotone = adds and form != "published" if self.monotone is None else self.monotone
        tests = (self.tests or sparse_vector.USUAL_TESTS) if form == "one-sided" else None
        said = replace(self, mechanism=form, monotone=monotone, tests=tests)
        return SparseLaw(said, neighbor_relation, said._machine())

    def _machine(self) -> Machine:
        steps = Fraction(self.sensitivity) / Fraction(self.grid)
        if steps.denominator != 1:
            raise InvalidParameter("sensitivity must be a multiple of the grid")
        sizes: Json = {"epsilon": self.epsilon, "hits": self.hits, "values": self.values}
        sizes["monotone"] = bool(self.monotone)
        if self.mechanism in (None, "one-sided"):
            uneven = sparse_vector.one_sided_noise(**sizes, tests=self.tests or sparse_vector.USUAL_TESTS)
            return OneSidedMachine(uneven.scaled(int(steps)))
        form = cast("sparse_vector.Form", self.mechanism)
        noise = sparse_vector.sparse_noise(**sizes, delta=self.delta, form=form)
        return SparseVectorMachine(noise, int(steps))

    def plan(self, spine: Spine) -> Plan[Any]:
        law = self.law(spine.rows.neighbor_relation)
        return run.opening(
            law.call, spine, law.event, lambda data: law.machine.start(data.source).dump(), forecast=law.forecast
        )


# A fixed number of tests, whose misses are prepaid.

# The terms of a fixed number of optimal threshold tests: the cost of each miss and each hit, and the tests.


@dataclass(frozen=True)
class AgreedPlan:
    """The number of tests, of hits that fit together with all misses, and how the budget is divided among them.

    `main` is the budget in steps of the filter. `misses` is its fraction for misses, None for the best one; `value` is
    the fraction of a hit's cost for its value. With probability `confidence` all tests are right.
    """

    tests: int
    hits: int
    main: int
    misses: Fraction | None
    value: Fraction
    confidence: Fraction

    @property
    def chance(self) -> Fraction:
        """The probability of a false alarm, or of a miss, from where on a test counts as right."""
        return chance_of_each(self.confidence, self.tests)

    def charges(self, share: Fraction) -> "Charges":
        """Whole steps for each miss from this share, and for each hit from all that it leaves."""
        miss = int(share * self.main) // self.tests
        return Charges((self.main - miss * self.tests) // self.hits, miss)


@dataclass(frozen=True)
class Charges:
    """What is charged, in steps of the filter: a miss in advance, and a hit above that when it comes.

    A test that hits was paid a miss in advance, so its cost is the sum of both.
    """

    hit: int
    miss: int

    def of(self, filter_: RenyiFilter, value: Fraction) -> SharpTest:
        """The test that these charges buy, once the part `value` of the cost of a hit went to its value.

        `InvalidParameter` where the rest would be less than a miss.
        """
        hit, miss = Fraction(self.hit, filter_.steps), Fraction(self.miss, filter_.steps)
        return SharpTest(filter_.order, (hit + miss) * (1 - value), miss)

    def body(self) -> Json:
        """The charges as ledgers store them. They were found in floats, so they are never computed again."""
        return {"hit": self.hit, "miss": self.miss}


@dataclass(frozen=True)
class AgreedTerms:
    """A plan under a filter, with its charges."""

    plan: AgreedPlan
    charges: Charges
    filter: RenyiFilter

    @classmethod
    def planned(cls, plan: AgreedPlan, filter_: RenyiFilter) -> Self:
        """With the charges that follow from the plan; `InvalidParameter` where they buy no test."""
        return cls(plan, _charges(plan, filter_), filter_)

    @property
    def tests(self) -> int:
        """The number of tests that one unit can be in."""
        return self.plan.tests

    @property
    def event(self) -> SharpTest:
        """The event of a test, with the value of its hit."""
        return self.charges.of(self.filter, Fraction(0))

    @property
    def paid(self) -> Amount:
        """The charge for all misses."""
        return Amount(self.charges.miss).times(self.tests)

    def sharpness(self, sensitivity: int, grid: Fraction) -> Sharpness:
        """The test of values that one unit moves by this many steps."""
        return _sharpness(self, sensitivity, grid)

    def noise(self, sensitivity: int) -> Gaussian | None:
        """The noise of a hit's value; None where no values are published."""
        test = self.sharpness(1, Fraction(1))
        return None if test.value_rho is None else test.value_noise(sensitivity)

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """The margin of this many tests together, in sensitivities."""
        return self.sharpness(1, Fraction(1)).within(tests, confidence)


@lru_cache(maxsize=KEPT)
def _charges(plan: AgreedPlan, filter_: RenyiFilter) -> Charges:
    check_chance(plan.chance)

    def width(share: Fraction) -> float:
        try:
            test = plan.charges(share).of(filter_, plan.value)
            return half_width(test, float(plan.chance)) if _has_table(test) else math.inf
        except InvalidParameter:  # a cost at which a test says nothing
            return math.inf

    share = best_share(width) if plan.misses is None else plan.misses
    charges = plan.charges(share)
    if charges.hit == 0 or width(share) == math.inf:
        raise InvalidParameter(
            "the budget for each hit is too small for any test: fix fewer hits, or a smaller part for misses"
        )
    if share and charges.miss == 0:
        raise InvalidParameter("this part is too small to pay for misses: give a larger misses=, or misses=0")
    return charges


def _has_table(test: SharpTest) -> bool:
    return Fraction(test.price) >= least_price(Fraction(test.order), LEAST_SPEED)


@lru_cache(maxsize=KEPT)
def _sharpness(terms: AgreedTerms, sensitivity: int, grid: Fraction) -> Sharpness:
    filter_, value = terms.filter, terms.plan.value
    test = terms.charges.of(filter_, value)
    table = sharp_table(
        order=filter_.order, price=Fraction(test.price), miss_price=Fraction(test.miss_price), steps=sensitivity
    )
    rho = rho_of(Fraction(terms.event.price) * value, filter_.order) if value else None
    return Sharpness(terms.event, SharpSampler(table), table.bar(terms.plan.chance), rho, grid)


# Answers to a fixed number of tests, and the state: the number of tests that were used.


@dataclass(frozen=True)
class AgreedTest(answers.AboveOrNot):
    """Whether one question was at or above its threshold; `value` is that of a hit where the run publishes values, else
    None.

    `tests_left` is how many tests were left after it.
    """

    tests_left: int


@dataclass(frozen=True)
class AgreedWatch(answers.TestedKeys):
    """Which keys were at or above the threshold, with their values where the run publishes values, else None.

    A scan ends at the last hit that the budget can pay for: later keys are `untested`. `tests_left` is how many tests
    were left after it.
    """

    tests_left: int
    also = "others_at_most error_bar tests_left"


def used(tests: int) -> bytes:
    """The state of a run, of which all is public: how many of its tests were used."""
    return json.dumps([tests]).encode()


def used_up(state: bytes) -> int:
    """What `used` wrote."""
    (tests,) = json.loads(state)
    return int(tests)


# A run of an agreed number of optimal threshold tests: all their misses are paid at once, each hit when it comes.


@dataclass(frozen=True)
class AgreedState:
    """What is public of a run: how many of its `tests` are left.

    Shares of the whole budget: `misses` is what the opening was charged, `price_if_hit` what a hit is charged.
    """

    tests: int
    left: int
    misses: float
    price_if_hit: float
    terms: AgreedTerms = field(repr=False)

    def accuracy(self, *, tests: int | None = None, confidence: Number | None = None) -> forecast.Within:
        """The margin of this many tests together, in sensitivities (default: all that were opened, with confidence
        `confidence`)."""
        wanted = self.tests if tests is None else whole(tests, "tests")
        return self.terms.within(wanted, self.terms.plan.confidence if confidence is None else confidence)


@call("agreed_tests", subject="thresholds")
class PrepaidTests(run.Opening[run.KeyedRun[AgreedTest, AgreedWatch, AgreedState]]):
    """Open a run with a fixed number of tests. All misses are paid now and each hit when it comes, which makes the
    tests more accurate.

    Guarantee: each test is a `SharpTest` of these costs at the order of the session's filter. The opening is charged
    `tests` misses, and a hit what it costs above a miss. A test that is not asked stays paid. A grouped question uses
    as many tests as it has groups that one unit can be in, and no question is answered beyond `tests`. In the end open
    another run, or ask `ThresholdTest(..., hits=20)`, whose misses are free.

    `hits` sets the cost of a hit: this many hits and all misses fit into `part` of the whole budget (default: all of
    it). Further hits cost the same while the budget can pay for them. `misses` is the fraction of that part for misses
    (default: the one with the smallest margin). `value` publishes a fresh, unbiased value with each hit, for that
    fraction of its cost; without it, only yes or no is published. With probability `confidence` (0.95) all `tests`
    tests are right together, counting each group as one. They are right for values farther from their threshold than
    `session.quote(call).within`, in sensitivities. `run.state.accuracy(tests=)` returns this margin for more groups.
    The quote has the costs of each later hit and miss, too: `later_hit` and `later_miss`.

    Why hits are not paid beforehand: hits that never come would be lost, and they are most of the cost of a run. So
    other calls may take the budget that a hit needs. Then a test is refused unread, and it is not used. No other call
    can take the misses and the number of tests. To keep budget for hits, cap other analysts by `session.set_quota`.

    Errors: `InvalidParameter` for more hits than tests, and where so little is left for each hit that it says nothing.
    `NotPriced` under any but the Renyi filter. `BudgetExceeded` if the misses do not fit.

    >>> PrepaidTests(tests=10_000, hits=20, misses="0.2").tests
    10000
    """

    _: KW_ONLY
    tests: fields.Whole
    hits: fields.Whole
    part: fields.Probability | None = None
    misses: fields.Probability | None = None
    value: fields.Probability | None = None
    confidence: fields.Probability | None = None

    def __post_init__(self) -> None:
        if self.hits > self.tests:
            raise InvalidParameter("hits must be at most tests")

    def plan(self, spine: Spine) -> Plan[Any]:
        terms = self.terms(spine.filter)
        one = terms.sharpness(1, Fraction(1))  # refuses, before it is paid, what no question could be asked of
        price, later = Price(terms.paid, terms.paid), Price(Amount(terms.charges.hit), Amount(terms.charges.miss))

        def told() -> forecast.Forecast:
            """In sensitivities; each question brings its threshold."""
            alarms = forecast.TestForecast(one.tails, None, Fraction(1), terms.tests, bought=True)
            agreed = terms.within(terms.tests, terms.plan.confidence)
            return forecast.Forecast(tests=alarms, within=terms.within, foreseen=agreed, later=later)

        return run.opening(
            self,
            spine,
            terms.event,
            lambda data: used(0),
            answer=terms.charges.body(),
            cost=PerHit(adds_up=False, agreed=price),
            forecast=told,
        )

    def terms(self, filter_: Filter) -> AgreedTerms:
        """What each miss and each hit would cost under this filter, and the distribution of each test."""
        known = filter_.for_sharp_tests("start SparseVector(above=, hits=, epsilon=)")
        return AgreedTerms.planned(self.paid(known), known)

    def paid(self, filter_: Filter) -> AgreedPlan:
        """The plan of the run under this filter, in its steps."""
        main = (filter_.capacity if self.part is None else filter_.shares.cap(Fraction(self.part))).main
        misses = None if self.misses is None else Fraction(self.misses)
        return AgreedPlan(
            self.tests, self.hits, main, misses, Fraction(self.value or 0), Fraction(self.confidence or SURE)
        )


class PrepaidRun(run.KeyedRun[AgreedTest, AgreedWatch, AgreedState]):
    """`run.ask(query, above=500)`: is it at or above the threshold? Of a grouped query each group in order, in one
    scan.

    A miss is free, a hit is charged. A question uses as many tests as it has groups that one unit can be in. Errors:
    `BudgetExceeded` where fewer are left, or where a hit does not fit into the budget; neither uses any test.
    `InvalidQuery` for a mean where values are published. `ledger.SecretMoved` when other processes were faster several
    times: then nothing was published or charged, and the question may be asked again."""

    kind = "agreed_tests"
    names = "agreed_tests"
    keeps = "tests"
    most = "tests"
    questions = (run.AskedKind("agreed_test", publishes=True), run.AskedKind("agreed_watch", publishes=True))

    @cached_property
    def agreed(self) -> AgreedTerms:
        """The terms of the run, with the charges that the opening stored."""
        filter_ = self._spine.filter.for_sharp_tests("open another run")
        return AgreedTerms(PrepaidTests.recorded(self._terms).paid(filter_), Charges(**self._opening()), filter_)

    def plan(self, query: Question, *, above: Number) -> Plan[Any]:
        """One question to the run, or one for each group in order.

        Guarantee: each group is the test of the run's terms. Its miss was charged by the opening, for as many groups as
        one unit can be in. At most as many hits concern it (theory 1.6), and each is reserved before anything is read.
        The number of used tests is stored with the answer, in one transaction, and only if no other question was
        faster. Otherwise the transaction discards the outcome unseen. So no more tests are answered than were opened,
        whatever fails or races. A question that got no answer uses none.
        """
        check_question(query)
        grouped = query.keys is not None and thresholds.keyed(query) is not None
        terms, neighbor_relation, bar = self.agreed, self._spine.rows.neighbor_relation, exact(above, "above")
        if terms.plan.value and isinstance(query, Mean):
            raise InvalidQuery("a mean has no fresh value: ask its sum, or agree on tests without value=")
        tested, threshold = thresholds.tested_query(query, neighbor_relation, bar)
        change, parts = tested.sensitivity(neighbor_relation), tested.reach(neighbor_relation)
        test, noise = terms.sharpness(change, tested.grid), terms.noise(change)
        law = TestLaw.sharp(test, noise)
        error = law.error_bar(tested.grid)

        def check(held: bytes) -> None:
            left = terms.tests - used_up(held)
            if left < parts:
                raise BudgetExceeded(
                    f"{left} of the {terms.tests} tests of call {self.call} are left, and this query takes {parts}: "
                    "open another run, or ask a threshold test with hits=, whose misses are free"
                )

        def ask(data: Data) -> Result:
            found = law.machine(threshold, data.most_hits).step(data.integers(), data.source)
            after = used_up(data.secret or b"") + parts
            answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
            answer["tests_left"] = terms.tests - after
            return Result(answer, len(found.positions), found.tested, secrets={self.call: used(after)})

        def shown(answer: Json) -> tuple[tuple[Key, ...], dict[Key, Value | None], Publication | None]:
            keys, noisy = tuple(tested.keys or ((),)), None if noise is None else answer["noisy"]
            told = None if noise is None else law.published(tested, neighbor_relation, threshold)
            return keys, answers.hit_values(keys, answer["positions"], noisy, tested.grid), told

        def one(answer: Json, number: int) -> AgreedTest:
            _, hits, told = shown(answer)
            return AgreedTest(number, bool(hits), hits.get(()), error, answer["tests_left"], publication=told)

        def table(answer: Json, number: int) -> AgreedWatch:
            keys, hits, told = shown(answer)
            found = (hits, answer["tested"], error, answer["tests_left"])
            silence = answers.silent(law.tails, tested, neighbor_relation, threshold)
            return AgreedWatch(number, tested.columns, keys, *found, publication=told, silence=silence)

        def foretold() -> forecast.Forecast:
            tests, alarms = max(terms.tests, len(tested.keys or (None,))), None
            if not isinstance(query, Mean):
                least = forecast.least_of(tested, neighbor_relation)
                alarms = forecast.TestForecast(law.tails, threshold, tested.grid, tests, least)
            step = None if noise is None else test.grid
            agreed = test.within(terms.tests, terms.plan.confidence)
            return forecast.Forecast(error, False, step, law.wrong, alarms, law.within, agreed)

        return self._plan(
            "agreed_watch" if grouped else "agreed_test",
            {"query": query.body(), "above": str(bar), "parallel": parts},
            law.event,
            ask,
            table if grouped else one,
            reads=reading(tested),
            cost=PerHit(parts, halts=True, adds_up=False, agreed=Price(Amount(terms.charges.hit), Amount(0))),
            forecast=foretold,
            check=check,
        )

    @property
    def state(self) -> AgreedState:
        done = used_up(self._secret())
        terms, shares = self.agreed, self._spine.filter.shares
        paid, hit = shares.taken(terms.paid), shares.taken(Amount(terms.charges.hit))
        return AgreedState(terms.tests, terms.tests - done, paid, hit, terms)
