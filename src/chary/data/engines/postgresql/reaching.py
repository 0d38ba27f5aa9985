"""Every connection to a PostgreSQL server: configured so that what is read follows from what was named alone."""

import re
from typing import Any, Final

import psycopg
from psycopg import IsolationLevel, RawCursor

from chary.data.silence import quietly
from chary.errors import EngineFailure, InvalidParameter

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

    What libpq knows may be in the address: `sslmode`, or `options=-c statement_timeout=60000 -c work_mem=64MB`.
    `InvalidParameter` for an address that is none or a server that is not served, `EngineFailure` where it cannot be
    reached; neither shows any part of the address, nor what the server said.
    """
    unread = InvalidParameter("the address is not readable: write it as postgresql://role@host:5432/database")
    quietly(lambda: psycopg.conninfo.conninfo_to_dict(address), unread)
    connection = _reached(address)
    try:
        _check(connection)
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.prepare_threshold = None
        quietly(lambda: _configure(connection), EngineFailure("the server refuses settings that chary needs"))
    except BaseException:
        connection.close()
        raise
    return connection


def _reached(address: str) -> Connection:
    told = _UNREACHED
    try:
        return psycopg.connect(address, cursor_factory=RawCursor)
    except psycopg.Error as error:
        told = _REFUSED.get((error.sqlstate or "")[:2], _said(error))
    # Raised outside the handler: what the server said names the host and the role.
    raise EngineFailure(told)


def _said(error: psycopg.Error) -> str:
    """Libpq gives no code for what the server answers to a greeting, only its words, of which these are looked for."""
    words = str(error)
    told = {word: code for code, some in _WORDS.items() for word in some}
    return next((_REFUSED[code] for word, code in told.items() if re.search(word, words)), _UNREACHED)


def _check(connection: Connection) -> None:
    if connection.info.server_version < OLDEST * 10000:
        raise InvalidParameter(f"the server is older than PostgreSQL {OLDEST}")
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise InvalidParameter("the database is not encoded in UTF-8: texts would be compared by other bytes")


def _configure(connection: Connection) -> None:
    for name, value in _SETTINGS.items():
        connection.execute("SELECT set_config($1, $2, false)", [name, value])
    connection.commit()
