"""The check at every opening: about a second at most for a million entries, because SQL does the sums."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Connection, case, func, select
from sqlalchemy.exc import DatabaseError

from chary.errors import LedgerBroken, LedgerError
from chary.ledger.entries import GENESIS, seal
from chary.ledger.sqlite.layout import SEAL
from chary.ledger.sqlite.schema import FORMAT, analysts, calls, chain, datasets, entries, seals
from chary.ledger.sqlite.sql_writes import entry_of
from chary.ledger.sqlite.statements import entry_columns

# A thousand hashes take milliseconds; a crash or a careless copy damages the end. All of them are for `verify`.
TAIL = 1_000
# Each half is below 2**31 (the higher one keeps the sign), so up to 2**32 entries sum up within 64 bits.
_HALF = 2**31


def _halves(column: Any, name: str) -> list[Any]:
    """The sum in two parts, because SQL's own sum of large amounts would overflow."""
    high, low = func.sum(column.op(">>")(31)), func.sum(column.op("&")(_HALF - 1))
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
_tail = select(*entry_columns, entries.c.hash).order_by(entries.c.number.desc()).limit(TAIL + 1)

# What reading rows raises whose bytes were changed: the engine notices, or a number is suddenly a text.
UNREADABLE = (DatabaseError, sqlite3.Error, TypeError, ValueError, LookupError, ArithmeticError)

Totals = tuple[int, ...]
_NONE: Totals = (0, 0, 0, 0)


def check(connection: Connection) -> None:
    """Raise `LedgerBroken` if numbering, totals, or the end of the chain are wrong.

    Another format raises `LedgerError`. A change further back that leaves all sums alone is found by `verify`.
    """
    try:
        head = connection.execute(select(chain.c.format, chain.c.entries, chain.c.head)).one_or_none()
        if head is None:
            raise LedgerBroken("the head of the chain is missing")
        if head.format != FORMAT:
            raise LedgerError(f"the ledger has format {head.format}, this version of chary reads format {FORMAT}")
        _check_entries(connection, head.entries)
        _check_calls(connection)
        _check_tail(connection, head.head)
        if connection.execute(select(seals)).all() != connection.execute(SEAL).all():
            raise LedgerBroken("the secrets and the chain are of different moments")
    except UNREADABLE as error:
        if _engine_s_own(error):
            raise
        # An honest sum never overflows: every cap is at most 2^62.
        told = "the sums of the ledger overflow" if "overflow" in str(error) else "rows of the ledger cannot be read"
        raise LedgerBroken(told) from None


def _engine_s_own(error: Exception) -> bool:
    """Whether the engine says itself what is wrong, such as a lock, rather than that it cannot make sense of a row."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return bool(code != sqlite3.SQLITE_ERROR)


def _check_entries(connection: Connection, recorded: int) -> None:
    row = connection.execute(_sums_of_entries).one()
    if not row[0] == row[1] == recorded:
        raise LedgerBroken("the numbering of the entries has a gap, or entries are missing at the end")
    spent = [row.main_high * _HALF + row.main_low, row.delta_high * _HALF + row.delta_low]
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
