"""Making and recognising a ledger's file: private, whole or not there at all."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from chary.errors import LedgerBroken, LedgerBusy
from chary.interruption import Uninterrupted
from chary.ledger.sql.schema import FORMAT, TWO_ACCOUNTS
from chary.ledger.sqlite.inode import PAUSE
from chary.ledger.sqlite.sqlite_engine import translated

# Noise and held outcomes are in there: for the owner alone, whatever the umask says.
PRIVATE = 0o600
BESIDE = ("-journal", "-wal", "-shm")
# The two that every format has; a file with one of them and not the other was a ledger.
TABLES = frozenset({"chain", "entries"})
creating = threading.Lock()


def create(path: Path, timeout: float, fill: Callable[[Path], None]) -> bool:
    """Make a new file unless there is one of that name (False then); it appears whole, with its mode, and durably.

    It is filled under another name and then moved, so that a file of the ledger's name is never an unfinished one: an
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
        raise LedgerBroken("the ledger's file is empty: it was cut off (if it never was a ledger, delete it)")
    with closing(sqlite3.connect(path, timeout=timeout)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables or TABLES & tables < TABLES:
        told = "is not a ledger" if tables - TABLES and not tables & TABLES else "is a ledger without its tables"
        raise LedgerBroken(f"the file {told}: it is damaged, or was never one")
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
        if opened.execute("SELECT format FROM chain").fetchall() in ([(FORMAT,)], [(TWO_ACCOUNTS,)]):
            return frozenset(name for (name,) in opened.execute("SELECT name FROM datasets"))
    return frozenset()


@contextmanager
def _folder_held(folder: Path, timeout: float) -> Iterator[int]:
    """The folder's descriptor, while no other process makes a ledger in it."""
    descriptor, deadline = os.open(folder, os.O_RDONLY), time.monotonic() + timeout
    try:
        while not _held(descriptor):
            if time.monotonic() >= deadline:
                raise LedgerBusy("another process has been making a ledger in this folder for too long: try again")
            time.sleep(PAUSE)
        yield descriptor
    finally:
        os.close(descriptor)


def _held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
