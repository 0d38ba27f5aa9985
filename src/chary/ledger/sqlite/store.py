"""A ledger in SQLite: layout of its file, transactions, upkeep of its totals and seal, and the ledger itself."""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_mock_engine, func, inspect, select, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.schema import ExecutableDDLElement

from chary.addresses import file_of
from chary.errors import CharyError, InvalidParameter, LedgerCorrupted, LedgerError
from chary.interruption import Uninterrupted
from chary.ledger import records
from chary.ledger.accounts import TOTALS, Totals
from chary.ledger.checkpoint import Bookmark, check_apart, raw
from chary.ledger.claims import Claims
from chary.ledger.entries import GENESIS, ChainEntry, Kind, not_held, parts_of, seal, terms_of
from chary.ledger.sql import schema
from chary.ledger.sql.protocols import Kept, Upkeep
from chary.ledger.sql.store import SqlStore, check_opened, turn
from chary.ledger.sql.transaction import secret_digest
from chary.ledger.sqlite import files
from chary.ledger.store import Closing

# Which file a ledger is kept in, and what a new one holds.

SEAL = select(
    schema.chain.c.id,
    schema.chain.c.entries,
    select(func.coalesce(func.sum(text(schema.imprint("digest"))), 0))
    .select_from(schema.secrets)
    .scalar_subquery()
    .label("secrets"),
)


def lay_out(path: Path, timeout: float) -> None:
    """Write a ledger without entries into an empty file."""
    with closing(files.engine_of(path, timeout).connect()) as connection, connection.begin():
        for statement in _layout():
            connection.exec_driver_sql(statement)
        connection.execute(schema.chain.insert(), {"id": 1, "format": schema.FORMAT, "entries": 0, "head": GENESIS})
        connection.execute(schema.seals.insert(), {"id": 1, "entries": 0, "secrets": 0})


@cache
def _layout() -> tuple[str, ...]:
    """What makes the tables, indexes and triggers of a ledger; the same for every file."""
    found: list[str] = []

    def keep(made: ExecutableDDLElement, *_: Any, **__: Any) -> None:
        found.append(str(made.compile(dialect=files.LedgerDialect())))

    schema.metadata.create_all(create_mock_engine("sqlite://", keep), checkfirst=False)
    return tuple(found)


def sealed(connection: Connection) -> bool:
    """Whether the ledger has its seal; those of earlier versions have none."""
    return inspect(connection).has_table(schema.seals.name)


def add_seal(connection: Connection) -> None:
    """Seal the ledger of an earlier version as it is, unless another process has just done so."""
    if not sealed(connection):
        schema.metadata.create_all(connection, tables=[schema.seals], checkfirst=False)
        connection.execute(schema.seals.insert().from_select(["id", "entries", "secrets"], SEAL))


def lacking(connection: Connection) -> list[tuple[str, str]]:
    """The columns, by table, that ledgers of earlier versions have not."""
    later = [(schema.entries, name) for name in ("origin", "basic", "parts")]
    later += [(schema.datasets, name) for name in schema.BASIC]
    held = {table: {each["name"] for each in inspect(connection).get_columns(table.name)} for table, _ in later}
    return [(table.name, name) for table, name in later if name not in held[table]]


def add_lacking(connection: Connection) -> None:
    """Add the columns that another process has not just added; entries that are there have no origin and no parts, and
    datasets no basic account."""
    for table, name in lacking(connection):
        kind = "TEXT NOT NULL DEFAULT ''" if name in ("origin", "parts") else "INTEGER NOT NULL DEFAULT 0"
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def complete(connection: Connection) -> bool:
    """Whether the ledger has the tables of parts and all indexes of this version; those of earlier versions do not."""
    known = inspect(connection)
    held = {each["name"] for table in (schema.calls, schema.entries) for each in known.get_indexes(table.name)}
    return known.has_table(schema.PARTS[-1].name) and all(index.name in held for index in schema.ADDED)


# The file under a ledger: durable, one writer at a time, safe across threads, forks and interrupts.


class SqliteTransactions:
    """Transactions on one SQLite file that is there.

    `writing` takes the write lock at once (BEGIN IMMEDIATE), so that what a transaction reads cannot change before it
    writes. When it ends, the main file holds all of it durably (see `engine_of`). The path still leads to this very
    file, under this name alone, and the checkpoint knows the new head. Otherwise it raises. A caller that waits for
    longer than `timeout` seconds gets `LedgerLocked`. The file and its journal have mode 0600.

    Ctrl-C inside of a transaction is raised when that has ended. Whatever else is raised in there rolls it back, and
    unless it is an error of chary, which says that nothing is odd, the connection is closed at once.

    Threads share one connection in turn; `copied` reads a copy of its own, so that a long reader stops nobody. SQLite
    must not be carried across a fork, so all connections are closed before one and made anew after it. A child that
    came about past Python's hooks can neither use nor close what it inherited.
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
        with files.creating, files.translated():
            files.recognise(self.path, timeout)
            self._inode = files.Inode(self.path)
        self._engine = files.engine_of(self.path, timeout)
        _stores.add(self)

    def __repr__(self) -> str:
        return repr(str(self.path))

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the file from its beginning; it commits unless it raises."""
        with self._turn() as block, files.translated(), self._held(block):
            with self._transaction("BEGIN IMMEDIATE") as connection:
                self.bookmark.follow(connection)
                yield connection
                head = self.bookmark.read(connection)
            self._inode.check()
            self.bookmark.move(head)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that only reads."""
        with self._turn(), files.translated(), self._transaction("BEGIN") as connection:
            yield connection

    def kept(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the checkpoint, if there is one, knows all that it could read."""
        return self.reading() if self.bookmark.checkpoint is None else self.writing()

    @contextmanager
    def copied(self) -> Iterator[Connection]:
        """A copy of one state of the ledger that nobody else can see, in memory or, when large, in a nameless file.

        Others wait for as long as it takes to copy the file, and go on while the copy is read.
        """
        with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as copy, files.translated():
            with self.reading() as connection:
                raw(connection).backup(copy)
            with files.engine_on(copy).connect() as connection:
                yield connection

    def check_apart(self, path: Path) -> None:
        """Raise `InvalidParameter` for a checkpoint that would lie in the ledger's own file."""
        check_apart(self.path, path)

    def copy_to(self, path: Path) -> None:
        """Write one state of the ledger durably into an empty file."""
        with (
            files.translated(),
            closing(files.engine_of(path, self.timeout).connect()) as other,
            self.reading() as connection,
        ):
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
        self._alive()
        with turn(self._lock, self.timeout) as block:
            self._alive()
            yield block

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


_stores: weakref.WeakSet[SqliteTransactions] = weakref.WeakSet()
_paused: list[SqliteTransactions] = []


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
    files.forget_inherited()
    for store in _paused:
        store.adopt()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)

# What a writing transaction does on SQLite besides the entry itself, statement by statement.

_NO_TOTALS = {"spent_main": 0, "spent_delta": 0, "open_main": 0, "open_delta": 0}
_secrets = select(schema.secrets, schema.calls.c.state).outerjoin(
    schema.calls, schema.calls.c.number == schema.secrets.c.call
)
_one_secret = select(schema.secrets.c.secret, schema.secrets.c.digest).where(schema.secrets.c.call == schema.of_call)


class SqliteUpkeep:
    """See `Upkeep`; SQLite has no functions of its own in which rules could live, so all of it is done from here."""

    def post(
        self, connection: Connection, head: str, entry: ChainEntry, closes: Closing | None = None, known: bool = True
    ) -> str:
        """Append an entry and move the totals."""
        sealed = seal(head, entry)
        connection.execute(schema.add_entry, {**entry._asdict(), "hash": sealed})
        connection.execute(schema.move_head, {"new_entries": entry.number, "new_head": sealed})
        if not known:
            owner = {"dataset": entry.dataset, "analyst": entry.analyst}
            connection.execute(schema.add_analyst, {**owner, "cap_main": None, "cap_delta": None, **_NO_TOTALS})
        if closes is None:
            _BEGINNINGS[Kind(entry.kind)](connection, entry)
        else:
            _close(connection, closes.reserved, entry)
            if entry.kind == Kind.SETTLE:
                _answered(connection, entry, closes.answer)
        return sealed

    def add_secret(self, connection: Connection, call: int, secret: bytes) -> None:
        """Add the secret of a settled call."""
        connection.execute(schema.add_secret, {"call": call, "secret": secret, "digest": secret_digest(call, secret)})

    def drop_secret(self, connection: Connection, call: int) -> bool:
        """Take the secret of a call away."""
        return bool(connection.execute(schema.drop_secret, {"of_call": call}).rowcount)

    def secret(self, connection: Connection, call: int) -> Kept | None:
        """The secret of a call."""
        row = connection.execute(_one_secret, {"of_call": call}).one_or_none()
        if row is not None and not isinstance(row.secret, bytes):
            raise LedgerCorrupted(f"the secret of call {call} was changed")
        return None if row is None else Kept(row.secret, row.digest)

    def digest(self, connection: Connection, call: int) -> str | None:
        """The digest of the secret of a call."""
        found: str | None = connection.execute(schema.read_digest, {"of_call": call}).scalar_one_or_none()
        return found

    def sealed(self, connection: Connection) -> bool:
        """Whether the seal is right."""
        return bool(connection.execute(select(schema.seals)).all() == connection.execute(SEAL).all())

    def changed_secrets(self, connection: Connection) -> Iterator[int]:
        """The calls whose secret was changed."""
        for row in connection.execute(_secrets):
            if (
                not isinstance(row.secret, bytes)
                or row.state != records.State.SETTLED
                or row.digest != secret_digest(row.call, row.secret)
            ):
                yield row.call

    def structure(self, connection: Connection) -> Iterator[str]:
        """The pages and indexes of the file."""
        for (problem,) in connection.exec_driver_sql("PRAGMA integrity_check"):
            if problem != "ok":
                yield f"file: {problem}"


def _open(connection: Connection, entry: ChainEntry) -> None:
    terms = terms_of(entry)
    capacity = {"capacity_main": terms.capacity.main, "capacity_delta": terms.capacity.delta}
    named = {"name": terms.name, "fingerprint": terms.fingerprint, "conditions": terms.conditions}
    basic = {"capacity_basic": terms.basic, "spent_basic": 0, "alone": 0}
    connection.execute(schema.add_dataset, {**named, **capacity, **_NO_TOTALS, "version": 0, **basic})
    if terms.basic:
        connection.execute(schema.set_format, {"new_format": schema.format_of(connection)})


def _share(connection: Connection, entry: ChainEntry) -> None:
    owner = {"of_dataset": entry.dataset, "of_analyst": entry.analyst}
    connection.execute(schema.cap_analyst, {**owner, "new_main": entry.main, "new_delta": entry.delta})


def _reserve(connection: Connection, entry: ChainEntry) -> None:
    owner = {"dataset": entry.dataset, "analyst": entry.analyst, "request": entry.request}
    charged = {"state": str(records.State.RESERVED), "charged_main": entry.main, "charged_delta": entry.delta}
    connection.execute(schema.add_call, {"number": entry.number, **owner, **charged, "closing": None})
    parts = parts_of(entry)
    if parts is not None:
        _name(connection, entry, parts)
    _charge(connection, entry, (entry.main, entry.delta, entry.main, entry.delta), adds=entry.basic)


def _name(connection: Connection, entry: ChainEntry, parts: records.Parts) -> None:
    """Write down which parts a call is of, and of which partition, the first time."""
    connection.execute(
        insert(schema.partitions).on_conflict_do_nothing(),
        {"dataset": entry.dataset, "partition": parts.partition, "most": parts.most},
    )
    named = [{"call": entry.number, "partition": parts.partition, "part": part} for part in parts.names]
    connection.execute(schema.add_call_part, named)
    connection.execute(schema.set_format, {"new_format": schema.PARTED})


def _note(connection: Connection, entry: ChainEntry) -> None:
    if connection.execute(schema.raise_version, {"of_dataset": entry.dataset}).rowcount == 0:
        raise not_held(entry.dataset)


_BEGINNINGS = {Kind.OPEN: _open, Kind.SHARE: _share, Kind.RESERVE: _reserve, Kind.NOTE: _note}


def _close(connection: Connection, held: ChainEntry, entry: ChainEntry) -> None:
    """Settle or void a call: what it gives back becomes available again."""
    state = records.State.SETTLED if entry.kind == Kind.SETTLE else records.State.VOIDED
    charged = {"new_charged_main": entry.main, "new_charged_delta": entry.delta}
    closed = {"call": held.number, "new_state": str(state), "new_closing": entry.number, **charged}
    connection.execute(schema.close_call, closed)
    if entry.kind == Kind.VOID and held.basic:
        connection.execute(schema.give_basic_back, {"of_dataset": held.dataset, "basic_by": held.basic})
    _charge(connection, held, (-entry.back_main, -entry.back_delta, -held.main, -held.delta))


def _answered(connection: Connection, entry: ChainEntry, answer: str) -> None:
    """Keep the public answer of a settled call and count it."""
    connection.execute(schema.add_answer, {"call": entry.call, "answer": answer})
    sums = {"calls": 1, "hits": entry.hits, "tests": entry.tests, "main": entry.main, "delta": entry.delta}
    kind = {"of_dataset": entry.dataset, "of_kind": entry.label}
    if connection.execute(schema.raise_tally, kind | {f"{name}_by": by for name, by in sums.items()}).rowcount == 0:
        connection.execute(schema.add_tally, {"dataset": entry.dataset, "kind": entry.label, **sums})


def _charge(connection: Connection, held: ChainEntry, by: Totals, *, adds: int | None = None) -> None:
    """Move the totals of the dataset and of the analyst together, by the amounts in the entry of a call; `adds` is
    what a charge adds to the basic account."""
    parts, dataset = parts_of(held), {"of_dataset": held.dataset}
    moves = _moves(by if parts is None else _raised(connection, held.dataset, schema.ALL, parts, by))
    if adds is not None:
        # Before the totals move, so that they are those that the charge found.
        connection.execute(schema.count_basic, {**dataset, "basic_by": adds, "main_by": moves["spent_main_by"]})
    changed = connection.execute(schema.charge_dataset, dataset | moves).rowcount
    moves = _moves(by if parts is None else _raised(connection, held.dataset, held.analyst, parts, by))
    changed += connection.execute(schema.charge_analyst, dataset | {"of_analyst": held.analyst} | moves).rowcount
    if changed != 2:
        raise LedgerCorrupted("the totals of the dataset or of the analyst are missing")


def _moves(by: Totals) -> dict[str, int]:
    return {f"{name}_by": each for name, each in zip(TOTALS, by, strict=True)}


def _raised(connection: Connection, dataset: str, analyst: str, parts: records.Parts, by: Totals) -> Totals:
    """Let each of these parts hold so much more; by how much the most expensive of the partition hold more then."""
    key = {"dataset": dataset, "analyst": analyst, "partition": parts.partition}
    asked: dict[str, Any] = {f"of_{name}": value for name, value in key.items()}
    asked["most"] = connection.execute(schema.read_most, asked).scalar_one()
    before = connection.execute(schema.read_dearest, asked).one()
    totals = dict(zip(TOTALS, by, strict=True))
    connection.execute(_raise_part, [{**key, "part": part, **totals} for part in parts.names])
    after = connection.execute(schema.read_dearest, asked).one()
    return [now - had for now, had in zip(after, before, strict=True)]


_new_part = insert(schema.parts)
_raise_part = _new_part.on_conflict_do_update(
    index_elements=list(schema.parts.primary_key),
    set_={name: schema.parts.c[name] + _new_part.excluded[name] for name in TOTALS},
)

# What happens whenever a ledger is opened: it gets what it lacks, is checked, and held against its checkpoint.


def prepare(store: SqliteTransactions, upkeep: Upkeep) -> None:
    """Make the ledger ready to be charged; `LedgerCorrupted` if it is damaged or an older copy than was kept."""
    with store.reading() as connection:
        done = sealed(connection) and not lacking(connection) and complete(connection)
    if not done:
        with store.writing() as connection:
            add_seal(connection)
            add_lacking(connection)
            for lacked in (*schema.PARTS, *schema.ADDED):  # unless another process has just made them
                lacked.create(connection, checkfirst=True)
    check_opened(store, upkeep)


# A ledger in a file: durable, hash-chained, shared by any number of processes.


def sqlite_store(target: str | Path, timeout: float, checkpoint: str | Path | None = None) -> SqlStore:
    """A store in one SQLite file of mode 0600.

    The target is a path or a URL such as `sqlite:////data/visits.ledger`. A new file is created; an existing one is
    checked in about a second at most. `LedgerCorrupted` if totals, numbering or the end of the chain are wrong,
    `LedgerError` if it is no ledger or has another format. `timeout` is how many seconds to wait for others before
    `LedgerLocked`. Threads may share the object, and so may forked children, which open the file anew. `checkpoint` is
    a small file elsewhere that receives the head of the ledger before anything is handed out. An older copy of the
    ledger then raises `LedgerCorrupted`, as does one that is put in its place while it is open. A ledger that is moved,
    deleted or has a second name (hard link) raises `LedgerError` at the next transaction.
    """
    path = file_of(target)
    check_apart(path, checkpoint)
    files.create(path, timeout, lambda new: lay_out(new, timeout))
    file, upkeep = SqliteTransactions(path, timeout, Bookmark(checkpoint)), SqliteUpkeep()
    try:
        prepare(file, upkeep)
    except BaseException:
        file.close()
        raise
    return SqlStore(file, Claims(path), upkeep)


def back_up(source: str | Path, to: Path, timeout: float) -> None:
    """Write a consistent, durable copy of mode 0600 into a new file, while others go on charging."""
    with closing(sqlite_store(source, timeout)) as store:
        check_apart(file_of(source).absolute(), to, "a copy")
        file: Any = store.transactions
        if not files.create(to.absolute(), timeout, file.copy_to):
            raise InvalidParameter(f"there is a file {to} already: a backup replaces none")
