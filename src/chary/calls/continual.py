"""Running counts over growing data: opening, steps and state."""

import json
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, cast

from chary.answers import Answer, Ends, Known, Table, around, in_row, scalar
from chary.calls.call import call
from chary.calls.fields import Positive, Running, Whole
from chary.calls.run import AskedKind, Opening, Run, RunKind, opening
from chary.core.forecast import Forecast
from chary.core.plan import Data, Json, Plan, Result, natural, reading
from chary.core.transaction import AnswerLog, Spine
from chary.core.versions import Arrivals
from chary.data import Count, NeighborRelation, Neighbors, Reading, Rows, Sum, count
from chary.data.series import has_public_size
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, LedgerMismatch
from chary.mechanisms.continual import BinaryTree, Continual, RootFactorisation
from chary.numbers import CONFIDENT, Number, plain

# The steps of a running count: their answers, and the state.


class NothingNew(InvalidParameter):
    """No rows arrived since the last step."""


class StepsUsed(BudgetExceeded):
    """All steps that were paid for are used."""


COUNTS: Final = Known(floor=0)


@dataclass(frozen=True)
class RunningCount(Answer):
    """The answer of one step: a count or a sum, or, as a `RunningCounts`, one for each group.

    `step` counts from 1. `version` is that of the dataset before its rows were read. `size` is the number of rows then
    where that is public, else None; rows that another thread appends meanwhile may be counted already. Counts are
    unbiased: they may be below 0, and below earlier ones. `error_bar` is half the width of the 95 % interval of each
    count, in the query's own units.
    """

    step: int
    version: int
    size: int | None
    values: tuple[int | float, ...]
    error_bar: float
    known: Known = field(default=COUNTS, repr=False, compare=False, kw_only=True)
    also = "value step version size error_bar"

    @property
    def value(self) -> Any:
        """The count; with groups, key to count."""
        return self.values[0]

    @property
    def interval(self) -> Ends | None:
        return around(self.values[0], self.error_bar, self.known)


@dataclass(frozen=True)
class RunningCounts(RunningCount, Table):
    """The answer of one step of a count by groups, in the order they were listed."""

    also = "step version size error_bar"

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
    """The state of a running count: its progress, which is public, and the mechanism's state, which is secret."""

    step: int = 0
    version: int = -1
    size: int | None = None
    state: bytes = field(default=b"", repr=False)

    def dump(self) -> bytes:
        """The state in bytes, for the ledger's table of secrets."""
        public = {name: value for name, value in asdict(self).items() if name != "state"}
        return json.dumps(public).encode() + b"\n" + self.state

    @classmethod
    def load(cls, data: bytes) -> "Progress":
        """What `dump` wrote."""
        public, _, state = data.partition(b"\n")
        return cls(**json.loads(public), state=state)


# Running counts of a session: the opening and the steps.

Method = Literal["tree", "root"]
# Totals of 2**31 rows stay below 2**62, which is what is added up in int64.
MOST_MOVED: Final = 2**31


class CountingState:
    """What is public of a continual count. Steps are numbered from 1; `steps` is how many there are in all."""

    def __init__(
        self, opened: "ContinualCount", noise: Continual, now: Callable[[], Progress], told: AnswerLog[RunningCount]
    ) -> None:
        self.steps, self._grid = opened.steps, Fraction(opened.counted.grid)
        self._noise, self._now, self._told = noise, now, told

    @property
    def latest(self) -> RunningCount | None:
        """The answer of the last step; None before the first."""
        told = self.results
        return told[-1] if told else None

    @property
    def results(self) -> list[RunningCount]:
        """The answers of all steps, in order, from the ledger."""
        return sorted(self._told.all(), key=lambda told: told.step)

    @property
    def steps_left(self) -> int:
        """How many steps are left."""
        return self.steps - self._now().step

    def error_bar(self, step: int, *, confidence: Number = 0.95) -> int | float:
        """By how much the count of a group at this step is off at most, with this probability. Nothing is read."""
        return natural(self._noise.error_bar(step, confidence), self._grid)

    def worst_error(self, *, confidence: Number = 0.95) -> int | float:
        """By how much any count at any step is off at most, with this probability. Nothing is read."""
        return natural(self._noise.worst_error(confidence), self._grid)

    def deviation(self, step: int) -> float:
        """The standard deviation of the count of a group at this step; at most that, for Gaussian noise."""
        return self._noise.deviation(step) * float(self._grid)


@call("continual_count", subject="growing")
class ContinualCount(Opening[Run[RunningCount, CountingState]]):
    """Publish one count, or one sum, at up to `steps` steps while rows arrive, for one cost paid now.

    Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; much more accurate), for all steps together and
    whatever arrives in between. `query` is a count, grouped or not, or a condition of it, or a sum, whose noise is in
    proportion to its bounds. Errors grow with the logarithm of `steps`. `mechanism` is "tree", with epsilon or rho, or
    "root", with rho, the default there and about half as far off (docs/theory/growing.md).

    It assumes that each row is a unit of its own and that neighbours have their rows in the same batches. It also
    assumes that a row once there neither changes nor leaves, in no process that opens the dataset. Where the session
    follows it (`start(..., follow=True)`), `session.append` does one step after each batch while there are steps left.

    Errors: `InvalidQuery` where units may have several rows, and for a sum whose bounds are more than 2**31 steps of
    its grid from 0. `InvalidParameter` for more than 2**20 steps ("tree") or 2**16 ("root"). `NotPriced` for rho
    without a delta.

    >>> import chary, pyarrow as pa
    >>> public = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=1)}
    >>> session = chary.open(pa.table({"age": [70] * 5000}), **public, ledger=":memory:")
    >>> old = session.start(ContinualCount("age >= 65", steps=365, epsilon=1), follow=True)
    >>> _ = session.append(pa.table({"age": [35, 66] * 1000}))
    >>> near = [abs(told.value - right) < 200 for told, right in zip(old.state.results, (5000, 6000))]
    >>> near, old.state.steps_left
    ([True, True], 363)
    """

    query: Running = None
    _: KW_ONLY
    steps: Whole
    epsilon: Positive | None = None
    rho: Positive | None = None
    mechanism: Method | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all steps together as one of epsilon= and rho=")
        if self._usual == "root" and self.rho is None:
            raise InvalidParameter('the root has Gaussian noise: give rho=, or epsilon= with mechanism="tree"')

    @property
    def _usual(self) -> Method:
        """The mechanism, given or by default."""
        return self.mechanism or ("tree" if self.rho is None else "root")

    @property
    def counted(self) -> Count | Sum:
        """The count or the sum that is published."""
        return cast("Count | Sum", self.query)

    def noise(self, neighbor_relation: NeighborRelation) -> Continual:
        """The noise of all steps."""
        query, rule = self.counted, BinaryTree if self._usual == "tree" else RootFactorisation
        moved = {"l1": query.l1(neighbor_relation), "largest": query.sensitivity(neighbor_relation)}
        size = {"steps": self.steps, "keys": len(query.keys or ((),))} | moved
        return BinaryTree.for_epsilon(self.epsilon or 0, **size) if self.rho is None else rule.for_rho(self.rho, **size)

    def plan(self, spine: Spine) -> Plan[Any]:
        query, neighbor_relation = self.counted, spine.rows.neighbor_relation
        if neighbor_relation.unit is not None or neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidQuery(
                "one row must be in one step: open rows that are units, with privacy_unit=None; a unit with rows in "
                "several steps would be paid for in each"
            )
        if query.sensitivity(neighbor_relation) > MOST_MOVED:
            raise InvalidQuery("a running sum may move by at most 2**31 steps of its grid: give a coarser grid=")
        noise, said = self.noise(neighbor_relation), replace(self, mechanism=self._usual)

        def checked(rows: Rows) -> Sequence[Reading]:
            rows.prepare(query)
            return ()

        def forecast() -> Forecast:
            last, worst = (
                plain(natural(most, query.grid)) for most in (noise.error_bar(self.steps), noise.worst_error())
            )
            told = f"with {CONFIDENT}, the last of {self.steps} steps is within {last} of the truth"
            return Forecast(interval=f"{told}, all together within {worst}")

        start = Progress(state=noise.start()).dump()
        return opening(said, spine, noise.event(), lambda data: start, reads=checked, forecast=forecast)


class ContinualRun(RunKind[RunningCount, CountingState]):
    """`run.ask()`: the count of the rows there are now, as one more step. Nothing is charged.

    Each step is used, even when no rows arrived since the last one, and is published once, whatever processes and
    restarts there are. Errors: `BudgetExceeded` when all steps are used. `LedgerMismatch` when there are fewer rows
    than the ledger knows of, where their number is public. `NotWithheld` for an opening that was interrupted.
    `ledger.SecretMoved` when other processes were faster several times: then nothing was published and the step may be
    asked again."""

    kind = ContinualCount.kind
    names = "continual_count"
    keeps = "continual count"
    questions = (AskedKind("continual_step", again=True),)

    @cached_property
    def opened(self) -> ContinualCount:
        """The call that opened the running count."""
        return ContinualCount.recorded(self._terms)

    @cached_property
    def noise(self) -> Continual:
        """The noise of all steps."""
        return self.opened.noise(self._spine.rows.neighbor_relation)

    @cached_property
    def state(self) -> CountingState:
        self._progress()
        return CountingState(self.opened, self.noise, self._progress, self._answered("continual_step", self._present))

    def plan(self, *, only_new: bool = False) -> Plan[RunningCount]:
        """With `only_new` a step is refused where no rows arrived since the last."""
        last = Arrivals.read_by(self._spine).last()
        return self._step(last.number, last.size, only_new)

    def recorded(self, body: Json) -> Plan[RunningCount]:
        """The stored answer contains the step and the size, so they do not matter here."""
        return self._step(0, None)

    def _step(self, version: int, known: int | None, only_new: bool = False) -> Plan[RunningCount]:
        """The running count of the rows there are now; nothing is charged, it was paid at the opening.

        Which step this is, and the noise and state up to it, are kept with the opening. The answer and the new state
        are stored in one transaction, and only if the state is still the one this run began with. So no step is
        published twice, and nobody saw an outcome that is not stored.

        `version` is that of the dataset before the rows are read, and `known` how many rows it has where that is
        public.
        """
        query, noise, steps = self.opened.counted, self.noise, self.opened.steps
        sized = has_public_size(self._spine.rows.neighbor_relation)

        def check(held: bytes) -> None:
            now = Progress.load(held)
            self._refuse_earlier(now.version)
            if only_new and now.version >= version:
                raise NothingNew("no rows arrived since the last step")
            if now.step >= steps:
                raise StepsUsed(
                    f"all {steps} steps that were paid for are used; open another with "
                    "session.start(ContinualCount(..., steps=...)), which is charged anew"
                )

        def run(data: Data) -> Result:
            before = Progress.load(data.secret or b"")
            size = data.integer() if sized else None
            if size is not None and size < (most := max(before.size or 0, known or 0)):
                raise LedgerMismatch(
                    f"there were {most} rows before and these are {size}: a stream never shrinks. What another process "
                    "appended to rows in its memory is not here: open the dataset with all its rows"
                )
            step = before.step + 1
            values, state = noise.tell(step, before.state, data.integers(-1), data.source)
            after = Progress(step, max(version, before.version), size, state)
            answer = {"step": step, "version": after.version, "size": size, "values": values}
            return Result(answer, hits=0, tests=0, secrets={self.call: after.dump()})

        reads = reading(count(), query) if sized else reading(query)
        return self._plan("continual_step", {}, noise.event(), run, self._present, reads=reads, check=check)

    def _present(self, answer: Json, number: int) -> RunningCount:
        query = self.opened.counted
        bar = float(self.noise.error_bar(answer["step"]) * query.grid)
        values = tuple(natural(value, query.grid) for value in answer["values"])
        told = (answer["step"], answer["version"], answer["size"], values, bar)
        known = Known(*query.known_range(self._spine.rows.neighbor_relation))
        if query.keys is None:
            return RunningCount(number, *told, known=known)
        return RunningCounts(number, query.columns, tuple(query.keys), *told, known=known)

    def _progress(self) -> Progress:
        return Progress.load(self._secret())

    def _follow(self) -> RunningCount | None:
        """One step if rows arrived since the last one and there are steps left, otherwise None.

        Arrivals are those that the ledger has a version of: appended batches, and rows found at an opening where their
        number is public. Where it is secret, ask after opening with more rows.
        """
        try:
            told: RunningCount = self._ask((), {"only_new": True}, None)
            return told
        except (NothingNew, StepsUsed):
            return None
