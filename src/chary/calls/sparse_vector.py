"""Sparse vectors: opening, questions and results."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from chary.accounting import events, intervals, sparse_vector
from chary.answers import Value
from chary.calls import fields, run, thresholds
from chary.calls.answers import AboveOrNot, TestedKeys, published, silent
from chary.calls.call import call
from chary.core import forecast, plan
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, Query
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotWithheld, RequestConflict
from chary.mechanisms import HiddenThreshold, OneSidedMachine, SparseVectorMachine
from chary.numbers import Number, exact, failing, plain, positive, whole

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
    """What a sparse vector found among keys, in the order they were listed.

    `above` maps each key that hit to its noisy value, or to None where no values are published; the first `tested` keys
    were tested, the rest are `untested` because the hits were used up. `hits_left` hits were left after it.
    """

    hits_left: int


# Sparse vector in a session: an opening that is charged once, whole, and questions that are free afterwards.

Form = Literal["one-sided", "tuned", "published"]
Machine = OneSidedMachine | SparseVectorMachine


@dataclass(frozen=True)
class OpenSparse(plan.Interaction):
    """Draw a hidden threshold against which questions are tested until `hits` of them were above.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP in the published form with a delta, for everything that is answered,
    charged at once. `monotone=None` becomes True where a form that uses it asks neighbours that add or remove a unit.
    Nothing is read. `sensitivity` is in the units of the questions, a whole number of steps of `grid`. `tests` is how
    many the one-sided form places its bar for. A body that names no form is of the tuned one.
    """

    neighbor_relation: NeighborRelation
    above: Number
    hits: int
    epsilon: Number
    delta: Number = 0
    form: Form = "tuned"
    monotone: bool | None = None
    values: bool = False
    sensitivity: Number = 1
    grid: Number = 1
    tests: int | None = None
    kind = "sparse_vector"

    def __post_init__(self) -> None:
        for name, check in (("above", exact), ("epsilon", positive), ("delta", exact), ("sensitivity", positive)):
            object.__setattr__(self, name, check(getattr(self, name), name))
        object.__setattr__(self, "grid", positive(self.grid, "grid"))
        whole(self.hits, "hits")
        failing(self.delta)
        self._check_form()
        if type(self.values) is not bool or type(self.monotone) not in (bool, type(None)):
            raise InvalidParameter("values is True or False, and so is monotone where it is given")
        adds = self.neighbor_relation.neighbors is Neighbors.ADD_REMOVE
        if self.monotone is None:
            object.__setattr__(self, "monotone", adds and self.form != "published")
        if self.monotone and not adds:
            raise InvalidParameter("questions are monotone under add/remove only: leave monotone= out")
        self.mechanism  # noqa: B018 - refuses a form without a proof and noise out of range

    def _check_form(self) -> None:
        if self.form not in get_args(Form):
            raise InvalidParameter(f"mechanism is one of {', '.join(get_args(Form))}")
        if self.form != "one-sided":
            if self.tests is not None:
                raise InvalidParameter(
                    f"the {self.form} form has the same noise for any number of tests: leave tests= out"
                )
            return
        if self.delta:
            raise InvalidParameter('the one-sided form is pure: leave delta= out, or ask for mechanism="published"')
        object.__setattr__(
            self, "tests", sparse_vector.USUAL_TESTS if self.tests is None else whole(self.tests, "tests")
        )

    @cached_property
    def mechanism(self) -> Machine:
        """The state machine, in steps of the grid."""
        steps = Fraction(self.sensitivity) / Fraction(self.grid)
        if steps.denominator != 1:
            raise InvalidParameter("sensitivity must be a whole number of steps of the grid")
        sizes: plan.Json = {
            "epsilon": self.epsilon,
            "hits": self.hits,
            "monotone": bool(self.monotone),
            "values": self.values,
        }
        if self.form == "one-sided":
            return OneSidedMachine(
                sparse_vector.one_sided_noise(**sizes, tests=self.tests or sparse_vector.USUAL_TESTS).scaled(int(steps))
            )
        return SparseVectorMachine(sparse_vector.sparse_noise(**sizes, delta=self.delta, form=self.form), int(steps))

    @cached_property
    def event(self) -> events.Event:
        if isinstance(self.mechanism, OneSidedMachine):
            return self.mechanism.event
        return events.Approximate(self.epsilon, self.delta) if self.delta else events.Pure(self.epsilon)

    @property
    def error_bar(self) -> float | None:
        answers = self.mechanism.answers
        return None if answers is None else forecast.error_bar((answers, Fraction(self.grid)))

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """In the units of the questions; `published` for the published form."""
        grid, published = Fraction(self.grid), None
        steps = self.mechanism.error_up(tests, confidence)
        if self.form == "published":
            sizes: plan.Json = {"epsilon": self.epsilon, "delta": self.delta, "hits": self.hits, "values": self.values}
            single = sparse_vector.published_error(**sizes, tests=tests, confidence=confidence)
            published = single * float(self.sensitivity)
        return forecast.Within(tests, float(confidence), float(steps * grid), published)

    @property
    def barred(self) -> forecast.TestForecast:
        """Truths are at least 0 where all questions are declared to be counts or sums of values from 0 on."""
        bar, least = plan.steps_at_least(self.above, Fraction(self.grid)), 0 if self.monotone else None
        tests = self.tests or sparse_vector.USUAL_TESTS
        return forecast.TestForecast(self.tails, bar, Fraction(self.grid), tests, least, None, self.hits, bought=True)

    @property
    def tails(self) -> sparse_vector.SparseTails:
        """How often one test reports, in steps of the grid."""
        noise = self.mechanism.sizes
        return sparse_vector.SparseTails(
            noise if isinstance(noise, sparse_vector.OneSidedNoise) else noise.scaled(self.mechanism.sensitivity)
        )

    @property
    def thresholds(self) -> int:
        """How many hidden thresholds it may draw."""
        noise = self.mechanism.sizes
        return 1 if isinstance(noise, sparse_vector.OneSidedNoise) else noise.thresholds

    def body(self) -> plan.Json:
        sizes = {name: str(getattr(self, name)) for name in ("above", "epsilon", "delta", "sensitivity", "grid")}
        planned = {} if self.tests is None else {"tests": self.tests}
        return (
            sizes
            | planned
            | {
                "hits": self.hits,
                "form": self.form,
                "monotone": self.monotone,
                "values": self.values,
            }
        )

    @classmethod
    def of_body(cls, body: plan.Json, neighbor_relation: NeighborRelation) -> "OpenSparse":
        """The opening that a body describes."""
        return cls(neighbor_relation, **body)

    def queries(self) -> Sequence[Query]:
        return ()

    def run(self, data: plan.Data) -> plan.Result:
        return plan.Result({}, hits=0, tests=0, secret=self.mechanism.start(data.source).dump())

    def present(self, answer: plan.Json, call: int) -> int:
        return call


@dataclass(frozen=True)
class AskSparse(plan.Paid):
    """One question, or one for each key in order, against the hidden threshold of an open sparse vector.

    Guarantee: nothing is charged, it was paid when the sparse vector was opened. A unit may count in every key: only
    how far it can move each single one matters. An outcome against a threshold that moved meanwhile is thrown away by
    the spine, unseen.
    """

    opened: int
    started: OpenSparse
    query: Query
    above: Number
    kind = "sparse_ask"

    def __post_init__(self) -> None:
        object.__setattr__(self, "above", exact(self.above, "above"))
        if not isinstance(self.query, Query):
            raise InvalidQuery("a sparse vector tests counts, sums and series, such as count('age >= 65')")
        self._check_grid()
        self._check_sensitivity()
        if self.started.monotone and self.query.contribution(self.started.neighbor_relation).low < 0:
            raise InvalidQuery(
                "this sum may move down when a unit is added, so it is not monotone: give it bounds from 0 on, or "
                "open the sparse vector with monotone=False"
            )

    def _check_grid(self) -> None:
        if self._multiple.denominator != 1:
            raise InvalidQuery(
                f"the question has steps of {plain(self.query.grid)}: open the sparse vector with "
                f"grid={plain(self.query.grid)}"
            )

    def _check_sensitivity(self) -> None:
        most = self.query.sensitivity(self.started.neighbor_relation) * self.query.grid
        if most > Fraction(self.started.sensitivity):
            raise InvalidQuery(
                f"one unit can move this question by {plain(most)}: open the sparse vector with "
                f"sensitivity={plain(most)}, which scales the noise of all its tests"
            )

    @property
    def _multiple(self) -> Fraction:
        return self.query.grid / Fraction(self.started.grid)

    @property
    def event(self) -> events.Event:
        return self.started.event

    @property
    def error_bar(self) -> float | None:
        return self.started.error_bar

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise NotWithheld(f"call {self.opened} keeps no threshold: it was interrupted; open a new sparse vector")
        hits = self.started.hits
        if HiddenThreshold.load(secret).used >= hits:
            raise BudgetExceeded(
                f"all {hits} hits of the sparse vector of call {self.opened} are used up; another is opened, and "
                f"charged, by session.start(SparseVector(above=..., hits={hits}, epsilon=...))"
            )

    def body(self) -> plan.Json:
        return {"sparse_vector": self.opened, "query": self.query.body(), "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, data: plan.Data) -> plan.Result:
        machine, state = self.started.mechanism, HiddenThreshold.load(data.secret or b"")
        values, multiple = data.integers(), int(self._multiple)
        if multiple != 1:
            values = values.astype(object) * multiple
        bar = plan.steps_at_least(self.above, Fraction(self.started.grid))
        after, crossed = machine.step(state, values, bar, data.source)
        left = self.started.hits - after.used
        answer = {"tested": crossed.tested, "positions": crossed.positions, "values": crossed.values, "left": left}
        return plan.Result(answer, len(crossed.positions), crossed.tested, secrets={self.opened: after.dump()})

    @property
    def published(self) -> intervals.Publication | None:
        """How the values of hits were published, with noise of their own; None where none are."""
        answers, grid = self.started.mechanism.answers, Fraction(self.started.grid)
        if answers is None:
            return None
        bar = plan.steps_at_least(self.above, grid)
        return replace(published(answers, self.query, self.started.neighbor_relation, bar=bar), grid=grid)

    def _values(self, answer: plan.Json) -> list[Value | None]:
        noisy = answer["values"]
        if noisy is None:
            return [None] * len(answer["positions"])
        return [plan.natural(steps, Fraction(self.started.grid)) for steps in noisy]


class AskSparseOnce(AskSparse):
    """A question with a single answer."""

    kind = "sparse_test"

    def present(self, answer: plan.Json, call: int) -> SparseTest:
        values = self._values(answer)
        value, bar = values[0] if values else None, self.started.error_bar
        return SparseTest(call, bool(values), value, bar, answer["left"], publication=self.published)


class AskSparseKeys(AskSparse):
    """A keyed question, in one scan."""

    kind = "sparse_watch"

    def __post_init__(self) -> None:
        thresholds.keyed(self.query)
        super().__post_init__()

    def present(self, answer: plan.Json, call: int) -> SparseWatch:
        keys = tuple(self.query.keys or ())
        found = [keys[position] for position in answer["positions"]]
        above = dict(zip(found, self._values(answer), strict=True))
        told = (answer["tested"], self.started.error_bar, answer["left"])
        return SparseWatch(
            call, self.query.columns, keys, above, *told, publication=self.published, silence=self.silence
        )

    @property
    def silence(self) -> intervals.Silence:
        """What it says of a key that it was not above."""
        started, grid = self.started, Fraction(self.started.grid)
        known = silent(started.tails, self.query, started.neighbor_relation, plan.steps_at_least(self.above, grid))
        return replace(known, grid=grid, thresholds=started.thresholds)


# Sparse vectors as runs: opening one, asking it, and how accurate it is.


@dataclass(frozen=True)
class SparseState:
    """What is public of a sparse vector: `left` hits are left of those it was opened with."""

    started: OpenSparse
    left: int

    def accuracy(self, *, tests: int, confidence: Number = "0.95") -> forecast.Within:
        """How far off it may be over so many tests from its opening on; nothing is read."""
        return self.started.within(whole(tests, "tests"), confidence)


class SparseRun(run.KeyedRun[SparseTest, SparseWatch, SparseState]):
    """`run.ask(query)`: is it at or above the threshold, up to noise? Of a keyed query each key in order, in one scan.

    Nothing is charged; a yes uses up a hit. `above` moves the threshold for this question. A unit may be in any number
    of keys; a keyed question ends at the last hit, and later keys are `untested`. Errors: `BudgetExceeded` when all
    hits are used up, `InvalidQuery` for a mean, another grid, a larger sensitivity or a question that is not monotone
    where that was declared."""

    kind = OpenSparse.kind
    names = "sparse_vector"

    @cached_property
    def started(self) -> OpenSparse:
        """The opening."""
        return OpenSparse.of_body(self._terms, self._spine.rows.neighbor_relation)

    def plan(self, query: plan.Question, *, above: Number | None = None) -> AskSparse:
        asked: Any = query
        kind = AskSparseKeys if isinstance(query, Query) and query.keys is not None else AskSparseOnce
        return kind(self.call, self.started, asked, self.started.above if above is None else above)

    @property
    def state(self) -> SparseState:
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise NotWithheld(f"call {self.call} keeps no threshold: it was interrupted; open a new sparse vector")
        return SparseState(self.started, self.started.hits - HiddenThreshold.load(secret).used)


@call("sparse_vector", subject="sparse")
class SparseVector(run.Opening[run.KeyedRun[SparseTest, SparseWatch, SparseState]]):
    """Test any number of questions against one hidden threshold, until `hits` of them were above it.

    Guarantee: epsilon-DP for all of it, charged now and whole; (epsilon, delta)-DP in the published form with a
    `delta`. Afterwards questions are free, also those that hit. `values` publishes a noisy value with each hit, for
    which part of epsilon is kept, with noise of its own. `mechanism` is one-sided where none is said; its bar is placed
    so that `tests` (1,000 where none are said) err least together, but any number may be asked. `monotone` says that
    adding a unit moves no question down, which halves the noise: it is the default under add/remove, counts and sums
    of values from 0 on are, and others are refused. `sensitivity` is how far one unit may move a question, `grid` their
    common step. How accurate it would be, before it is paid: `Session.quote(..., tests=)`.

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

    def perform(self, spine: Spine, request: str | None = None) -> run.KeyedRun[SparseTest, SparseWatch, SparseState]:
        """Open it; a request that says no mechanism finds one opened when the tuned one was what that meant."""
        try:
            return super().perform(spine, request)
        except RequestConflict:
            if self.mechanism is not None:
                raise
            return replace(self, mechanism="tuned", tests=None).perform(spine, request)

    def bind(self, spine: Spine) -> OpenSparse:
        form = "one-sided" if self.mechanism is None else self.mechanism
        sizes = (self.delta, form, self.monotone, self.values, self.sensitivity, self.grid, self.tests)
        return OpenSparse(spine.rows.neighbor_relation, self.above, self.hits, self.epsilon, *sizes)
