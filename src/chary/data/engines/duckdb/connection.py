"""Connections to DuckDB that reach only the file that was named, and the database of one dataset."""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import finalize

import duckdb

from chary.data.engines.sql import SmallTable, SmallTables
from chary.errors import EngineError, quietly
from chary.interruption import interrupted

# Every connection to DuckDB: to what was named and to nothing else.

ATTACHED: Final = "chary_file"
_OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
# Once set, nothing can be reached that was not named before, and no setting can be changed.
_SEALED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "lock_configuration": "true",
}

_HELD: Final = "another connection of this process holds the file: close it first"
_HELD_FOR_WRITING: Final = "the file cannot be opened for writing: another connection holds it"


@dataclass(frozen=True)
class Access:
    """What a connection may touch: a DuckDB file, or else memory with `files`, those in a `folder` that come later, and
    an attached DuckDB file to read.

    `lossless`: Arrow tables that come out of it keep the types of the engine.

    Guarantee: the engine loads and downloads no extension, reads no other file, and lets nothing of this be changed.
    Paths name one file each, whatever characters they are made of.
    """

    path: str | None = None
    files: tuple[str, ...] = ()
    attached: str | None = None
    lossless: bool = False
    folder: str | None = None

    def connect(self, *, writing: bool = False) -> duckdb.DuckDBPyConnection:
        """Open a connection; `EngineError` if this process holds the file open by a connection of its own.

        >>> Access().connect().execute("SELECT current_setting('enable_external_access')").fetchall()
        [(False,)]
        """
        if self.path is not None:
            return _on_file(os.path.abspath(self.path), writing)
        return _in_spare() if self == Access() else self._in_memory()

    def _in_memory(self) -> duckdb.DuckDBPyConnection:
        lossless = {"arrow_lossless_conversion": str(self.lossless).lower()}
        connection = duckdb.connect(":memory:", config=_OFFLINE | lossless)
        if self.attached is not None:
            connection.execute(f"ATTACH {text(os.path.abspath(self.attached))} AS {ATTACHED} (TYPE duckdb, READ_ONLY)")
        allowed = ", ".join(text(path) for name in self.files for path in (os.path.abspath(name), as_pattern(name)))
        connection.execute(f"SET allowed_paths = [{allowed}]")
        if self.folder is not None:
            connection.execute(f"SET allowed_directories = [{text(os.path.abspath(self.folder))}]")
        for setting, value in _SEALED.items():
            connection.execute(f"SET {setting} = {value}")
        return connection


def as_pattern(path: str) -> str:
    """The pattern that matches this path alone: the engine reads the names of files as patterns.

    >>> as_pattern("/data/visits[1].parquet")
    '/data/visits[[]1].parquet'
    """
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in os.path.abspath(path))


def fetched(connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any]) -> list[Any]:
    """All rows of one statement with parameters."""
    return connection.execute(sql, values).fetchall()


def text(value: str) -> str:
    """A string as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def literals(values: Sequence[str]) -> str:
    """Strings as an SQL list."""
    return f"[{', '.join(map(text, values))}]"


def _on_file(path: str, writing: bool) -> duckdb.DuckDBPyConnection:
    # Connections of one process to one file share an instance, which must be configured when it is made.
    try:
        return duckdb.connect(path, read_only=not writing, config=_OFFLINE | _SEALED)
    except duckdb.ConnectionException:
        failure = EngineError(_HELD_FOR_WRITING if writing else _HELD)
    raise failure


# Engines in memory that may read nothing else are all alike, and making one takes most of the time of an opening. All
# that a connection makes is temporary and goes with it, so once it is gone the next one can have its engine. No two
# connections share one: what uses up or breaks the engine of some rows concerns no other rows.

# By process, since an engine has threads, and a process that is forked has none of them.
_spare: Final[defaultdict[int, list[duckdb.DuckDBPyConnection]]] = defaultdict(list)
_MOST_SPARE: Final = 8


def _in_spare() -> duckdb.DuckDBPyConnection:
    engine = _spare_engine() or Access()._in_memory()
    connection = engine.cursor()
    finalize(connection, _is_spare, engine, os.getpid()).atexit = False
    return connection


def _spare_engine() -> duckdb.DuckDBPyConnection | None:
    engines = _spare[os.getpid()]
    while engines:
        engine = engines.pop()
        with suppress(duckdb.Error):  # a broken engine refuses everything
            engine.execute("SELECT 1").fetchall()
            return engine
    return None


def _is_spare(engine: duckdb.DuckDBPyConnection, process: int) -> None:
    # It may run in any thread at any moment, so it takes no lock: appending to a list needs none.
    if len(_spare[process]) < _MOST_SPARE:
        _spare[process].append(engine)


# One DuckDB connection: locked, able to reconnect, and silent about values when it fails.

Work = Callable[[duckdb.DuckDBPyConnection], Any]
Growth = tuple[tuple[str, ...], int]
"""Which files are read in place, and below which number rows are that were added."""


class Database:
    """A connection in which `temp.main.chary_rows` are the rows that queries read.

    In memory, or on a DuckDB file: then the file is open read-only, except during `write`. Everything runs under one
    lock. After a reconnection temporary tables are made again.
    """

    def __init__(self, access: Access, prepare: Work, memories: Any = None) -> None:
        """Connect, and run `prepare`, which makes the rows; it runs again after each reconnection.

        `memories` are whatever is remembered of the rows: see `remembered`.
        """
        self.access, self.memories = access, memories
        self._prepare = prepare
        # Reentrant, since what holds the connection asks for it again: units are counted in one state of the rows.
        self._lock = threading.RLock()
        self._tables = SmallTables()
        self._closed = False
        self._writing = False
        self.grown: Growth | None = None
        """How far rows have grown, once that was looked up; only `write` changes it."""
        self.lineage = 0
        """How often the file was found as somebody else had written it: since then rows were only added, by `write`."""
        self._left: Stored | None = None
        self.ends: dict[int, Growth] = {}
        """How far rows in memory had grown with each batch, by its number, from 0 before the first."""
        self._connection: duckdb.DuckDBPyConnection | None = self._connect()

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for the thread that asks; `EngineError` once it is closed."""
        with self._lock:
            if self._closed:
                raise EngineError("the table is closed")
            if self._connection is None:
                self._connection = quietly(self._connect, EngineError("the file cannot be opened again"))
            yield self._connection

    def ask(self, work: Work, doing: str) -> Any:
        """What `work` finds on the connection; if it fails, `EngineError` says what it was doing, and no value.

        So it does within `write`: rows that are not there yet, and may never be, are in no answer.
        """
        with self.connection() as connection:
            if self._writing:
                raise EngineError("rows are being added: ask when they are there")
            return quietly(lambda: work(connection), EngineError(f"the engine failed while it {doing}"))

    def write(self, work: Work) -> Any:
        """Run `work` in one transaction on a connection that may write: all of it happens, or nothing does."""
        with self.connection() as connection:
            if self.access.path is None:
                return self._add(connection, work)
            # The engine opens no file twice in one process with different rights.
            connection.close()
            self._connection, self.grown = None, None
            result, self._left = _write_file(self.access, work, self._left)
            return result

    def offer(self, tables: Sequence[SmallTable]) -> None:
        """Make the temporary tables among these that are not there, and drop those that are needed no more."""
        with self.connection() as connection:
            for table in self._tables.missing(tables):
                # A result that an interruption left half fetched would refuse all other work on the connection.
                connection.abort()
                for unused in self._tables.unused():
                    connection.execute(f"DROP TABLE IF EXISTS temp.main.{unused}")
                source = f"{table.name}_source"
                connection.register(source, table.arrow)
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {table.name} AS SELECT * FROM {source}")
                connection.unregister(source)

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _add(self, connection: duckdb.DuckDBPyConnection, work: Work) -> Any:
        self._writing = True
        try:
            return _transaction(connection, work)
        finally:
            self._writing = False
            self.grown = None

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = self.access.connect()
        self._tables.forget()
        if self.access.path is not None:
            found = _stored_whole(self.access.path)
            self.lineage += found is None or found != self._left
            self._left, self.grown = found, None
        self._prepare(connection)
        return connection


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


def _write_file(access: Access, work: Work, before: "Stored | None") -> tuple[Any, "Stored | None"]:
    """What `work` returns, and how the file is left; None where it was another one than before, or that is not known.

    While a connection may write, no other process may. So an unchanged file was not written between two looks, as far
    as the disk shows."""
    busy = EngineError(
        "the file cannot be opened for writing: another connection holds it, or it is read-only. If a service has it "
        "open, stop the service, or send the batch to it: session.append of chary.connect, or POST .../appends"
    )
    with quietly(lambda: access.connect(writing=True), busy) as connection:
        is_same = before is not None and _stored_whole(str(access.path)) == before
        result = _transaction(connection, work)
        try:
            connection.execute("CHECKPOINT")
        except duckdb.Error as error:  # rows are there, wherever the engine keeps them
            if interrupted(error):
                raise
        return result, _stored_whole(str(access.path)) if is_same else None


# Files as the disk tells them apart: one that is written again gets another time, size or number.

Stored = tuple[int, int, int, int]


def as_stored(path: str) -> Stored:
    """Which file it is now; `OSError` if it is gone."""
    told = os.stat(path)
    return told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


def _stored_whole(path: str) -> Stored | None:
    """The same of a DuckDB file; None where a part of it is in its log."""
    try:
        return None if os.path.exists(f"{path}.wal") else as_stored(path)
    except OSError:
        return None
