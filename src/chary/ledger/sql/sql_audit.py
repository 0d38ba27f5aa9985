"""The full verification of a ledger in SQL: streams the entries and compares every derived row with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from chary.errors import LedgerBroken
from chary.ledger.accounts import Account
from chary.ledger.audit import STEP, Audit
from chary.ledger.entries import ChainEntry, Kind, digest
from chary.ledger.protocol import Progress
from chary.ledger.records import State, Verification
from chary.ledger.sql.departing import format_of
from chary.ledger.sql.schema import analysts, answers, calls, chain, datasets, entries, tallies
from chary.ledger.sql.soundness import UNREADABLE
from chary.ledger.sql.sql_reads import account_of, count_of, purse_of
from chary.ledger.sql.sql_writes import entry_of
from chary.ledger.sql.statements import entry_columns
from chary.ledger.sql.upkeep import Upkeep

_page = (
    select(*entry_columns, entries.c.hash)
    .where(entries.c.number > bindparam("after"))
    .order_by(entries.c.number)
    .limit(STEP)
)
_calls = (
    select(calls, answers.c.answer)
    .outerjoin(answers, answers.c.call == calls.c.number)
    .where(calls.c.number.in_(bindparam("numbers", expanding=True)))
)

Expected = dict[int, tuple[ChainEntry, ChainEntry | None]]
AnyRow = Row[*tuple[Any, ...]]


def audit(upkeep: Upkeep, connection: Connection, progress: Progress | None) -> Verification:
    """Recompute everything from the entries, in memory that does not grow with their number.

    The structure of the tables, with all indexes, is checked first where the engine can do that. Damage that keeps a
    stored row from being read at all is reported, not raised.
    """
    found = Audit()
    try:
        for problem in upkeep.structure(connection):
            found.report(problem)
        _follow(upkeep, connection, found, progress)
    except UNREADABLE as error:
        found.report(f"what follows entry {found.number} cannot be read ({type(error).__name__})")
    return found.verdict()


def _follow(upkeep: Upkeep, connection: Connection, found: Audit, progress: Progress | None) -> None:
    total = connection.execute(select(func.count()).select_from(entries)).scalar_one()
    reserved, settled = 0, 0
    for page in _pages(connection):
        closed = _read(found, page)
        reserved += sum(row.kind == Kind.RESERVE for row in page)
        settled += sum(row.kind == Kind.SETTLE for row in page)
        _compare_calls(connection, found, closed)
        if progress:
            progress(min(total, found.number), total)
    _compare_calls(connection, found, {number: (entry, None) for number, entry in found.books.open.items()})
    _compare_rest(connection, found, reserved, settled)
    _compare_secrets(upkeep, connection, found)


def _pages(connection: Connection) -> Iterator[list[AnyRow]]:
    after = -(2**62)
    while page := list(connection.execute(_page, {"after": after})):
        yield page
        after = page[-1].number


def _read(found: Audit, page: list[AnyRow]) -> Expected:
    """Read a page of entries; what is returned are the calls it closes."""
    closed: Expected = {}
    for row in page:
        try:
            entry = entry_of(row)
        except LedgerBroken as error:
            found.skip(row.number, str(error), row.hash)
            continue
        held = found.books.open.get(entry.call)
        found.read(entry, row.hash)
        if held is not None and entry.call not in found.books.open:
            closed[entry.call] = (held, entry)
    return closed


def _compare_calls(connection: Connection, found: Audit, expected: Expected) -> None:
    numbers = sorted(expected)
    for start in range(0, len(numbers), STEP):
        part = numbers[start : start + STEP]
        rows = {row.number: row for row in connection.execute(_calls, {"numbers": part})}
        for number in part:
            reserved, closed = expected[number]
            row = rows.get(number)
            right = row is not None and tuple(row[:8]) == _derived(reserved, closed)
            found.expect(right, f"call {number}: it is missing or differs from what the entries say")
            if row is not None:
                _compare_answer(found, row, closed)


def _compare_answer(found: Audit, row: AnyRow, closed: ChainEntry | None) -> None:
    expected = closed.answer_hash if closed is not None and closed.kind == Kind.SETTLE else None
    told = digest(row.answer) if isinstance(row.answer, str) else row.answer
    right = told == expected
    found.expect(right, f"call {row.number}: its answer was changed, removed or added")


def _derived(reserved: ChainEntry, closed: ChainEntry | None) -> tuple[object, ...]:
    """The row of a call as it follows from its entries."""
    owner = (reserved.number, reserved.dataset, reserved.analyst, reserved.request)
    if closed is None:
        return (*owner, State.RESERVED, None, reserved.main, reserved.delta)
    state = State.SETTLED if closed.kind == Kind.SETTLE else State.VOIDED
    return (*owner, state, closed.number, closed.main, closed.delta)


def _compare_rest(connection: Connection, found: Audit, reserved: int, settled: int) -> None:
    head = connection.execute(select(chain)).all()
    found.expect(
        head == [(1, format_of(connection), found.number, found.hash)], "the recorded head is not the end of the chain"
    )
    for table, expected in ((calls, reserved), (answers, settled)):
        count = connection.execute(select(func.count()).select_from(table)).scalar_one()
        found.expect(count == expected, f"there are {count} {table.name} where the entries say {expected}")
    found.compare(_accounts(connection, found))


def _compare_secrets(upkeep: Upkeep, connection: Connection, found: Audit) -> None:
    found.expect(upkeep.sealed(connection), "the secrets and the chain are of different moments")
    for call in upkeep.changed_secrets(connection):
        found.report(f"call {call}: its secret was changed")


def _accounts(connection: Connection, found: Audit) -> dict[str, Account]:
    """The stored totals; what cannot be read is reported and left out."""
    accounts: dict[str, Account] = {}
    for row in connection.execute(select(datasets)):
        try:
            accounts[row.name] = account_of(row)
        except (LedgerBroken, ValueError):
            found.report(f"dataset {row.name!r}: its row is damaged")
    for row in connection.execute(select(analysts)):
        try:
            accounts[row.dataset].analysts[row.analyst] = purse_of(row)
        except (KeyError, LedgerBroken, ValueError):
            found.report(f"analyst {row.analyst!r} of dataset {row.dataset!r}: the row is damaged or astray")
    for row in connection.execute(select(tallies)):
        try:
            accounts[row.dataset].tallies[row.kind] = count_of(row)
        except (KeyError, LedgerBroken, ValueError):
            found.report(f"tally {row.kind!r} of dataset {row.dataset!r}: the row is damaged or astray")
    return accounts
