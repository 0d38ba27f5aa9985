"""What a ledger in a database reads and writes within one transaction, with the rules of each step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, bindparam, func, select

from chary.amounts import Amount
from chary.errors import LedgerCorrupted
from chary.ledger import entries, ledger
from chary.ledger.accounts import Account, CallCount, Purse
from chary.ledger.records import Balance, CallRecord, Note, State, Tally, Terms, label, masked, still
from chary.ledger.sql import schema

# What each writing transaction looks at and decides, between its beginning and its commit.

# A call may have a request key or none.
_KEYED: Final = tuple(int if isinstance(value, int) else str for value in entries.ChainEntry(0, "", "", request=""))
_TYPES: Final = (
    _KEYED,
    tuple(
        type(None) if name == "request" else kind for name, kind in zip(entries.ChainEntry._fields, _KEYED, strict=True)
    ),
)


class Standing(NamedTuple):
    """The head of the chain, and the purses a charge is held against; `known` is whether the analyst has a row."""

    number: int
    head: str
    capacity: Amount
    dataset: Purse
    analyst: Purse
    known: bool


def secret_digest(call: int, secret: bytes) -> str:
    """What lies beside a secret to notice a changed one; it never leaves the table of secrets."""
    return sha256(b"%d:" % call + secret).hexdigest()


def standing(connection: Connection, dataset: str, analyst: str) -> Standing:
    """Everything a charge depends on, in one read."""
    names = {"dataset": label(dataset, "dataset"), "analyst": label(analyst, "analyst")}
    row = connection.execute(schema.read_standing, names).one_or_none()
    if row is None:
        raise entries.not_held(dataset)
    whole_numbers([row.head_number, *row[2:11]], f"dataset {dataset!r}")
    if row.analyst is not None:
        whole_numbers([*(cap for cap in row[12:14] if cap is not None), *row[14:18]], f"analyst {analyst!r}")
    capacity, known = Amount(row.capacity_main, row.capacity_delta), row.analyst is not None
    purse = Purse(cap_of(row), *row[14:18]) if known else Purse()
    return Standing(row.head_number, row.head, capacity, Purse(capacity, *row[4:11]), purse, known)


def unclaimed(connection: Connection, entry: entries.ChainEntry, held: Callable[[str], bool]) -> None:
    """Raise why the entry's request key cannot be used now, if it cannot; `held` tells whether a call is being run."""
    if entry.request is None:
        return
    key = {"dataset": entry.dataset, "analyst": entry.analyst, "request": entry.request}
    first = connection.execute(schema.read_asked, key).one_or_none()
    if first is None:
        return
    entries.same_question(entry_of(first), entry.label, entry.body)
    if first.state == State.SETTLED:
        raise entries.answered()
    if any(held(sealed) for sealed in connection.execute(schema.read_unanswered, key).scalars()):
        raise entries.in_flight()


def reserved(connection: Connection, call: int) -> tuple[int, str, entries.ChainEntry]:
    """The head of the chain and the reserve entry of an open call."""
    row = connection.execute(schema.read_reserved, {"call": call}).one_or_none()
    if row is None or row.state != State.RESERVED:
        raise entries.not_open(call, row and (entries.Kind.SETTLE if row.state == State.SETTLED else entries.Kind.VOID))
    return row.head_number, row.head, entry_of(row)


def unanswered(connection: Connection, held: entries.ChainEntry) -> None:
    """Raise `RequestAnswered` if another call under the request key of this one was settled meanwhile.

    Whoever lost the claim on the key while the call ran (see `Claims`) must not answer it a second time.
    """
    key = {"dataset": held.dataset, "analyst": held.analyst, "request": held.request}
    if held.request is not None and connection.execute(schema.read_key_settled, key).one_or_none() is not None:
        raise entries.answered()


def unmoved(upkeep: ledger.Upkeep, connection: Connection, seen: Mapping[int, bytes | None]) -> None:
    """Raise `SecretMoved` unless each secret is still the one that was seen; only digests are compared."""
    digests = {call: None if secret is None else secret_digest(call, secret) for call, secret in seen.items()}
    still(digests, lambda call: upkeep.digest(connection, call))


def changes_of(
    connection: Connection, changes: Mapping[int, bytes | None], seen: Mapping[int, bytes | None], dataset: str
) -> dict[int, bytes | None]:
    """The secrets to be written; `LedgerError` if one is not that of a settled call of the dataset.

    What is still as it was seen is not written again, since the state of a million units is large.
    """
    for call, secret in changes.items():
        if connection.execute(schema.read_settled, {"call": call}).scalar_one_or_none() != dataset:
            raise entries.not_settled(call)
        masked(secret, "secret")
    return {call: new for call, new in changes.items() if new is None or seen.get(call) != new}


def keep(upkeep: ledger.Upkeep, connection: Connection, changes: Mapping[int, bytes | None]) -> None:
    """Replace or erase the secrets that calls still hold; an erased one is never set again."""
    for call, secret in changes.items():
        if upkeep.drop_secret(connection, call) and secret is not None:
            upkeep.add_secret(connection, call, secret)


def cap_of(row: Any) -> Amount | None:
    """An analyst's cap; half a cap is an `InvalidParameter`, it was never written by a ledger."""
    return None if row.cap_main is row.cap_delta is None else Amount(row.cap_main, row.cap_delta)


def entry_of(row: Sequence[Any]) -> entries.ChainEntry:
    """The entry whose fields come first in a row; `LedgerCorrupted` where one of them is of another type than was
    written, as after damage of a file."""
    entry = entries.ChainEntry(*row[: len(entries.ChainEntry._fields)])
    if tuple(map(type, entry)) not in _TYPES:
        raise LedgerCorrupted(f"entry {entry.number}: a field of it is no text or no number any more")
    return entry


def whole_numbers(values: Iterable[Any], whose: str) -> None:
    """`LedgerCorrupted` unless all of these are whole numbers."""
    if any(type(value) is not int for value in values):
        raise LedgerCorrupted(f"{whose}: its row is damaged")


def texts(values: Iterable[Any], whose: str) -> None:
    """`LedgerCorrupted` unless all of these are texts."""
    if any(type(value) is not str for value in values):
        raise LedgerCorrupted(f"{whose}: its row is damaged")


# What each reading transaction asks of SQL.

# A page is a short transaction of its own, so that reading a long history stops no charge.
PAGE = 500
AnyRow = Row[*tuple[Any, ...]]
# No text has it, and none that has another letter in its place comes behind it.
_LAST = "\U0010ffff"
_WIDTH = len(entries.ChainEntry._fields)

_closing = schema.entries.alias("closing_entry")
_whole_call = (
    select(*schema.entry_columns, *[_closing.c[name] for name in entries.ChainEntry._fields], schema.answers.c.answer)
    .select_from(schema.calls)
    .join(schema.entries, schema.entries.c.number == schema.calls.c.number)
    .outerjoin(_closing, _closing.c.number == schema.calls.c.closing)
    .outerjoin(schema.answers, schema.answers.c.call == schema.calls.c.number)
)
_one_call = _whole_call.where(schema.calls.c.number == bindparam("call"))
_last_settled = (
    _whole_call.where(
        schema.calls.c.dataset == bindparam("dataset"),
        schema.calls.c.state == "settled",
        schema.entries.c.label == bindparam("kind"),
        schema.entries.c.body == bindparam("body"),
    )
    .order_by(schema.calls.c.number.desc())
    .limit(1)
)
# A range of the index of keys, whose texts are compared by their bytes.
_charged_under = (
    select(
        schema.calls.c.state,
        *map(func.sum, (schema.calls.c.charged_main, schema.calls.c.charged_delta, schema.entries.c.basic)),
    )
    .select_from(schema.calls)
    .join(schema.entries, schema.entries.c.number == schema.calls.c.number)
    .where(
        schema.calls.c.dataset == bindparam("dataset"),
        schema.calls.c.analyst == bindparam("analyst"),
        schema.calls.c.request >= bindparam("keys"),
        schema.calls.c.request < bindparam("behind"),
    )
    .group_by(schema.calls.c.state)
)
_before = schema.entries.alias("before")
_page_of_entries = (
    select(*schema.entry_columns, schema.entries.c.hash, _before.c.hash.label("previous"), schema.answers.c.answer)
    .select_from(schema.entries)
    .outerjoin(_before, _before.c.number == schema.entries.c.number - 1)
    .outerjoin(schema.answers, and_(schema.answers.c.call == schema.entries.c.call, schema.entries.c.kind == "settle"))
    .where(schema.entries.c.number > bindparam("after"), schema.entries.c.dataset == bindparam("dataset"))
    .order_by(schema.entries.c.number)
    .limit(bindparam("limit"))
)
_one_dataset = select(schema.datasets).where(schema.datasets.c.name == bindparam("dataset"))
_one_analyst = select(schema.analysts).where(
    schema.analysts.c.dataset == bindparam("dataset"), schema.analysts.c.analyst == bindparam("analyst")
)
_analysts_of = (
    select(schema.analysts.c.analyst)
    .where(schema.analysts.c.dataset == bindparam("dataset"))
    .order_by(schema.analysts.c.analyst)
)
_tallies = (
    select(schema.tallies).where(schema.tallies.c.dataset == bindparam("dataset")).order_by(schema.tallies.c.kind)
)
_noted = (
    select(*schema.entry_columns)
    .where(schema.entries.c.kind == schema.NOTED, schema.entries.c.dataset == bindparam("dataset"))
    .order_by(schema.entries.c.number)
)
_last_noted = _noted.order_by(None).order_by(schema.entries.c.number.desc()).limit(1)


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
    found = [schema.calls.c.number.in_(_of_kinds(analyst, keys, newest))] if kinds else [*_range(schema.calls)]
    if analyst and not kinds:
        found.append(schema.calls.c.analyst == bindparam("analyst"))
    if keys:
        found += [schema.calls.c.request >= bindparam("keys"), schema.calls.c.request < bindparam("behind")]
    order = schema.calls.c.number.desc() if newest else schema.calls.c.number
    return _whole_call.where(*found).order_by(order).limit(bindparam("limit"))


def _of_kinds(analyst: bool, keys: bool, newest: bool) -> Select[Any]:
    """The numbers of calls of some kinds, from the index that holds all it takes."""
    found = [
        *_range(schema.entries),
        schema.entries.c.kind == schema.RESERVED,
        schema.entries.c.label.in_(bindparam("kinds", expanding=True)),
    ]
    if analyst:
        found.append(schema.entries.c.analyst == bindparam("analyst"))
    numbers = select(schema.entries.c.number).where(*found)
    order = schema.entries.c.number.desc() if newest else schema.entries.c.number
    return numbers if keys else numbers.order_by(order).limit(bindparam("limit"))


def _range(table: Table) -> tuple[ColumnElement[bool], ...]:
    number = table.c.number
    return table.c.dataset == bindparam("dataset"), number > bindparam("after"), number < bindparam("before")


def account(connection: Connection, dataset: str) -> Account:
    """A dataset's terms, totals and version, without analysts and tallies."""
    row = connection.execute(_one_dataset, {"dataset": label(dataset, "dataset")}).one_or_none()
    if row is None:
        raise entries.not_held(dataset)
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
    return [
        account_of(row).terms for row in connection.execute(select(schema.datasets).order_by(schema.datasets.c.name))
    ]


def notes(connection: Connection, dataset: str) -> list[Note]:
    """Everything recorded about a dataset."""
    account(connection, dataset)
    rows = connection.execute(_noted, {"dataset": dataset})
    return [entries.note_of(version, entry_of(row)) for version, row in enumerate(rows, 1)]


def last_note(connection: Connection, dataset: str) -> Note | None:
    """What was recorded last about a dataset."""
    version = account(connection, dataset).version
    if not version:
        return None
    row = connection.execute(_last_noted, {"dataset": dataset}).one_or_none()
    if row is None:
        raise LedgerCorrupted("the notes of the dataset are missing")
    return entries.note_of(version, entry_of(row))


def call(connection: Connection, number: int) -> CallRecord:
    """One call."""
    row = connection.execute(_one_call, {"call": number}).one_or_none()
    if row is None:
        raise entries.not_open(number, None)
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
    texts([row.hash, row.previous or entries.GENESIS, row.answer or ""], f"entry {row.number}")
    return entries.exported(entry_of(row), row.previous or entries.GENESIS, row.hash, row.answer)


def replay(connection: Connection, key: dict[str, str], kind: str, body: str) -> CallRecord | None:
    """The call first settled under a request key."""
    account(connection, key["dataset"])
    label(key["analyst"], "analyst"), label(key["request"], "request")
    held = connection.execute(schema.read_asked, key).one_or_none()
    if held is None:
        return None
    entries.same_question(entry_of(held), kind, body)
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


def secret(upkeep: ledger.Upkeep, connection: Connection, number: int) -> bytes | None:
    """The secret of a call; `LedgerCorrupted` if it is not the one that was stored."""
    call(connection, number)
    kept = upkeep.secret(connection, number)
    if kept is not None and kept.digest != secret_digest(number, kept.secret):
        raise LedgerCorrupted(f"the secret of call {number} was changed")
    return None if kept is None else kept.secret


def _call_of(row: Sequence[Any]) -> CallRecord:
    reserved, closed = entry_of(row), None if row[_WIDTH] is None else entry_of(row[_WIDTH : 2 * _WIDTH])
    answer = row[2 * _WIDTH]
    found = entries.call_of(reserved, closed, answer if isinstance(answer, str) else None)
    # One damaged answer hides no other call.
    right = isinstance(answer, str) == (found.state == State.SETTLED) and (answer is None or isinstance(answer, str))
    return found if right else replace(found, damage="its answer is damaged or missing")
