"""The steps of a running count: what each tells, how far it is, and how one is told."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from chary.accounting import Event
from chary.answers import Answer, Ends, Known, Table, around, in_row, scalar
from chary.core.plan import Json, Paid, Ran, Touched, natural
from chary.data import Query, count
from chary.data.size import has_public_size
from chary.errors import BudgetRefused, InvalidParameter, LedgerMismatch, UnknownHeld

if TYPE_CHECKING:
    from chary.calls.growing.continual_counts import OpenContinual


class NothingNew(InvalidParameter):
    """No rows arrived since the last step."""


class StepsUsed(BudgetRefused):
    """All steps that were paid for are used."""


COUNTS: Final = Known(floor=0)


@dataclass(frozen=True)
class RunningCount(Answer):
    """What one step told: a count or a total, or a `RunningCounts` with one for each key, each with the same
    `error_bar`, in the query's own units.

    `step` counts from 1. `version` is that of the dataset before its rows were read, and `size` the number of rows
    then where that is public, else None: rows that another thread appends meanwhile may be counted already. Counts are
    unbiased: they may be below 0, and below earlier ones. `error_bar` is the half-width of the 95 % interval.
    """

    step: int
    version: int
    size: int | None
    values: tuple[int | float, ...]
    error_bar: float
    known: Known = field(default=COUNTS, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> Any:
        """The count; with keys, key to count."""
        return self.values[0]

    @property
    def interval(self) -> Ends | None:
        return around(self.values[0], self.error_bar, self.known)


@dataclass(frozen=True)
class RunningCounts(RunningCount, Table):
    """What one step told of a count by keys, in the order they were listed."""

    @property
    def value(self) -> dict[Any, int | float]:
        """Key to count; a key of one column is a scalar."""
        return {scalar(key): value for key, value in zip(self.keys, self.values, strict=True)}

    @property
    def interval(self) -> None:
        return None

    def cells(self, position: int) -> dict[str, Any]:
        value = self.values[position]
        return {"value": value} | in_row(around(value, self.error_bar, self.known))


@dataclass(frozen=True)
class Progress:
    """How far it is, which is public, and the state of the mechanism, which is secret."""

    step: int = 0
    version: int = -1
    size: int | None = None
    state: bytes = field(default=b"", repr=False)

    def dump(self) -> bytes:
        """In bytes, for the ledger's secret table."""
        public = {name: value for name, value in asdict(self).items() if name != "state"}
        return json.dumps(public).encode() + b"\n" + self.state

    @classmethod
    def load(cls, data: bytes) -> "Progress":
        """What `dump` wrote."""
        public, _, state = data.partition(b"\n")
        return cls(**json.loads(public), state=state)


@dataclass(frozen=True)
class StepContinual(Paid):
    """Tell the running count of the rows there are now; nothing is charged, it was paid at the opening.

    Which step this is, and the noise and state up to it,
    are kept beside the opening; the answer and the new state are stored in one transaction, and only if the state is
    still the one this run began with. So no step is told twice, and an outcome that is not stored was seen by nobody.

    `version` is that of the dataset before the rows are read, and `known` how many rows it has where that is public;
    with `only_new` a step at that version is refused.
    """

    opened: int
    started: "OpenContinual"
    version: int
    known: int | None
    only_new: bool = False
    kind = "continual_step"

    @property
    def event(self) -> Event:
        return self.started.mechanism.event()

    def check(self, secret: bytes | None) -> None:
        progress = progress_of(secret, self.opened)
        if self.only_new and progress.version >= self.version:
            raise NothingNew("no rows arrived since the last step")
        if progress.step >= self.started.call.steps:
            raise StepsUsed(
                f"all {self.started.call.steps} steps that were paid for are used; open another with "
                "session.start(ContinualCount(..., steps=...)), which is charged anew"
            )

    def body(self) -> Json:
        return {"continual_count": self.opened}

    def queries(self) -> Sequence[Query]:
        sized = has_public_size(self.started.neighbouring)
        return [count(), self.started.query] if sized else [self.started.query]

    def run(self, touched: Touched) -> Ran:
        before = progress_of(touched.secret, self.opened)
        size = touched.integer() if len(touched.values) > 1 else None
        if size is not None and size < (most := max(before.size or 0, self.known or 0)):
            raise LedgerMismatch(
                f"there were {most} rows before and these are {size}: a stream never shrinks. What another process "
                "appended to rows in its memory is not here: open the dataset with all its rows"
            )
        step, counts = before.step + 1, touched.integers(-1)
        values, state = self.started.mechanism.tell(step, before.state, counts, touched.source)
        after = Progress(step, max(self.version, before.version), size, state)
        answer = {"step": step, "version": after.version, "size": size, "values": values}
        return Ran(answer, hits=0, tests=0, secrets={self.opened: after.dump()})

    def present(self, answer: Json, call: int) -> RunningCount:
        query = self.started.query
        bar = float(self.started.mechanism.error_bar(answer["step"]) * query.grid)
        values = tuple(natural(value, query.grid) for value in answer["values"])
        told = (answer["step"], answer["version"], answer["size"], values, bar)
        known = Known(*query.known_range(self.started.neighbouring))
        if query.keys is None:
            return RunningCount(call, *told, known=known)
        return RunningCounts(call, query.columns, tuple(query.keys), *told, known=known)


def progress_of(secret: bytes | None, opened: int) -> Progress:
    """What is kept beside the opening; `UnknownHeld` where it was interrupted."""
    if secret is None:
        raise UnknownHeld(f"call {opened} keeps no continual count: it was interrupted; open a new one")
    return Progress.load(secret)
