"""The ledger's file itself, whatever path leads to it: who it is, and the operating system's lock on it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chary.errors import LedgerBusy, LedgerError

# A charge takes some milliseconds, so that is how long waiting for one is worth.
PAUSE = 0.002
_MOUNTS = Path("/proc/self/mountinfo")
_registry = threading.Lock()
_used: dict[tuple[int, int], set[int]] = {}
_done: dict[tuple[int, int], set[int]] = {}


class Inode:
    """A file that was opened once and is held by its device and inode.

    `check` refuses as soon as the path leads elsewhere or the file has a second name: what is written beside a file
    (its journal) goes by the path, so two names would be two half ledgers. `locked` is exclusive among all processes
    and all objects of this class, whatever path they came by.

    Closing any descriptor of a file drops the locks that SQLite has on it in this process, so those of one file are
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
        """Hold the file against every other writer; `LedgerBusy` at the deadline, or once `given_up` says so."""
        while not self._lock():
            if time.monotonic() >= deadline or given_up():
                raise LedgerBusy("another process held the ledger for too long: try again")
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

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._opened(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


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
