"""The file under a ledger: private, durable, one writer at a time, and safe across threads and forks."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DatabaseError

from chary.errors import LedgerBroken, LedgerBusy, LedgerError

PRIVATE = 0o600
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SETTINGS = ("foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL", "fullfsync=ON", "secure_delete=ON")
_PAUSE = 0.01
_creating = threading.Lock()


class Store:
    """Transactions on one SQLite file.

    `writing` takes the write lock at once (BEGIN IMMEDIATE), so that what a transaction reads cannot change
    before it writes. A commit has reached the disk when `writing` ends (WAL, synchronous=FULL). Who waits for
    longer than `timeout` seconds gets `LedgerBusy`. The file and its -wal and -shm files have mode 0600.

    Threads share one connection in turn; `snapshot` has one of its own, so that a long reader stops nobody.
    SQLite must not be carried across a fork, so all connections are closed before one and made anew after it.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path.absolute()
        self._timeout = timeout
        self._lock = threading.RLock()
        self._snapshots = threading.RLock()
        self._connection: Connection | None = None
        self._closed = False
        with _creating, translated():
            _private_file(self.path, timeout)
        self._engine = _engine(self.path, timeout)
        _stores.add(self)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the write lock from its beginning; it commits unless it raises."""
        with self._turn() as connection:
            connection.info["begin"] = "BEGIN IMMEDIATE"
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that only reads."""
        with self._turn() as connection:
            connection.info["begin"] = "BEGIN"
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A long transaction that reads one state of the ledger while others go on writing."""
        with translated(), self._snapshots:
            self._alive()
            with self._engine.connect() as connection, connection.begin():
                yield connection

    def close(self) -> None:
        """Close the file; later transactions raise `LedgerError`."""
        with self._lock:
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next transaction makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def pause(self) -> None:
        """Wait for running transactions, keep new ones out and hold no connection."""
        self._snapshots.acquire()
        self._lock.acquire()
        self.disconnect()

    def resume(self) -> None:
        """Let transactions in again."""
        self._lock.release()
        self._snapshots.release()

    @contextmanager
    def _turn(self) -> Iterator[Connection]:
        if not self._lock.acquire(timeout=max(self._timeout, 0)):
            raise LedgerBusy(f"another thread held the ledger for more than {self._timeout:g} seconds")
        try:
            self._alive()
            with translated():
                self._connection = self._connection or self._engine.connect()
                yield self._connection
        finally:
            self._lock.release()

    def _alive(self) -> None:
        if self._closed:
            raise LedgerError("the ledger is closed")


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the engine and of the file system into ours; parameters are hidden in both."""
    try:
        yield
    except DatabaseError as error:
        raise _meaning(getattr(error.orig, "sqlite_errorcode", 0)) from error
    except sqlite3.DatabaseError as error:
        raise _meaning(getattr(error, "sqlite_errorcode", 0)) from error
    except OverflowError as error:
        raise LedgerError("a number is outside of what a ledger can hold") from error
    except OSError as error:
        raise LedgerError(f"the ledger's file cannot be used: {error.strerror}") from error


def _meaning(code: int) -> LedgerError:
    primary = code & 0xFF
    if primary in _BUSY:
        return LedgerBusy("another process held the ledger for too long: try again")
    if primary == sqlite3.SQLITE_NOTADB:
        return LedgerError("the file is not a ledger")
    if primary == sqlite3.SQLITE_CORRUPT:
        return LedgerBroken("the ledger's file is damaged")
    return LedgerError("the ledger's file cannot be read or written")


def _engine(path: Path, timeout: float) -> Engine:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": timeout})
    event.listen(engine, "connect", lambda connection, _: _configure(connection, timeout))
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: sqlite3.Connection, timeout: float) -> None:
    # The driver would begin transactions by itself, late and without the write lock.
    connection.isolation_level = None
    deadline = time.monotonic() + timeout
    for setting in _SETTINGS:
        _set(connection, setting, deadline)


def _set(connection: sqlite3.Connection, setting: str, deadline: float) -> None:
    """Several processes may turn a new file to WAL at once; the engine refuses all but one without waiting."""
    while True:
        try:
            connection.execute(f"PRAGMA {setting}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.info.get("begin", "BEGIN"))


def _private_file(path: Path, timeout: float) -> None:
    """Create the file with its mode before SQLite sees it, or check that an existing one is a ledger.

    An existing file is never opened here by itself: closing it would drop the locks this process has on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
    except FileExistsError:
        _recognise(path, timeout)
    else:
        _sync_folder(path.parent)
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError):
            if stat.S_IMODE(file.stat().st_mode) != PRIVATE:
                file.chmod(PRIVATE)


def _recognise(path: Path, timeout: float) -> None:
    connection = sqlite3.connect(path, timeout=timeout)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()
    if tables and not tables >= {"chain", "entries"}:
        raise LedgerError("the file is not a ledger")


def _sync_folder(folder: Path) -> None:
    """Make the new file's name durable; SQLite does so only for its own journals."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_paused: list[Store] = []


def _before_fork() -> None:
    _creating.acquire()
    for store in list(_stores):
        store.pause()
        _paused.append(store)


def _after_fork() -> None:
    _creating.release()
    while _paused:
        _paused.pop().resume()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
