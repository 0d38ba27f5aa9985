"""Schedules: an algorithm that is computed again whenever the data has grown enough."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from chary.accounting import Event, ZeroConcentrated, zero_concentrated_rho_down
from chary.accounting.schedules import EpochRuns, EveryRun, Law, ScheduleRuns, best_growth, runs_of_body
from chary.answers import Answer, Ends
from chary.calls.call import call
from chary.calls.fields import FieldType, Positive, Probability, described
from chary.calls.releases import Release
from chary.calls.run import AskedKind, Opening, Run, RunKind, opening
from chary.core.plan import Data, Json, Plan, Result
from chary.core.transaction import AnswerLog, Spine
from chary.data import NeighborRelation, Reading, Rows
from chary.data.series import public_size
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.numbers import Number, whole

# A static private algorithm as a black box, and its prepaid runs on a growing database.

FIRST = 0


class NothingDue(InvalidParameter):
    """The database has not grown enough for another run."""


class RunTaken(InvalidParameter):
    """Another process has done this run meanwhile."""


class BlackBox(ABC):
    """A static private algorithm for any epsilon, with a declared accuracy bound."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """The accuracy bound."""

    @property
    def laws(self) -> Sequence[Law]:
        """The accuracy bounds of this version and of earlier ones. A schedule that was opened under an earlier bound
        goes on, and both bounds hold for it."""
        return [self.law]

    @abstractmethod
    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        """The plan of one run, epsilon-DP (in a schedule with rho=, also epsilon^2/2-zCDP)."""

    def of_run(self, run: int) -> "BlackBox":
        """The black box of this run: the same one, unless it says otherwise."""
        return self

    @property
    def changes(self) -> tuple[int, ...]:
        """The runs with which another one begins; the first run is one of them."""
        return (FIRST,)

    def body(self, neighbor_relation: NeighborRelation) -> Json:
        """The body that identifies the black box: that of its call at epsilon 1."""
        body: Json = json.loads(self.plan(Fraction(1), neighbor_relation).body)
        return body


@dataclass(frozen=True)
class ScheduledRun(Answer):
    """One run: its number, the public size at which it was done, its epsilon, and the answer of the black box.

    `failed`: a user's algorithm raised, or returned no outcome; the run is exhausted and `answer` is None. `value` and
    `interval` are those of the answer.
    """

    run: int
    size: int
    epsilon: Fraction
    answer: Any
    failed: bool = False

    @property
    def value(self) -> Any:
        """The value of the black box's answer."""
        return self.answer.value if isinstance(self.answer, Answer) else self.answer

    @property
    def interval(self) -> Ends | None:
        return self.answer.interval if isinstance(self.answer, Answer) else None


def run_of(box: BlackBox, neighbor_relation: NeighborRelation, runs: ScheduleRuns, first: int, last: int) -> Plan[Any]:
    """The plan of a run with the fractions of runs `first` to `last`; refuses one that costs more than these."""
    epsilon = runs.epsilon_down(first, last)
    made = box.of_run(last).plan(epsilon, neighbor_relation)
    if made.state is not None or made.cost.parts != 1 or made.event.delta or not _within(made.event, epsilon, runs):
        rooted = isinstance(runs.event, ZeroConcentrated)
        instead = ", nor epsilon^2/2-zCDP" if rooted else "; Gaussian noise is for schedules with rho="
        raise InvalidParameter(
            f"this black box made a call that is not epsilon-DP for the epsilon it was given{instead}"
        )
    return made


def _within(event: Event, epsilon: Fraction, runs: ScheduleRuns) -> bool:
    if event.epsilon is not None:
        return event.epsilon <= epsilon
    if not isinstance(event, ZeroConcentrated) or not isinstance(runs.event, ZeroConcentrated):
        return False
    return 2 * Fraction(event.rho) <= epsilon**2


# The public state of a schedule: the runs that were done, and those to come.


@dataclass(frozen=True)
class PlannedRun:
    """One run of a schedule: the size at which it is done, its epsilon, and its error by the accuracy bound.

    The error holds with probability `1 - failure`; `staleness` comes on top, until the next run, for what is an average
    over rows.
    """

    run: int
    size: int
    epsilon: float
    failure: float
    error: float
    staleness: float


class ScheduleState:
    """What is public of a schedule: its planned runs, the answers so far, and the run that is due."""

    def __init__(
        self,
        spine: Spine,
        box: BlackBox,
        opened: tuple[ScheduleRuns, Law],
        first: Callable[[], int],
        told: AnswerLog[ScheduledRun],
    ) -> None:
        self.runs, self.law = opened
        self._spine, self._box, self._first, self._told = spine, box, first, told

    @property
    def due(self) -> int | None:
        """The run that would be done now, by the public size; None if none is due."""
        first, last = self._first(), self.runs.last(public_size(self._spine.rows))
        return None if last is None or last < first else last

    @property
    def results(self) -> list[ScheduledRun]:
        """All runs that were done, oldest first, from the ledger."""
        return self._told.all()

    @property
    def latest(self) -> ScheduledRun | None:
        """The last run that did not fail, which serves until the next one. None before the first."""
        done = [result for result in self._told.all() if not result.failed]
        return done[-1] if done else None

    def table(self, runs: int = 10, *, first: int = FIRST, batch: int | None = None) -> list[PlannedRun]:
        """This many runs from the number `first` on; nothing is read.

        With `batch`, it returns those that are done where `batch` rows come at a time after the opening, and runs are
        asked for after each. A run at the size that its batch reached takes the fractions of all that it outgrew.
        `staleness` is then that before the batch which brings the next run.
        """
        number, table = whole(first, "first", least=0), list[PlannedRun]()
        for _ in range(whole(runs, "runs")):
            table.append(self._planned(number) if batch is None else self._foreseen(number, whole(batch, "batch")))
            number = table[-1].run + 1
        return table

    def at(self, size: int) -> PlannedRun | None:
        """The run that serves a database of this size; None before the first."""
        run = self.runs.last(whole(size, "size"))
        return None if run is None else self._planned(run)

    def _planned(self, run: int) -> PlannedRun:
        return self._told_of(run, run, self.runs.size(run), self.runs.staleness)

    def _foreseen(self, first: int, batch: int) -> PlannedRun:
        """The run that is done when the batch comes with which this one is due."""
        size = self._reached(first, batch)
        last = max(first, self.runs.last(size) or FIRST)
        return self._told_of(first, last, size, 1 - size / (self._reached(last + 1, batch) - batch))

    def _reached(self, run: int, batch: int) -> int:
        """The number of rows after the first batch with which this run is due."""
        return self.runs.start - (self.runs.start - self.runs.size(run)) // batch * batch

    def _told_of(self, first: int, run: int, size: int, staleness: float) -> PlannedRun:
        """A run at this size that takes the proportions from `first` on."""
        epsilon, failure = self.runs.epsilon_down(first, run), self.runs.failure(run)
        error = self.runs.error(self._box.of_run(run).law, run, first=first, size=size)
        return PlannedRun(run, size, float(epsilon), float(failure), error, staleness)


# Static private algorithms on a growing database: rerun as it grows, for ever, for one cost paid at the start.

# Between two runs the last answer serves ten times the rows it is about, at most.
MOST_GROWTH = 9
Box = Annotated[
    BlackBox,
    FieldType(
        lambda box, _: _box(box),
        described("object", "A black box; it cannot be read from JSON."),
        "",
        write=lambda box: box.law.body(),
    ),
]


@call("schedule", subject="growing", typed=False)
class Rerun(Opening[Run[ScheduledRun | None, ScheduleState]]):
    """Run a static private algorithm again whenever the dataset has grown enough, for ever. It is charged once, now.

    Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta, much more accurate), for all runs together. `epsilon`
    with a `delta` means the largest rho that is (epsilon, delta)-DP, and that rho is charged. With probability `1 -
    beta` all runs keep the errors of the black box's accuracy bound. By default it is rerun when the number of rows has
    grown by the factor `1 + growth` (at most 10; BBScheduler, [GROW] Algorithm 1). The factor with the least error is
    taken if it is left out. `exponent`, such as 0.1, with rho reruns it at every size, with errors that fall as the
    data grow (BBImprover, Algorithm 2). `chary.growth.ChangingBox` changes the algorithm, or its queries.

    The dataset must be one of rows that are units, one of which is replaced, so that its size is public. Where the
    session follows it (`start(..., follow=True)`), `session.append` does what is due, and so does the start. After a
    restart `session.resume(call, bring=box)` goes on: bring the same black box.

    Errors: `InvalidQuery` for a dataset of secret size, `InvalidParameter` for a black box that is not epsilon-DP
    at the epsilon it is given, `NotPriced` for rho without a delta.
    """

    box: Box
    _: KW_ONLY
    beta: Probability
    epsilon: Positive | None = None
    rho: Positive | None = None
    growth: Positive | None = None
    exponent: Positive | None = None
    delta: Probability | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.delta is not None and self.epsilon is None):
            raise InvalidParameter(
                "give the budget of all runs together as one of epsilon=, epsilon= with delta=, and rho="
            )
        pure = self.rho is None and self.delta is None
        if self.exponent is not None and (self.growth is not None or pure):
            raise InvalidParameter(
                "a run at every size has an exponent= and a rho=, or epsilon= with delta=, no growth="
            )
        if Fraction(self.growth or 0) > MOST_GROWTH:
            raise InvalidParameter(
                "growth is a fraction of at most 9: 0.1 = 10 %, rerun when there are 1.1 times the rows"
            )

    def plan(self, spine: Spine) -> Plan[Any]:
        neighbor_relation, runs = spine.rows.neighbor_relation, self.runs(public_size(spine.rows))
        made = [run_of(self.box, neighbor_relation, runs, run, run) for run in self.box.changes]

        def checked(rows: Rows) -> Sequence[Reading]:
            for each in made:
                each.reads(rows)
            return ()

        told = self.question_body()
        law: Json = told.pop("box")
        body = {"black_box": self.box.body(neighbor_relation), "law": law} | told
        start = str(FIRST).encode()
        return opening(self, spine, runs.event, lambda data: start, body=body, answer=runs.body(), reads=checked)

    def brought(self) -> BlackBox:
        return self.box

    def runs(self, size: int) -> ScheduleRuns:
        """The schedule from this size on."""
        start, sizes = whole(size, "the number of rows at the start"), self._sizes()
        if "exponent" in sizes:
            return EveryRun(start=start, beta=self.beta, **sizes)
        total: dict[str, Any] = {name: size for name, size in sizes.items() if name != "growth"}
        law = self.box.law
        growth = self.growth or best_growth(law, start=start, beta=self.beta, **total)
        return EpochRuns(start=start, growth=growth, beta=self.beta, fall=law.fall, logs=law.logs, **total)

    def _sizes(self) -> dict[str, Number]:
        """The given options of cost and growth. A default is not filled in: it depends on the size at the opening."""
        names = ("epsilon", "rho", "growth", "exponent")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.delta is None:
            return said
        rho = zero_concentrated_rho_down(epsilon=Fraction(said.pop("epsilon")), delta=Fraction(self.delta))
        return said | {"rho": rho}


class ScheduleRun(RunKind[ScheduledRun | None, ScheduleState]):
    """`run.ask()`: do the run that is due; None if none is. Nothing is charged.

    When the database has outgrown several runs at once, only the last of them is done, with the proportions of all.
    Each run is done at most once, whatever processes and restarts there are. Errors: `NotWithheld` for an opening that
    was interrupted."""

    kind = Rerun.kind
    names = "schedule"
    keeps = "schedule"
    questions = (AskedKind("scheduled_run", again=True, prepaid=True, title="Scheduled run"),)

    @cached_property
    def state(self) -> ScheduleState:
        box, runs = self._box, runs_of_body(self._opening())
        began = next(law for law in box.laws if law.body() == self._terms["law"])
        told = self._answered("scheduled_run", self._present)
        return ScheduleState(self._spine, box, (runs, box.law.either(began)), self._first, told)

    @cached_property
    def _box(self) -> BlackBox:
        box = self._brought
        if not isinstance(box, BlackBox):
            raise InvalidParameter(f"bring the black box again: session.resume({self.call}, bring=box)")
        known = box.body(self._spine.rows.neighbor_relation) == self._terms["black_box"]
        if not known or self._terms["law"] not in [law.body() for law in box.laws]:
            raise InvalidParameter("this is another black box (or accuracy bound) than the schedule was opened with")
        return box

    def plan(self) -> Plan[ScheduledRun]:
        """The latest run that is due, with its fraction of the budget and that of the runs before it that were never
        done.

        Nothing is charged, it was paid when the schedule was opened. The number of the first run that is still to be
        done is kept with the opening. An answer and the new number are stored in one transaction, and only if the
        number is still the one this run began with. So no fraction is used for two answers. Nobody saw an outcome that
        is not stored, and its fraction is used again.
        """
        box, rows, runs = self._box, self._spine.rows, self.state.runs
        first, size = self._first(), public_size(rows)
        due = runs.last(size)
        # Where none is due, which `check` refuses, the plan is that of the next run.
        last = max(first, due or 0)
        inner = run_of(box, rows.neighbor_relation, runs, first, last)

        def check(held: bytes) -> None:
            if int(held) != first:
                raise RunTaken("another process has done this run meanwhile")
            if due is None or due < first:
                raise NothingDue("no run is due at this size")

        def run(data: Data) -> Result:
            answer = {"run": last, "size": size, "epsilon": str(runs.epsilon_down(first, last))}
            answer["answer"] = inner.run(replace(data, secret=None)).answer
            return Result(answer, hits=0, tests=0, secrets={self.call: str(last + 1).encode()})

        return self._plan("scheduled_run", {}, inner.event, run, self._present, reads=inner.reads, check=check)

    def recorded(self, body: Json) -> Plan[Any]:
        """A stored run of counts is presented without the black box: its answer contains the epsilon of the release."""
        box = self._terms["black_box"]

        def released(epsilon: Fraction) -> Plan[Any]:
            size = {"rho": epsilon**2 / 2} if "rho" in box else {"epsilon": epsilon}
            return Release.recorded({"query": box["query"]} | size).plan(self._spine)

        def present(answer: Json, number: int) -> Any:
            return released(Fraction(answer["epsilon"])).present(answer["answer"], number)

        told = released(Fraction(1))
        return self._plan("scheduled_run", {}, told.event, told.run, present)

    def _present(self, answer: Json, number: int) -> ScheduledRun:
        """The answer of a run, from what the ledger stores of it."""
        epsilon = Fraction(answer["epsilon"])
        told = (number, answer["run"], answer["size"], epsilon)
        try:
            own = self._box.of_run(answer["run"]).plan(epsilon, self._spine.rows.neighbor_relation)
            return ScheduledRun(*told, own.present(answer["answer"], number))
        except AlgorithmFailed:
            return ScheduledRun(*told, None, failed=True)

    def _first(self) -> int:
        """The first run that is still to be done."""
        return int(self._secret())

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        while True:
            try:
                found: ScheduledRun = self._spine.perform(self.plan(*asked, **options), request)
                return found
            except NothingDue:
                return None
            except RunTaken:
                continue

    def _follow(self) -> ScheduledRun | None:
        """Do the run that is due."""
        done: ScheduledRun | None = self._ask((), {}, None)
        return done


def _box(box: Any) -> BlackBox:
    if not isinstance(box, BlackBox):
        raise InvalidParameter("schedule a black box, such as chary.growth.AlgorithmBox(make, law=(1, 2))")
    return box
