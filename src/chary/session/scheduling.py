"""Static private algorithms on a growing database: rerun as it grows, for ever, for one price paid at the start."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from chary.accounting.laws import Law, best_growth
from chary.accounting.schedules import EpochRuns, EveryRun, Runs, runs_of_body
from chary.data.size import public_size
from chary.errors import CharyError, InvalidParameter, UnknownHeld
from chary.ledger import State
from chary.numbers import Number, positive, probability, whole
from chary.session.growing import Growing
from chary.session.interaction import Json
from chary.session.scheduled import (
    FIRST,
    BlackBox,
    NothingDue,
    RunSchedule,
    RunTaken,
    ScheduledRun,
    StartSchedule,
    presented,
    read_first,
)
from chary.session.spine import Spine


@dataclass(frozen=True)
class PlannedRun:
    """One run of a schedule: the size from which on it is due, its epsilon, and what its law says of its error.

    The error holds with probability `1 - failure`; `staleness` comes on top, until the next run, for what is an average
    over rows.
    """

    run: int
    size: int
    epsilon: float
    failure: float
    error: float
    staleness: float


class Schedule:
    """Runs of a black box on a growing database, made by `Session.schedule`.

    Guarantee: that of `runs.event` for all of them together, charged when it was opened. Each run is done at most once,
    whatever processes and restarts there are. `call` is the number that opens it again.
    """

    def __init__(self, spine: Spine, box: BlackBox, call: int, runs: Runs) -> None:
        """Use `Session.schedule`."""
        self.call, self.runs, self.law = call, runs, box.law
        self._spine, self._box = spine, box
        self._known: tuple[int, tuple[ScheduledRun, ...], tuple[int, ...]] = (call, (), ())

    @property
    def due(self) -> int | None:
        """The run that `run` would do now, by the public size; None if the answer there is still serves."""
        first, last = read_first(self._spine.ledger.secret(self.call)), self.runs.last(public_size(self._spine.rows))
        return None if first is None or last is None or last < first else last

    def run(self, *, request: str | None = None) -> ScheduledRun | None:
        """Do what is due; None if nothing is. Nothing is charged.

        When the database has outgrown several runs at once, only the last of them is done, with the shares of all.
        Errors: `UnknownHeld` for an opening that was interrupted.
        """
        while True:
            try:
                found: ScheduledRun = self._spine.perform(self._asked(), request)
                return found
            except NothingDue:
                return None
            except RunTaken:
                continue

    @property
    def results(self) -> list[ScheduledRun]:
        """All runs that were done, oldest first, from the ledger."""
        return self._results()

    @property
    def latest(self) -> ScheduledRun | None:
        """The last run that did not fail: what answers questions until the next one. None before the first."""
        done = [result for result in self._results() if not result.failed]
        return done[-1] if done else None

    def table(self, runs: int = 10, *, first: int = FIRST) -> list[PlannedRun]:
        """So many runs from the number `first` on; nothing is read."""
        start = whole(first, "first", least=0)
        return [self._planned(start + run) for run in range(whole(runs, "runs"))]

    def at(self, size: int) -> PlannedRun | None:
        """The run that serves a database of this size; None before the first."""
        run = self.runs.last(whole(size, "size"))
        return None if run is None else self._planned(run)

    def _planned(self, run: int) -> PlannedRun:
        epsilon, failure = self.runs.epsilon_down(run, run), self.runs.failure(run)
        error = self.runs.error(self.law, run)
        return PlannedRun(run, self.runs.size(run), float(epsilon), float(failure), error, self.runs.staleness)

    def _asked(self) -> RunSchedule:
        rows = self._spine.rows
        first, size = read_first(self._spine.ledger.secret(self.call)), public_size(rows)
        return RunSchedule(self.call, self._box, rows.neighbouring, self.runs, first, self.runs.last(size), size)

    def _results(self) -> list[ScheduledRun]:
        """Read from the ledger what came since the last time; runs that are under way are looked at again, one by one,
        since one that was killed stays so."""
        ledger, body, (after, done, began) = self._spine.ledger, self._asked().text(), self._known
        found, waiting = list(done), []
        for call in chain(map(ledger.call, began), ledger.calls(self._spine.dataset, after=after)):
            after = max(after, call.number)
            if call.kind == RunSchedule.kind and call.body == body:
                if call.state == State.SETTLED:
                    answer = json.loads(call.answer or "{}")
                    found.append(presented(self._box, self._spine.rows.neighbouring, answer, call.number))
                elif call.state == State.RESERVED:
                    waiting.append(call.number)
        found.sort(key=lambda run: run.call)
        self._known = after, tuple(found), tuple(waiting)
        return found

    def __repr__(self) -> str:
        return f"Schedule(call={self.call}, {self.runs})"


@dataclass(frozen=True)
class Scheduling(Growing):
    """Black boxes that are rerun as the dataset grows; `followers` is what `on_append` does after each append.

    Whoever sees `append` raise repeats it, and rows that are there twice break promises. So followers that fail are
    told of in one `RuntimeWarning`, after all of them had their turn.
    """

    followers: list[Callable[[], object]] = field(default_factory=list, init=False, repr=False, compare=False)

    def append(self, rows: Any, *, request: str | None = None) -> int:
        version = super().append(rows, request=request)
        followers = tuple(self.followers)
        if failed := [failure for follow in followers if (failure := _failure(follow))]:
            warnings.warn(
                f"the rows are there as version {version}: do not append them again. But of the {len(followers)} that "
                f"follow, {len(failed)} failed: {'; '.join(failed)}. The next append lets them catch up",
                RuntimeWarning,
                stacklevel=2,
            )
        return version

    def schedule(
        self,
        box: BlackBox,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        beta: Number | None = None,
        growth: Number | None = None,
        exponent: Number | None = None,
        on_append: bool = False,
        call: int | None = None,
        request: str | None = None,
    ) -> Schedule:
        """Rerun a static private algorithm whenever the dataset has grown enough, for ever; charged once, now.

        Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; much more accurate), for all runs together. With
        probability `1 - beta` all runs keep the errors of the black box's law. By default it is rerun when the number
        of rows has grown by the factor `1 + growth` (at most 10), chosen for the least error if left out (BBScheduler,
        [GROW] Algorithm 1). `exponent`, such as 0.1, with rho reruns it at every size, with errors that fall as the
        data grow (BBImprover, Algorithm 2).

        The dataset must be one of rows that are units, one of which is replaced, so that its size is public. With
        `on_append`, `session.append` does what is due, and so does the opening; what fails there is a `RuntimeWarning`.
        `call=` goes on with an earlier schedule, also after a restart: bring the same black box.

        Errors: `InvalidQuery` for a dataset of secret size, `InvalidParameter` for a black box that is not epsilon-DP
        at the epsilon it is given or is another than before, `NoPrice` for rho without a delta, `UnknownHeld`.
        """
        if not isinstance(box, BlackBox):
            raise InvalidParameter("schedule a black box, such as chary.growing.AlgorithmBox(make, law=(1, 2))")
        if call is None:
            made = self._schedule_anew(box, _Asked(box.law, beta, epsilon, rho, growth, exponent), request)
        elif (epsilon, rho, beta, growth, exponent, request) == (None,) * 6:
            made = self._schedule_again(box, call)
        else:
            raise InvalidParameter("give the black box and call= alone: a schedule keeps what it was opened with")
        if on_append:
            self.followers.append(made.run)
            made.run()
        return made

    def _schedule_anew(self, box: BlackBox, asked: "_Asked", request: str | None) -> Schedule:
        runs = asked.runs(public_size(self.spine.rows))
        opening = StartSchedule(box, self.spine.rows.neighbouring, asked.body(), runs)
        return Schedule(self.spine, box, *self.spine.perform(opening, request))

    def _schedule_again(self, box: BlackBox, call: int) -> Schedule:
        body = self.earlier(call, StartSchedule.kind, "an opening of a schedule")
        told = {"black_box": box.body(self.spine.rows.neighbouring), "law": box.law.body()}
        if {name: body[name] for name in told} != told:
            raise InvalidParameter("this is another black box (or law) than the schedule was opened with")
        answer = self.spine.ledger.call(call).answer
        if answer is None:
            raise UnknownHeld(f"call {call} keeps no schedule: it was interrupted; open a new one")
        return Schedule(self.spine, box, call, runs_of_body(json.loads(answer)))


def _failure(follow: Callable[[], object]) -> str | None:
    try:
        follow()
    except CharyError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # of the caller's own code, so that its message may say anything
        return type(error).__name__
    return None


class _Asked:
    """What the caller said about the runs."""

    def __init__(self, law: Law, beta: Number | None, *sizes: Number | None) -> None:
        if beta is None:
            raise InvalidParameter("say how often errors may be larger than told, such as beta=0.05")
        self.law, self.beta = law, probability(beta, "beta")
        names = ("epsilon", "rho", "growth", "exponent")
        self.sizes = {name: positive(size, name) for name, size in zip(names, sizes, strict=True) if size is not None}
        if ("epsilon" in self.sizes) == ("rho" in self.sizes):
            raise InvalidParameter("give the budget of all runs together as one of epsilon= and rho=")
        if "exponent" in self.sizes and ("growth" in self.sizes or "epsilon" in self.sizes):
            raise InvalidParameter("a run at every size has an exponent= and a rho=, no growth= and no epsilon=")
        if self.sizes.get("growth", 0) > 9:
            raise InvalidParameter("growth is a share, at most 9: 0.1 = 10 %, rerun when there are 1.1 times the rows")

    def body(self) -> Json:
        """In JSON; what was left out stays so, since it depends on the size at the opening."""
        return {"beta": str(self.beta)} | {name: str(size) for name, size in self.sizes.items()}

    def runs(self, size: int) -> Runs:
        """The schedule from this size on."""
        start = whole(size, "the number of rows at the start")
        if "exponent" in self.sizes:
            return EveryRun(start=start, beta=self.beta, **self.sizes)
        total: dict[str, Number] = {name: size for name, size in self.sizes.items() if name != "growth"}
        growth = self.sizes.get("growth") or best_growth(self.law, start=start, beta=self.beta, **total)
        return EpochRuns(start=start, growth=growth, beta=self.beta, **total)
