"""The files of a ledger in SQLite: how they are made and locked, which inode they are, errors of their engine."""

import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Compiled
from sqlalchemy.exc import SQLAlchemyError

from chary.errors import LedgerCorrupted, LedgerError, LedgerLocked
from chary.interruption import Uninterrupted
from chary.ledger.claims import try_lock
from chary.ledger.sql.schema import FORMATS

# The ledger's file itself, whatever path leads to it: who it is, and the operating system's lock on it.

# A charge takes some milliseconds, so that is how long waiting for one is worth.
PAUSE = 0.002
_MOUNTS = Path("/proc/self/mountinfo")
_registry = threading.Lock()
_used: dict[tuple[int, int], set[int]] = {}
_done: dict[tuple[int, int], set[int]] = {}


class Inode:
    """A file that was opened once and is held by its device and inode.

    `check` refuses as soon as the path leads elsewhere or the file has a second name. What is written next to a file
    (its journal) goes by the path, so two names would be two half ledgers. `locked` is exclusive among all processes
    and all objects of this class, whatever path they came by.

    Closing any descriptor of a file drops the locks that SQLite has on it in this process. So those of one file are
    closed together, when the last of them is done with.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if mounted(path, _MOUNTS):
            raise LedgerError("the ledger's file is mounted by itself: mount its folder, for its journal lies there")
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None
        self._opened()

    def check(self) -> None:
        """Raise `LedgerError` unless the path still leads to this file, and no other name does."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise LedgerError("the ledger's file was moved or deleted while it was open: nothing is charged") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise LedgerError("the ledger's file was replaced while it was open: open the ledger again")
        if found.st_nlink != 1:
            raise LedgerError("the ledger's file has two names (hard links), which is a danger to it: keep one of them")

    @contextmanager
    def locked(self, deadline: float, given_up: Callable[[], bool]) -> Iterator[None]:
        """Hold the file against every other writer; `LedgerLocked` at the deadline, or once `given_up` says so."""
        while not try_lock(self._opened()):
            if time.monotonic() >= deadline or given_up():
                raise LedgerLocked("another process held the ledger for too long: try again")
            time.sleep(PAUSE)
        try:
            yield
        finally:
            fcntl.flock(self._opened(), fcntl.LOCK_UN)

    def renew(self) -> None:
        """In a forked child: the file is opened again when it is next needed, and must be the same one."""
        self._descriptor = None

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is None or self._identity is None:
            return
        with _registry:
            used, done = _used[self._identity], _done.setdefault(self._identity, set())
            # Closed only with the last of them: an earlier close would drop the locks that SQLite has.
            used.discard(self._descriptor)
            done.add(self._descriptor)
            self._descriptor = None
            if not used:
                del _used[self._identity], _done[self._identity]
                _close(done)

    def _opened(self) -> int:
        if self._descriptor is None:
            if self._identity is not None:
                self.check()
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            found = os.fstat(self._descriptor)
            self._identity = (found.st_dev, found.st_ino)
            with _registry:
                _used.setdefault(self._identity, set()).add(self._descriptor)
        return self._descriptor


def forget_inherited() -> None:
    """In a forked child: close the descriptors of the parent, whose locks they would share."""
    # Another thread of the parent may have held it at the fork, and that thread is not there to give it back.
    global _registry
    _registry = threading.Lock()
    for held in (_used, _done):
        for descriptors in held.values():
            _close(descriptors)
        held.clear()


def _close(descriptors: set[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def mounted(path: Path, mounts: Path) -> bool:
    """Whether the file is a mount of its own; where the system does not list its mounts, it is believed not to be."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return False
    # The kernel writes spaces, tabs, newlines and backslashes of a path in octal.
    wanted = os.path.realpath(path)
    for code in ("\\", " ", "\t", "\n"):
        wanted = wanted.replace(code, f"\\{ord(code):03o}")
    return any(len(fields) > 4 and fields[4] == wanted for fields in map(str.split, lines))


# Making and recognising a ledger's file: private, whole or not there at all.

# Noise and held outcomes are in there: for the owner alone, whatever the umask says.
PRIVATE = 0o600
BESIDE = ("-journal", "-wal", "-shm")
# The two that every format has; a file with one of them and not the other was a ledger.
TABLES = frozenset({"chain", "entries"})
creating = threading.Lock()


def create(path: Path, timeout: float, fill: Callable[[Path], None]) -> bool:
    """Make a new file unless there is one of that name (False then); it appears whole, with its mode, and durably.

    It is filled under another name and then moved, so that a file of the ledger's name is never an unfinished one. An
    empty file is a ledger that was cut off, and is refused.
    """
    place = Path(os.path.realpath(path))
    if place.exists():
        return False  # nobody who opens a ledger waits for a long copy into its folder
    # First the threads of this process, then other processes by the folder: `flock` would not tell threads apart.
    with Uninterrupted(), creating, translated(), _folder_held(place.parent, timeout) as folder:
        if place.exists():
            return False
        new = place.with_name(f".{place.name}.new")
        for left in (new, Path(f"{new}-journal")):
            left.unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
        fill(new)
        new.rename(place)
        os.fsync(folder)
        return True


def recognise(path: Path, timeout: float) -> None:
    """Raise `LedgerError` unless the file is a ledger, and take what others may do with it away.

    The file is never opened here by itself: closing it would drop the locks this process has on it.
    """
    if path.is_file() and path.stat().st_size == 0:
        raise LedgerCorrupted("the ledger's file is empty: it was cut off (if it never was a ledger, delete it)")
    with closing(sqlite3.connect(path, timeout=timeout)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables or TABLES & tables < TABLES:
        told = "is not a ledger" if tables - TABLES and not tables & TABLES else "is a ledger without its tables"
        raise LedgerCorrupted(f"the file {told}: it is damaged, or was never one")
    for file in (path, *(Path(f"{path}{end}") for end in BESIDE)):
        with suppress(FileNotFoundError):
            if stat.S_IMODE(file.stat().st_mode) != PRIVATE:
                file.chmod(PRIVATE)


def datasets_in(path: Path) -> frozenset[str]:
    """The names of the datasets that a ledger's file keeps budgets of; none where it is no ledger, or moved elsewhere.

    Nothing is locked, waited for or written, so what another process writes at this moment may be missed.
    """
    if not path.is_file():
        return frozenset()
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as opened,
    ):
        if opened.execute("SELECT format FROM chain").fetchall() in [[(each,)] for each in FORMATS]:
            return frozenset(name for (name,) in opened.execute("SELECT name FROM datasets"))
    return frozenset()


@contextmanager
def _folder_held(folder: Path, timeout: float) -> Iterator[int]:
    """The folder's descriptor, while no other process makes a ledger in it."""
    descriptor, deadline = os.open(folder, os.O_RDONLY), time.monotonic() + timeout
    try:
        while not try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise LedgerLocked("another process has been making a ledger in this folder for too long: try again")
            time.sleep(PAUSE)
        yield descriptor
    finally:
        os.close(descriptor)


# SQLite as a ledger needs it: durable settings, transactions begun by us, errors that are ours.

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# SQLITE_READONLY_DBMOVED, for which the driver of Python 3.11 has no name on every platform.
_MOVED = sqlite3.SQLITE_READONLY | (4 << 8)
_JOURNAL = "delete"
# EXTRA syncs the folder after the journal is deleted: with FULL a power failure could bring the journal back, and with
# it the state before a charge. secure_delete overwrites erased secrets; cell_size_check finds torn pages early.
_SETTINGS = ("foreign_keys=ON", "synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "cell_size_check=ON")
# An earlier version holds its log for seconds at most: a hundredth of one is no busy loop, and nobody notices it.
_PAUSE = 0.01


class LedgerDialect(SQLiteDialect_pysqlite):
    """SQLite as ledgers speak it; all are equal, so that a statement is compiled once in a process for all files."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


registry.register("sqlite.ledger", __name__, LedgerDialect.__name__)
# Statements of a ledger name their parameters, whose values are no part of what is compiled: no secret stays here.
_compiled: dict[Any, Compiled] = {}


def engine_of(path: Path, timeout: float) -> Engine:
    """Connections to one file.

    The journal is a rollback journal that is deleted at the commit, and EXTRA makes its deletion durable before the
    commit returns. So whatever was committed lies in the main file alone. A file that an earlier version left with a
    write-ahead log is brought up to date and turned over at the first connection.
    """
    url = URL.create("sqlite+ledger", database=str(path))
    engine = _engine(url, poolclass=NullPool, connect_args={"timeout": timeout})
    event.listen(engine, "connect", lambda connection, _: _configure(connection, timeout))
    event.listen(engine, "begin", _begin)
    return engine


def engine_on(connection: sqlite3.Connection) -> Engine:
    """The one connection that is there already."""
    return _engine(URL.create("sqlite+ledger"), poolclass=StaticPool, creator=lambda: connection)


def _engine(url: URL, **options: Any) -> Engine:
    return create_engine(url, hide_parameters=True, execution_options={"compiled_cache": _compiled}, **options)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the engine and of the file system into chary's own.

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
        raise LedgerCorrupted("the ledger's file is damaged: a text in it is none") from None
    except OverflowError:
        raise LedgerError("a number is outside of what a ledger can hold") from None
    except OSError as error:
        raise LedgerError(f"the ledger's file cannot be used: {error.strerror}") from None


def _emptied(error: SQLAlchemyError) -> None:
    """Python keeps the error as the context of chary's own whatever is said, so it must hold nothing itself."""
    vars(error).update(dict.fromkeys({"statement", "params", "orig"} & vars(error).keys()))
    error.__cause__ = error.__context__ = error.__traceback__ = None


def _meaning(code: int) -> LedgerError:
    primary = code & 0xFF
    if primary in _BUSY:
        return LedgerLocked("another process held the ledger for too long: try again")
    if primary == sqlite3.SQLITE_NOTADB:
        return LedgerCorrupted("the file is not a ledger, or its beginning is damaged")
    if primary == sqlite3.SQLITE_CORRUPT:
        return LedgerCorrupted("the ledger's file is damaged")
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
            raise LedgerLocked("an earlier version of chary has the ledger open: close it there first")
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
