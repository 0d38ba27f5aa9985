"""Spark as an engine: rows that it holds, and the engine itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chary.data.columns import beside
from chary.data.engines import protocol
from chary.data.engines.batches import check_entries
from chary.data.engines.compiler import ANSWER
from chary.data.engines.spark import storage
from chary.data.engines.spark.dialect import SPARK
from chary.data.engines.spark.session import BATCH, CANDIDATE, SparkWork, session_of
from chary.data.engines.sql import ROWS, SmallTable, SQLRows, fresh
from chary.data.partition import RowPart
from chary.data.queries.ordered import Words
from chary.data.rows import Arrival, Batch, Deferred, EntryLimit, StepColumns, Steps
from chary.data.source import RowSource
from chary.errors import EngineError, InvalidParameter, SchemaMismatch, quietly

# Rows that Spark holds.


class SparkRows(SQLRows):
    """See `EngineRows`."""

    dialect = SPARK

    def __init__(
        self,
        work: SparkWork,
        holding: storage.Holding,
        unit: str | None,
        template: storage.Template,
        limit: EntryLimit | None,
    ) -> None:
        """Use `Spark.open`."""
        super().__init__(unit)
        self.work, self.holding, self._template, self._limit = work, holding, template, limit
        self._defined = 0
        self._within = False

    @property
    def schema(self) -> dict[str, str]:
        return dict(self._template.schema)

    @property
    def reading(self) -> dict[str, Any]:
        return self._template.reading

    @property
    def keeps_batches(self) -> bool:
        return self.holding.keeps_batches

    def number(self, sql: str, doing: str) -> int:
        return int(self.arrow(sql, (), doing)[ANSWER][0].as_py() or 0)

    def numbers(self, sql: str, tables: Sequence[SmallTable], doing: str) -> Mapping[str, NDArray[Any]]:
        found = self.arrow(sql, tables, doing)
        return {name: found[name].cast(pa.int64()).to_numpy() for name in found.column_names}

    def arrow(self, sql: str, tables: Sequence[SmallTable], doing: str) -> pa.Table:
        with self.one_state():
            self.work.offer(tables)
            return self.work.read(sql, doing)

    def words(self, key: str, text: str, chosen: str) -> Words:
        # The key is a row and no literal: what Spark shows of a query to whoever looks at its pages holds literals.
        secret = SmallTable(fresh("key"), {"secret": ("string", [key])})
        texts = f"SELECT {text} AS text FROM ({chosen})"
        hashed = f"SELECT sha2(concat(secret, text), 256) AS word FROM ({texts}) CROSS JOIN {secret.name}"
        parts = ", ".join(f"CAST(conv(substr(word, {at}, 8), 16, 10) AS BIGINT) AS w{at}" for at in (1, 9))
        found = self.numbers(f"SELECT {parts} FROM ({hashed})", [secret], "read the elements")
        high, low = (found[half].astype(np.uint64) for half in ("w1", "w9"))
        return (high << np.uint64(32)) | low

    def snapshot(self, columns: Sequence[str], part: RowPart | None = None) -> Deferred:
        sql = f"SELECT {', '.join(map(storage.backquoted, columns))} FROM {self.relation(part)}"
        return Deferred(", ".join(columns), lambda: self.arrow(sql, (), "read the rows"))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        with self.one_state():
            held = [batch for batch in self.holding.batches() if request is not None and batch.request == request]
            if held:
                return held[0]
            rows, unparsed = self._template.fitted(source)
            return replace(self.holding.add(rows, request, self._size_with(rows), arrive), unparsed=unparsed)

    def batches(self, after: int) -> list[Batch]:
        with self.work.held():
            return [batch for batch in self.holding.batches() if batch.number > after]

    @contextmanager
    def one_state(self) -> Iterator[None]:
        with self.work.held():
            if self._within:
                yield
                return
            self.holding.check()
            known = len(self.holding.batches())
            if known != self._defined:
                self.work.ask(
                    lambda session: storage.define(session, self.holding.frames(session), self.unit), "read the rows"
                )
                self._defined = known
            self._within = True
            try:
                yield
            finally:
                self._within = False
            self.holding.check()

    def close(self) -> None:
        self.work.close()

    def _size_with(self, rows: pa.Table) -> int:
        def offered(session: Any) -> None:
            more = session.createDataFrame(rows)
            storage.define(session, [more], self.unit, BATCH)
            storage.define(session, [*self.holding.frames(session), more], self.unit, CANDIDATE)

        self.work.ask(offered, "looked at the rows to add")
        self.check_entries(CANDIDATE, BATCH)
        found = self.work.read(f"SELECT count(*) AS rows FROM {CANDIDATE}", "counted the rows")
        return int(found["rows"][0].as_py())

    def check_entries(self, rows: str, among: str | None) -> None:
        """`SchemaMismatch`, naming nobody, if a unit (of the view `among`, if given) is in too many rows."""
        if self._limit is not None:
            of = storage.backquoted(self._limit.of)
            chosen = None if among is None else f"SELECT {of} FROM {among}"
            read = partial(self.work.read, doing="counted the entries of units")
            check_entries(self._limit, self.schema, rows, of, chosen, read)


# Spark as an engine: what it opens.

_UNREADABLE: Final = "the source cannot be read as a table with one type for each column"
_READING: Final = "read the source"


class Spark:
    """Spark, in this process or elsewhere; see `Engine`.

    Parquet files, folders of them and tables are read where they are. Whatever else there is the embedded engine reads,
    and Spark gets its rows.
    """

    def __init__(self, embedded: protocol.Engine, named: Any) -> None:
        """`named` is the name of an engine or a session."""
        self._embedded, self._named = embedded, named

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> SparkRows:
        if source.kind == "duckdb":
            raise InvalidParameter("Spark reads no DuckDB file: leave out engine=, or give Parquet files or a table")
        if unpivot is not None and source.kind in ("folder", "table"):
            raise InvalidParameter("Spark unpivots what it is given as a file or a frame")
        session = session_of(self._named)
        work = quietly(lambda: SparkWork(session), EngineError("the session of Spark cannot be used: has it ended?"))
        with ExitStack() as undo:
            undo.callback(work.close)
            holding, schema = quietly(lambda: self._held(work, source, unit, unpivot), SchemaMismatch(_UNREADABLE))
            empty = work.read(f"SELECT * FROM {ROWS} LIMIT 0", "looked at the columns")
            rows = SparkRows(work, holding, unit, storage.Template(self._embedded, source, schema, unit, empty), limit)
            rows.check_entries(ROWS, None)
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return self._embedded.steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        path.mkdir()
        pq.write_table(rows, path / "first.parquet")

    def _held(
        self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None
    ) -> tuple[storage.Holding, dict[str, str]]:
        """The rows, which are a view now, and the types of their columns."""
        holding = self._holding(work, source, unit, unpivot)
        first = work.ask(lambda session: holding.frames(session)[0], _READING)
        schema = {column.name: column.type for column in storage.read_columns(first, unit)}
        if unit is not None and unit not in schema:
            raise SchemaMismatch(f"there is no column {unit!r} to be the privacy unit{beside(unit, schema)}")
        work.ask(lambda session: storage.define(session, holding.frames(session), unit), _READING)
        return holding, schema

    def _holding(
        self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None
    ) -> storage.Holding:
        if source.kind == "folder":
            return storage.RowsInFolder(source.paths[0])
        if source.kind == "table":
            return storage.RowsInSession(
                work.ask(lambda session: storage.table_frame(session, str(source.table)), _READING)
            )
        if source.kind == "parquet" and unpivot is None:
            files = [storage.SeenFile.of(path) for path in source.paths]
            storage.shared_schema(source.paths)
            told = [storage.on_this_machine(path) for path in source.paths]
            return storage.RowsInSession(work.ask(lambda session: session.read.parquet(*told), _READING), files)
        found = storage.sendable(storage.local_rows(self._embedded, source, unit, unpivot))
        return storage.RowsInSession(work.ask(lambda session: session.createDataFrame(found), _READING))
