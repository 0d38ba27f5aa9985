"""A ledger on a PostgreSQL server: transactions, upkeep, claims by advisory locks, and the ledger itself."""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from chary.addresses import Address
from chary.errors import CharyError, LedgerCorrupted, LedgerError, LedgerLocked
from chary.interruption import Uninterrupted
from chary.ledger import entries
from chary.ledger.checkpoint import Bookmark, raw
from chary.ledger.claims import Claim
from chary.ledger.entries import ChainEntry
from chary.ledger.postgresql.connection import Lost, Wire, translated
from chary.ledger.postgresql.schema import prepare
from chary.ledger.sql.protocols import Kept
from chary.ledger.sql.schema import FORMAT
from chary.ledger.sql.store import SqlStore, check_opened, turn
from chary.ledger.store import Closing

# What a writing transaction does on PostgreSQL: it calls the functions of the schema, which hold the rules.

# As the columns of the table follow each other: the last ones came later.
_LATER = ("origin", "basic", "parts")
_columns = [*(name for name in entries.ChainEntry._fields if name not in _LATER), "hash", *_LATER]
_places = ", ".join(f"%({name})s" for name in _columns)
# Through the driver: this is most of what a charge waits for.
_APPEND = f"SELECT append(ROW({_places})::entries, %(answer)s)"
# Where a connection says which entry its transaction wrote last, and the number of the transaction.
WRITTEN = "written"
_PUT = "SELECT put_secret(%s, %s)"
_DROP = "SELECT drop_secret(%s)"
_SECRET = "SELECT secret, digest FROM secret_of(%s)"


class PostgresUpkeep:
    """See `Upkeep`; totals follow from an entry inside of the server, with the rights of the owner."""

    def post(
        self, connection: Connection, head: str, entry: ChainEntry, closes: Closing | None = None, known: bool = True
    ) -> str:
        """Append an entry; the server checks it again and moves the totals."""
        sealed = entries.seal(head, entry)
        told = {**entry._asdict(), "kind": str(entry.kind), "hash": sealed, "answer": closes.answer if closes else ""}
        (by,) = raw(connection).execute(_APPEND, told).fetchone()
        connection.info[WRITTEN] = entries.Head(entry.number, sealed), by
        return sealed

    def add_secret(self, connection: Connection, call: int, secret: bytes) -> None:
        """Add the secret of a settled call."""
        raw(connection).execute(_PUT, (call, secret))

    def drop_secret(self, connection: Connection, call: int) -> bool:
        """Take the secret of a call away."""
        return bool(raw(connection).execute(_DROP, (call,)).fetchone()[0])

    def secret(self, connection: Connection, call: int) -> Kept | None:
        """The secret of a call; `LedgerError` for that of another analyst, unless the role is the owner's."""
        found = raw(connection).execute(_SECRET, (call,)).fetchone()
        return None if found is None else Kept(bytes(found[0]), found[1])

    def digest(self, connection: Connection, call: int) -> str | None:
        """The digest of the secret of a call."""
        found = raw(connection).execute("SELECT digest_of(%s)", (call,)).fetchone()
        digest: str | None = found[0]
        return digest

    def sealed(self, connection: Connection) -> bool:
        """Whether the seal is right."""
        return bool(connection.execute(text("SELECT sealed()")).scalar_one())

    def changed_secrets(self, connection: Connection) -> Iterator[int]:
        """The calls whose secret was changed."""
        yield from connection.execute(text("SELECT changed_secrets()")).scalars()

    def structure(self, connection: Connection) -> Iterator[str]:
        """Nothing: the server's administrator has `pg_amcheck` and data checksums for that."""
        yield from ()


# The schema under a ledger: one writer at a time, commits whose outcome is known, across threads, forks and losses.

# Seconds between two attempts to connect.
_PAUSE = 0.05
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT * FROM hold({:d})"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_MINE = "SELECT pg_current_xact_id_if_assigned()::text::bigint, entries, head FROM chain"
_WRITTEN = "SELECT FROM entries WHERE number = %s AND hash = %s AND xmin::text::bigint = %s"


class PostgresTransactions:
    """Transactions on one ledger of a server.

    `writing` locks the single row of the head first (FOR UPDATE, in a statement of its own, under READ COMMITTED). Its
    holder sees all that was committed before, and nobody else writes until it ends. So writers follow one another like
    in a file. `reading` and `copied` see one state (REPEATABLE READ) and lock nothing.

    **Lost connections.** What is lost before COMMIT was sent is undone by the server, and `LedgerLocked` says so. When
    it is lost during COMMIT, a new connection locks the head, which waits for the end of the old transaction if that
    still lives. Then it looks whether the entry at that number has this hash *and* was written by the old transaction's
    number, which no other transaction has. If so it was committed, otherwise nothing of it was. `LedgerError` is raised
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
        _adopted.add(self)

    def __repr__(self) -> str:
        return repr(self.address.shown)

    def check_apart(self, path: Path) -> None:
        """A file on this machine is never the ledger."""

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

    def kept(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the checkpoint, if there is one, knows all that it could read."""
        return self.reading() if self.bookmark.checkpoint is None else self.writing()

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
        """A transaction, once nobody else holds the ledger, with what `hold` gave; lost connections are made anew."""
        deadline = time.monotonic() + max(self.timeout, 0)
        while True:
            try:
                with translated():
                    wire = self.connected()
                    # Several statements in one message, which cannot be prepared.
                    cursor = wire.driver.execute(words, prepare=False)
                    return wire, cursor.fetchone() if cursor.nextset() else None
            except LedgerLocked as error:
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
            raise LedgerCorrupted("the head of the chain is missing")
        if held[0] != FORMAT and not self._moved:
            raise LedgerError("this ledger was moved, and nothing is charged here any more")
        self.bookmark.go_on(entries.Head(held[1], held[2]), held[3])

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Roll back whatever raises; after anything but an error of chary the connection is closed as well."""
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

    def _mine(self, wire: Wire) -> tuple[entries.Head, int | None]:
        """The head, and the number of the transaction if it wrote at all."""
        by, *told = wire.driver.execute(_MINE).fetchone() or (None, 0, "")
        return entries.Head(*told), by

    def _commit(self, wire: Wire, head: entries.Head, by: int | None, block: Uninterrupted) -> None:
        try:
            with translated():
                done = wire.end("COMMIT") == "COMMIT"
        except BaseException as error:
            self._give_up(lost=True)
            if by is None and isinstance(error, LedgerLocked):
                return
            if isinstance(error, CharyError) and self._came_through(head, by or 0, block):
                return
            raise
        if not done:
            raise LedgerLocked("the server undid the transaction: nothing was recorded, try again")

    def _came_through(self, head: entries.Head, by: int, block: Uninterrupted) -> bool:
        """Whether a transaction was committed whose COMMIT got no reply, once no other one holds the ledger."""
        try:
            wire, _ = self._begun(_WRITE.format(0), block)
            with self._undone():
                found = wire.driver.execute(_WRITTEN, (head.entries, head.hash, by % 2**32)).fetchone()
                wire.end("ROLLBACK")
                return found is not None
        except LedgerLocked:
            pass
        raise LedgerError(
            "the server was lost while it recorded this and has not come back: if it was charged it stays charged"
        )

    @contextmanager
    def _turn(self) -> Iterator[Uninterrupted]:
        with turn(self._lock, self.timeout) as block:
            if self._closed:
                raise LedgerError("the ledger is closed")
            yield block


# Claims on running calls as advisory locks of a session: they end with the process, or with its connection.

_TAKE, _GIVE, _HELD = (
    "SELECT pg_try_advisory_lock(%s)",
    "SELECT pg_advisory_unlock(%s)",
    "SELECT pg_try_advisory_xact_lock(%s)",
)


class AdvisoryClaims:
    """See `Claims`: here a claim is an advisory lock, by 64 bits of the entry's hash, of a connection made for claims.

    Guarantee: inside of a writing transaction, `held` says whether any thread or process runs the call, as far as the
    server can know. When the connection is lost while a call runs, so is its claim, although the call goes on, and
    another process may reserve the same key. Nothing is overspent or answered twice by that:

    1. Both calls were charged their worst cost before they read anything: `reserve` charges each of them anew,
       whatever became of a claim. So what is spent covers both, and it is at most the capacity.
    2. Each is settled in a transaction that locks the ledger against every other. It looks whether another call under
       the key is settled (`Ledger.settle`, and the function `append` of the server once more). Of two such
       transactions one comes first; the other sees what it did and is refused with `RequestAnswered`.
    3. No answer is handed out, and no secret is kept, before its settle was committed. So under one key at most one
       answer is ever handed out or replayed: that of the call which was settled first. The other stays charged.
    """

    def __init__(self, connect: Callable[[], Wire], asking: Callable[[], Wire]) -> None:
        """`connect` makes a connection for claims, `asking` is that of the transaction that asks."""
        self._connect, self._asking = connect, asking
        self._wire: Wire | None = None
        self._live: set[int] = set()
        self._ended: deque[int] = deque()
        self._lock = threading.Lock()
        _adopted.add(self)

    def take(self, sealed: str) -> Claim:
        """The claim on a call that is being reserved, before others can see its entry."""
        key = _key(sealed)
        with self._lock, translated():
            try:
                taken = self._try(key)
            except psycopg.OperationalError:
                self._reconnect()
                taken = self._try(key)
            if not taken:
                raise LedgerLocked("the claim on this call is held by somebody else: try again")
            self._live.add(key)
        return Claim(partial(self._end, key))

    def held(self, sealed: str) -> bool:
        """Whether any process runs the call."""
        with translated():
            found = self._asking().driver.execute(_HELD, (_key(sealed),)).fetchone()
        return found != (True,)

    def close(self) -> None:
        """End every claim."""
        with self._lock:
            wire, self._wire = self._wire, None
            self._live.clear()
            if wire is not None:
                wire.close()

    def adopt(self) -> None:
        """In a forked child: it runs none of the calls of its parent."""
        self._lock = threading.Lock()
        self._wire = None
        self._live, self._ended = set(), deque()

    def _try(self, key: int) -> bool:
        if self._wire is None:
            self._wire = self._connect()
        return self._wire.driver.execute(_TAKE, (key,)).fetchone() == (True,)

    def _reconnect(self) -> None:
        """A new connection; calls that still run claim their keys again where nobody else has taken them."""
        if self._wire is not None:
            self._wire.close()
        self._wire = self._connect()
        for key in self._live:
            self._try(key)

    def _end(self, key: int) -> None:
        """Called from anywhere, by the collector of garbage too: it never waits."""
        self._ended.append(key)
        while self._ended and self._lock.acquire(blocking=False):
            try:
                self._give_back()
            finally:
                self._lock.release()

    def _give_back(self) -> None:
        while self._ended:
            with suppress(IndexError, psycopg.Error):
                key = self._ended.popleft()
                if key in self._live and self._wire is not None:
                    self._live.discard(key)
                    self._wire.driver.execute(_GIVE, (key,))


def _key(sealed: str) -> int:
    return int.from_bytes(bytes.fromhex(sealed[:16]), signed=True)


_adopted: weakref.WeakSet[PostgresTransactions | AdvisoryClaims] = weakref.WeakSet()


def _in_child() -> None:
    for held in list(_adopted):
        held.adopt()


os.register_at_fork(after_in_child=_in_child)

# A ledger in a schema of PostgreSQL: shared by any number of processes and machines.


def postgres_store(target: str, timeout: float, checkpoint: str | Path | None = None) -> SqlStore:
    """A store in one schema of a PostgreSQL database (14 or newer).

    The target is a URL, `postgresql://user@host/database?schema=visits` with further options of libpq. The schema is
    made if it is not there and the role may do so, and brought to the newest layout by its owner. At opening totals,
    numbering and the end of the chain are checked (`LedgerCorrupted`). `timeout` is how many seconds to wait for
    others, and for a server that is away, before `LedgerLocked`. Threads may share the object, and so may forked
    children, which connect anew. `checkpoint` is a file on this machine as for a ledger in a file: a server that was
    restored to an older state is then refused.

    Formal guarantees beyond those of `Ledger`, proved where they are kept:

    1. Writers follow one another, and whether a commit whose reply was lost took place is looked up, never guessed
       (`PostgresTransactions`).
    2. A claim on an idempotency key ends with the process that runs the call, or with its connection. In the second
       case at most one of the calls under the key is answered (`AdvisoryClaims`).
    3. A role that was given only what `roles` gives it appends what the rules allow and changes nothing else.
    """
    address = Address.parse(target)
    server, upkeep = PostgresTransactions(address, timeout, Bookmark(checkpoint)), PostgresUpkeep()
    store = SqlStore(server, AdvisoryClaims(partial(Wire, address, timeout, plain=True), lambda: server.wire), upkeep)
    try:
        prepare(server.wire, address, timeout)
        check_opened(server, upkeep)
    except BaseException:
        store.close()
        raise
    return store


def bare_store(target: str, timeout: float) -> tuple[PostgresTransactions, PostgresUpkeep]:
    """Transactions on a ledger, made if it is not there, also on one that moved; only for moving it."""
    address = Address.parse(target)
    store = PostgresTransactions(address, timeout, Bookmark(), moved=True)
    try:
        prepare(store.wire, address, timeout)
        # It is held, and idle, while the other place is written and verified.
        store.wire.driver.execute("SET idle_in_transaction_session_timeout = 0")
    except BaseException:
        store.close()
        raise
    return store, PostgresUpkeep()
