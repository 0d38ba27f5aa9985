"""One DuckDB connection: locked, able to reconnect, and silent about values when it fails."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from chary.errors import CharyError, EngineFailure

ROWS = "chary_rows"
Work = Callable[[duckdb.DuckDBPyConnection], Any]
_ARROW = {"int64": pa.int64, "boolean": pa.bool_, "string": pa.string, "date": pa.date32}


class Engine:
    """A connection in which `temp.main.chary_rows` are the rows that queries read.

    In memory, or on a DuckDB file: then the file is open read-only, except during `write`. Everything runs under one
    lock. `generation` grows with each reconnection, after which temporary tables have to be made again.
    """

    def __init__(self, path: str | None, prepare: Work) -> None:
        """Connect, and run `prepare`, which makes the rows; it runs again after each reconnection."""
        self.path = path
        self.generation = 0
        self._prepare = prepare
        self._lock = threading.RLock()
        self._unused: deque[str] = deque()
        self._closed = False
        self._connection: duckdb.DuckDBPyConnection | None = self._connect()

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for the thread that asks; `EngineFailure` once the engine is closed."""
        with self._lock:
            if self._closed:
                raise EngineFailure("the table is closed")
            if self._connection is None:
                self._connection = quietly(self._connect, EngineFailure("the file cannot be opened again"))
            yield self._connection

    def write(self, work: Work) -> Any:
        """Run `work` in one transaction on a connection that may write: all of it happens, or nothing does."""
        with self.connection() as connection:
            if self.path is None:
                return _transaction(connection, work)
            connection.close()
            self._connection = None
            return _write_file(self.path, work)

    def offer(self, name: str, columns: Mapping[str, tuple[str, list[Any]]]) -> None:
        """Make a temporary table of public keys."""
        arrays = {column: pa.array(values, _arrow_type(kind)) for column, (kind, values) in columns.items()}
        with self.connection() as connection:
            connection.abort()
            while self._unused:
                connection.execute(f"DROP TABLE IF EXISTS temp.main.{self._unused.popleft()}")
            connection.register(f"{name}_source", pa.table(arrays))
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM {name}_source")
            connection.unregister(f"{name}_source")

    def retire(self, name: str) -> None:
        """Let the temporary table go with the next `offer`; safe to call from a finalizer."""
        self._unused.append(name)

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(self.path or ":memory:", read_only=self.path is not None)
        self.generation += 1
        self._prepare(connection)
        return connection


def quietly(work: Callable[[], Any], failure: Exception) -> Any:
    """Run `work`; when anything at all goes wrong, raise `failure` alone: the original names values of the data.

    >>> quietly(lambda: 1 / 0, EngineFailure("the engine failed"))
    Traceback (most recent call last):
    ...
    chary.errors.EngineFailure: the engine failed
    """
    try:
        return work()
    except CharyError:
        raise
    except Exception:
        pass
    raise failure


def _arrow_type(kind: str) -> pa.DataType:
    return pa.timestamp("us") if kind == "timestamp" else _ARROW[kind]()


def _transaction(connection: duckdb.DuckDBPyConnection, work: Work) -> Any:
    connection.begin()
    try:
        result = work(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return result


def _write_file(path: str, work: Work) -> Any:
    busy = EngineFailure("the file cannot be opened for writing: another connection holds it, or it is read-only")
    with quietly(lambda: duckdb.connect(path), busy) as connection:
        return _transaction(connection, work)
