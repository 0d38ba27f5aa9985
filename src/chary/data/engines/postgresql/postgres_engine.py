"""PostgreSQL as an engine: tables of a server, asked where they are."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from chary.data.columns import Unparsed
from chary.data.engines.engine import Engine
from chary.data.engines.postgresql.inserting.entry_counts import check_entry_counts
from chary.data.engines.postgresql.inserting.server_append import ServerAppend
from chary.data.engines.postgresql.inserting.server_batches import ServerBatches
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.server_living import ServerLiving, recognised
from chary.data.engines.postgresql.server_plan import ServerPlan, ordering_of
from chary.data.engines.postgresql.server_snapshot import snapshot_of
from chary.data.engines.postgresql.server_steps import read_server_steps
from chary.data.engines.postgresql.server_words import ServerWords
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
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
from chary.errors import InvalidParameter


class ServerRows:
    """Rows of a table of a server, which stay there; see `EngineRows`."""

    def __init__(
        self, embedded: Engine, server: Server, rows: StoredRows, source: RowSource, limit: EntryLimit | None
    ) -> None:
        """Use `PostgreSQL.open`."""
        self._embedded, self.server, self.rows, self._source, self._limit = embedded, server, rows, source, limit
        # Tells marks of these rows from marks of rows that another process, or this one earlier, had opened.
        self._name = uuid.uuid4().hex

    @property
    def schema(self) -> dict[str, str]:
        return self.rows.schema

    @property
    def reading(self) -> dict[str, Any]:
        return {} if self._source.said is None else self._source.said.body()

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return {}

    @property
    def keeps_batches(self) -> bool:
        return True

    def compile(self, query: Query) -> ServerPlan:
        return ServerPlan(self.server, self.rows, query)

    def snapshot(self, columns: Sequence[str]) -> Deferred:
        return snapshot_of(self.server, self.rows, columns)

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering_of(self.server, self.rows, asked)

    def elements(self, asked: Elements) -> ServerWords:
        return ServerWords(self.server, self.rows, asked, self._name)

    def living(self, query: Count | Total) -> ServerLiving:
        return ServerLiving(self.server, self.rows, query)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        # What others add meanwhile is in no reading of the same transaction.
        with self.server.reading():
            yield

    def check_units(self) -> None:
        recognised(self.schema, str(self.rows.unit))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return ServerAppend(self._embedded, self.server, self.rows, self._limit).append(source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = ServerBatches(self.rows.relation)
        return self.server.ask(lambda cursor: kept.after(cursor, after), "read the batches")

    def close(self) -> None:
        self.server.close()


class PostgreSQL:
    """The engine of tables on PostgreSQL servers; see `Engine`. It reaches the server that an address names; rows that are
    appended are read by the embedded engine.
    """

    def __init__(self, embedded: Engine) -> None:
        self._embedded = embedded

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> ServerRows:
        table = str(source.table)
        with ExitStack() as undo:
            server = Server(source.address)
            undo.callback(server.close)
            rows = server.ask(lambda cursor: StoredRows.find(cursor, table, unit, unpivot), "looked at the table")
            server.guard(rows.check)
            if limit is not None:
                server.ask(lambda cursor: check_entry_counts(cursor, rows, limit), "counted the entries of units")
            undo.pop_all()
        return ServerRows(self._embedded, server, rows, source, limit)

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        server = Server(source.address)
        try:
            return read_server_steps(server, str(source.table), asked)
        finally:
            server.close()

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        raise InvalidParameter("a server makes no files: create the table there, and append to it")
