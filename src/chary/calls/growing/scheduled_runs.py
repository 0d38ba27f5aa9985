"""A static private algorithm as a black box, and its runs on a growing database, which were paid for beforehand."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, ZeroConcentrated
from chary.accounting.schedules import Law, ScheduleRuns
from chary.answers import Answer, Ends
from chary.core.plan import Interaction, Json, Paid, Ran, Touched
from chary.data import Neighbouring, Query, Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter, UnknownHeld

FIRST = 0


class NothingDue(InvalidParameter):
    """The database has not grown enough for another run."""


class RunTaken(InvalidParameter):
    """Another process has done this run meanwhile."""


class BlackBox(ABC):
    """A static private algorithm that can be had at any epsilon, with a declared accuracy law."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """How accurate it is."""

    @property
    def laws(self) -> Sequence[Law]:
        """Its law, and those of earlier versions: a schedule that began with one goes on, and promises what both do."""
        return [self.law]

    @abstractmethod
    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        """The call that runs it once, epsilon-DP (in a schedule with rho=, also epsilon^2/2-zCDP)."""

    def of_run(self, run: int) -> "BlackBox":
        """The black box of this run: the same one, unless it says otherwise."""
        return self

    @property
    def changes(self) -> tuple[int, ...]:
        """The runs with which another one begins; the first run is one of them."""
        return (FIRST,)

    def body(self, neighbouring: Neighbouring) -> Json:
        """What identifies it as a question: the call at epsilon 1."""
        return self.interaction(Fraction(1), neighbouring).body()


@dataclass(frozen=True)
class ScheduledRun(Answer):
    """One run: its number, the public size at which it was done, its epsilon, and what the black box answered.

    `failed`: a user's algorithm raised, or returned no outcome; the run is used up and `answer` is None. `value` and
    `interval` are those of the answer.
    """

    run: int
    size: int
    epsilon: Fraction
    answer: Any
    failed: bool = False

    @property
    def value(self) -> Any:
        """What the black box told."""
        return self.answer.value if isinstance(self.answer, Answer) else self.answer

    @property
    def interval(self) -> Ends | None:
        return self.answer.interval if isinstance(self.answer, Answer) else None


@dataclass(frozen=True)
class RunSchedule(Paid):
    """The latest run that is due, with its share of the budget and that of the runs before it that were never done.

    Nothing is charged, it was paid when the schedule was opened. The number of the first run that is still
    to be done is kept beside the opening. An answer and the new number are stored in one transaction, and only if the
    number is still the one this run began with; so no share is used for two answers. An outcome that is not stored was
    seen by nobody, and its share is used again.
    """

    opened: int
    box: BlackBox
    neighbouring: Neighbouring
    runs: ScheduleRuns
    first: int | None
    last: int | None
    size: int
    kind = "scheduled_run"

    @cached_property
    def inner(self) -> Interaction:
        """The call of the black box."""
        return run_of(self.box, self.neighbouring, self.runs, *self._due)

    @property
    def _due(self) -> tuple[int, int]:
        if self.first is None:
            raise UnknownHeld(f"call {self.opened} keeps no schedule: it was interrupted; open a new one")
        if self.last is None or self.last < self.first:
            raise NothingDue("no run is due at this size")
        return self.first, self.last

    @property
    def event(self) -> Event:
        return self.inner.event

    def check(self, secret: bytes | None) -> None:
        if read_first(secret) != self.first:
            raise RunTaken("another process has done this run meanwhile")
        self._due  # noqa: B018 - refuses when nothing is due

    def body(self) -> Json:
        return {"schedule": self.opened}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return self.inner.prepare(rows)

    def run(self, touched: Touched) -> Ran:
        ran, (first, last) = self.inner.run(replace(touched, secret=None)), self._due
        epsilon = self.runs.epsilon_down(first, last)
        answer = {"run": last, "size": self.size, "epsilon": str(epsilon), "answer": ran.answer}
        return Ran(answer, hits=0, tests=0, secrets={self.opened: dumped_first(last + 1)})

    def present(self, answer: Json, call: int) -> ScheduledRun:
        return presented(self.box, self.neighbouring, answer, call)


def presented(box: BlackBox, neighbouring: Neighbouring, answer: Json, call: int) -> ScheduledRun:
    """A run as the analyst sees it, from what the ledger keeps of it."""
    epsilon = Fraction(answer["epsilon"])
    told = (call, answer["run"], answer["size"], epsilon)
    try:
        own = box.of_run(answer["run"])
        return ScheduledRun(*told, own.interaction(epsilon, neighbouring).present(answer["answer"], call))
    except AlgorithmFailed:
        return ScheduledRun(*told, None, failed=True)


def run_of(box: BlackBox, neighbouring: Neighbouring, runs: ScheduleRuns, first: int, last: int) -> Interaction:
    """The call of a black box with these shares; `InvalidParameter` if it is not as private as it has to be."""
    epsilon = runs.epsilon_down(first, last)
    made = box.of_run(last).interaction(epsilon, neighbouring)
    if made.held is not None or made.parallel != 1 or made.event.delta or not _within(made.event, epsilon, runs):
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


def read_first(secret: bytes | None) -> int | None:
    """The first run that is still to be done, from what is kept beside the opening; None where nothing is."""
    return None if secret is None else int(secret)


def dumped_first(first: int) -> bytes:
    """What is kept beside the opening."""
    return str(first).encode()
