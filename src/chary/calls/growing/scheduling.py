"""Static private algorithms on a growing database: rerun as it grows, for ever, for one price paid at the start."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from chary.accounting import Event, zero_concentrated_rho_down
from chary.accounting.schedules import EpochRuns, EveryRun, ScheduleRuns, best_growth, runs_of_body
from chary.calls.call import call
from chary.calls.fields import Positive, Probability
from chary.calls.growing.schedule_states import ScheduleState
from chary.calls.growing.scheduled_runs import (
    FIRST,
    BlackBox,
    NothingDue,
    RunSchedule,
    RunTaken,
    ScheduledRun,
    dumped_first,
    read_first,
    run_of,
)
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, Run, keeps
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Reading, Rows
from chary.data.size import public_size
from chary.errors import InvalidParameter, UnknownHeld
from chary.numbers import Number, whole

# Between two runs the last answer serves ten times the rows it is about, at most.
MOST_GROWTH = 9
Box = Annotated[
    BlackBox,
    PlainValidator(lambda box: _box(box)),
    PlainSerializer(lambda box: box.law.body(), when_used="json"),
    WithJsonSchema({"type": "object", "description": "A black box; it cannot be read from JSON."}),
]


@call("schedule", subject="growing")
class Schedule(Opening[Run[ScheduledRun | None, ScheduleState]]):
    """Rerun a static private algorithm whenever the dataset has grown enough, for ever; charged once, now.

    Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; much more accurate), for all runs together;
    `epsilon` with a `delta` means the largest rho that is (epsilon, delta)-DP, and that rho is charged. With
    probability `1 - beta` all runs keep the errors of the black box's law. By default it is rerun when the number
    of rows has grown by the factor `1 + growth` (at most 10), chosen for the least error if left out (BBScheduler,
    [GROW] Algorithm 1). `exponent`, such as 0.1, with rho reruns it at every size, with errors that fall as the
    data grow (BBImprover, Algorithm 2). `chary.growing.ChangingBox` changes the algorithm, or its queries.

    The dataset must be one of rows that are units, one of which is replaced, so that its size is public. Where the
    session follows it (`start(..., follow=True)`), `session.append` does what is due, and so does the start. After a
    restart `session.resume(call, bring=box)` goes on: bring the same black box.

    Errors: `InvalidQuery` for a dataset of secret size, `InvalidParameter` for a black box that is not epsilon-DP
    at the epsilon it is given, `NoPrice` for rho without a delta.
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
            raise InvalidParameter("growth is a share, at most 9: 0.1 = 10 %, rerun when there are 1.1 times the rows")

    def bind(self, spine: Spine) -> "StartSchedule":
        return StartSchedule(self, spine.rows.neighbouring, self.runs(public_size(spine.rows)))

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
        """What was said; what was left out stays so, since it depends on the size at the opening."""
        names = ("epsilon", "rho", "growth", "exponent")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.delta is None:
            return said
        rho = zero_concentrated_rho_down(epsilon=Fraction(said.pop("epsilon")), delta=Fraction(self.delta))
        return said | {"rho": rho}


@dataclass(frozen=True)
class StartSchedule(BoundOpening[Schedule]):
    """Reserve the budget of all runs of a black box, for ever; nothing is read.

    `runs` is what was made of the call at the public size of that time, which is told by the answer.
    """

    runs: ScheduleRuns = field(compare=False)

    def __post_init__(self) -> None:
        for run in self.call.box.changes:
            run_of(self.call.box, self.neighbouring, self.runs, run, run)

    @property
    def event(self) -> Event:
        return self.runs.event

    def body(self) -> Json:
        told = super().body()
        law: Json = told.pop("box")
        return {"black_box": self.call.box.body(self.neighbouring), "law": law} | told

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        for run in self.call.box.changes:
            run_of(self.call.box, self.neighbouring, self.runs, run, run).prepare(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran(self.runs.body(), hits=0, tests=0, secret=dumped_first(FIRST))


@keeps
class KeptSchedule(Kept[ScheduledRun | None, ScheduleState]):
    """`run.ask()`: do what is due; None if nothing is. Nothing is charged.

    When the database has outgrown several runs at once, only the last of them is done, with the shares of all. Each run
    is done at most once, whatever processes and restarts there are. Errors: `UnknownHeld` for an opening that was
    interrupted.
    """

    kind = Schedule.kind
    names = "schedule"

    @cached_property
    def state(self) -> ScheduleState:
        box, answer = self._box, self.spine.ledger.call(self.number).answer
        if answer is None:
            raise UnknownHeld(f"call {self.number} keeps no schedule: it was interrupted; open a new one")
        began = next(law for law in box.laws if law.body() == self.terms["law"])
        runs = runs_of_body(json.loads(answer))
        return ScheduleState(self.spine, box, self.number, runs, box.law.either(began))

    @cached_property
    def _box(self) -> BlackBox:
        box = self.brought
        if not isinstance(box, BlackBox):
            raise InvalidParameter(f"bring the black box again: session.resume({self.number}, bring=box)")
        known = box.body(self.spine.rows.neighbouring) == self.terms["black_box"]
        if not known or self.terms["law"] not in [law.body() for law in box.laws]:
            raise InvalidParameter("this is another black box (or law) than the schedule was opened with")
        return box

    def question(self) -> RunSchedule:
        rows, runs = self.spine.rows, self.state.runs
        first, size = read_first(self.spine.ledger.secret(self.number)), public_size(rows)
        return RunSchedule(self.number, self._box, rows.neighbouring, runs, first, runs.last(size), size)

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> ScheduledRun | None:
        while True:
            try:
                found: ScheduledRun = self.spine.perform(self.question(*asked, **options), request)
                return found
            except NothingDue:
                return None
            except RunTaken:
                continue

    def follow(self) -> ScheduledRun | None:
        """What is due."""
        return self.ask((), {}, None)


def _box(box: Any) -> BlackBox:
    if not isinstance(box, BlackBox):
        raise InvalidParameter("schedule a black box, such as chary.growing.AlgorithmBox(make, law=(1, 2))")
    return box
