"""DuckDB, the engine within this process: its dialect, sums over batches, its rows, and the engine itself."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
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
from chary.data.engines.duckdb.remembered import Look, Memories, memory_of
from chary.data.engines.sql import ROWS, Reads, SmallTable, SQLRows
from chary.data.partition import RowPart
from chary.data.queries.ordered import Mark, Words
from chary.data.rows import Arrival, Batch, Deferred, EntryLimit, StepColumns, Steps
from chary.data.source import RowSource
from chary.errors import InvalidParameter, SchemaMismatch, quietly

# What DuckDB says for itself.


# Ibis writes ROUND(x, 0), which takes DuckDB three times as long as ROUND(x).
@ibis.udf.scalar.builtin(name="round")  # type: ignore[untyped-decorator]
def _nearest(value: float) -> float:  # type: ignore[empty-body]
    """The nearest integer as a double, halves away from zero; the engine's own function."""


# Types of the engine whose strings differ for different values and stay the same whatever the session's settings.
_TEXTUAL: Final = re.compile(r"boolean|int64|date|timestamp(_s|_ms|_ns)?|uuid|u?hugeint|ubigint|decimal.*")


class DuckDialect(Dialect):
    """See `Dialect`."""

    name = "duckdb"
    namespace: ClassVar[Mapping[str, str]] = {"catalog": "temp", "database": "main"}

    def nearest(self, value: Any) -> Any:
        return _nearest(value)

    def hashed(self, text: Any) -> Any:
        return ("0x" + text.hexdigest("sha256").left(8)).cast("int64")

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
        self.database, self._loader = Database(loader.access, loader.load, Memories()), loader
        self._end: Growth | None = None

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

    def remembering(self, asked: Any, part: RowPart | None, doing: str) -> Callable[[Reads], Any]:
        make, kept = memory_of(asked, part, self), self.database.memories
        if make is None:
            return super().remembering(asked, part, doing)

        def answer(read: Reads) -> Any:
            def work(connection: duckdb.DuckDBPyConnection) -> Any:
                return kept.of((asked, part), make).answer(
                    Look(self, self.database, read, connection, self._loader, self._end)
                )

            return self.database.ask(work, doing)

        return answer

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
        self._look = partial(append.look_at_then, loader=now._loader, end=end)

    def _read(
        self, found: Callable[[duckdb.DuckDBPyConnection], _Found], tables: Sequence[SmallTable], doing: str
    ) -> _Found:
        def work(connection: duckdb.DuckDBPyConnection) -> _Found:
            # Each time, since there is one such view for all versions, so that a query is compiled once.
            self._look(connection)
            return found(connection)

        return super()._read(work, tables, doing)

    def since(self, mark: Mark | None) -> tuple[str, Mark]:
        return SQLRows.since(self, mark)

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
