"""Locations of ledgers: a file or a server's URL, opened, copied, or moved from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, func, select, tuple_, update

from chary.addresses import Address, file_of, is_server
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError
from chary.ledger import entries, records, verification
from chary.ledger.checkpoint import holds
from chary.ledger.ledger import Ledger
from chary.ledger.memory import MemoryStore
from chary.ledger.sql import schema
from chary.ledger.sql.protocols import Transactions, Upkeep
from chary.ledger.sqlite import store as sqlite
from chary.ledger.sqlite.files import create, engine_of
from chary.ledger.sqlite.store import SqliteUpkeep, lay_out
from chary.ledger.store import Progress

IN_MEMORY: Final = ":memory:"

# Where a ledger is: a file, or a schema of a server; and how it is opened.


def open_ledger(target: str | Path, *, timeout: float = 30.0, checkpoint: str | Path | None = None) -> Ledger:
    """Open, or make, the ledger at a path, or at a URL that begins with `sqlite:` or `postgresql:`; ":memory:" is a new
    one that nobody else has, for throwaway sessions.

    Errors: those of `sqlite_store` and `postgres_store`, `LedgerError` where the driver of PostgreSQL is missing, and
    `InvalidParameter` for another URL and for a ledger in memory with a checkpoint.

    >>> import tempfile
    >>> from chary.ledger import Amount, Terms
    >>> path = tempfile.mkdtemp() + "/visits.ledger"
    >>> ledger = open_ledger(path)
    >>> ledger.open(Terms("visits", "ab12", '{"unit": "patient"}', Amount(10)))
    >>> crashed = ledger.reserve("visits", "ann", "count", '{"where":"age > 65"}', Amount(4))
    >>> ledger.close()
    >>> again = open_ledger(path)
    >>> again.balance("visits").left, again.verify().ok
    (Amount(main=6, delta=0), True)
    >>> again.close()
    """
    if str(target) == IN_MEMORY:
        if checkpoint is not None:
            raise InvalidParameter("only a ledger that is opened by its path or its URL has a checkpoint")
        return Ledger(MemoryStore())
    if not is_server(target):
        return Ledger(sqlite.sqlite_store(target, timeout, checkpoint))
    _driver()
    from chary.ledger.postgresql.store import postgres_store  # noqa: PLC0415

    return Ledger(postgres_store(str(target), timeout, checkpoint))


def ledger_exists(target: str | Path) -> bool:
    """Whether there is a ledger, or at least a file, by that name; nothing is made."""
    if not is_server(target):
        return file_of(target).exists()
    _driver()
    from chary.ledger.postgresql.schema import laid_out  # noqa: PLC0415

    return laid_out(str(target))


def shown(target: str | Path) -> str:
    """A place as people read it, without passwords."""
    return Address.parse(str(target)).shown if is_server(target) else str(file_of(target).absolute())


def bare(target: str | Path, timeout: float = 30.0) -> tuple[Transactions, Upkeep]:
    """Transactions on a ledger, made if it is not there, whatever state it is in; only for moving one."""
    if not is_server(target):
        path = file_of(target)
        create(path, timeout, lambda new: lay_out(new, timeout))
        return sqlite.SqliteTransactions(path, timeout), SqliteUpkeep()
    _driver()
    from chary.ledger.postgresql.store import bare_store  # noqa: PLC0415

    return bare_store(str(target), timeout)


def role_statements(schema: str, analysts: Sequence[str]) -> str:
    """SQL for the roles of analysts on a server; see `postgresql.schema.role_statements`."""
    _driver()
    from chary.ledger.postgresql.schema import role_statements as statements  # noqa: PLC0415

    return statements(schema, analysts)


def _driver() -> None:
    """Refuse ledgers on servers where their driver is missing; their modules are imported late, as it takes time."""
    if find_spec("psycopg") is None:
        raise LedgerError("a ledger in PostgreSQL needs its driver: install chary[postgresql]")


# A ledger's rows written elsewhere: as a backup, or because the ledger moves.

# Parents first: others refer to them.
_TABLES = [table for table in schema.metadata.sorted_tables if table not in (schema.chain, schema.seals)]
_ROWS = 2_000
_TIMEOUT = 30.0


def back_up(source: str | Path, to: str | Path) -> entries.Head:
    """Write one state of a ledger, in a file or on a server, durably into a new file of mode 0600; its head.

    Others go on charging meanwhile. The copy of a ledger on a server is verified, entry for entry and secret for
    secret, before it has its name; its owner's rights are needed. A copy is for the day on which the ledger is lost:
    anyone who charges it while the ledger lives spends the budget twice. `move` brings it back to a server.

    Errors: `InvalidParameter` where there is no ledger, or a file of that name already. `LedgerCorrupted` for a ledger
    on a server that does not verify, or a file that cannot be opened. `LedgerError` for one that was moved.
    """
    if not ledger_exists(source):
        raise InvalidParameter("there is no ledger to copy")
    if not is_server(source):
        sqlite.back_up(source, Path(to), _TIMEOUT)
    else:
        store, upkeep = bare(source)
        with closing(store):
            if not create(Path(to).absolute(), _TIMEOUT, lambda new: _fill(new, store, upkeep)):
                raise InvalidParameter(f"there is a file {to} already: a backup replaces none")
    with closing(open_ledger(Path(to))) as copy:
        return copy.head()


def write_rows(old: Connection, new: Connection, head: entries.Head) -> None:
    """Every row into an empty ledger, whose head it then has."""
    for table in _TABLES:
        _rows(old, new, table)
    new.execute(update(schema.chain).values(format=schema.format_of(new), entries=head.entries, head=head.hash))


def require(verdict: records.Verification, otherwise: str) -> None:
    """Raise `LedgerCorrupted`, with the first of its problems, for a ledger that does not verify."""
    if not verdict.ok:
        raise LedgerCorrupted(f"{otherwise}: {verdict.problems[0]}")


def _fill(new: Path, store: Transactions, upkeep: Upkeep) -> None:
    lay_out(new, _TIMEOUT)
    with store.copied() as old, closing(engine_of(new, _TIMEOUT).connect()) as copy, copy.begin():
        schema.chargeable(old, old.execute(select(schema.chain.c.format)).scalar_one())
        # The copy gets a seal of its own, by which secrets that are gone would not be missed.
        if not upkeep.sealed(old):
            raise LedgerCorrupted("the secrets and the chain are of different moments, so there is no copy")
        write_rows(old, copy, store.bookmark.read(old))
        require(verification.audit(SqliteUpkeep(), copy, None), "the copy does not verify, so there is none")


def _rows(old: Connection, new: Connection, table: Table) -> None:
    keys = table.primary_key.columns
    page = select(table).order_by(*keys).limit(_ROWS)
    found = [dict(row) for row in old.execute(page).mappings()]
    while found:
        new.execute(table.insert(), found)
        last = tuple_(*(found[-1][key.name] for key in keys), types=[key.type for key in keys])
        found = [dict(row) for row in old.execute(page.where(tuple_(*keys) > last)).mappings()]


# A ledger that moves from a file to a server, or back: one chain, charged in one place at any time.


def move(
    source: str | Path, target: str | Path, *, with_open_calls: bool = False, progress: Progress | None = None
) -> entries.Head:
    """Move a whole ledger to a new place, between a file and a server or within either; its head.

    Guarantees: the chain is verified before and after, entry for entry and secret for secret. The source is locked
    against every writer meanwhile and marked as moved before the target may be charged. So a crash at any moment leaves
    at most one of them that can be charged. The same call again then finishes what was left.

    Calls that are reserved and not settled raise `LedgerError`, unless `with_open_calls`: they stay charged for ever,
    because anyone who runs them cannot settle them any more. Errors: `InvalidParameter` where there is no source or
    already something else at the target, `LedgerCorrupted` for a source that does not verify.
    """
    if not ledger_exists(source):
        raise InvalidParameter("there is no ledger to move")
    if (head := _finished(source, target)) is not None:
        return head
    with closing(open_ledger(source)) as ledger:
        require(ledger.verify(progress), "the ledger does not verify, so it stays")
    leaving, _ = bare(source)
    arriving, upkeep = bare(target)
    with closing(leaving), closing(arriving):
        with leaving.writing() as old:
            _check_open(old, with_open_calls)
            head = leaving.bookmark.read(old)
            if _vacant(arriving, head):
                _copy(old, arriving, upkeep, head, progress)
            schema.depart(old, shown(target), head)
        _activate(arriving, head)
    return head


def _finished(source: str | Path, target: str | Path) -> entries.Head | None:
    """Finish a move whose source was marked already; None if it was not."""
    with closing(bare(source)[0]) as store, store.reading() as connection:
        if connection.execute(select(schema.chain.c.format)).scalar_one() != schema.DEPARTED:
            return None
        place, head = schema.place_of(connection)
    if place != shown(target):
        raise InvalidParameter(f"the ledger was moved to {place}")
    if not ledger_exists(target):
        raise LedgerError(f"the ledger was moved to {place}, and is not there any more")
    with closing(bare(target)[0]) as store:
        _activate(store, head)
    return head


def _vacant(arriving: Transactions, head: entries.Head) -> bool:
    """Whether the target is empty, rather than the copy of an earlier attempt that was cut off."""
    with arriving.reading() as connection:
        format, at = connection.execute(select(schema.chain.c.format)).scalar_one(), arriving.bookmark.read(connection)
    if (format, at) not in ((schema.FORMAT, entries.Head()), (schema.ARRIVING, head)):
        raise InvalidParameter("there is something at the target already: a ledger moves to a new place")
    return bool(format == schema.FORMAT)


def _check_open(connection: Connection, allowed: bool) -> None:
    count = connection.execute(
        select(func.count()).select_from(schema.calls).where(schema.calls.c.state == "reserved")
    ).scalar_one()
    if count and not allowed:
        raise LedgerError(
            f"{count} calls are reserved and not settled: wait for them, or say that they stay charged for ever"
        )


def _copy(
    old: Connection, arriving: Transactions, upkeep: Upkeep, head: entries.Head, progress: Progress | None
) -> None:
    """Every row into the empty target, which is verified and then left unchargeable, all in one transaction."""
    with arriving.writing() as new:
        write_rows(old, new, head)
        require(verification.audit(upkeep, new, progress), "the copy does not verify, so the ledger stays")
        schema.arrive(new)


def _activate(store: Transactions, head: entries.Head) -> None:
    """Let the target be charged; once it is, nothing changes."""
    with store.writing() as connection:
        if not holds(connection, head):
            raise LedgerCorrupted("what is at the target is not the ledger that moved there, or an older copy of it")
        schema.activate(connection)
