"""What is public of a schedule: the runs that were done, and those to come."""

from dataclasses import dataclass

from chary.accounting.schedules import Law, ScheduleRuns
from chary.calls.growing.scheduled_runs import FIRST, BlackBox, RunSchedule, ScheduledRun, read_first
from chary.core.history import Told
from chary.core.transaction import Spine
from chary.data.size import public_size
from chary.numbers import whole


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


class ScheduleState:
    """What is public of a schedule: its runs, those that were done, and what is due."""

    def __init__(self, spine: Spine, box: BlackBox, call: int, runs: ScheduleRuns, law: Law) -> None:
        self.runs, self.law = runs, law
        self._spine, self._box, self._call = spine, box, call
        asked = RunSchedule(call, box, spine.rows.neighbouring, runs, first=None, last=None, size=0)
        self._told: Told[ScheduledRun] = Told(spine, asked, after=call)

    @property
    def due(self) -> int | None:
        """The run that would be done now, by the public size; None if the answer there is still serves."""
        first, last = read_first(self._spine.ledger.secret(self._call)), self.runs.last(public_size(self._spine.rows))
        return None if first is None or last is None or last < first else last

    @property
    def results(self) -> list[ScheduledRun]:
        """All runs that were done, oldest first, from the ledger."""
        return self._told.all()

    @property
    def latest(self) -> ScheduledRun | None:
        """The last run that did not fail: what answers questions until the next one. None before the first."""
        done = [result for result in self._told.all() if not result.failed]
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
        error = self.runs.error(self._box.of_run(run).law, run)
        return PlannedRun(run, self.runs.size(run), float(epsilon), float(failure), error, self.runs.staleness)
