"""A ledger that moves from a file to a server, or back: one chain, charged in one place at any time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, func, select

from chary.errors import InvalidParameter, LedgerBroken, LedgerError
from chary.ledger.head import Head
from chary.ledger.places.copying import require, write_rows
from chary.ledger.places.whereabouts import bare, ledger_exists, open_ledger, shown
from chary.ledger.protocol import Progress
from chary.ledger.sql.bookmark import holds
from chary.ledger.sql.departing import ARRIVING, DEPARTED, activate, arrive, depart, place_of
from chary.ledger.sql.schema import FORMAT, calls, chain
from chary.ledger.sql.sql_audit import audit
from chary.ledger.sql.upkeep import Transactions, Upkeep


def move(
    source: str | Path, target: str | Path, *, with_open_calls: bool = False, progress: Progress | None = None
) -> Head:
    """Move a whole ledger to a new place, between a file and a server or within either; its head.

    Guarantees: the chain is verified before and after, entry for entry and secret for secret; the source is held
    against every writer meanwhile and marked as moved before the target may be charged, so a crash at any moment leaves
    at most one of them that can be charged. The same call again then finishes what was left.

    Calls that are reserved and not settled raise `LedgerError`, unless `with_open_calls`: they stay charged for ever,
    because whoever runs them cannot settle them any more. Errors: `InvalidParameter` where there is no source or
    already something else at the target, `LedgerBroken` for a source that does not verify.
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
            depart(old, shown(target), head)
        _activate(arriving, head)
    return head


def _finished(source: str | Path, target: str | Path) -> Head | None:
    """Finish a move whose source was marked already; None if it was not."""
    with closing(bare(source)[0]) as store, store.reading() as connection:
        if connection.execute(select(chain.c.format)).scalar_one() != DEPARTED:
            return None
        place, head = place_of(connection)
    if place != shown(target):
        raise InvalidParameter(f"the ledger was moved to {place}")
    if not ledger_exists(target):
        raise LedgerError(f"the ledger was moved to {place}, and is not there any more")
    with closing(bare(target)[0]) as store:
        _activate(store, head)
    return head


def _vacant(arriving: Transactions, head: Head) -> bool:
    """Whether the target is empty, rather than the copy of an earlier attempt that was cut off."""
    with arriving.reading() as connection:
        format, at = connection.execute(select(chain.c.format)).scalar_one(), arriving.bookmark.read(connection)
    if (format, at) not in ((FORMAT, Head()), (ARRIVING, head)):
        raise InvalidParameter("there is something at the target already: a ledger moves to a new place")
    return bool(format == FORMAT)


def _check_open(connection: Connection, allowed: bool) -> None:
    count = connection.execute(select(func.count()).select_from(calls).where(calls.c.state == "reserved")).scalar_one()
    if count and not allowed:
        raise LedgerError(
            f"{count} calls are reserved and not settled: wait for them, or say that they stay charged for ever"
        )


def _copy(old: Connection, arriving: Transactions, upkeep: Upkeep, head: Head, progress: Progress | None) -> None:
    """Every row into the empty target, which is verified and then left unchargeable, all in one transaction."""
    with arriving.writing() as new:
        write_rows(old, new, head)
        require(audit(upkeep, new, progress), "the copy does not verify, so the ledger stays")
        arrive(new)


def _activate(store: Transactions, head: Head) -> None:
    """Let the target be charged; once it is, nothing changes."""
    with store.writing() as connection:
        if not holds(connection, head):
            raise LedgerBroken("what is at the target is not the ledger that moved there, or an older copy of it")
        activate(connection)
