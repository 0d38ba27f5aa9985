"""SQLite as a ledger needs it: durable settings, transactions begun by us, errors that are ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from chary.errors import LedgerBroken, LedgerBusy, LedgerError

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# SQLITE_READONLY_DBMOVED, for which the driver of Python 3.11 has no name on every platform.
_MOVED = sqlite3.SQLITE_READONLY | (4 << 8)
_JOURNAL = "delete"
# EXTRA syncs the folder after the journal is deleted: with FULL a power failure could bring the journal back, and with
# it the state before a charge. secure_delete overwrites erased secrets; cell_size_check finds torn pages early.
_SETTINGS = ("foreign_keys=ON", "synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "cell_size_check=ON")
# An earlier version holds its log for seconds at most: a hundredth of one is no busy loop, and nobody notices it.
_PAUSE = 0.01


def engine_of(path: Path, timeout: float) -> Engine:
    """Connections to one file.

    The journal is a rollback journal that is deleted at the commit, and EXTRA makes its deletion durable before the
    commit returns: whatever was committed lies in the main file alone. A file that an earlier version left with a
    write-ahead log is brought up to date and turned over at the first connection.
    """
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": timeout})
    event.listen(engine, "connect", lambda connection, _: _configure(connection, timeout))
    event.listen(engine, "begin", _begin)
    return engine


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the engine and of the file system into ours.

    Theirs hold what was to be written, secrets and their digests too, so nothing of them is left in the chain.
    """
    try:
        yield
    except SQLAlchemyError as error:
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
        _emptied(error)
        raise _meaning(code) from None
    except sqlite3.Error as error:
        raise _meaning(getattr(error, "sqlite_errorcode", 0)) from None
    except UnicodeDecodeError:
        raise LedgerBroken("the ledger's file is damaged: a text in it is none") from None
    except OverflowError:
        raise LedgerError("a number is outside of what a ledger can hold") from None
    except OSError as error:
        raise LedgerError(f"the ledger's file cannot be used: {error.strerror}") from None


def _emptied(error: SQLAlchemyError) -> None:
    """Python keeps the error as the context of ours whatever is said, so it must hold nothing itself."""
    vars(error).update(dict.fromkeys({"statement", "params", "orig"} & vars(error).keys()))
    error.__cause__ = error.__context__ = error.__traceback__ = None


def _meaning(code: int) -> LedgerError:
    primary = code & 0xFF
    if primary in _BUSY:
        return LedgerBusy("another process held the ledger for too long: try again")
    if primary == sqlite3.SQLITE_NOTADB:
        return LedgerBroken("the file is not a ledger, or its beginning is damaged")
    if primary == sqlite3.SQLITE_CORRUPT:
        return LedgerBroken("the ledger's file is damaged")
    if code == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
        return LedgerError("this ledger was moved, and nothing is charged here any more")
    if code == _MOVED:
        return LedgerError("the ledger's file was moved or deleted while it was open: nothing is charged")
    return LedgerError("the ledger's file cannot be read or written")


def _configure(connection: sqlite3.Connection, timeout: float) -> None:
    # The driver would begin transactions by itself, late and without the write lock.
    connection.isolation_level = None
    deadline = time.monotonic() + timeout
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    while not _journalled(connection):
        if time.monotonic() >= deadline:
            raise LedgerBusy("an earlier version of chary has the ledger open: close it there first")
        time.sleep(_PAUSE)


def _journalled(connection: sqlite3.Connection) -> bool:
    """Whether the file has its journal; turning it over needs it alone, and the engine does not wait for that."""
    try:
        return bool(connection.execute(f"PRAGMA journal_mode={_JOURNAL}").fetchone()[0] == _JOURNAL)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _BUSY:
            raise
        return False


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.info.get("begin", "BEGIN"))
