"""Answers that go on from those of fewer rows: sums over rows, and counts of units that are known. Secret."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from chary.data.engines.compiler import POSITION, QueryPlace
from chary.data.engines.duckdb import append
from chary.data.engines.duckdb.append import GROWN
from chary.data.engines.duckdb.connection import Access, Database, Growth
from chary.data.engines.duckdb.reader import Loader
from chary.data.engines.sql import Backend, LivingPlan, Reads, fresh, identity
from chary.data.partition import RowPart
from chary.data.queries.ordered import Occurring
from chary.data.queries.sums import Count
from chary.errors import EngineError, InvalidQuery, quietly

# The last exact answer of one query, and the state of the rows it is of: in this process's memory alone.

# Longer ones are not remembered: 256 are kept, so that at most 256 MB are.
MOST: Final = 2**17
_KEPT: Final = 256
# Two integers below it add up within 64 bits.
_SMALL: Final = 2**62
# An `Answer` of a query, or `Occurring`, or one for each group.
_Answer = Any


@dataclass(frozen=True, repr=False)
class Look:
    """One look at rows in one state, all of them or those up to an `end`, on a connection that nobody else uses
    meanwhile. `read` returns the answer of a relation with the columns of the rows.
    """

    rows: Backend
    database: Database
    read: Reads
    connection: duckdb.DuckDBPyConnection
    loader: Loader
    end: Growth | None

    def state(self) -> append.StateOfRows | None:
        """The state of the rows; None where it cannot be determined."""
        return append.state_of(self.database, self.connection, self.loader, self.end)

    def grew(self, before: append.StateOfRows, now: append.StateOfRows) -> bool:
        """Whether `chary_grown` are now the rows that came between two states; False where others changed as well."""
        return append.look_at_growth(self.connection, self.loader, before, now)


@dataclass(frozen=True)
class _Remembered:
    """An answer, and the state of the rows it is of. Secret."""

    state: append.StateOfRows
    answer: _Answer

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


class Memory(ABC):
    """What is remembered of one query.

    Guarantee: what `answer` returns is what reading all rows returns. The state is taken before and after reading, and
    only where both are one is the answer remembered. Rows that changed otherwise than by growth are read again. So are
    all where anything of this fails or is interrupted.

    How long an answer takes then follows from which questions were asked before and what came since, both of which are
    public. As before it also follows from the rows that are read, which is not covered by the promise.
    """

    def __init__(self) -> None:
        self.last: _Remembered | None = None

    def answer(self, look: Look) -> _Answer:
        """By reading everything, or what came since the last answer, or nothing."""
        now, last = look.state(), self.last
        if now is None:
            return look.read(look.rows.reads_from)
        if last is not None and last.state == now:
            return _copied(last.answer)
        self.last = None
        grew = last is not None and look.grew(last.state, now)
        found = self.found(look, last.answer if last is not None and grew else None)
        if _size(found) <= MOST and look.state() == now:
            self.last = _Remembered(now, found)
        return _copied(found)

    @abstractmethod
    def found(self, look: Look, before: _Answer | None) -> _Answer:
        """The answer, from the one before where rows came since."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"


class Memories:
    """What is remembered of the queries of one table, of the last few."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Memory] = OrderedDict()

    def of(self, asked: Any, make: Callable[[], Memory]) -> Memory:
        """That of one query."""
        memory = self._kept.pop(asked) if asked in self._kept else make()
        self._kept[asked] = memory
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        known = [each for each in self._kept.values() if isinstance(each, Knowing) and each.knows]
        for each in known[:-_SETS]:
            each.forget()
        return memory


def memory_of(asked: Any, part: RowPart | None, rows: Backend) -> Callable[[], Memory] | None:
    """What makes the memory of a query; None for one that is answered by reading all rows each time."""
    if adds_up(rows.unit):
        return Adding
    if not isinstance(asked, Count) or asked.without is not None or (part and (part.first or part.within)):
        return None
    try:
        identity(rows.schema, str(rows.unit), rows.dialect)
    except InvalidQuery:
        return None
    return lambda: Knowing(asked, part)


# Answers that add up over batches of rows: after a batch, only that is read.


def adds_up(unit: str | None) -> bool:
    """Whether the answers of every query add up over disjoint sets of rows: where each row is a unit of its own.

    Proof. Then a query adds one term for each row (whether it counts, its value in steps, its products), for the key of
    that row alone. The term follows from the row. Sums of integers over disjoint sets add up.

    With a column of units no query qualifies, whatever its limits: a unit counts once in each of two batches and once
    in both together. Which of its rows are kept, or how its sum is clipped, follows from all of them.
    """
    return unit is None


class Adding(Memory):
    """Of a query whose answers add up."""

    def found(self, look: Look, before: _Answer | None) -> _Answer:
        return look.read(look.rows.reads_from) if before is None else _sum(before, look.read(GROWN))


def _size(answer: _Answer) -> int:
    if isinstance(answer, tuple):
        return sum(map(_size, answer))
    return 1 if isinstance(answer, int) else len(answer.places if isinstance(answer, Occurring) else answer)


def _sum(one: _Answer, other: _Answer) -> _Answer:
    if isinstance(one, int):
        return one + int(other)
    if isinstance(one, tuple):
        return tuple(map(_sum, one, other))
    if isinstance(one, Occurring):
        return _merged(one, other)
    if any(part.dtype == object or np.any(np.abs(part) >= _SMALL) for part in (one, other)):
        one, other = one.astype(object), other.astype(object)
    return one + other


def _merged(one: Occurring, other: Occurring) -> Occurring:
    places, where = np.unique(np.concatenate([one.places, other.places]), return_inverse=True)
    counts = np.zeros(len(places), np.int64)
    np.add.at(counts, where, np.concatenate([one.counts, other.counts]))
    return Occurring(places, counts)


def _copied(answer: _Answer) -> _Answer:
    if isinstance(answer, tuple):
        return tuple(map(_copied, answer))
    if isinstance(answer, Occurring):
        return Occurring(answer.places.copy(), answer.counts.copy())
    return answer if isinstance(answer, int) else answer.copy()


# Counts of units: which were counted where is known, so that only units that come are looked up.

# That many units with a key each are known of one query at most, and of that many queries.
MOST_KNOWN: Final = 2**24
_SETS: Final = 4
_DOING: Final = "counted the units that came"
_CELLS: Final = ("unit", POSITION)


class Knowing(Memory):
    """Of a count of units: which units have rows in which keys.

    A count is asked once without it. Where the count is asked again of more rows, all that are known are put together,
    and from then on what comes is looked up among them. So a question that is asked once costs what it did.

    Guarantee: the answer is that of all rows. A unit counts in the first keys, up to its limit, of those in which it
    has a row that satisfies the condition. These keys are the union of those of then and of those in what came. So only
    units that came count otherwise than before: by what is known of them now, less what was known of them then.
    """

    def __init__(self, asked: Count, part: RowPart | None) -> None:
        super().__init__()
        self._asked, self._part, self._keys = asked, part, fresh("keys")
        self._keep = None if asked.keying is None else asked.keying.max_groups_per_unit
        self._plans: dict[str, LivingPlan] = {}
        self._known: Any = None
        self._gave_up = False

    @property
    def knows(self) -> bool:
        """Whether units are known."""
        return self._known is not None

    def forget(self) -> None:
        """Know no unit any more; the next answer is read from all rows."""
        self._known = self.last = None

    def found(self, look: Look, before: _Answer | None) -> _Answer:
        known, self._known = self._known, None
        if before is not None and not self._gave_up:
            try:
                return self._gathered(look) if known is None else self._added(look, known, before)
            except EngineError:
                self._gave_up = True
        return look.read(look.rows.reads_from)

    def _gathered(self, look: Look) -> _Answer:
        """From all units."""
        cells, known = self._cells(look, look.rows.reads_from), Access().connect()
        counts = quietly(lambda: _put_together(known, cells, self._keep), EngineError(_DOING))
        self._known = known
        return self._changed(look, 0 if self._asked.keying is None else None, counts)

    def _added(self, look: Look, known: Any, before: _Answer) -> _Answer:
        """From the units that came."""
        cells = self._cells(look, GROWN)
        counts = quietly(lambda: _taken_up(known, cells, self._keep), EngineError(_DOING))
        self._known = known
        return self._changed(look, before, counts)

    def _changed(self, look: Look, before: _Answer | None, counts: Mapping[str, Any]) -> _Answer:
        if self._asked.keying is None:
            return int(before or 0) + int(counts["answer"].sum())
        size = self._plan(look, look.rows.reads_from).size
        answer = np.zeros(size, np.int64) if before is None else before.copy()
        answer[counts[POSITION]] += counts["answer"].astype(np.int64)
        return answer

    def _cells(self, look: Look, relation: str) -> pa.Table:
        """Each unit with each of the keys in which it has rows of a relation."""
        plan = self._plan(look, relation)
        columns = f"unit, {'0' if plan.keys is None else POSITION} AS {POSITION}"
        sql = f"SELECT DISTINCT {columns} FROM ({plan.cells}) AS cells LIMIT {MOST_KNOWN + 1}"
        found = look.rows.arrow(sql, () if plan.keys is None else (plan.keys,), _DOING)
        if len(found) > MOST_KNOWN:
            raise EngineError(_DOING)
        return found

    def _plan(self, look: Look, relation: str) -> LivingPlan:
        if relation not in self._plans:
            rows = look.rows
            place: QueryPlace = replace(rows.place(self._keys, self._part), rows=relation)
            plan = LivingPlan.of(self._asked, rows.schema, str(rows.unit), place)
            first = next(iter(self._plans.values()), plan)
            self._plans[relation] = replace(plan, keys=first.keys)
        return self._plans[relation]


def _put_together(known: Any, cells: pa.Table, keep: int | None) -> Mapping[str, Any]:
    """Make all cells known, and count them."""
    known.register("cells", cells)
    known.execute(f"CREATE TEMP TABLE known AS SELECT unit, CAST({POSITION} AS INTEGER) AS {POSITION} FROM cells")
    known.unregister("cells")
    found: Mapping[str, Any] = known.execute(_counts("known", keep)).fetchnumpy()
    return found


def _taken_up(known: Any, cells: pa.Table, keep: int | None) -> Mapping[str, Any]:
    """Make further cells known, and count by how much each key changed."""
    known.register("cells", cells)
    if keep:
        # All that was known of the units that came.
        known.execute("CREATE OR REPLACE TEMP TABLE met AS FROM known SEMI JOIN cells USING (unit)")
    unmet = f"cells ANTI JOIN {'met' if keep else 'known'} USING (unit, {POSITION})"
    known.execute(
        f"CREATE OR REPLACE TEMP TABLE new AS SELECT unit, CAST({POSITION} AS INTEGER) AS {POSITION} FROM {unmet}"
    )
    known.unregister("cells")
    counts = _counts("new", None)
    if keep:
        after, before = _counts("(FROM met UNION ALL FROM new)", keep), _counts("met", keep)
        both = f"{after} UNION ALL SELECT {POSITION}, -answer AS answer FROM ({before})"
        counts = f"SELECT {POSITION}, CAST(sum(answer) AS BIGINT) AS answer FROM ({both}) GROUP BY {POSITION}"
    found: Mapping[str, Any] = known.execute(counts).fetchnumpy()
    known.execute("INSERT INTO known FROM new")
    [(size,)] = known.execute("SELECT count(*) FROM known").fetchall()
    if size > MOST_KNOWN:
        raise EngineError(_DOING)
    return found


def _counts(cells: str, keep: int | None) -> str:
    """SQL for how many units count in each key, of which a unit is in the first this many."""
    if keep is not None:
        rank = f"row_number() OVER (PARTITION BY unit ORDER BY {POSITION})"
        cells = f"(SELECT {POSITION} FROM (SELECT {POSITION}, {rank} AS rank FROM {cells}) WHERE rank <= {keep})"
    return f"SELECT {POSITION}, count(*) AS answer FROM {cells} GROUP BY {POSITION}"
