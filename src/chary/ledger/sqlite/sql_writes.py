"""What each writing transaction does on SQL, between its beginning and its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection

from chary.amounts import Amount
from chary.errors import LedgerBroken
from chary.ledger.accounts import Purse
from chary.ledger.checks import label, masked, still
from chary.ledger.drafts import answered as answered_before
from chary.ledger.drafts import in_flight, not_held, not_open, not_settled, opening, same_question
from chary.ledger.entries import ChainEntry, Kind, seal
from chary.ledger.records import State
from chary.ledger.sqlite import statements as do
from chary.ledger.terms import Terms

_NO_TOTALS = {"spent_main": 0, "spent_delta": 0, "open_main": 0, "open_delta": 0}


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
    capacity, known = Amount(row.capacity_main, row.capacity_delta), row.analyst is not None
    purse = Purse(cap_of(row), *row[11:15]) if known else Purse()
    return Standing(row.head_number, row.head, capacity, Purse(capacity, *row[4:8]), purse, known)


def append(connection: Connection, head: str, entry: ChainEntry) -> str:
    """Seal an entry onto the chain; its hash."""
    sealed = seal(head, entry)
    connection.execute(do.add_entry, {**entry._asdict(), "hash": sealed})
    connection.execute(do.move_head, {"new_entries": entry.number, "new_head": sealed})
    return sealed


def create(connection: Connection, terms: Terms) -> None:
    """Open a new dataset."""
    number, head = connection.execute(do.read_head).one()
    append(connection, head, opening(number + 1, terms))
    capacity = {"capacity_main": terms.capacity.main, "capacity_delta": terms.capacity.delta}
    named = {"name": terms.name, "fingerprint": terms.fingerprint, "conditions": terms.conditions}
    connection.execute(do.add_dataset, {**named, **capacity, **_NO_TOTALS, "version": 0})


def noted(connection: Connection, dataset: str) -> None:
    """Raise the version of a dataset."""
    if connection.execute(do.raise_version, {"of_dataset": label(dataset, "dataset")}).rowcount == 0:
        raise not_held(dataset)


def share(connection: Connection, at: Standing, entry: ChainEntry) -> None:
    """Record an analyst's cap."""
    append(connection, at.head, entry)
    if not at.known:
        _add_analyst(connection, entry)
    owner = {"of_dataset": entry.dataset, "of_analyst": entry.analyst}
    connection.execute(do.cap_analyst, {**owner, "new_main": entry.main, "new_delta": entry.delta})


def reserve(connection: Connection, at: Standing, entry: ChainEntry) -> str:
    """Charge a reservation that was found to fit; the hash of its entry."""
    sealed = append(connection, at.head, entry)
    if not at.known:
        _add_analyst(connection, entry)
    owner = {"dataset": entry.dataset, "analyst": entry.analyst, "request": entry.request}
    charged = {"state": str(State.RESERVED), "charged_main": entry.main, "charged_delta": entry.delta}
    connection.execute(do.add_call, {"number": entry.number, **owner, **charged, "closing": None})
    _charge(connection, entry, entry.main, entry.delta, entry.main, entry.delta)
    return sealed


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


def close(connection: Connection, head: str, held: ChainEntry, entry: ChainEntry) -> None:
    """Settle or void a call: what it gives back becomes available again."""
    append(connection, head, entry)
    state = State.SETTLED if entry.kind == Kind.SETTLE else State.VOIDED
    charged = {"new_charged_main": entry.main, "new_charged_delta": entry.delta}
    closed = {"call": held.number, "new_state": str(state), "new_closing": entry.number, **charged}
    connection.execute(do.close_call, closed)
    _charge(connection, held, -entry.back_main, -entry.back_delta, -held.main, -held.delta)


def answered(connection: Connection, entry: ChainEntry, answer: str) -> None:
    """Store the public answer of a settled call and count it."""
    connection.execute(do.add_answer, {"call": entry.call, "answer": answer})
    sums = {"calls": 1, "hits": entry.hits, "tests": entry.tests, "main": entry.main, "delta": entry.delta}
    kind = {"of_dataset": entry.dataset, "of_kind": entry.label}
    if connection.execute(do.raise_tally, kind | {f"{name}_by": by for name, by in sums.items()}).rowcount == 0:
        connection.execute(do.add_tally, {"dataset": entry.dataset, "kind": entry.label, **sums})


def keep(connection: Connection, call: int, secret: bytes | None) -> None:
    """Add the secret of a call that has none."""
    masked(secret, "secret")
    if secret is not None:
        connection.execute(do.add_secret, {"call": call, "secret": secret, "digest": secret_digest(call, secret)})


def unmoved(connection: Connection, seen: Mapping[int, bytes | None]) -> None:
    """Raise `SecretMoved` unless each secret is still the one that was seen; only digests are compared."""
    digests = {call: None if secret is None else secret_digest(call, secret) for call, secret in seen.items()}
    still(digests, lambda call: connection.execute(do.read_digest, {"of_call": call}).scalar_one_or_none())


def keep_settled(
    connection: Connection, changes: Mapping[int, bytes | None], seen: Mapping[int, bytes | None], dataset: str
) -> None:
    """Replace or erase the secrets that settled calls of the dataset still hold; an erased one is never set again.

    What is still as it was seen is not written again, since the state of a million units is large.
    """
    for call, secret in changes.items():
        if secret is not None and seen.get(call) == secret:
            continue
        if connection.execute(do.read_settled, {"call": call}).scalar_one_or_none() != dataset:
            raise not_settled(call)
        masked(secret, "secret")
        if connection.execute(do.drop_secret, {"of_call": call}).rowcount:
            keep(connection, call, secret)


def cap_of(row: Any) -> Amount | None:
    """An analyst's cap; half a cap is an `InvalidParameter`, it was never written by a ledger."""
    return None if row.cap_main is row.cap_delta is None else Amount(row.cap_main, row.cap_delta)


def entry_of(row: Sequence[Any]) -> ChainEntry:
    """The entry whose fields come first in a row."""
    return ChainEntry(*row[: len(ChainEntry._fields)])


def _add_analyst(connection: Connection, entry: ChainEntry) -> None:
    owner = {"dataset": entry.dataset, "analyst": entry.analyst}
    connection.execute(do.add_analyst, {**owner, "cap_main": None, "cap_delta": None, **_NO_TOTALS})


def _charge(
    connection: Connection, owner: ChainEntry, spent_main: int, spent_delta: int, open_main: int, open_delta: int
) -> None:
    """Move the totals of the dataset and of the analyst together."""
    spent = {"spent_main_by": spent_main, "spent_delta_by": spent_delta}
    moves = {"of_dataset": owner.dataset, **spent, "open_main_by": open_main, "open_delta_by": open_delta}
    changed = connection.execute(do.charge_dataset, moves).rowcount
    changed += connection.execute(do.charge_analyst, {**moves, "of_analyst": owner.analyst}).rowcount
    if changed != 2:
        raise LedgerBroken("the totals of the dataset or of the analyst are missing")
