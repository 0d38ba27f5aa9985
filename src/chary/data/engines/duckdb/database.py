"""One DuckDB connection: locked, able to reconnect, and silent about values when it fails."""

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa

from chary.data.engines.duckdb.connecting import Access
from chary.data.silence import quietly
from chary.errors import EngineFailure

ROWS = "chary_rows"
Columns = Mapping[str, tuple[str, Any]]
Work = Callable[[duckdb.DuckDBPyConnection], Any]
_ARROW = {
    "int64": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    # Microseconds are what the engine's TIMESTAMP counts: nothing is rounded.
    "timestamp": pa.timestamp("us"),
}
_numbers = itertools.count()


class Database:
    """A connection in which `temp.main.chary_rows` are the rows that queries read.

    In memory, or on a DuckDB file: then the file is open read-only, except during `write`. Everything runs under one
    lock. `generation` grows with each reconnection, after which temporary tables have to be made again.
    """

    def __init__(self, access: Access, prepare: Work) -> None:
        """Connect, and run `prepare`, which makes the rows; it runs again after each reconnection."""
        self.access = access
        self.generation = 0
        self._prepare = prepare
        # Reentrant, since what holds the connection asks for it again: units are counted in one state of the rows.
        self._lock = threading.RLock()
        self._unused: deque[str] = deque()
        self._closed = False
        self._writing = False
        self._connection: duckdb.DuckDBPyConnection | None = self._connect()

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for the thread that asks; `EngineFailure` once it is closed."""
        with self._lock:
            if self._closed:
                raise EngineFailure("the table is closed")
            if self._connection is None:
                self._connection = quietly(self._connect, EngineFailure("the file cannot be opened again"))
            yield self._connection

    def ask(self, work: Work, doing: str) -> Any:
        """What `work` finds on the connection; if it fails, `EngineFailure` tells what it was doing, and no value.

        So it does within `write`: rows that are not there yet, and may never be, are in no answer.
        """
        with self.connection() as connection:
            if self._writing:
                raise EngineFailure("rows are being added: ask when they are there")
            return quietly(lambda: work(connection), EngineFailure(f"the engine failed while it {doing}"))

    def write(self, work: Work) -> Any:
        """Run `work` in one transaction on a connection that may write: all of it happens, or nothing does."""
        with self.connection() as connection:
            if self.access.path is None:
                return self._add(connection, work)
            # The engine opens no file twice in one process with different rights.
            connection.close()
            self._connection = None
            return _write_file(self.access, work)

    def offer(self, name: str, columns: Columns) -> None:
        """Make a temporary table: its columns by name, each as type and values."""
        arrays = {column: pa.array(values, _ARROW[kind]) for column, (kind, values) in columns.items()}
        with self.connection() as connection:
            # A result that an interruption left half fetched would refuse all other work on the connection.
            connection.abort()
            while self._unused:
                connection.execute(f"DROP TABLE IF EXISTS temp.main.{self._unused.popleft()}")
            connection.register(f"{name}_source", pa.table(arrays))
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM {name}_source")
            connection.unregister(f"{name}_source")

    def retire(self, name: str) -> None:
        """Let the temporary table go with the next `offer`; safe to call from a finalizer."""
        # A finalizer may run in any thread at any moment, so it takes no lock: appending to a deque needs none.
        self._unused.append(name)

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _add(self, connection: duckdb.DuckDBPyConnection, work: Work) -> Any:
        self._writing = True
        try:
            return _transaction(connection, work)
        finally:
            self._writing = False

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = self.access.connect()
        self.generation += 1
        self._prepare(connection)
        return connection


class Offered:
    """A temporary table: made when it is first needed, again after each reconnection, gone after this object."""

    def __init__(self, database: Database, name: str, columns: Columns) -> None:
        self._database, self._name, self._columns = database, name, columns
        self._generation = 0
        weakref.finalize(self, database.retire, name)

    def ready(self) -> str:
        """Its name, once it is there."""
        if self._generation != self._database.generation:
            self._database.offer(self._name, self._columns)
            self._generation = self._database.generation
        return self._name


def fresh(kind: str) -> str:
    """A name that no other temporary table of this process has."""
    return f"chary_{kind}_{next(_numbers)}"


def _transaction(connection: duckdb.DuckDBPyConnection, work: Work) -> Any:
    connection.begin()
    try:
        result = work(connection)
        connection.commit()
    except BaseException:
        with suppress(duckdb.Error):  # what went wrong first is what is told; a connection that is closed rolls back
            connection.rollback()
        raise
    return result


def _write_file(access: Access, work: Work) -> Any:
    busy = EngineFailure("the file cannot be opened for writing: another connection holds it, or it is read-only")
    with quietly(lambda: access.connect(writing=True), busy) as connection:
        return _transaction(connection, work)
