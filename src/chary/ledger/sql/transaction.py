"""What a ledger in SQL reads and writes within one transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, bindparam, func, select

from chary.amounts import Amount
from chary.errors import LedgerCorrupted
from chary.ledger import entries, records
from chary.ledger.accounts import Account, CallCount, Partition, Purse
from chary.ledger.checkpoint import Bookmark, holds
from chary.ledger.claims import Claim
from chary.ledger.records import State
from chary.ledger.sql import schema
from chary.ledger.sql.protocols import Holder, Upkeep
from chary.ledger.store import PAGE, Asked, Closing, Key, Standing, Wanted

# What is asked of SQL, made once.

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
        schema.entries.c.parts == bindparam("parts"),
    )
    .order_by(schema.calls.c.number.desc())
    .limit(1)
)
# A range of the index of keys, whose strings are compared by their bytes.
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
_held_by_all = schema.held_parts.where(
    schema.parts.c.dataset == bindparam("dataset"), schema.parts.c.analyst == schema.ALL
).order_by(schema.parts.c.partition)
_dearest = tuple(schema.dearest_parts(total) for total in ("spent_main", "spent_delta"))
# No engine takes more parameters than some tens of thousands.
_NAMES: Final = 1_000
_tallies = (
    select(schema.tallies).where(schema.tallies.c.dataset == bindparam("dataset")).order_by(schema.tallies.c.kind)
)
_noted = (
    select(*schema.entry_columns)
    .where(schema.entries.c.kind == schema.NOTED, schema.entries.c.dataset == bindparam("dataset"))
    .order_by(schema.entries.c.number)
)
_last_noted = _noted.order_by(None).order_by(schema.entries.c.number.desc()).limit(1)


@cache
def _page_of_calls(analyst: bool, kinds: bool, keys: bool, newest: bool) -> Select[Any]:
    """One statement for each shape, so that each is compiled once."""
    # With kinds, the other index holds all conditions. Repeated here, they might make the engine read every call
    # instead.
    found: list[ColumnElement[bool]]
    found = [schema.calls.c.number.in_(_of_kinds(analyst, keys, newest))] if kinds else [*_range(schema.calls)]
    if analyst and not kinds:
        found.append(schema.calls.c.analyst == bindparam("analyst"))
    if keys:
        found += [schema.calls.c.request >= bindparam("keys"), schema.calls.c.request < bindparam("behind")]
    order = schema.calls.c.number.desc() if newest else schema.calls.c.number
    return _whole_call.where(*found).order_by(order).limit(bindparam("limit"))


def _of_kinds(analyst: bool, keys: bool, newest: bool) -> Select[Any]:
    """The numbers of calls of some kinds, from the index that covers this query."""
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


# Rows as what they stand for; a field of another type than was written is damage.

# A call may have an idempotency key or none.
_KEYED: Final = tuple(int if isinstance(value, int) else str for value in entries.ChainEntry(0, "", "", request=""))
_TYPES: Final = (
    _KEYED,
    tuple(
        type(None) if name == "request" else kind for name, kind in zip(entries.ChainEntry._fields, _KEYED, strict=True)
    ),
)


def secret_digest(call: int, secret: bytes) -> str:
    """What lies next to a secret to notice a changed one; it never leaves the table of secrets."""
    return sha256(b"%d:" % call + secret).hexdigest()


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
    """`LedgerCorrupted` unless all of these are integers."""
    if any(type(value) is not int for value in values):
        raise LedgerCorrupted(f"{whose}: its row is damaged")


def texts(values: Iterable[Any], whose: str) -> None:
    """`LedgerCorrupted` unless all of these are strings."""
    if any(type(value) is not str for value in values):
        raise LedgerCorrupted(f"{whose}: its row is damaged")


def account_of(row: AnyRow) -> Account:
    """The account in a row of the datasets."""
    whole_numbers(row[3:13], f"dataset {row.name!r}")
    texts(row[:3], f"dataset {row.name!r}")
    capacity = Amount(row.capacity_main, row.capacity_delta)
    terms = records.Terms(row.name, row.fingerprint, row.conditions, capacity, row.capacity_basic)
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


def partitions_of(rows: Iterable[Any]) -> dict[str, Partition]:
    """The partitions in rows of the parts, each behind the number of its partition."""
    found: dict[str, tuple[int, dict[str, Sequence[int]]]] = {}
    for most, _, _, partition, part, *totals in rows:
        texts([partition, part], "a part")
        whole_numbers([most, *totals], f"part {part!r}")
        found.setdefault(partition, (most, {}))[1][part] = tuple(totals)
    return {partition: Partition(most, held) for partition, (most, held) in found.items()}


def _line(row: AnyRow) -> dict[str, object]:
    texts([row.hash, row.previous or entries.GENESIS, row.answer or ""], f"entry {row.number}")
    return entries.exported(entry_of(row), row.previous or entries.GENESIS, row.hash, row.answer)


def _call_of(row: Sequence[Any]) -> records.CallRecord:
    reserved, closed = entry_of(row), None if row[_WIDTH] is None else entry_of(row[_WIDTH : 2 * _WIDTH])
    answer = row[2 * _WIDTH]
    found = entries.call_of(reserved, closed, answer if isinstance(answer, str) else None)
    # One damaged answer hides no other call.
    right = isinstance(answer, str) == (found.state == State.SETTLED) and (answer is None or isinstance(answer, str))
    return found if right else replace(found, damage="its answer is damaged or missing")


class SqlTransaction:
    """One state of a ledger in SQL. An engine brings the writes that move totals, and claims on running calls.

    Datasets that were never opened and unknown calls raise `LedgerError`.
    """

    __slots__ = ("_bookmark", "_claims", "_connection", "_upkeep")

    def __init__(self, connection: Connection, bookmark: Bookmark, upkeep: Upkeep, claims: Holder) -> None:
        self._connection, self._bookmark = connection, bookmark
        self._upkeep, self._claims = upkeep, claims

    def end(self) -> entries.Head:
        """How many entries there are, and the hash of the last."""
        return self._bookmark.read(self._connection)

    def standing(self, dataset: str, analyst: str, parts: records.Parts | None = None) -> Standing:
        """Everything that a charge depends on, in one read; of partitions, what one of these parts depends on."""
        names = {"dataset": records.label(dataset, "dataset"), "analyst": records.label(analyst, "analyst")}
        row = self._connection.execute(schema.read_standing, names).one_or_none()
        if row is None:
            raise entries.not_held(dataset)
        whole_numbers([row.head_number, *row[2:11]], f"dataset {dataset!r}")
        if row.analyst is not None:
            whole_numbers([*(cap for cap in row[12:14] if cap is not None), *row[14:18]], f"analyst {analyst!r}")
        capacity, known = Amount(row.capacity_main, row.capacity_delta), row.analyst is not None
        purse = Purse(cap_of(row), *row[14:18]) if known else Purse()
        end, whole = entries.Head(row.head_number, row.head), Purse(capacity, *row[4:11])
        if parts is not None:
            whole.partitions = self._candidates(dataset, schema.ALL, parts)
            purse.partitions = self._candidates(dataset, analyst, parts)
        return Standing(end, capacity, whole, purse, known)

    def _candidates(self, dataset: str, analyst: str, parts: records.Parts) -> dict[str, Partition]:
        """Of the partition, the parts that a charge can bring among the most expensive: those charged, and the most
        expensive now."""
        asked: dict[str, Any] = {"of_dataset": dataset, "of_partition": parts.partition}
        most = self._connection.execute(schema.read_most, asked).scalar_one_or_none()
        if most is None:
            return {}
        asked |= {"of_analyst": analyst, "most": most}
        rows = [row for statement in _dearest for row in self._connection.execute(statement, asked)]
        for start in range(0, len(parts.names), _NAMES):
            named = {"names": parts.names[start : start + _NAMES]}
            rows += self._connection.execute(schema.read_parts, asked | named)
        return partitions_of((most, dataset, analyst, parts.partition, *row) for row in rows) or {
            parts.partition: Partition(most)
        }

    def asked(self, key: Key) -> Asked | None:
        """The call under an idempotency key: the first that was settled, or else one that is open."""
        row = self._connection.execute(schema.read_asked, key._asdict()).one_or_none()
        return None if row is None else Asked(entry_of(row), row.state == State.SETTLED)

    def running(self, key: Key) -> bool:
        """Whether anybody runs a call under this key that is reserved and not settled: whether it is claimed."""
        found = self._connection.execute(schema.read_unanswered, key._asdict()).scalars()
        return any(self._claims.held(sealed) for sealed in found)

    def reserved(self, call: int) -> tuple[entries.Head, entries.ChainEntry]:
        """The end of the chain and the reserve entry of an open call; otherwise `LedgerError`."""
        row = self._connection.execute(schema.read_reserved, {"call": call}).one_or_none()
        if row is None or row.state != State.RESERVED:
            closed = entries.Kind.VOID if row is None or row.state != State.SETTLED else entries.Kind.SETTLE
            raise entries.not_open(call, None if row is None else closed)
        return entries.Head(row.head_number, row.head), entry_of(row)

    def settled_in(self, call: int) -> str | None:
        """The dataset of a settled call."""
        found: str | None = self._connection.execute(schema.read_settled, {"call": call}).scalar_one_or_none()
        return found

    def same_secret(self, call: int, secret: bytes | None) -> bool:
        """Whether this is the secret that a call has; None is none. Only digests are compared."""
        expected = None if secret is None else secret_digest(call, secret)
        return self._upkeep.digest(self._connection, call) == expected

    def post(
        self, end: entries.Head, entry: entries.ChainEntry, closes: Closing | None = None, known: bool = True
    ) -> str:
        """Append an entry to the chain that ends so, move all totals by it, and return its hash; see `Upkeep.post`."""
        return self._upkeep.post(self._connection, end.hash, entry, closes, known)

    def claim(self, entry: entries.ChainEntry, sealed: str) -> Claim:
        """The sign that a reserved call is being run, before others can see its entry; by the hash of that."""
        return self._claims.take(sealed)

    def add_secret(self, call: int, secret: bytes) -> None:
        """Add the secret of a settled call that has none."""
        self._upkeep.add_secret(self._connection, call, secret)

    def drop_secret(self, call: int) -> bool:
        """Take the secret of a call away; whether there was one."""
        return self._upkeep.drop_secret(self._connection, call)

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; `LedgerCorrupted` if it is not what was stored."""
        self.call(call)
        kept = self._upkeep.secret(self._connection, call)
        if kept is not None and kept.digest != secret_digest(call, kept.secret):
            raise LedgerCorrupted(f"the secret of call {call} was changed")
        return None if kept is None else kept.secret

    def account(self, dataset: str, parts: records.Parts | None = None) -> Account:
        """A dataset's terms, totals and version, without analysts and tallies; of partitions, what a charge of these
        parts depends on."""
        row = self._connection.execute(_one_dataset, {"dataset": records.label(dataset, "dataset")}).one_or_none()
        if row is None:
            raise entries.not_held(dataset)
        found = account_of(row)
        if parts is not None:
            found.purse.partitions = self._candidates(dataset, schema.ALL, parts)
        return found

    def analyst(self, dataset: str, name: str, parts: records.Parts | None = None) -> Purse:
        """An analyst's purse, likewise; an empty one for an analyst never seen."""
        self.account(dataset)
        row = self._connection.execute(_one_analyst, {"dataset": dataset, "analyst": name}).one_or_none()
        purse = Purse() if row is None else purse_of(row)
        if parts is not None:
            purse.partitions = self._candidates(dataset, name, parts)
        return purse

    def partitions(self, dataset: str) -> dict[str, Partition]:
        """What each part of each partition holds."""
        self.account(dataset)
        return partitions_of(self._connection.execute(_held_by_all, {"dataset": dataset}))

    def tally(self, dataset: str) -> dict[str, records.Tally]:
        """Sums over the settled calls of a dataset by kind."""
        self.account(dataset)
        return {row.kind: count_of(row).tally() for row in self._connection.execute(_tallies, {"dataset": dataset})}

    def terms(self) -> list[records.Terms]:
        """The terms of all datasets, by name."""
        rows = self._connection.execute(select(schema.datasets).order_by(schema.datasets.c.name))
        return [account_of(row).terms for row in rows]

    def notes(self, dataset: str) -> list[records.Note]:
        """Everything recorded about a dataset, oldest first."""
        self.account(dataset)
        rows = self._connection.execute(_noted, {"dataset": dataset})
        return [entries.note_of(version, entry_of(row)) for version, row in enumerate(rows, 1)]

    def last_note(self, dataset: str) -> records.Note | None:
        """What was recorded last about a dataset."""
        version = self.account(dataset).version
        if not version:
            return None
        row = self._connection.execute(_last_noted, {"dataset": dataset}).one_or_none()
        if row is None:
            raise LedgerCorrupted("the notes of the dataset are missing")
        return entries.note_of(version, entry_of(row))

    def call(self, number: int) -> records.CallRecord:
        """One call."""
        row = self._connection.execute(_one_call, {"call": number}).one_or_none()
        if row is None:
            raise entries.not_open(number, None)
        return _call_of(row)

    def last_settled(
        self, dataset: str, kind: str, body: str, parts: records.Parts | None = None
    ) -> records.CallRecord | None:
        """The latest call that was settled for a question about these parts."""
        self.account(dataset)
        asked = {"dataset": dataset, "kind": kind, "body": body, "parts": records.written(parts)}
        row = self._connection.execute(_last_settled, asked).one_or_none()
        return None if row is None else _call_of(row)

    def charged_under(self, dataset: str, analyst: str, keys: str) -> records.Balance:
        """What an analyst's calls were charged whose idempotency keys begin with these words."""
        whole = self.account(dataset).purse.basic
        asked = {"dataset": dataset, "analyst": analyst, "keys": keys, "behind": keys + _LAST}
        rows = self._connection.execute(_charged_under, asked).all()
        # A sum of nothing but damaged numbers is none.
        by_state = {state: Amount(int(main or 0), int(delta or 0)) for state, main, delta, _ in rows}
        open_ = by_state.get(State.RESERVED, Amount(0))
        # What never ran gave its epsilons back.
        added = sum(int(basic or 0) for state, _, _, basic in rows if state != State.VOIDED)
        basic = None if whole is None else replace(whole, spent=added)
        return records.Balance(None, sum(by_state.values(), Amount(0)), open_, basic)

    def page(self, wanted: Wanted, limit: int) -> list[records.CallRecord]:
        """The next calls that are looked for."""
        self.account(wanted.dataset)
        analyst, kinds, keys = (named is not None for named in (wanted.analyst, wanted.kinds, wanted.keys))
        asked = wanted._asdict() | {"limit": limit, "behind": (wanted.keys or "") + _LAST}
        rows = self._connection.execute(_page_of_calls(analyst, kinds, keys, wanted.newest), asked)
        return [_call_of(row) for row in rows]

    def analysts_of(self, dataset: str) -> list[str]:
        """Anyone who has asked or was capped, by name."""
        self.account(dataset)
        return list(self._connection.execute(_analysts_of, {"dataset": dataset}).scalars())

    def lines(self, dataset: str, after: int) -> list[dict[str, object]]:
        """The next `PAGE` exported entries of a dataset."""
        self.account(dataset)
        rows = self._connection.execute(_page_of_entries, {"dataset": dataset, "after": after, "limit": PAGE})
        return [_line(row) for row in rows]

    def holds(self, head: entries.Head) -> bool:
        """Whether the chain goes on from this head."""
        return holds(self._connection, head)
