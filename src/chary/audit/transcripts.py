"""Transcripts of a call on one of two neighbours, again and again, on rows that are read once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa

from chary import noise
from chary.audit.enumeration import Law
from chary.calls.call import Call
from chary.calls.run import Opening, RunKind, run_of
from chary.core.plan import Data, Plan, Result
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, Reading, Rows, RowTable
from chary.data.engines.protocol import ElementReading, LivingReading
from chary.data.queries.ordered import Mark, Ordered
from chary.data.queries.query import Query
from chary.data.rows import ReadingPlan, Rooms
from chary.errors import CharyError
from chary.filters import Budget, Filter, Price
from chary.ledger import IN_MEMORY
from chary.session import Session
from chary.session.opening import BudgetChoice, Place, session_of

# Rows that never change and are read once, so that many transcripts cost one scan.


@dataclass
class KeptReading:
    """A reading that runs once and then returns its first result. Secret."""

    reading: Any
    found: list[Any] = field(default_factory=list, repr=False)

    @property
    def query(self) -> Any:
        """What is asked."""
        return self.reading.query

    def run(self) -> Any:
        """What was read the first time."""
        if not self.found:
            self.found.append(self.reading.run())
        return self.found[0]


class ReadOnce(RowTable):
    """A table whose answers are kept, for simulated sessions only: rows that are appended change no kept answer."""

    def prepare(self, query: Query) -> ReadingPlan:
        return self._first(query, lambda: RowTable.prepare(self, query))

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        return self._first(
            ("columns", columns if columns is None else tuple(columns)), lambda: RowTable.snapshot(self, columns)
        )

    def ordered(self, asked: Ordered) -> Reading:
        return self._first(asked, lambda: RowTable.ordered(self, asked))

    def _first(self, asked: Any, make: Callable[[], Any]) -> KeptReading:
        readings: dict[Any, KeptReading] = self.__dict__.setdefault("_readings", {})
        if asked not in readings:
            readings[asked] = KeptReading(make())
        return readings[asked]

    def close(self) -> None:
        """Sessions come and go; anyone who opened the rows ends them with `end`."""

    def end(self) -> None:
        """Release the engine."""
        super().close()


def opened_once(here: Any, there: Any, neighbors: Neighbors | str, unit: str | None, **how: Any) -> tuple[Rows, Rows]:
    """Two neighbouring databases, as rows that are read once; `how` as in `chary.open`."""
    how["neighbor_relation"] = NeighborRelation(neighbors, unit)
    return ReadOnce.open(here, **how), ReadOnce.open(there, **how)


@dataclass
class KeptLiving:
    """Active units whose answers are kept while the same units may take part. Secret."""

    reading: LivingReading
    rooms: Rooms | None = field(default=None, repr=False)
    answered: list[Any] = field(default_factory=list, repr=False)
    took: dict[tuple[int, ...], Any] = field(default_factory=dict, repr=False)

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator["KeptLiving"]:
        """What was read of these the first time."""
        if self.rooms is not rooms:
            with self.reading.at(rooms) as units:
                self.answered, self.took = [units.answers()], {}
            self.rooms = rooms
        yield self

    def answers(self) -> Any:
        """The answers."""
        return self.answered[0]

    def of(self, positions: Sequence[int]) -> Any:
        """The units that took part in some."""
        asked = tuple(positions)
        if self.rooms is not None and asked not in self.took:
            with self.reading.at(self.rooms) as units:
                units.answers()
                self.took[asked] = units.of(positions)
        return self.took[asked]


@dataclass
class KeptElements:
    """Elements whose words are kept for each key. Secret."""

    reading: ElementReading
    found: dict[tuple[str, Mark | None], Any] = field(default_factory=dict, repr=False)

    def words(self, key: str, since: Mark | None = None) -> Any:
        """What was read under this key the first time."""
        if (key, since) not in self.found:
            self.found[key, since] = self.reading.words(key, since)
        return self.found[key, since]


def kept(value: Any) -> Any:
    """What a plan has read, wrapped so that later readings of it run once as well."""
    if hasattr(value, "words"):
        return KeptElements(value)
    return KeptLiving(value) if hasattr(value, "at") else value


# Transcripts on one of two neighbours: what the code of a call publishes, run again and again.

# So large that no call of an audit is refused for it, and still counted in steps of 1e-15.
PLENTY = Budget(1000)
Script = Callable[[Session], Any]


@dataclass(frozen=True)
class OpenedUnder:
    """Under which budget sessions are opened: `filter` and `grain` as in `chary.open`."""

    budget: Budget = PLENTY
    filter: str | None = None
    grain: Any = None

    def opened(self, rows: Rows, source: noise.Source) -> Session:
        """A new session on rows that others close."""
        choice = BudgetChoice(self.budget, self.filter, self.grain)
        return session_of(rows, choice, Place(IN_MEMORY), ("audited", "audited"), unsafe_noise=source)


@dataclass(frozen=True)
class Chained:
    """A run that is opened and asked some questions in turn, each made by `question` of what is known of the run, until
    the run refuses one."""

    opening: Opening[Any]
    questions: tuple[Callable[[RunKind[Any, Any]], Plan[Any]], ...]


Asked = Call[Any] | Chained | Script


@dataclass(frozen=True)
class Played:
    """The outcomes of many transcripts, and what the first of them was charged, under the filter that charged it."""

    outcomes: list[Any]
    charged: int
    failure: int
    filter: Filter


def played(asked: Asked, rows: Rows, under: OpenedUnder, source: noise.Source, times: int) -> Played:
    """This many transcripts: of one call or one run, on what its plans read, or of whole sessions."""
    session = under.opened(rows, source)
    if isinstance(asked, Call):
        return _calls(asked, session, times)
    if isinstance(asked, Chained):
        return _runs(asked, session, times)
    outcomes = []
    for _ in range(times):
        session = under.opened(rows, source)
        outcomes.append(asked(session))
    spent = session.spent.amount
    return Played(outcomes, spent.main, spent.delta, session.spine.filter)


def _calls(call: Call[Any], session: Session, times: int) -> Played:
    """The plan of a call, run as the spine runs it, without the ledger."""
    step = Step.of(call.plan(session.spine), session.spine)
    worst, source = step.plan.worst(step.price), session.spine.source
    outcomes = [step.run(source, None).answer for _ in range(times)]
    return Played(outcomes, worst.main, worst.delta, session.spine.filter)


def _runs(chained: Chained, session: Session, times: int) -> Played:
    """The plans of a run, the secret state handed from each to the next, without the ledger."""
    begun = Begun.of(chained.opening, session)
    spine = session.spine
    steps = [begun.step(question) for question in chained.questions]
    outcomes = [_transcript(begun.opening, steps, begun.number, spine.source) for _ in range(times)]
    worst = [step.plan.worst(step.price) for step in (begun.opening, *steps)]
    return Played(outcomes, sum(w.main for w in worst), sum(w.delta for w in worst), spine.filter)


@dataclass(frozen=True)
class Begun:
    """A run that was opened in a session: its opening, its number, and what is known of it."""

    spine: Spine
    opening: "Step"
    number: int
    run: RunKind[Any, Any]

    @classmethod
    def of(cls, opening: Opening[Any], session: Session) -> "Begun":
        """Open it."""
        spine = session.spine
        step = Step.of(opening.plan(spine), spine)
        number: int = session.start(opening).call
        kept = run_of(opening.stored_kind)(spine, number, json.loads(step.plan.body), opening.brought())
        return cls(spine, step, number, kept)

    def step(self, question: Callable[[RunKind[Any, Any]], Plan[Any]]) -> "Step":
        """One of its questions."""
        return Step.of(question(self.run), self.spine)


def _transcript(opening: "Step", steps: Sequence["Step"], number: int, source: noise.Source) -> list[Any]:
    """All that is published of one run."""
    began = opening.run(source, None)
    found, secret = [began.answer], began.secret
    for step in steps:
        try:
            step.plan.check(secret)
        except CharyError:
            break
        ran = step.run(source, secret)
        found.append(ran.answer)
        secret = ran.secrets.get(number, secret)
    return found


@dataclass(frozen=True)
class Step:
    """A plan with what it has read."""

    plan: Plan[Any]
    price: Price
    values: tuple[Any, ...]

    @classmethod
    def of(cls, plan: Plan[Any], spine: Spine) -> "Step":
        """Read once."""
        values = tuple(kept(each.run()) for each in plan.reads(spine.rows))
        return cls(plan, plan.price(spine.filter), values)

    def run(self, source: noise.Source, secret: bytes | None) -> Result:
        """Run it, as the spine does."""
        return self.plan.run(Data(self.values, source, secret, None, self.price))


# A kind of call with the neighbours and the question that show most of it.

# The delta at which calls are audited that have no pure bound: the guarantee holds at every delta, and at a tiny one
# no number of transcripts shows much.
DELTA = Fraction(1, 20)
# Calls and runs take microseconds, whole sessions and readings of tables milliseconds.
OF_A_CALL, OF_A_SESSION = 10_000, 2_000
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tables:
    """Two neighbouring tables by their columns, opened by a call. `unit=None` makes each row a unit."""

    here: Columns
    there: Columns
    unit: str | None = "unit"
    neighbors: str = "add_remove"

    def __call__(self) -> tuple[Rows, Rows]:
        """Both, as rows that are read once."""
        return opened_once(pa.table(dict(self.here)), pa.table(dict(self.there)), self.neighbors, self.unit)


@dataclass(frozen=True)
class WorstCase:
    """How a kind is audited: `ask(k)` is its call, or a function of a session, at k times the usual epsilon.

    - `terms(k)` says how the sessions are opened.
    - `whole`: sessions ask until they are refused, and the whole budget is claimed. Otherwise the charge is claimed.
    - `priced`: audits the cost of a hit at the filter's order, in log-moment, by exact distributions. For a run it
      audits the charges of all transcripts. With `hits_only` it looks only at which questions hit.
    - `law`: computes the exact distribution of a run's one question, where only some of its words must be followed.
    - `seen`: the part of a sampled outcome that is looked at, where a classifier could not learn from the whole.
    - `says`: the epsilon that an outcome states, where the rest of the charge is kept for later questions. It is
      claimed then.
    - `quick`: the case is audited in a minute. There is one for each way in which neighbours are distinguished.
    """

    kind: str
    ask: Callable[[int], Asked]
    pair: Callable[[], tuple[Rows, Rows]]
    terms: Callable[[int], OpenedUnder] = field(default=lambda k: OpenedUnder())
    whole: bool = False
    priced: bool = False
    hits_only: bool = False
    law: Callable[[Begun, Step], Law] | None = None
    seen: Callable[[Any], Any] | None = None
    says: Callable[[Any], float] | None = None
    transcripts: int = 0
    quick: bool = False

    @property
    def usual(self) -> int:
        """How many transcripts on each neighbour, unless said otherwise."""
        return self.transcripts or (OF_A_CALL if isinstance(self.ask(1), (Call, Chained)) else OF_A_SESSION)

    @contextmanager
    def opened(self) -> Iterator[tuple[Rows, Rows]]:
        """Both databases, closed afterwards."""
        pair = self.pair()
        try:
            yield pair
        finally:
            for rows in pair:
                (rows.end if isinstance(rows, ReadOnce) else rows.close)()


def renyi(epsilon: int = 1, grain: Any = None) -> Callable[[int], OpenedUnder]:
    """A budget of this many epsilons with the delta of audits."""
    return lambda k: OpenedUnder(Budget(epsilon * k, DELTA), "renyi", None if grain is None else Fraction(grain) * k)
