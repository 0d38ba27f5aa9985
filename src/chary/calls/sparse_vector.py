"""Sparse vectors: opening, questions and results."""

from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self, cast

from chary.accounting import events, intervals, sparse_vector
from chary.answers import Value
from chary.calls import fields, run, thresholds
from chary.calls.answers import AboveOrNot, TestedKeys, published, silent
from chary.calls.call import call
from chary.core import forecast
from chary.core.plan import Data, Json, Plan, Question, Result, natural, reading, steps_at_least
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, Query
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, RequestConflict
from chary.mechanisms import HiddenThreshold, OneSidedMachine, SparseVectorMachine
from chary.mechanisms.threshold_tests import Crossed
from chary.numbers import Number, exact, failing, plain, whole

# What sparse vectors hand out: public answers.


@dataclass(frozen=True)
class SparseTest(AboveOrNot):
    """Whether one question was above the threshold; its value where the sparse vector publishes values, else None.

    `hits_left` says how many hits were left after it. Nothing is charged, it was paid when the sparse vector was
    opened; a `hit` uses one up.
    """

    hits_left: int


@dataclass(frozen=True)
class SparseWatch(TestedKeys):
    """What a sparse vector found among groups, in the order they were listed.

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
    """The noise of a sparse vector whose call says everything, and what can be said of its tests.

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
        """What everything that is answered may reveal."""
        if isinstance(self.machine, OneSidedMachine):
            return self.machine.event
        epsilon, delta = self.call.epsilon, self.call.delta
        return events.Approximate(epsilon, delta) if delta else events.Pure(epsilon)

    @property
    def error_bar(self) -> float | None:
        """That of a published value; None where none are published."""
        answers = self.machine.answers
        return None if answers is None else forecast.error_bar((answers, self.grid))

    @property
    def tails(self) -> sparse_vector.SparseTails:
        """How often one test reports."""
        return sparse_vector.SparseTails(self.machine.scaled)

    @property
    def thresholds(self) -> int:
        """How many hidden thresholds it may draw."""
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
        """Refuse what cannot be asked: another grid, a larger sensitivity, what may move down where none may."""
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
        """How the values of hits are published, with noise of their own; None where none are."""
        if self.machine.answers is None:
            return None
        bar = steps_at_least(above, self.grid)
        return replace(published(self.machine.answers, query, self.neighbor_relation, bar=bar), grid=self.grid)

    def silence(self, query: Query, above: Number) -> intervals.Silence:
        """What it says of a group that it was not above."""
        bar = steps_at_least(above, self.grid)
        known = silent(self.tails, query, self.neighbor_relation, bar)
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

        def ask(data: Data) -> Result:
            after, crossed = law.step(HiddenThreshold.load(data.secret or b""), asked, bar, data)
            found = {"tested": crossed.tested, "positions": crossed.positions, "values": crossed.values}
            answer = found | {"left": law.call.hits - after.used}
            return Result(answer, len(crossed.positions), crossed.tested, secrets={self.call: after.dump()})

        def one(answer: Json, number: int) -> SparseTest:
            (value, *_) = (*self._values(answer), None)
            told, left = law.published(asked, bar), answer["left"]
            return SparseTest(number, bool(answer["positions"]), value, law.error_bar, left, publication=told)

        def table(answer: Json, number: int) -> SparseWatch:
            keys = tuple(asked.keys or ())
            above = dict(zip((keys[place] for place in answer["positions"]), self._values(answer), strict=True))
            told = (answer["tested"], law.error_bar, answer["left"])
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

    def _values(self, answer: Json) -> list[Value | None]:
        noisy = answer["values"]
        if noisy is None:
            return [None] * len(answer["positions"])
        return [natural(steps, self.law.grid) for steps in noisy]

    @property
    def state(self) -> SparseState:
        return SparseState(self.law, self.law.call.hits - HiddenThreshold.load(self._secret()).used)


@call("sparse_vector", subject="sparse")
class SparseVector(run.Opening[run.KeyedRun[SparseTest, SparseWatch, SparseState]]):
    """Test any number of questions against one hidden threshold, until `hits` of them were above it.

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
        """A body that names no form is of the tuned one."""
        return super().recorded({"form": "tuned"} | body)

    def perform(self, spine: Spine, request: str | None = None) -> run.KeyedRun[SparseTest, SparseWatch, SparseState]:
        """Open it; a request that says no mechanism finds one opened when the tuned one was what that meant."""
        try:
            return super().perform(spine, request)
        except RequestConflict:
            if self.mechanism is not None:
                raise
            return replace(self, mechanism="tuned", tests=None).perform(spine, request)

    def law(self, neighbor_relation: NeighborRelation) -> SparseLaw:
        """The noise for these neighbours, of the same call with everything said.

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
