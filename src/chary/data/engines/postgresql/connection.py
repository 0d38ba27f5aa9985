"""Connections to a PostgreSQL server that holds rows, and the transactions in which it is asked."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import IsolationLevel, RawCursor
from psycopg.pq import TransactionStatus

from chary.errors import EngineError, InvalidParameter, quietly

# Every connection to a PostgreSQL server: configured so that what is read follows from what was named alone.

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]

OLDEST: Final = 14
_SETTINGS: Final = {
    # Names mean what the system says, whatever others have put into a schema that is searched first.
    # Without its name a session's own schema would be searched before all others.
    "search_path": "pg_catalog, pg_temp",
    # A policy that would hide rows makes the question fail instead.
    "row_security": "off",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    # Otherwise NULL in a list would be the text NULL, or an error.
    "array_nulls": "on",
    "extra_float_digits": "1",
    "default_transaction_read_only": "on",
}
_REFUSED: Final = {
    "28": "the server refused the role, or what it showed for itself",
    "3D": "the server has no database of that name",
    "42": "the role may not use the database",
    "53": "the server has no connection left, or no memory",
}
_WORDS: Final = {
    "28": ("authentication failed", "no password", r"pg_hba\.conf", 'FATAL: .*role ".*" does not exist'),
    "3D": ('FATAL: .*database ".*" does not exist',),
}
_UNREACHED: Final = "the server cannot be reached at that address"


def connect(address: str) -> Connection:
    """Open a connection whose transactions read one state and write nothing.

    What libpq knows may be in the address: `sslmode`, or `options=-c statement_timeout=60000 -c work_mem=64MB`. Errors:
    `InvalidParameter` for an address that is none or a server that is not served, `EngineError` where it cannot be
    reached. Neither shows any part of the address, nor what the server said.
    """
    unread = InvalidParameter("the address is not readable: write it as postgresql://role@host:5432/database")
    quietly(lambda: psycopg.conninfo.conninfo_to_dict(address), unread)
    connection = _reached(address)
    try:
        _check(connection)
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.prepare_threshold = None
        quietly(lambda: _configure(connection), EngineError("the server refuses settings that chary needs"))
    except BaseException:
        connection.close()
        raise
    return connection


def fetched(cursor: Cursor, sql: str, values: Sequence[Any]) -> list[Any]:
    """All rows of one statement with parameters, if it has any."""
    cursor.execute(sql, values)
    return cursor.fetchall() if cursor.description else []


def _reached(address: str) -> Connection:
    told = _UNREACHED
    try:
        return psycopg.connect(address, cursor_factory=RawCursor)
    except psycopg.Error as error:
        told = _REFUSED.get((error.sqlstate or "")[:2], _said(error))
    # Raised outside the handler: what the server said names the host and the role.
    raise EngineError(told)


def _said(error: psycopg.Error) -> str:
    """libpq gives no code for a refused connection, only text, in which these phrases are searched."""
    words = str(error)
    told = {word: code for code, some in _WORDS.items() for word in some}
    return next((_REFUSED[code] for word, code in told.items() if re.search(word, words)), _UNREACHED)


def _check(connection: Connection) -> None:
    if connection.info.server_version < OLDEST * 10000:
        raise InvalidParameter(f"the server is older than PostgreSQL {OLDEST}")
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise InvalidParameter("the database is not encoded in UTF-8: strings would be compared by other bytes")


def _configure(connection: Connection) -> None:
    for name, value in _SETTINGS.items():
        connection.execute("SELECT set_config($1, $2, false)", [name, value])
    connection.commit()


# One connection to a server: locked, able to reconnect, and silent about values when it fails.

_Found = TypeVar("_Found")
# What the ledger notes of rows that were added must not be forgotten by the server when it is killed.
_DURABLE: Final = """
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""


class Server:
    """A connection, made when it is first needed and again after it was lost. Everything runs under one lock.

    Each reading is a transaction of its own that may write nothing and sees one state of the rows. Nothing is tried
    twice once a question was sent: only a connection that broke between two questions is made again.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._check: Callable[[Cursor], None] | None = None
        # Reentrant, since what holds the connection asks for it again: units are counted in one state of the rows.
        self._lock = threading.RLock()
        self._cursor: Cursor | None = None
        self._connection: Connection | None = None
        self._closed = False

    def guard(self, check: Callable[[Cursor], None]) -> None:
        """Run `check` first in each transaction from now on; it raises what makes reading impossible."""
        self._check = check

    @contextmanager
    def reading(self) -> Iterator[Cursor]:
        """One state of the rows, until the block ends; `EngineError` once the server is closed, or is away."""
        with self._lock:
            if self._cursor is not None:
                yield self._cursor
                return
            self._cursor = self._begun()
            try:
                self._checked(self._cursor)
                yield self._cursor
            finally:
                self._cursor = None
                self._end()

    def ask(self, work: Callable[[Cursor], _Found], doing: str) -> _Found:
        """What `work` finds; if it fails, `EngineError` says what it was doing, and no value."""
        with self.reading() as cursor:
            return quietly(lambda: work(cursor), EngineError(f"the engine failed while it {doing}"))

    def write(self, work: Callable[[Cursor], _Found]) -> _Found:
        """Run `work` in one transaction that may write: all of it happens, or nothing does.

        `EngineError` while this thread reads one state of the rows, which would end with the transaction.
        """
        with self._lock:
            if self._cursor is not None:
                raise EngineError("rows cannot be added while one state of them is read; nothing was written")
            connection = self._begun().connection
            connection.rollback()
            connection.read_only, connection.isolation_level = False, IsolationLevel.READ_COMMITTED
            try:
                cursor = connection.cursor()
                self._checked(cursor)
                cursor.execute(_DURABLE)
                result = work(cursor)
                connection.commit()
            finally:
                self._end()
                if not connection.closed:
                    connection.read_only, connection.isolation_level = True, IsolationLevel.REPEATABLE_READ
        return result

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._closed = True
            self._drop()

    def _checked(self, cursor: Cursor) -> None:
        check = self._check
        if check is not None:
            quietly(lambda: check(cursor), EngineError("the engine failed while it looked at the table"))

    def _begun(self) -> Cursor:
        if self._closed:
            raise EngineError("the table is closed")
        # An interruption may have come between the beginning of a transaction and its end.
        self._end()
        if self._connection is not None and not self._answers(self._connection):
            self._drop()
        if self._connection is None:
            self._connection = connect(self._address)
        return self._connection.cursor()

    def _answers(self, connection: Connection) -> bool:
        """Whether the connection is still there; where it is, a transaction has begun, and has seen nothing yet."""
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _end(self) -> None:
        """Leave no transaction open, whatever happened in it, and no connection that cannot be trusted."""
        connection = self._connection
        if connection is None:
            return
        with suppress(psycopg.Error):  # what went wrong first is what is told
            connection.rollback()
        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
