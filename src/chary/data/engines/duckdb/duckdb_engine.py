"""DuckDB as an engine: what it opens, and the rows it holds."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from chary.data.columns import Unparsed, quote
from chary.data.engines.duckdb.asking.element_words import ElementReader
from chary.data.engines.duckdb.asking.living_units import Living, OfferedRooms, identity
from chary.data.engines.duckdb.asking.ordering import ordering
from chary.data.engines.duckdb.asking.plan import EnginePlan
from chary.data.engines.duckdb.connecting import Access
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.engines.duckdb.growing.appending import append, batches_of
from chary.data.engines.duckdb.growing.entry_check import check_entries
from chary.data.engines.duckdb.reading.attaching import check_path
from chary.data.engines.duckdb.reading.loading import Loader
from chary.data.engines.duckdb.reading.step_reading import read_steps
from chary.data.files.sources import RowSource
from chary.data.queries.count import Count
from chary.data.queries.elements import Elements
from chary.data.queries.ordered_values import Ordered
from chary.data.queries.query import Query
from chary.data.queries.total import Total
from chary.data.rows.batch import Arrival, Batch
from chary.data.rows.entry_limit import EntryLimit
from chary.data.rows.rows import Deferred
from chary.data.rows.steps import StepColumns, Steps
from chary.data.silence import quietly
from chary.errors import SchemaMismatch


class DuckRows:
    """Rows in DuckDB's memory, or in a file that it reads in place; see `EngineRows`."""

    def __init__(self, loader: Loader) -> None:
        """Use `DuckDB.open`."""
        self.database, self._loader = Database(loader.access, loader.load), loader
        self._rooms = OfferedRooms(self.database)
        # Tells marks of these rows from marks of rows that another process, or this one earlier, had opened.
        self._name = uuid.uuid4().hex

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

    def compile(self, query: Query) -> EnginePlan:
        return EnginePlan(self.database, self._loader, query)

    def snapshot(self, columns: Sequence[str]) -> Deferred:
        sql = f"SELECT {', '.join(map(quote, columns))} FROM temp.main.{ROWS}"
        return Deferred(
            ", ".join(columns), lambda: self.database.ask(lambda it: it.sql(sql).to_arrow_table(), "read the rows")
        )

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering(self.database, asked, self._loader)

    def elements(self, asked: Elements) -> ElementReader:
        return ElementReader(self.database, self._loader, asked, self._name)

    def living(self, query: Count | Total) -> Living:
        return Living(self._rooms, query, self.schema, str(self._loader.unit))

    @contextmanager
    def one_state(self) -> Iterator[None]:
        # Whoever adds rows takes the same lock; a file that is open for reading is written by no other process.
        with self.database.connection():
            yield

    def check_units(self) -> None:
        identity(self.schema, str(self._loader.unit))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return append(self.database, self._loader, source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = batches_of(self._loader)
        found: list[Batch] = self.database.ask(lambda connection: kept.after(connection, after), "read the batches")
        return found

    def keep(self, limit: EntryLimit) -> None:
        """Hold these rows and all batches to a limit; `SchemaMismatch` if they break it."""
        if limit.of not in self.schema:
            raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
        self._loader.limit = limit
        everything = f"temp.main.{ROWS}"
        self.database.ask(
            lambda connection: check_entries(connection, limit, everything), "counted the entries of units"
        )

    def close(self) -> None:
        self.database.close()


class DuckDB:
    """The engine in this process; see `Engine`."""

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> DuckRows:
        check_path(source)
        loader = Loader(source, unit, unpivot)
        unreadable = SchemaMismatch(
            "the source cannot be read as a table with one type for each column; "
            "if it is a CSV, check the types that columns= declares"
        )
        rows = quietly(lambda: DuckRows(loader), unreadable)
        with ExitStack() as undo:
            undo.callback(rows.close)
            if limit is not None:
                rows.keep(limit)
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return read_steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        with Access(str(path)).connect(writing=True) as connection:
            connection.register("chary_first", rows)
            connection.execute(f"CREATE TABLE {quote(table)} AS SELECT * FROM chary_first")
