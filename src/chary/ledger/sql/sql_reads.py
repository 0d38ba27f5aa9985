"""What each reading transaction asks of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, bindparam, func, select

from chary.amounts import Amount
from chary.errors import LedgerBroken
from chary.ledger.accounts import Account, CallCount, Purse
from chary.ledger.checks import label
from chary.ledger.drafts import call_of, not_held, not_open, note_of, same_question
from chary.ledger.entries import GENESIS, ChainEntry, exported
from chary.ledger.records import Balance, CallRecord, Note, State, Tally
from chary.ledger.sql import statements as do
from chary.ledger.sql.schema import NOTED, RESERVED, analysts, answers, calls, datasets, entries, tallies
from chary.ledger.sql.sql_writes import cap_of, entry_of, secret_digest, texts, whole_numbers
from chary.ledger.sql.upkeep import Upkeep
from chary.ledger.terms import Terms

# A page is a short transaction of its own, so that reading a long history stops no charge.
PAGE = 500
AnyRow = Row[*tuple[Any, ...]]
# No text has it, and none that has another letter in its place comes behind it.
_LAST = "\U0010ffff"
_WIDTH = len(ChainEntry._fields)

_closing = entries.alias("closing_entry")
_whole_call = (
    select(*do.entry_columns, *[_closing.c[name] for name in ChainEntry._fields], answers.c.answer)
    .select_from(calls)
    .join(entries, entries.c.number == calls.c.number)
    .outerjoin(_closing, _closing.c.number == calls.c.closing)
    .outerjoin(answers, answers.c.call == calls.c.number)
)
_one_call = _whole_call.where(calls.c.number == bindparam("call"))
_last_settled = (
    _whole_call.where(
        calls.c.dataset == bindparam("dataset"),
        calls.c.state == "settled",
        entries.c.label == bindparam("kind"),
        entries.c.body == bindparam("body"),
    )
    .order_by(calls.c.number.desc())
    .limit(1)
)
# A range of the index of keys, whose texts are compared by their bytes.
_charged_under = (
    select(calls.c.state, *map(func.sum, (calls.c.charged_main, calls.c.charged_delta, entries.c.basic)))
    .select_from(calls)
    .join(entries, entries.c.number == calls.c.number)
    .where(
        calls.c.dataset == bindparam("dataset"),
        calls.c.analyst == bindparam("analyst"),
        calls.c.request >= bindparam("keys"),
        calls.c.request < bindparam("behind"),
    )
    .group_by(calls.c.state)
)
_before = entries.alias("before")
_page_of_entries = (
    select(*do.entry_columns, entries.c.hash, _before.c.hash.label("previous"), answers.c.answer)
    .select_from(entries)
    .outerjoin(_before, _before.c.number == entries.c.number - 1)
    .outerjoin(answers, and_(answers.c.call == entries.c.call, entries.c.kind == "settle"))
    .where(entries.c.number > bindparam("after"), entries.c.dataset == bindparam("dataset"))
    .order_by(entries.c.number)
    .limit(bindparam("limit"))
)
_one_dataset = select(datasets).where(datasets.c.name == bindparam("dataset"))
_one_analyst = select(analysts).where(
    analysts.c.dataset == bindparam("dataset"), analysts.c.analyst == bindparam("analyst")
)
_analysts_of = select(analysts.c.analyst).where(analysts.c.dataset == bindparam("dataset")).order_by(analysts.c.analyst)
_tallies = select(tallies).where(tallies.c.dataset == bindparam("dataset")).order_by(tallies.c.kind)
_noted = (
    select(*do.entry_columns)
    .where(entries.c.kind == NOTED, entries.c.dataset == bindparam("dataset"))
    .order_by(entries.c.number)
)
_last_noted = _noted.order_by(None).order_by(entries.c.number.desc()).limit(1)


class Wanted(NamedTuple):
    """Which calls are looked for; see `Ledger.calls`. Numbers lie between `after` and `before`, without these."""

    dataset: str
    after: int
    before: int
    analyst: str | None = None
    kinds: tuple[str, ...] | None = None
    keys: str | None = None
    newest: bool = False


@cache
def _page_of_calls(analyst: bool, kinds: bool, keys: bool, newest: bool) -> Select[Any]:
    """One statement for each shape, so that each is compiled once."""
    # Of kinds the other index says it all: were it said twice, the engine might take this one and look at every call.
    found: list[ColumnElement[bool]]
    found = [calls.c.number.in_(_of_kinds(analyst, keys, newest))] if kinds else [*_range(calls)]
    if analyst and not kinds:
        found.append(calls.c.analyst == bindparam("analyst"))
    if keys:
        found += [calls.c.request >= bindparam("keys"), calls.c.request < bindparam("behind")]
    order = calls.c.number.desc() if newest else calls.c.number
    return _whole_call.where(*found).order_by(order).limit(bindparam("limit"))


def _of_kinds(analyst: bool, keys: bool, newest: bool) -> Select[Any]:
    """The numbers of calls of some kinds, from the index that holds all it takes."""
    found = [*_range(entries), entries.c.kind == RESERVED, entries.c.label.in_(bindparam("kinds", expanding=True))]
    if analyst:
        found.append(entries.c.analyst == bindparam("analyst"))
    numbers = select(entries.c.number).where(*found)
    order = entries.c.number.desc() if newest else entries.c.number
    return numbers if keys else numbers.order_by(order).limit(bindparam("limit"))


def _range(table: Table) -> tuple[ColumnElement[bool], ...]:
    number = table.c.number
    return table.c.dataset == bindparam("dataset"), number > bindparam("after"), number < bindparam("before")


def account(connection: Connection, dataset: str) -> Account:
    """A dataset's terms, totals and version, without analysts and tallies."""
    row = connection.execute(_one_dataset, {"dataset": label(dataset, "dataset")}).one_or_none()
    if row is None:
        raise not_held(dataset)
    return account_of(row)


def account_of(row: AnyRow) -> Account:
    """The account in a row of the datasets."""
    whole_numbers(row[3:13], f"dataset {row.name!r}")
    texts(row[:3], f"dataset {row.name!r}")
    capacity = Amount(row.capacity_main, row.capacity_delta)
    terms = Terms(row.name, row.fingerprint, row.conditions, capacity, row.capacity_basic)
    return Account(terms, Purse(capacity, *row[5:9], *row[10:13]), row.version)


def purse_of(row: AnyRow) -> Purse:
    """The purse in a row of the analysts."""
    texts(row[:2], f"analyst {row.analyst!r}")
    whole_numbers([*(cap for cap in row[2:4] if cap is not None), *row[4:8]], f"analyst {row.analyst!r}")
    return Purse(cap_of(row), *row[4:8])


def count_of(row: AnyRow) -> CallCount:
    """The running tally in a row of the tallies."""
    texts(row[:2], f"tally {row.kind!r}")
    whole_numbers(row[2:], f"tally {row.kind!r}")
    return CallCount(*row[2:])


def analyst(connection: Connection, dataset: str, name: str) -> Purse:
    """An analyst's purse; an empty one for an analyst never seen."""
    account(connection, dataset)
    row = connection.execute(_one_analyst, {"dataset": dataset, "analyst": label(name, "analyst")}).one_or_none()
    return Purse() if row is None else purse_of(row)


def tally(connection: Connection, dataset: str) -> dict[str, Tally]:
    """The tallies of a dataset by kind."""
    account(connection, dataset)
    return {row.kind: count_of(row).tally() for row in connection.execute(_tallies, {"dataset": dataset})}


def terms(connection: Connection) -> list[Terms]:
    """The terms of all datasets, by name."""
    return [account_of(row).terms for row in connection.execute(select(datasets).order_by(datasets.c.name))]


def notes(connection: Connection, dataset: str) -> list[Note]:
    """Everything recorded about a dataset."""
    account(connection, dataset)
    rows = connection.execute(_noted, {"dataset": dataset})
    return [note_of(version, entry_of(row)) for version, row in enumerate(rows, 1)]


def last_note(connection: Connection, dataset: str) -> Note | None:
    """What was recorded last about a dataset."""
    version = account(connection, dataset).version
    if not version:
        return None
    row = connection.execute(_last_noted, {"dataset": dataset}).one_or_none()
    if row is None:
        raise LedgerBroken("the notes of the dataset are missing")
    return note_of(version, entry_of(row))


def call(connection: Connection, number: int) -> CallRecord:
    """One call."""
    row = connection.execute(_one_call, {"call": number}).one_or_none()
    if row is None:
        raise not_open(number, None)
    return _call_of(row)


def page(connection: Connection, wanted: Wanted, limit: int) -> list[CallRecord]:
    """The next calls that are looked for."""
    account(connection, wanted.dataset)
    analyst, kinds, keys = (named is not None for named in (wanted.analyst, wanted.kinds, wanted.keys))
    asked = wanted._asdict() | {"limit": limit, "behind": (wanted.keys or "") + _LAST}
    rows = connection.execute(_page_of_calls(analyst, kinds, keys, wanted.newest), asked)
    return [_call_of(row) for row in rows]


def analysts_of(connection: Connection, dataset: str) -> list[str]:
    """Whoever has a row, by name."""
    account(connection, dataset)
    return list(connection.execute(_analysts_of, {"dataset": dataset}).scalars())


def lines(connection: Connection, dataset: str, after: int) -> list[dict[str, object]]:
    """The next exported entries of a dataset."""
    account(connection, dataset)
    rows = connection.execute(_page_of_entries, {"dataset": dataset, "after": after, "limit": PAGE})
    return [_line(row) for row in rows]


def _line(row: AnyRow) -> dict[str, object]:
    texts([row.hash, row.previous or GENESIS, row.answer or ""], f"entry {row.number}")
    return exported(entry_of(row), row.previous or GENESIS, row.hash, row.answer)


def replay(connection: Connection, key: dict[str, str], kind: str, body: str) -> CallRecord | None:
    """The call first settled under a request key."""
    account(connection, key["dataset"])
    label(key["analyst"], "analyst"), label(key["request"], "request")
    held = connection.execute(do.read_asked, key).one_or_none()
    if held is None:
        return None
    same_question(entry_of(held), kind, body)
    return call(connection, held.number) if held.state == State.SETTLED else None


def last_settled(connection: Connection, dataset: str, kind: str, body: str) -> CallRecord | None:
    """The latest call that was settled for a question."""
    account(connection, dataset)
    asked = {"dataset": dataset, "kind": kind, "body": body}
    row = connection.execute(_last_settled, asked).one_or_none()
    return None if row is None else _call_of(row)


def charged_under(connection: Connection, dataset: str, analyst: str, keys: str) -> Balance:
    """What an analyst's calls were charged whose request keys begin with these words."""
    whole = account(connection, dataset).purse.basic
    asked = {"dataset": dataset, "analyst": label(analyst, "analyst"), "keys": label(keys, "request")}
    rows = connection.execute(_charged_under, asked | {"behind": keys + _LAST}).all()
    # A sum of nothing but damaged numbers is none.
    by_state = {state: Amount(int(main or 0), int(delta or 0)) for state, main, delta, _ in rows}
    open_ = by_state.get(State.RESERVED, Amount(0))
    # What never ran gave its epsilons back.
    added = sum(int(basic or 0) for state, _, _, basic in rows if state != State.VOIDED)
    basic = None if whole is None else replace(whole, spent=added)
    return Balance(None, sum(by_state.values(), Amount(0)), open_, basic)


def secret(upkeep: Upkeep, connection: Connection, number: int) -> bytes | None:
    """The secret of a call; `LedgerBroken` if it is not the one that was stored."""
    call(connection, number)
    kept = upkeep.secret(connection, number)
    if kept is not None and kept.digest != secret_digest(number, kept.secret):
        raise LedgerBroken(f"the secret of call {number} was changed")
    return None if kept is None else kept.secret


def _call_of(row: Sequence[Any]) -> CallRecord:
    reserved, closed = entry_of(row), None if row[_WIDTH] is None else entry_of(row[_WIDTH : 2 * _WIDTH])
    answer = row[2 * _WIDTH]
    found = call_of(reserved, closed, answer if isinstance(answer, str) else None)
    # One damaged answer hides no other call.
    right = isinstance(answer, str) == (found.state == State.SETTLED) and (answer is None or isinstance(answer, str))
    return found if right else replace(found, damage="its answer is damaged or missing")
