"""Verification of a ledger: every hash, total, account and answer recomputed from its entries, in memory or in SQL."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, case, func, literal_column, select
from sqlalchemy.exc import DatabaseError

from chary.amounts import Basic
from chary.errors import LedgerCorrupted
from chary.ledger import records
from chary.ledger.accounts import TOTALS, Account, Books, Totals
from chary.ledger.entries import GENESIS, ChainEntry, Kind, digest, seal
from chary.ledger.sql import schema
from chary.ledger.sql.protocols import Upkeep
from chary.ledger.sql.transaction import account_of, count_of, entry_of, partitions_of, purse_of
from chary.ledger.store import Progress

# The recomputation of a ledger from its entries: every hash, every rule and every running total.

# A damaged ledger has as many problems as entries: a hundred lines can be read. Progress is told every 2,000 entries,
# some tens of milliseconds.
SHOWN = 100
STEP = 2_000


class Audit:
    """Reads entries in order, folds them into books of its own and collects what does not add up.

    After a wrong hash the recorded one is believed, so that one changed field is one problem, not thousands.

    >>> audit = Audit()
    >>> audit.read(ChainEntry(2, Kind.NOTE, "visits"))
    >>> audit.verdict().problems
    ['entry 1 is missing', 'entry 2: its dataset is opened twice or never']
    """

    def __init__(self) -> None:
        self.books = Books()
        self.number = 0
        self.hash = GENESIS
        self._problems: list[str] = []
        self._unlisted = 0

    def report(self, problem: str) -> None:
        """Add a problem, or only count it if many are listed already."""
        if len(self._problems) < SHOWN - 1:
            self._problems.append(problem)
        else:
            self._unlisted += 1

    def expect(self, right: bool, problem: str) -> None:
        """Report the problem unless all is right."""
        if not right:
            self.report(problem)

    def read(self, entry: ChainEntry, sealed: str | None = None) -> None:
        """Check the next entry, and its hash if it has one, and post it."""
        if entry.number != self.number + 1:
            self.report(f"entry {self.number + 1} is missing")
        if sealed is not None:
            self.expect(seal(self.hash, entry) == sealed, f"entry {entry.number}: its hash does not follow")
            self.hash = sealed
        self.number = entry.number
        objections = list(self.books.objections(entry))
        for objection in objections:
            self.report(f"entry {entry.number}: {objection}")
        if not objections:
            self.books.post(entry)

    def skip(self, number: int, problem: str, sealed: object) -> None:
        """Report the next entry as one that cannot be read; what follows is checked against the hash it has."""
        if number != self.number + 1:
            self.report(f"entry {self.number + 1} is missing")
        self.report(problem)
        self.number, self.hash = number, sealed if isinstance(sealed, str) else self.hash

    def compare(self, held: Mapping[str, Account]) -> None:
        """Report every dataset whose stored terms or totals differ from the recomputed ones."""
        for name in sorted(held.keys() | self.books.accounts.keys()):
            stored, derived = held.get(name), self.books.accounts.get(name)
            if stored is None or derived is None:
                self.report(f"dataset {name!r} is in the totals or in the entries, but not in both")
                continue
            for part in ("terms", "purse", "version", "analysts", "tallies"):
                same = getattr(stored, part) == getattr(derived, part)
                self.expect(same, f"dataset {name!r}: its {part} differ from what the entries say")

    def verdict(self) -> records.Verification:
        """What was found so far."""
        more = [f"and {self._unlisted} more"] if self._unlisted else []
        return records.Verification(self.number, self._problems + more)


def audited(
    entries: Iterable[ChainEntry],
    total: int,
    accounts: Mapping[str, Account],
    answers: Mapping[int, str],
    progress: Progress | None,
) -> records.Verification:
    """The verdict on a ledger that is wholly in memory; its hashes are made on demand and need no check."""
    audit = Audit()
    for entry in entries:
        audit.read(entry)
        if entry.kind == Kind.SETTLE:
            same = digest(answers.get(entry.call, "")) == entry.answer_hash
            audit.expect(same, f"call {entry.call}: its answer was changed")
        if progress and (entry.number % STEP == 0 or entry.number == total):
            progress(entry.number, total)
    audit.compare(accounts)
    return audit.verdict()


# The check at every opening: about a second at most for a million entries, because SQL does the sums.

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
    return case((schema.entries.c.kind == "reserve", stated), else_=0) - back


_sums_of_entries = select(
    func.count(),
    func.coalesce(func.max(schema.entries.c.number), 0),
    *_halves(_net(schema.entries.c.main, schema.entries.c.back_main), "main"),
    *_halves(_net(schema.entries.c.delta, schema.entries.c.back_delta), "delta"),
).select_from(schema.entries)
_charged = (schema.calls.c.dataset, schema.calls.c.analyst, schema.calls.c.state)
_sums_of_charges = (*_halves(schema.calls.c.charged_main, "main"), *_halves(schema.calls.c.charged_delta, "delta"))
_sums_of_calls = select(*_charged, *_sums_of_charges).group_by(*_charged)
_sums_in_parts = _sums_of_calls.where(schema.calls.c.number.in_(select(schema.call_parts.c.call)))
_one_part = (schema.call_parts.c.partition, schema.call_parts.c.part)
_sums_of_parts = (
    select(*_charged, *_sums_of_charges, *_one_part)
    .join(schema.call_parts, schema.call_parts.c.call == schema.calls.c.number)
    .group_by(*_charged, *_one_part)
)
_totals_of_parts = select(schema.parts)
_all_partitions = select(schema.partitions)
_totals_of_analysts = select(
    schema.analysts.c.dataset, schema.analysts.c.analyst, *[schema.analysts.c[name] for name in TOTALS]
)
_totals_of_datasets = select(schema.datasets.c.name, *[schema.datasets.c[name] for name in TOTALS])
_added = (
    select(schema.entries.c.dataset, *_halves(schema.entries.c.basic, "basic"))
    .where(schema.entries.c.kind == "reserve", schema.entries.c.basic > 0)
    .group_by(schema.entries.c.dataset)
)
_given_back = (
    select(schema.entries.c.dataset, *_halves(schema.entries.c.basic, "basic"))
    .join(schema.calls, schema.calls.c.number == schema.entries.c.number)
    .where(schema.calls.c.state == "voided", schema.entries.c.basic > 0)
    .group_by(schema.entries.c.dataset)
)
_of_accounts = ("name", "capacity_main", "spent_main", *schema.BASIC)
_accounts_of_datasets = select(*[schema.datasets.c[name] for name in _of_accounts])
_tail = select(*schema.entry_columns, schema.entries.c.hash).order_by(schema.entries.c.number.desc()).limit(TAIL + 1)

# What reading rows raises whose bytes were changed: the engine notices, or a number is suddenly a text.
UNREADABLE = (DatabaseError, sqlite3.Error, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)

_NONE: Totals = (0, 0, 0, 0)
_Owner = tuple[str, str]
_Owned = dict[_Owner, Totals]


def check(upkeep: Upkeep, connection: Connection) -> None:
    """Raise `LedgerCorrupted` if numbering, totals, or the end of the chain are wrong.

    Another format raises `LedgerError`. A change further back that leaves all sums alone is found by `verify`.
    """
    try:
        head = connection.execute(
            select(schema.chain.c.format, schema.chain.c.entries, schema.chain.c.head)
        ).one_or_none()
        if head is None:
            raise LedgerCorrupted("the head of the chain is missing")
        schema.chargeable(connection, head.format)
        charged = _by_analyst(connection, _sums_of_calls)
        _check_entries(connection, head.entries, charged)
        _check_calls(connection, charged)
        _check_accounts(connection)
        _check_tail(connection, head.head)
        if not upkeep.sealed(connection):
            raise LedgerCorrupted("the secrets and the chain are of different moments")
    except UNREADABLE as error:
        if _engine_s_own(error):
            raise
        # An honest sum never overflows: every cap is at most 2^62.
        told = "the sums of the ledger overflow" if _overflown(error) else "rows of the ledger cannot be read"
        raise LedgerCorrupted(told) from None


def _engine_s_own(error: Exception) -> bool:
    """Whether the error is the engine's own, such as a lock, and not that of a row that cannot be read."""
    told = getattr(error, "orig", error)
    if hasattr(told, "sqlstate"):
        return bool(told.sqlstate != _OUT_OF_RANGE)
    return bool(getattr(told, "sqlite_errorcode", sqlite3.SQLITE_ERROR) != sqlite3.SQLITE_ERROR)


def _overflown(error: Exception) -> bool:
    return "overflow" in str(error) or getattr(getattr(error, "orig", None), "sqlstate", "") == _OUT_OF_RANGE


def _check_entries(connection: Connection, recorded: int, charged: _Owned) -> None:
    row = connection.execute(_sums_of_entries).one()
    if not row[0] == row[1] == recorded:
        raise LedgerCorrupted("the numbering of the entries has a gap, or entries are missing at the end")
    if list(_wholes(row[2:])) != [sum(held[total] for held in charged.values()) for total in (0, 1)]:
        raise LedgerCorrupted("the running totals are not the sums of the entries")


def _check_calls(connection: Connection, charged: _Owned) -> None:
    """Whether analysts and datasets hold what their calls of all rows do and the most expensive of their parts."""
    common = dict(charged)
    for owner, held in _by_analyst(connection, _sums_in_parts).items():
        common[owner] = _plus(common[owner], held, -1)
    dearest = _check_parts(connection)
    for dataset, analyst, *totals in connection.execute(_totals_of_analysts):
        owner = dataset, analyst
        _same(_plus(common.get(owner, _NONE), dearest.get(owner, _NONE)), tuple(totals), "an analyst")
        common[dataset, schema.ALL] = _plus(common.get((dataset, schema.ALL), _NONE), common.pop(owner, _NONE))
    for dataset, *totals in connection.execute(_totals_of_datasets):
        owner = dataset, schema.ALL
        _same(_plus(common.pop(owner, _NONE), dearest.get(owner, _NONE)), tuple(totals), "a dataset")
    if common:
        raise LedgerCorrupted("there are calls of nobody whose totals are known")


def _by_analyst(connection: Connection, sums: Select[Any]) -> _Owned:
    found: _Owned = {}
    for dataset, analyst, state, *halves in connection.execute(sums):
        found[dataset, analyst] = _plus(found.get((dataset, analyst), _NONE), _held(state, halves))
    return found


def _held(state: str, halves: Sequence[Any]) -> Totals:
    charged = _wholes(halves)
    return (*charged, *charged) if state == "reserved" else (*charged, 0, 0)


def _check_parts(connection: Connection) -> _Owned:
    """What the most expensive parts of all partitions hold together, by whose they are; `LedgerCorrupted` where a part
    does not hold what its calls do."""
    expected: dict[tuple[str, str, str, str], Totals] = {}
    for dataset, analyst, state, *halves, partition, part in connection.execute(_sums_of_parts):
        for whose in (analyst, schema.ALL):
            key = dataset, whose, partition, part
            expected[key] = _plus(expected.get(key, _NONE), _held(state, halves))
    held = {tuple(row[:4]): tuple(row[4:]) for row in connection.execute(_totals_of_parts)}
    if held != expected:
        raise LedgerCorrupted("the running totals of a part are not the sums of its calls")
    most = {(dataset, partition): most for dataset, partition, most in connection.execute(_all_partitions)}
    by_partition: dict[tuple[str, str, str], list[Totals]] = {}
    for (dataset, analyst, partition, _part), totals in expected.items():
        by_partition.setdefault((dataset, analyst, partition), []).append(totals)
    if {(dataset, partition) for dataset, _, partition in by_partition} != most.keys():
        raise LedgerCorrupted("the partitions are not those of the calls")
    dearest: _Owned = {}
    for (dataset, analyst, partition), held_by_parts in by_partition.items():
        together = [sum(nlargest(most[dataset, partition], each)) for each in zip(*held_by_parts, strict=True)]
        dearest[dataset, analyst] = _plus(dearest.get((dataset, analyst), _NONE), tuple(together))
    return dearest


def _check_accounts(connection: Connection) -> None:
    added, back = (
        {dataset: int(high) * _HALF + int(low) for dataset, high, low in connection.execute(sums)}
        for sums in (_added, _given_back)
    )
    for row in connection.execute(_accounts_of_datasets):
        account = Basic(row.capacity_basic, row.spent_basic, bool(row.alone))
        if row.alone not in (0, 1) or not account.sound(row.spent_main <= row.capacity_main):
            raise LedgerCorrupted("a dataset has spent more than its accounts hold")
        # An account that is closed holds one step more than its capacity, whatever came since.
        if account.fits(0) and account.spent != added.get(row.name, 0) - back.get(row.name, 0):
            raise LedgerCorrupted("the running total of a basic account is not the sum of its calls")


def _check_tail(connection: Connection, head: str) -> None:
    rows = list(connection.execute(_tail))[::-1]
    previous = GENESIS if len(rows) <= TAIL else rows.pop(0).hash
    for row in rows:
        if seal(previous, entry_of(row)) != row.hash:
            raise LedgerCorrupted(f"the hash chain breaks at entry {row.number}")
        previous = row.hash
    if previous != head:
        raise LedgerCorrupted("the chain does not end in the recorded head")


def _wholes(halves: Sequence[Any]) -> Totals:
    """What sums in two parts are; some engines sum integers up to decimal ones."""
    return tuple(int(high) * _HALF + int(low) for high, low in zip(halves[::2], halves[1::2], strict=True))


def _plus(left: Totals, right: Totals, times: int = 1) -> Totals:
    return tuple(a + times * b for a, b in zip(left, right, strict=True))


def _same(sums: Totals, recorded: Totals, whose: str) -> None:
    if sums != recorded:
        raise LedgerCorrupted(f"the running totals of {whose} are not the sums of its calls")


# The full verification of a ledger in SQL: streams the entries and compares every derived row with them.

_page = (
    select(*schema.entry_columns, schema.entries.c.hash)
    .where(schema.entries.c.number > bindparam("after"))
    .order_by(schema.entries.c.number)
    .limit(STEP)
)
_calls = (
    select(schema.calls, schema.answers.c.answer)
    .outerjoin(schema.answers, schema.answers.c.call == schema.calls.c.number)
    .where(schema.calls.c.number.in_(bindparam("numbers", expanding=True)))
)

_named = select(schema.call_parts).where(schema.call_parts.c.call.in_(bindparam("numbers", expanding=True)))

Expected = dict[int, tuple[ChainEntry, ChainEntry | None]]
AnyRow = Row[*tuple[Any, ...]]


def audit(upkeep: Upkeep, connection: Connection, progress: Progress | None) -> records.Verification:
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
    total = connection.execute(select(func.count()).select_from(schema.entries)).scalar_one()
    reserved, settled, named = 0, 0, 0
    for page in _pages(connection):
        closed = _read(found, page)
        reserved += sum(row.kind == Kind.RESERVE for row in page)
        named += sum(len(_names(row.parts)) for row in page)
        settled += sum(row.kind == Kind.SETTLE for row in page)
        _compare_calls(connection, found, closed)
        if progress:
            progress(min(total, found.number), total)
    _compare_calls(connection, found, {number: (entry, None) for number, entry in found.books.open.items()})
    _compare_rest(connection, found, {schema.calls: reserved, schema.answers: settled, schema.call_parts: named})
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
        except LedgerCorrupted as error:
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
        named: dict[int, set[tuple[str, str]]] = {}
        for call, *name in connection.execute(_named, {"numbers": part}):
            named.setdefault(call, set()).add((name[0], name[1]))
        for number in part:
            reserved, closed = expected[number]
            row = rows.get(number)
            right = row is not None and tuple(row[:8]) == _derived(reserved, closed)
            right = right and named.get(number, set()) == _names(reserved.parts)
            found.expect(right, f"call {number}: it is missing or differs from what the entries say")
            if row is not None:
                _compare_answer(found, row, closed)


def _names(text: Any) -> set[tuple[str, str]]:
    """The parts that an entry names; none where they cannot be read, which is reported elsewhere."""
    try:
        parts = records.Parts.of(text)
    except (TypeError, ValueError):
        parts = None
    return set() if parts is None else {(parts.partition, part) for part in parts.names}


def _compare_answer(found: Audit, row: AnyRow, closed: ChainEntry | None) -> None:
    expected = closed.answer_hash if closed is not None and closed.kind == Kind.SETTLE else None
    told = digest(row.answer) if isinstance(row.answer, str) else row.answer
    right = told == expected
    found.expect(right, f"call {row.number}: its answer was changed, removed or added")


def _derived(reserved: ChainEntry, closed: ChainEntry | None) -> tuple[object, ...]:
    """The row of a call as it follows from its entries."""
    owner = (reserved.number, reserved.dataset, reserved.analyst, reserved.request)
    if closed is None:
        return (*owner, records.State.RESERVED, None, reserved.main, reserved.delta)
    state = records.State.SETTLED if closed.kind == Kind.SETTLE else records.State.VOIDED
    return (*owner, state, closed.number, closed.main, closed.delta)


def _compare_rest(connection: Connection, found: Audit, expected: Mapping[Table, int]) -> None:
    head = connection.execute(select(schema.chain)).all()
    found.expect(
        head == [(1, schema.format_of(connection), found.number, found.hash)],
        "the recorded head is not the end of the chain",
    )
    partitions = sum(len(account.purse.partitions) for account in found.books.accounts.values())
    for table, number in {**expected, schema.partitions: partitions}.items():
        count = connection.execute(select(func.count()).select_from(table)).scalar_one()
        found.expect(count == number, f"there are {count} {table.name} where the entries say {number}")
    found.compare(_accounts(connection, found))


def _compare_secrets(upkeep: Upkeep, connection: Connection, found: Audit) -> None:
    found.expect(upkeep.sealed(connection), "the secrets and the chain are of different moments")
    for call in upkeep.changed_secrets(connection):
        found.report(f"call {call}: its secret was changed")


def _accounts(connection: Connection, found: Audit) -> dict[str, Account]:
    """The stored totals; what cannot be read is reported and left out."""
    accounts: dict[str, Account] = {}
    for row in connection.execute(select(schema.datasets)):
        try:
            accounts[row.name] = account_of(row)
        except (LedgerCorrupted, ValueError):
            found.report(f"dataset {row.name!r}: its row is damaged")
    for row in connection.execute(select(schema.analysts)):
        try:
            accounts[row.dataset].analysts[row.analyst] = purse_of(row)
        except (KeyError, LedgerCorrupted, ValueError):
            found.report(f"analyst {row.analyst!r} of dataset {row.dataset!r}: the row is damaged or astray")
    parts: dict[tuple[str, str], list[Any]] = {}
    for row in connection.execute(schema.held_parts):
        parts.setdefault((row[1], row[2]), []).append(row)
    for (dataset, analyst), rows in parts.items():
        try:
            account = accounts[dataset]
            purse = account.purse if analyst == schema.ALL else account.analysts[analyst]
            purse.partitions = partitions_of(rows)
        except (KeyError, LedgerCorrupted, ValueError):
            found.report(f"analyst {analyst!r} of dataset {dataset!r}: the rows of parts are damaged or astray")
    for row in connection.execute(select(schema.tallies)):
        try:
            accounts[row.dataset].tallies[row.kind] = count_of(row)
        except (KeyError, LedgerCorrupted, ValueError):
            found.report(f"tally {row.kind!r} of dataset {row.dataset!r}: the row is damaged or astray")
    return accounts
