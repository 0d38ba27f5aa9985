"""The schema under a ledger: one writer at a time, commits whose outcome is known, across threads, forks and losses."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from sqlalchemy import Connection

from chary.errors import CharyError, LedgerBroken, LedgerBusy, LedgerError
from chary.interruption import Uninterrupted
from chary.ledger.head import Head
from chary.ledger.postgresql.address import Address
from chary.ledger.postgresql.postgres_errors import Lost, translated
from chary.ledger.postgresql.postgres_upkeep import WRITTEN
from chary.ledger.postgresql.wire import Wire
from chary.ledger.sql.bookmark import Bookmark
from chary.ledger.sql.schema import FORMAT

# How long a thread waits between two looks at whether Ctrl-C was pressed, and between two attempts to connect.
_LOOK_EVERY, _PAUSE = 0.1, 0.05
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT * FROM hold({:d})"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_MINE = "SELECT pg_current_xact_id_if_assigned()::text::bigint, entries, head FROM chain"
_WRITTEN = "SELECT FROM entries WHERE number = %s AND hash = %s AND xmin::text::bigint = %s"


class PostgresStore:
    """Transactions on one ledger of a server.

    `writing` locks the single row of the head first (FOR UPDATE, in a statement of its own, under READ COMMITTED):
    whoever holds it sees all that was committed before, and nobody else writes until it ends, so writers follow one
    another like in a file. `reading` and `copied` see one state (REPEATABLE READ) and lock nothing.

    **Lost connections.** What is lost before COMMIT was sent is undone by the server, and `LedgerBusy` says so. When it
    is lost during COMMIT, a new connection locks the head, which waits for the end of the old transaction if that still
    lives, and then looks whether the entry at that number has this hash *and* was written by the old transaction's
    number, which no other transaction has: then it was committed, otherwise nothing of it was. `LedgerError` is raised
    only when the server stays away for longer than `timeout`; then it may be charged, and stays so.

    Threads share one connection in turn. A forked child has a connection of its own.
    """

    def __init__(self, address: Address, timeout: float, bookmark: Bookmark, *, moved: bool = False) -> None:
        """`moved` allows to write into a ledger that has moved or is still arriving."""
        self._moved = moved
        self.address = address
        self.timeout = timeout
        self.bookmark = bookmark
        self._lock = threading.RLock()
        self._closed = False
        self._returned = False
        try:
            self._wire: Wire | None = Wire(address, timeout)
        except Lost:
            raise LedgerError("the ledger's server cannot be reached, or does not let this role in") from None
        _stores.add(self)

    @property
    def wire(self) -> Wire:
        """The connection, inside of a transaction."""
        return self._wire or self.connected()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the ledger from its beginning; it commits unless it raises."""
        with self._turn() as block, translated():
            wire, held = self._begun(_WRITE.format(self.bookmark.seen.entries), block)
            with self._undone():
                self._follow(held)
                wire.core.info.pop(WRITTEN, None)
                yield wire.core
                head, by = wire.core.info.pop(WRITTEN, None) or self._mine(wire)
            self._commit(wire, head, by, block)
            self.bookmark.move(head)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that only reads."""
        with self._turn() as block, translated():
            wire, _ = self._begun(_READ, block)
            with self._undone():
                if self._returned:
                    # Another server, or this one restored from a copy, may have answered.
                    self.bookmark.follow(wire.core)
                    self._returned = False
                yield wire.core
            with suppress(Exception):
                wire.end("COMMIT")

    def witnessed(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the witness, if there is one, knows all that it could read."""
        return self.reading() if self.bookmark.witness is None else self.writing()

    @contextmanager
    def copied(self) -> Iterator[Connection]:
        """One state of the ledger, on a connection of its own; others go on meanwhile."""
        with self._turn():
            pass
        wire = Wire(self.address, self.timeout)
        try:
            with translated():
                wire.driver.execute("SET idle_in_transaction_session_timeout = 0")
                wire.driver.execute(_READ)
                yield wire.core
        finally:
            wire.close()

    def close(self) -> None:
        """Close the connection; later transactions raise `LedgerError`."""
        with Uninterrupted(), self._lock:
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection and with it whatever it holds; the next transaction makes a new one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def connected(self) -> Wire:
        """The connection, made anew if there is none."""
        if self._wire is None:
            self._wire, self._returned = Wire(self.address, self.timeout), True
        return self._wire

    def adopt(self) -> None:
        """Make a forked child the owner of this copy; it connects anew."""
        self._lock = threading.RLock()
        self._wire = None

    def _begun(self, words: str, block: Uninterrupted) -> tuple[Wire, Any]:
        """A transaction, once nobody else holds the ledger, and what `hold` told; lost connections are made anew."""
        deadline = time.monotonic() + max(self.timeout, 0)
        while True:
            try:
                with translated():
                    wire = self.connected()
                    # Several statements in one message, which cannot be prepared.
                    cursor = wire.driver.execute(words, prepare=False)
                    return wire, cursor.fetchone() if cursor.nextset() else None
            except LedgerBusy as error:
                self._give_up(isinstance(error, Lost))
                if block.arrived or time.monotonic() >= deadline:
                    raise
                if isinstance(error, Lost):
                    time.sleep(_PAUSE)
            except BaseException:
                self._give_up(lost=True)
                raise

    def _follow(self, held: Any) -> None:
        """Hold the locked head against what was seen before."""
        if held is None:
            raise LedgerBroken("the head of the chain is missing")
        if held[0] != FORMAT and not self._moved:
            raise LedgerError("this ledger was moved, and nothing is charged here any more")
        self.bookmark.go_on(Head(held[1], held[2]), held[3])

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Roll back whatever raises; after anything but an error of ours the connection is closed as well."""
        try:
            with translated():
                yield
        except BaseException as error:
            self._give_up(lost=not isinstance(error, CharyError) or isinstance(error, Lost))
            raise

    def _give_up(self, lost: bool) -> None:
        try:
            if self._wire is not None and not lost:
                self._wire.end("ROLLBACK")
        except Exception:
            lost = True
        if lost:
            self.disconnect()

    def _mine(self, wire: Wire) -> tuple[Head, int | None]:
        """The head, and the number of the transaction if it wrote at all."""
        by, *told = wire.driver.execute(_MINE).fetchone() or (None, 0, "")
        return Head(*told), by

    def _commit(self, wire: Wire, head: Head, by: int | None, block: Uninterrupted) -> None:
        try:
            with translated():
                done = wire.end("COMMIT") == "COMMIT"
        except BaseException as error:
            self._give_up(lost=True)
            if by is None and isinstance(error, LedgerBusy):
                return
            if isinstance(error, CharyError) and self._came_through(head, by or 0, block):
                return
            raise
        if not done:
            raise LedgerBusy("the server undid the transaction: nothing was recorded, try again")

    def _came_through(self, head: Head, by: int, block: Uninterrupted) -> bool:
        """Whether the transaction whose COMMIT was not heard of is there, once nobody else holds the ledger."""
        try:
            wire, _ = self._begun(_WRITE.format(0), block)
            with self._undone():
                found = wire.driver.execute(_WRITTEN, (head.entries, head.hash, by % 2**32)).fetchone()
                wire.end("ROLLBACK")
                return found is not None
        except LedgerBusy:
            pass
        raise LedgerError(
            "the server was lost while it recorded this and has not come back: if it was charged it stays charged"
        )

    @contextmanager
    def _turn(self) -> Iterator[Uninterrupted]:
        with Uninterrupted() as block:
            deadline = time.monotonic() + max(self.timeout, 0)
            while not self._lock.acquire(timeout=min(_LOOK_EVERY, max(deadline - time.monotonic(), 0))):
                if block.arrived or time.monotonic() >= deadline:
                    raise LedgerBusy(f"another thread held the ledger for more than {self.timeout:g} seconds")
            held = self._lock
            try:
                if self._closed:
                    raise LedgerError("the ledger is closed")
                yield block
            finally:
                held.release()


_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _adopt_stores() -> None:
    for store in list(_stores):
        store.adopt()


os.register_at_fork(after_in_child=_adopt_stores)
