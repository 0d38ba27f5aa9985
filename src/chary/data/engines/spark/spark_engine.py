"""Spark as an engine: what it opens."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chary.data.engines.engine import Engine
from chary.data.engines.spark.holding.spark_files import SeenFile, on_this_machine, shared_schema
from chary.data.engines.spark.holding.spark_folder import RowsInFolder
from chary.data.engines.spark.holding.spark_holding import Holding, RowsInSession, define
from chary.data.engines.spark.holding.spark_tables import table_frame
from chary.data.engines.spark.holding.spark_template import Template, local_rows, sendable
from chary.data.engines.spark.holding.spark_types import read_columns
from chary.data.engines.spark.spark_rows import SparkRows
from chary.data.engines.spark.spark_starting import session_of
from chary.data.engines.spark.spark_work import ROWS, SparkWork
from chary.data.files.sources import RowSource
from chary.data.rows.entry_limit import EntryLimit
from chary.data.rows.steps import StepColumns, Steps
from chary.data.silence import quietly
from chary.errors import EngineFailure, InvalidParameter, SchemaMismatch

_UNREADABLE: Final = "the source cannot be read as a table with one type for each column"
_READING: Final = "read the source"


class Spark:
    """Spark, in this process or elsewhere; see `Engine`.

    Parquet files, folders of them and tables are read where they are. Whatever else there is the embedded engine reads,
    and Spark gets its rows.
    """

    def __init__(self, embedded: Engine, named: Any) -> None:
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
        work = quietly(lambda: SparkWork(session), EngineFailure("the session of Spark cannot be used: has it ended?"))
        with ExitStack() as undo:
            undo.callback(work.close)
            rows = quietly(lambda: self._rows(work, source, unit, unpivot), SchemaMismatch(_UNREADABLE))
            empty = work.read(f"SELECT * FROM {ROWS} LIMIT 0", "looked at the columns")
            rows.begin(Template(self._embedded, source, rows.schema, empty), limit)
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return self._embedded.steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        path.mkdir()
        pq.write_table(rows, path / "first.parquet")

    def _rows(self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None) -> SparkRows:
        holding = self._held(work, source, unit, unpivot)
        first = work.ask(lambda session: holding.frames(session)[0], _READING)
        columns = read_columns(first, unit)
        schema = {column.name: column.type for column in columns}
        if unit is not None and unit not in schema:
            raise SchemaMismatch(f"there is no column {unit!r} to be the privacy unit")
        work.ask(lambda session: define(session, holding.frames(session), unit), _READING)
        return SparkRows(work, holding, schema, unit)

    def _held(self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None) -> Holding:
        if source.kind == "folder":
            return RowsInFolder(source.paths[0])
        if source.kind == "table":
            return RowsInSession(work.ask(lambda session: table_frame(session, str(source.table)), _READING))
        if source.kind == "parquet" and unpivot is None:
            files = [SeenFile.of(path) for path in source.paths]
            shared_schema(source.paths)
            told = [on_this_machine(path) for path in source.paths]
            return RowsInSession(work.ask(lambda session: session.read.parquet(*told), _READING), files)
        found = sendable(local_rows(self._embedded, source, unit, unpivot))
        return RowsInSession(work.ask(lambda session: session.createDataFrame(found), _READING))
