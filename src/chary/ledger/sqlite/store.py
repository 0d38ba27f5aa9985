"""A ledger in SQLite: layout of its file, transactions, upkeep of its totals and seal, and the ledger itself."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, StaticPool, create_engine

from chary.errors import CharyError, LedgerBusy, LedgerError
from chary.interruption import Uninterrupted
from chary.ledger.sql.bookmark import Bookmark, raw
from chary.ledger.sqlite import ledger_files as files
from chary.ledger.sqlite.inode import Inode, forget_inherited
from chary.ledger.sqlite.sqlite_engine import engine_of, translated

# How long a thread waits between two looks at whether Ctrl-C was pressed.
_LOOK = 0.1


class Store:
    """Transactions on one SQLite file that is there.

    `writing` takes the write lock at once (BEGIN IMMEDIATE), so that what a transaction reads cannot change
    before it writes. When it ends, the main file holds all of it durably (see `engine_of`), the path still leads to
    this very file, under this name alone, and the witness knows the new head; otherwise it raises. Who waits for
    longer than `timeout` seconds gets `LedgerBusy`. The file and its journal have mode 0600.

    Ctrl-C inside of a transaction is raised when that has ended. Whatever else is raised in there rolls it back, and
    unless it is an error of ours, which says that nothing is odd, the connection is closed at once.

    Threads share one connection in turn; `copied` reads a copy of its own, so that a long reader stops nobody.
    SQLite must not be carried across a fork, so all connections are closed before one and made anew after it; a child
    that came about past Python's hooks can neither use nor close what it inherited.
    """

    def __init__(self, path: Path, timeout: float, bookmark: Bookmark | None = None) -> None:
        self.path = path.absolute()
        self.bookmark = bookmark or Bookmark()
        self._log = f"{os.path.realpath(path)}-wal"
        self.timeout = timeout
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._closed = False
        self._process = os.getpid()
        with files.creating, translated():
            files.recognise(self.path, timeout)
            self._inode = Inode(self.path)
        self._engine = engine_of(self.path, timeout)
        _stores.add(self)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the file from its beginning; it commits unless it raises."""
        with self._turn() as block, translated(), self._held(block):
            with self._transaction("BEGIN IMMEDIATE") as connection:
                self.bookmark.follow(connection)
                yield connection
                head = self.bookmark.read(connection)
            self._inode.check()
            self.bookmark.move(head)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that only reads."""
        with self._turn(), translated(), self._transaction("BEGIN") as connection:
            yield connection

    def witnessed(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the witness, if there is one, knows all that it could read."""
        return self.reading() if self.bookmark.witness is None else self.writing()

    @contextmanager
    def copied(self) -> Iterator[Connection]:
        """A copy of one state of the ledger that nobody else can see, in memory or, when large, in a nameless file.

        Others wait for as long as it takes to copy the file, and go on while the copy is read.
        """
        with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as copy, translated():
            with self.reading() as connection:
                raw(connection).backup(copy)
            engine = create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool, hide_parameters=True)
            with engine.connect() as connection:
                yield connection

    def copy_to(self, path: Path) -> None:
        """Write one state of the ledger durably into an empty file."""
        with translated(), closing(engine_of(path, self.timeout).connect()) as other, self.reading() as connection:
            raw(connection).backup(raw(other))

    def close(self) -> None:
        """Close the file; later transactions raise `LedgerError`."""
        if os.getpid() == self._process:
            with Uninterrupted(), self._lock:
                self.disconnect()
                if not self._closed:
                    self._closed = True
                    self._inode.close()

    def disconnect(self) -> None:
        """Close the connection and with it whatever it holds; the next transaction makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # The driver's own connection first: that gives all locks back, whatever state the layers above are in.
            raw(connection).close()
            with suppress(Exception):
                connection.invalidate()
                connection.close()

    def pause(self) -> None:
        """Wait for running transactions, keep new ones out and hold no connection."""
        self._lock.acquire()
        self.disconnect()

    def resume(self) -> None:
        """Let transactions in again."""
        self._lock.release()

    def adopt(self) -> None:
        """Make a forked child the owner of this copy; it opens everything anew."""
        self._process = os.getpid()
        self._inode.renew()

    @contextmanager
    def _turn(self) -> Iterator[Uninterrupted]:
        with Uninterrupted() as block:
            deadline = time.monotonic() + max(self.timeout, 0)
            self._alive()
            while not self._lock.acquire(timeout=min(_LOOK, max(deadline - time.monotonic(), 0))):
                if block.arrived or time.monotonic() >= deadline:
                    raise LedgerBusy(f"another thread held the ledger for more than {self.timeout:g} seconds")
            try:
                self._alive()
                yield block
            finally:
                self._lock.release()

    def _held(self, block: Uninterrupted) -> AbstractContextManager[None]:
        return self._inode.locked(time.monotonic() + self.timeout, lambda: block.arrived)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        try:
            if os.path.exists(self._log):
                # An earlier version has turned the file to its own journal; a new connection turns it back, or waits.
                self.disconnect()
            self._connection = connection = self._connection or self._engine.connect()
            connection.info["begin"] = begin
            with connection.begin():
                self._inode.check()
                yield connection
        except CharyError:
            raise
        except BaseException:
            self.disconnect()
            raise

    def _alive(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError("the ledger belongs to the process that opened it: open it again in this one")
        if self._closed:
            raise LedgerError("the ledger is closed")


_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_paused: list[Store] = []


def _before_fork() -> None:
    files.creating.acquire()
    for store in list(_stores):
        store.pause()
        _paused.append(store)


def _after_fork() -> None:
    files.creating.release()
    while _paused:
        _paused.pop().resume()


def _in_child() -> None:
    forget_inherited()
    for store in _paused:
        store.adopt()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
