"""What each writing transaction looks at and decides, between its beginning and its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from chary.amounts import Amount
from chary.errors import LedgerBroken
from chary.ledger.accounts import Purse
from chary.ledger.checks import label, masked, still
from chary.ledger.drafts import answered as answered_before
from chary.ledger.drafts import in_flight, not_held, not_open, not_settled, same_question
from chary.ledger.entries import ChainEntry, Kind
from chary.ledger.records import State
from chary.ledger.sql import statements as do
from chary.ledger.sql.upkeep import Upkeep

# A call may have a request key or none.
_KEYED: Final = tuple(int if isinstance(value, int) else str for value in ChainEntry(0, "", "", request=""))
_TYPES: Final = (
    _KEYED,
    tuple(type(None) if name == "request" else kind for name, kind in zip(ChainEntry._fields, _KEYED, strict=True)),
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
    row = connection.execute(do.read_standing, names).one_or_none()
    if row is None:
        raise not_held(dataset)
    whole_numbers([row.head_number, *row[2:11]], f"dataset {dataset!r}")
    if row.analyst is not None:
        whole_numbers([*(cap for cap in row[12:14] if cap is not None), *row[14:18]], f"analyst {analyst!r}")
    capacity, known = Amount(row.capacity_main, row.capacity_delta), row.analyst is not None
    purse = Purse(cap_of(row), *row[14:18]) if known else Purse()
    return Standing(row.head_number, row.head, capacity, Purse(capacity, *row[4:11]), purse, known)


def unclaimed(connection: Connection, entry: ChainEntry, held: Callable[[str], bool]) -> None:
    """Raise why the entry's request key cannot be used now, if it cannot; `held` tells whether a call is being run."""
    if entry.request is None:
        return
    key = {"dataset": entry.dataset, "analyst": entry.analyst, "request": entry.request}
    first = connection.execute(do.read_asked, key).one_or_none()
    if first is None:
        return
    same_question(entry_of(first), entry.label, entry.body)
    if first.state == State.SETTLED:
        raise answered_before()
    if any(held(sealed) for sealed in connection.execute(do.read_unanswered, key).scalars()):
        raise in_flight()


def reserved(connection: Connection, call: int) -> tuple[int, str, ChainEntry]:
    """The head of the chain and the reserve entry of an open call."""
    row = connection.execute(do.read_reserved, {"call": call}).one_or_none()
    if row is None or row.state != State.RESERVED:
        raise not_open(call, row and (Kind.SETTLE if row.state == State.SETTLED else Kind.VOID))
    return row.head_number, row.head, entry_of(row)


def unanswered(connection: Connection, held: ChainEntry) -> None:
    """Raise `RequestAnswered` if another call under the request key of this one was settled meanwhile.

    Whoever lost the claim on the key while the call ran (see `Claims`) must not answer it a second time.
    """
    key = {"dataset": held.dataset, "analyst": held.analyst, "request": held.request}
    if held.request is not None and connection.execute(do.read_key_settled, key).one_or_none() is not None:
        raise answered_before()


def unmoved(upkeep: Upkeep, connection: Connection, seen: Mapping[int, bytes | None]) -> None:
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
        if connection.execute(do.read_settled, {"call": call}).scalar_one_or_none() != dataset:
            raise not_settled(call)
        masked(secret, "secret")
    return {call: new for call, new in changes.items() if new is None or seen.get(call) != new}


def keep(upkeep: Upkeep, connection: Connection, changes: Mapping[int, bytes | None]) -> None:
    """Replace or erase the secrets that calls still hold; an erased one is never set again."""
    for call, secret in changes.items():
        if upkeep.drop_secret(connection, call) and secret is not None:
            upkeep.add_secret(connection, call, secret)


def cap_of(row: Any) -> Amount | None:
    """An analyst's cap; half a cap is an `InvalidParameter`, it was never written by a ledger."""
    return None if row.cap_main is row.cap_delta is None else Amount(row.cap_main, row.cap_delta)


def entry_of(row: Sequence[Any]) -> ChainEntry:
    """The entry whose fields come first in a row; `LedgerBroken` where one of them is of another type than was written,
    as after damage of a file."""
    entry = ChainEntry(*row[: len(ChainEntry._fields)])
    if tuple(map(type, entry)) not in _TYPES:
        raise LedgerBroken(f"entry {entry.number}: a field of it is no text or no number any more")
    return entry


def whole_numbers(values: Iterable[Any], whose: str) -> None:
    """`LedgerBroken` unless all of these are whole numbers."""
    if any(type(value) is not int for value in values):
        raise LedgerBroken(f"{whose}: its row is damaged")


def texts(values: Iterable[Any], whose: str) -> None:
    """`LedgerBroken` unless all of these are texts."""
    if any(type(value) is not str for value in values):
        raise LedgerBroken(f"{whose}: its row is damaged")
