"""DuckDB, the engine within this process: its dialect, sums over batches, its rows, and the engine itself."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import duckdb
import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import TypeClass, Unparsed, quote
from chary.data.engines.compiler import HALF, Dialect
from chary.data.engines.duckdb import append, reader
from chary.data.engines.duckdb.connection import Access, Database, Growth, fetched
from chary.data.engines.sql import ROWS, Reads, SmallTable, SQLRows
from chary.data.partition import RowPart
from chary.data.queries.ordered import Mark, Occurring, Words
from chary.data.rows import Arrival, Batch, Deferred, EntryLimit, StepColumns, Steps
from chary.data.source import RowSource
from chary.errors import InvalidParameter, SchemaMismatch, quietly

# What DuckDB says for itself.


# Ibis writes ROUND(x, 0), which takes DuckDB three times as long as ROUND(x).
@ibis.udf.scalar.builtin(name="round")  # type: ignore[untyped-decorator]
def _nearest(value: float) -> float:  # type: ignore[empty-body]
    """The nearest whole number as a double, halves away from zero; the engine's own function."""


# Types of the engine whose texts differ for different values and stay the same whatever the session's settings.
_TEXTUAL: Final = re.compile(r"boolean|int64|date|timestamp(_s|_ms|_ns)?|uuid|u?hugeint|ubigint|decimal.*")


class DuckDialect(Dialect):
    """See `Dialect`."""

    name = "duckdb"
    namespace: ClassVar[Mapping[str, str]] = {"catalog": "temp", "database": "main"}

    def nearest(self, value: Any) -> Any:
        return _nearest(value)

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        return value.ilike(pattern) if fold else value.like(pattern)

    def halves(self, summed: str) -> str:
        # Sums are 128 bits wide in the engine and would come out as doubles.
        return f"CAST({summed} // {HALF} AS BIGINT) AS high, CAST({summed} % {HALF} AS BIGINT) AS low"

    def text_of(self, value: str, kind: str) -> str | None:
        if kind == TypeClass.STRING:
            return value
        if kind == TypeClass.FLOAT:
            # 0.0 and -0.0 are one value.
            return f"CAST({value} + 0.0 AS VARCHAR)"
        return f"CAST({value} AS VARCHAR)" if _TEXTUAL.fullmatch(kind) else None


DUCK: Final[Dialect] = DuckDialect()

# Answers that add up over batches of rows: after a batch, only that is read.

# Longer ones are not remembered: 256 plans are kept, so that at most 256 MB are.
MOST: Final = 2**17
# Two integers below it add up within 64 bits.
_SMALL: Final = 2**62
# An `Answer` of a query, or `Occurring`, or one for each group.
_Answer = Any


def adds_up(unit: str | None) -> bool:
    """Whether the answers of every query add up over disjoint sets of rows: where each row is a unit of its own.

    Proof. Then a query adds one term for each row (whether it counts, its value in steps, its products), for the key
    of that row alone, and the term follows from the row. Sums of integers over disjoint sets add up.

    With a column of units no query qualifies, whatever its limits: a unit counts once in each of two batches and once
    in both together, and which of its rows are kept, or how its sum is clipped, follows from all of them.
    """
    return unit is None


@dataclass(frozen=True)
class _Remembered:
    state: append.StateOfRows
    answer: _Answer

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


class Adding:
    """The last exact answer of one plan and the state of the rows it is of. Secret, in this process's memory alone.

    Guarantee: what `answer` returns is what reading all rows returns. The state is taken before and after reading, and
    only where both are one is the answer remembered; rows that changed otherwise than by growth are read again.

    How long an answer takes then follows from which questions were asked before and what came since, both of which are
    public, and as before from the rows that are read, which is not covered by the promise.
    """

    def __init__(self, database: Database, loader: reader.Loader, doing: str) -> None:
        """For the plan of one query where answers add up."""
        self._database, self._loader, self._doing = database, loader, doing
        self._last: _Remembered | None = None

    def answer(self, read: Reads) -> _Answer:
        """By reading everything, or what came since the last answer, or nothing."""
        return self._database.ask(lambda connection: self._answer(read, connection), self._doing)

    def _answer(self, read: Reads, connection: duckdb.DuckDBPyConnection) -> _Answer:
        now, last = append.state_of(self._database, connection, self._loader), self._last
        if now is None:
            return read(ROWS)
        if last is not None and last.state == now:
            return _copied(last.answer)
        if last is not None and append.look_at_growth(connection, self._loader, last.state, now):
            found = _sum(last.answer, read(append.GROWN))
        else:
            found = read(ROWS)
        self._last = (
            _Remembered(now, found)
            if _size(found) <= MOST and append.state_of(self._database, connection, self._loader) == now
            else None
        )
        return _copied(found)

    def __repr__(self) -> str:
        return "Adding(<secret>)"


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


# DuckDB as an engine: what it opens, and the rows it holds.


_Found = TypeVar("_Found")
_UNREAD: Final = "chary_unread"
_READING: Final = "read the elements"


class DuckRows(SQLRows):
    """Rows in DuckDB's memory, or in a file that it reads in place; see `EngineRows`."""

    dialect = DUCK

    def __init__(self, loader: reader.Loader) -> None:
        """Use `DuckDB.open`."""
        super().__init__(loader.unit)
        self.database, self._loader = Database(loader.access, loader.load), loader

    @property
    def schema(self) -> dict[str, str]:
        return self._loader.schema

    @property
    def reading(self) -> dict[str, Any]:
        return self._loader.reading

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return self._loader.unparsed

    @property
    def keeps_batches(self) -> bool:
        return self._loader.path is not None

    def one_state(self) -> AbstractContextManager[object]:
        # Whoever adds rows takes the same lock; a file that is open for reading is written by no other process.
        return self.database.connection()

    def number(self, sql: str, doing: str) -> int:
        # DuckDB refuses other work on the connection until a result has been fetched to its end.
        [(found,)] = self._read(lambda connection: connection.execute(sql).fetchall(), (), doing)
        return int(found or 0)

    def numbers(self, sql: str, tables: Sequence[SmallTable], doing: str) -> dict[str, NDArray[Any]]:
        return self._read(lambda connection: connection.execute(sql).fetchnumpy(), tables, doing)

    def arrow(self, sql: str, tables: Sequence[SmallTable], doing: str) -> pa.Table:
        return self._read(lambda connection: connection.sql(sql).to_arrow_table(), tables, doing)

    def words(self, key: str, text: str, chosen: str) -> Words:
        sql = f"SELECT CAST('0x' || substr(sha256($1 || {text}), 1, 16) AS UBIGINT) AS word FROM ({chosen})"
        found = self._read(lambda connection: connection.execute(sql, [key]).fetchnumpy(), (), _READING)
        return np.asarray(found["word"], dtype=np.uint64)

    def _read(
        self, found: Callable[[duckdb.DuckDBPyConnection], _Found], tables: Sequence[SmallTable], doing: str
    ) -> _Found:
        def work(connection: duckdb.DuckDBPyConnection) -> _Found:
            self.database.offer(tables)
            return found(connection)

        read: _Found = self.database.ask(work, doing)
        return read

    def since(self, mark: Mark | None) -> tuple[str, Mark]:
        def look(connection: duckdb.DuckDBPyConnection) -> tuple[str, int]:
            grown = append.growing(connection, self._loader)
            if grown is None:
                return ROWS, 0
            [(upto,)] = connection.execute(f"SELECT coalesce(max(rowid), -1) + 1 FROM {grown}").fetchall()
            if mark is None or mark.table != self.name:
                return ROWS, int(upto)
            unread = f"SELECT * FROM {grown} WHERE rowid >= {mark.upto}"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_UNREAD} AS {unread}")
            return _UNREAD, int(upto)

        rows, upto = self._read(look, (), _READING)
        return rows, Mark(self.name, upto)

    def remembering(self, doing: str) -> Callable[[Reads], Any]:
        if adds_up(self.unit):
            return Adding(self.database, self._loader, doing).answer
        return super().remembering(doing)

    @property
    def knows_arrival(self) -> bool:
        return self._loader.knows_arrival

    def snapshot(self, columns: Sequence[str], part: RowPart | None = None) -> Deferred:
        sql = f"SELECT {', '.join(map(quote, columns))} FROM {self.relation(part, f'temp.main.{self.reads_from}')}"
        return Deferred(", ".join(columns), lambda: self.arrow(sql, (), "read the rows"))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return append.append(self.database, self._loader, source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = append.batches_of(self._loader)
        return self._read(lambda connection: kept.after(partial(fetched, connection), after), (), "read the batches")

    def as_of(self, batch: int, size: int | None) -> "RowsThen":
        def find(connection: duckdb.DuckDBPyConnection) -> Growth:
            return append.end_of(self.database, connection, self._loader, batch, size)

        return RowsThen(self, self.database.ask(find, "looked for the rows of then"))

    def close(self) -> None:
        self.database.close()


class RowsThen(DuckRows):
    """The first of some rows, as they were at an earlier version; see `EngineRows.as_of`."""

    reads_from, arrivals = append.THEN, append.ARRIVALS_THEN

    def __init__(self, now: DuckRows, end: Growth) -> None:
        """Use `DuckRows.as_of`."""
        SQLRows.__init__(self, now.unit)
        self.database, self._loader, self._now, self._end = now.database, now._loader, now, end

    def _read(
        self, found: Callable[[duckdb.DuckDBPyConnection], _Found], tables: Sequence[SmallTable], doing: str
    ) -> _Found:
        def work(connection: duckdb.DuckDBPyConnection) -> _Found:
            # Each time, since there is one such view for all versions, so that a query is compiled once.
            append.look_at_then(connection, self._loader, self._end)
            return found(connection)

        return super()._read(work, tables, doing)

    def since(self, mark: Mark | None) -> tuple[str, Mark]:
        return SQLRows.since(self, mark)

    def remembering(self, doing: str) -> Callable[[Reads], Any]:
        return SQLRows.remembering(self, doing)

    def as_of(self, batch: int, size: int | None) -> "RowsThen":
        return self._now.as_of(batch, size)

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        raise InvalidParameter("rows of an earlier version are what they were: append to those of now")

    def close(self) -> None:
        """Rows of now stay open."""


class DuckDB:
    """The engine in this process; see `Engine`."""

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> DuckRows:
        reader.check_path(source)
        loader = reader.Loader(source, unit, unpivot, limit=limit)
        unreadable = SchemaMismatch(
            "the source cannot be read as a table with one type for each column; "
            "if it is a CSV, check the types that columns= declares"
        )
        rows = quietly(lambda: DuckRows(loader), unreadable)
        with ExitStack() as undo:
            undo.callback(rows.close)
            check = partial(append.check_entries, loader=loader, rows=f"temp.main.{ROWS}", among=None)
            rows.database.ask(check, "counted the entries of units")
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return reader.read_steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        with Access(str(path)).connect(writing=True) as connection:
            connection.register("chary_first", rows)
            connection.execute(f"CREATE TABLE {quote(table)} AS SELECT * FROM chary_first")
