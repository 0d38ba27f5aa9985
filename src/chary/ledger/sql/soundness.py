"""The check at every opening: about a second at most for a million entries, because SQL does the sums."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, literal_column, select
from sqlalchemy.exc import DatabaseError

from chary.amounts import Basic
from chary.errors import LedgerBroken
from chary.ledger.entries import GENESIS, seal
from chary.ledger.sql.departing import chargeable
from chary.ledger.sql.schema import analysts, calls, chain, datasets, entries
from chary.ledger.sql.sql_writes import entry_of
from chary.ledger.sql.statements import entry_columns
from chary.ledger.sql.upkeep import Upkeep

# A thousand hashes take milliseconds; a crash or a careless copy damages the end. All of them are for `verify`.
TAIL = 1_000
# Each half is below 2**31 (the higher one keeps the sign), so up to 2**32 entries sum up within 64 bits.
_HALF = 2**31
# What PostgreSQL says of a sum that overflows.
_OUT_OF_RANGE = "22003"


def _halves(column: Any, name: str) -> list[Any]:
    """The sum in two parts, because SQL's own sum of large amounts would overflow."""
    # Written out: engines differ in the type that they give to a bound number, and so in what they can shift by it.
    shift: ColumnElement[int] = literal_column("31")
    mask: ColumnElement[int] = literal_column(str(_HALF - 1))
    high, low = func.sum(column.op(">>")(shift)), func.sum(column.op("&")(mask))
    return [func.coalesce(high, 0).label(f"{name}_high"), func.coalesce(low, 0).label(f"{name}_low")]


def _net(stated: Any, back: Any) -> Any:
    return case((entries.c.kind == "reserve", stated), else_=0) - back


_sums_of_entries = select(
    func.count(),
    func.coalesce(func.max(entries.c.number), 0),
    *_halves(_net(entries.c.main, entries.c.back_main), "main"),
    *_halves(_net(entries.c.delta, entries.c.back_delta), "delta"),
).select_from(entries)
_sums_of_calls = select(
    calls.c.dataset, calls.c.analyst, calls.c.state, func.sum(calls.c.charged_main), func.sum(calls.c.charged_delta)
).group_by(calls.c.dataset, calls.c.analyst, calls.c.state)
_totals_of_analysts = select(
    analysts.c.dataset,
    analysts.c.analyst,
    analysts.c.spent_main,
    analysts.c.spent_delta,
    analysts.c.open_main,
    analysts.c.open_delta,
)
_totals_of_datasets = select(
    datasets.c.name, datasets.c.spent_main, datasets.c.spent_delta, datasets.c.open_main, datasets.c.open_delta
)
_added = (
    select(entries.c.dataset, *_halves(entries.c.basic, "basic"))
    .where(entries.c.kind == "reserve", entries.c.basic > 0)
    .group_by(entries.c.dataset)
)
_given_back = (
    select(entries.c.dataset, *_halves(entries.c.basic, "basic"))
    .join(calls, calls.c.number == entries.c.number)
    .where(calls.c.state == "voided", entries.c.basic > 0)
    .group_by(entries.c.dataset)
)
_accounts_of_datasets = select(
    datasets.c.name,
    datasets.c.capacity_main,
    datasets.c.spent_main,
    datasets.c.capacity_basic,
    datasets.c.spent_basic,
    datasets.c.alone,
)
_tail = select(*entry_columns, entries.c.hash).order_by(entries.c.number.desc()).limit(TAIL + 1)

# What reading rows raises whose bytes were changed: the engine notices, or a number is suddenly a text.
UNREADABLE = (DatabaseError, sqlite3.Error, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)

Totals = tuple[int, ...]
_NONE: Totals = (0, 0, 0, 0)


def check(upkeep: Upkeep, connection: Connection) -> None:
    """Raise `LedgerBroken` if numbering, totals, or the end of the chain are wrong.

    Another format raises `LedgerError`. A change further back that leaves all sums alone is found by `verify`.
    """
    try:
        head = connection.execute(select(chain.c.format, chain.c.entries, chain.c.head)).one_or_none()
        if head is None:
            raise LedgerBroken("the head of the chain is missing")
        chargeable(connection, head.format)
        _check_entries(connection, head.entries)
        _check_calls(connection)
        _check_accounts(connection)
        _check_tail(connection, head.head)
        if not upkeep.sealed(connection):
            raise LedgerBroken("the secrets and the chain are of different moments")
    except UNREADABLE as error:
        if _engine_s_own(error):
            raise
        # An honest sum never overflows: every cap is at most 2^62.
        told = "the sums of the ledger overflow" if _overflown(error) else "rows of the ledger cannot be read"
        raise LedgerBroken(told) from None


def _engine_s_own(error: Exception) -> bool:
    """Whether the engine says itself what is wrong, such as a lock, rather than that it cannot make sense of a row."""
    told = getattr(error, "orig", error)
    if hasattr(told, "sqlstate"):
        return bool(told.sqlstate != _OUT_OF_RANGE)
    return bool(getattr(told, "sqlite_errorcode", sqlite3.SQLITE_ERROR) != sqlite3.SQLITE_ERROR)


def _overflown(error: Exception) -> bool:
    return "overflow" in str(error) or getattr(getattr(error, "orig", None), "sqlstate", "") == _OUT_OF_RANGE


def _check_entries(connection: Connection, recorded: int) -> None:
    row = connection.execute(_sums_of_entries).one()
    if not row[0] == row[1] == recorded:
        raise LedgerBroken("the numbering of the entries has a gap, or entries are missing at the end")
    # Some engines sum whole numbers up to decimal ones.
    high_main, low_main, high_delta, low_delta = (int(each) for each in row[2:])
    spent = [high_main * _HALF + low_main, high_delta * _HALF + low_delta]
    totals = connection.execute(_totals_of_datasets).all()
    if spent != [sum(each.spent_main for each in totals), sum(each.spent_delta for each in totals)]:
        raise LedgerBroken("the running totals are not the sums of the entries")


def _check_calls(connection: Connection) -> None:
    by_analyst: dict[tuple[str, str], Totals] = {}
    for dataset, analyst, state, main, delta in connection.execute(_sums_of_calls):
        part = (main, delta, main, delta) if state == "reserved" else (main, delta, 0, 0)
        by_analyst[dataset, analyst] = _plus(by_analyst.get((dataset, analyst), _NONE), part)
    by_dataset: dict[str, Totals] = {}
    for dataset, analyst, *totals in connection.execute(_totals_of_analysts):
        _same(by_analyst.get((dataset, analyst), _NONE), tuple(totals), "an analyst")
        by_dataset[dataset] = _plus(by_dataset.get(dataset, _NONE), tuple(totals))
    for dataset, *totals in connection.execute(_totals_of_datasets):
        _same(by_dataset.get(dataset, _NONE), tuple(totals), "a dataset")


def _check_accounts(connection: Connection) -> None:
    added, back = (
        {dataset: int(high) * _HALF + int(low) for dataset, high, low in connection.execute(sums)}
        for sums in (_added, _given_back)
    )
    for row in connection.execute(_accounts_of_datasets):
        account = Basic(row.capacity_basic, row.spent_basic, bool(row.alone))
        if row.alone not in (0, 1) or not account.sound(row.spent_main <= row.capacity_main):
            raise LedgerBroken("a dataset has spent more than its accounts hold")
        # An account that is closed holds one step more than its capacity, whatever came since.
        if account.fits(0) and account.spent != added.get(row.name, 0) - back.get(row.name, 0):
            raise LedgerBroken("the running total of a basic account is not the sum of its calls")


def _check_tail(connection: Connection, head: str) -> None:
    rows = list(connection.execute(_tail))[::-1]
    previous = GENESIS if len(rows) <= TAIL else rows.pop(0).hash
    for row in rows:
        if seal(previous, entry_of(row)) != row.hash:
            raise LedgerBroken(f"the hash chain breaks at entry {row.number}")
        previous = row.hash
    if previous != head:
        raise LedgerBroken("the chain does not end in the recorded head")


def _plus(left: Totals, right: Totals) -> Totals:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _same(sums: Totals, recorded: Totals, whose: str) -> None:
    if sums != recorded:
        raise LedgerBroken(f"the running totals of {whose} are not the sums of its calls")
