"""Entries of the hash-chained ledger, its head, and constructors of each kind of entry with its rules."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from chary.amounts import Amount
from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError, RequestConflict
from chary.ledger import records

# Entries of the ledger and the hash chain over them: append-only, one chain for a whole ledger.

# What no hash can be expected to be: the chain of every ledger begins with it, so it may never change.
GENESIS = "0" * 64
# Answers of tests are two strings and releases few; 256 digests are a few tens of kilobytes.
KEPT_DIGESTS = 256


class Kind(StrEnum):
    """What an entry records. Kinds are never removed and never change their meaning: ledgers persist them."""

    OPEN = "open"
    SHARE = "share"
    RESERVE = "reserve"
    SETTLE = "settle"
    VOID = "void"
    NOTE = "note"


class ChainEntry(NamedTuple):
    """One line of the ledger. The order of the fields is the order in which they are hashed.

    `main` and `delta` are the amount the entry states: a capacity (open), a cap (share), the worst cost (reserve) or
    the actual one (settle). `back_main` and `back_delta` are what a settle or a void gives back. `call` is the number
    of the reserving entry, `label` the kind of the call or of the note, `answer_hash` that of the public answer.
    `origin` is what the entry was asked through, such as a token of the service. It is hashed where there is one, so
    that entries without it have the hashes that they always had. `basic` is the capacity of the basic account (open) or
    what a call adds to it (reserve). `parts` is what a call may read (reserve: `records.Parts`). Both are hashed
    likewise. Fields that do not apply are 0 or empty.
    """

    number: int
    kind: str
    dataset: str
    analyst: str = ""
    call: int = 0
    label: str = ""
    body: str = ""
    request: str | None = None
    main: int = 0
    delta: int = 0
    back_main: int = 0
    back_delta: int = 0
    hits: int = 0
    tests: int = 0
    answer_hash: str = ""
    created: str = ""
    origin: str = ""
    basic: int = 0
    parts: str = ""


_write: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode


def seal(previous: str, entry: ChainEntry) -> str:
    """The hash of an entry: SHA-256 of the previous hash and of the JSON list of all fields, in hexadecimal.

    An empty origin, a basic part of 0 and empty parts are left out of the list. Parts are in a list of their own, which
    sets them apart from an origin. The chain starts from `GENESIS`. Equal entries after equal chains have equal hashes
    on every machine.

    >>> seal(GENESIS, ChainEntry(1, Kind.NOTE, "visits", label="rows"))[:16]
    '...'
    """
    told: tuple[object, ...] = entry[:-3]
    if entry.origin or entry.basic or entry.parts:
        told += tuple(said for said in (entry.origin, entry.basic, entry.parts and [entry.parts]) if said)
    return sha256((previous + _write(told)).encode()).hexdigest()


@lru_cache(maxsize=KEPT_DIGESTS)
def digest(text: str) -> str:
    """SHA-256 of a public text such as an answer, in hexadecimal. Recent ones are kept: tests have two answers.

    >>> digest("true")[:16]
    'b5bea41b6c623f7c'
    """
    return sha256(text.encode()).hexdigest()


def now() -> str:
    """The time of an entry: UTC, ISO 8601, microseconds; `LedgerError` for a clock outside of the years 1 to 9999."""
    # The part up to the second is the same for thousands of entries, so it is written once (see `_written`).
    second, microsecond = divmod(time.time_ns() // 1000, 1_000_000)
    try:
        return f"{_written(second)}.{microsecond:06}+00:00"
    except (ValueError, OverflowError, OSError):
        pass
    raise LedgerError("this computer's clock is outside of the years 1 to 9999: set it right and ask again")


@lru_cache(maxsize=1)
def _written(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def exported(entry: ChainEntry, previous: str, sealed: str, answer: str | None) -> dict[str, object]:
    """An entry as a JSON object from which anyone can recompute its hash; `answer` is the public text.

    >>> entry = ChainEntry(1, Kind.NOTE, "visits", label="rows")
    >>> line = exported(entry, GENESIS, seal(GENESIS, entry), None)
    >>> line["number"], line["kind"], line["previous"] == GENESIS
    (1, 'note', True)
    """
    return {**entry._asdict(), "kind": str(entry.kind), "answer": answer, "previous": previous, "hash": sealed}


def chained(entries: Iterable[ChainEntry], answers: Mapping[int, str]) -> Iterator[dict[str, object]]:
    """All entries of a ledger as exported, with a chain that is only made now."""
    previous = GENESIS
    for entry in entries:
        sealed = seal(previous, entry)
        yield exported(entry, previous, sealed, answers.get(entry.call) if entry.kind == Kind.SETTLE else None)
        previous = sealed


# The head of a chain: how many entries a ledger has and the hash of the last, which stand for all of them.

# 18 digits fit the 64-bit numbers of entries, so a head that was typed wrong never overflows the engine.
_WRITTEN = re.compile(r"([0-9a-f]{64}):([0-9]{1,18})")


class Head(NamedTuple):
    """A ledger that holds this head holds every entry that it stands for; an older copy cannot hold it.

    >>> str(Head(3, "ab" * 32))[60:]
    'abab:3'
    >>> Head.parse("ab" * 32 + ":3").entries
    3
    """

    entries: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.hash}:{self.entries}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read HASH:COUNT; `InvalidParameter` if it is not that."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise InvalidParameter("a head is written HASH:COUNT, as `chary ledger head` prints it")
        return cls(int(found[2]), found[1])


def head_of(ledger: Any) -> Head | None:
    """The head of a ledger that is kept; None for one that is in memory alone, or not made yet."""
    return ledger.head() if ledger.lasting else None


# Entries before they are sealed: every kind is checked and put together here, for every ledger alike.

_STATES: dict[str, records.State] = {Kind.SETTLE: records.State.SETTLED, Kind.VOID: records.State.VOIDED}


def opening(number: int, terms: records.Terms) -> ChainEntry:
    """The entry that creates a dataset; `terms_of` reads the terms back."""
    main, delta = records.halves(terms.capacity, "capacity")
    body = records.canonical([terms.fingerprint, terms.conditions])
    basic = records.whole_steps(terms.basic, "basic")
    return ChainEntry(number, Kind.OPEN, terms.name, body=body, main=main, delta=delta, created=now(), basic=basic)


def terms_of(entry: ChainEntry) -> records.Terms:
    """The terms an opening entry recorded; a `ValueError` if it does not hold any.

    >>> from chary.ledger import Terms
    >>> terms_of(opening(1, Terms("visits", "ab12", "{}", Amount(9)))).capacity
    Amount(main=9, delta=0)
    """
    fingerprint, conditions = records.parsed(entry.body, "body")
    return records.Terms(entry.dataset, fingerprint, conditions, Amount(entry.main, entry.delta), entry.basic)


def sharing(number: int, dataset: str, analyst: str, cap: Amount, origin: str = "") -> ChainEntry:
    """The entry that caps an analyst."""
    main, delta = records.halves(cap, "cap")
    records.label(analyst, "analyst"), records.text(origin, "origin")
    return ChainEntry(number, Kind.SHARE, dataset, analyst, main=main, delta=delta, created=now(), origin=origin)


def reserving(
    number: int,
    dataset: str,
    analyst: str,
    kind: str,
    body: str,
    worst: Amount,
    request: str | None,
    origin: str = "",
    basic: int = 0,
    parts: records.Parts | None = None,
) -> ChainEntry:
    """The entry that charges the worst cost of a call, whose number is that of the entry; `basic` as it is counted."""
    records.label(analyst, "analyst"), records.label(kind, "kind")
    records.text(body, "body"), records.text(origin, "origin")
    key = None if request is None else records.label(request, "request")
    asked = (dataset, analyst, number, kind, body, key, *records.halves(worst, "worst"))
    told = records.written(parts)
    return ChainEntry(number, Kind.RESERVE, *asked, created=now(), origin=origin, basic=basic, parts=told)


def settling(number: int, reserved: ChainEntry, price: Amount, hits: int, tests: int, answer: str) -> ChainEntry:
    """The entry that replaces the worst cost by the actual one; `InvalidParameter` if that is higher."""
    main, delta = records.halves(price, "price")
    if main > reserved.main or delta > reserved.delta:
        raise InvalidParameter("the cost of a call must be at most what was reserved for it, in both parts")
    owner = (reserved.dataset, reserved.analyst, reserved.number, reserved.label)
    amounts = (main, delta, reserved.main - main, reserved.delta - delta)
    counts = (records.count(hits, "hits"), records.count(tests, "tests"))
    return ChainEntry(
        number, Kind.SETTLE, *owner, "", None, *amounts, *counts, digest(records.text(answer, "answer")), now()
    )


def voiding(number: int, reserved: ChainEntry) -> ChainEntry:
    """The entry that gives a whole reservation back."""
    owner = (reserved.dataset, reserved.analyst, reserved.number, reserved.label)
    return ChainEntry(number, Kind.VOID, *owner, back_main=reserved.main, back_delta=reserved.delta, created=now())


def noting(number: int, dataset: str, kind: str, body: str, origin: str = "") -> ChainEntry:
    """The entry that records something about a dataset."""
    records.label(kind, "kind"), records.text(body, "body"), records.text(origin, "origin")
    return ChainEntry(number, Kind.NOTE, dataset, label=kind, body=body, created=now(), origin=origin)


def note_of(version: int, entry: ChainEntry) -> records.Note:
    """The note that an entry records."""
    return records.Note(version, entry.label, entry.body, entry.created, entry.number, entry.origin)


def parts_of(reserved: ChainEntry) -> records.Parts | None:
    """The parts that the entry of a call names; `LedgerCorrupted` for what no ledger wrote."""
    try:
        return records.Parts.of(reserved.parts)
    except ValueError:
        pass
    raise LedgerCorrupted(f"entry {reserved.number}: its parts are damaged")


def call_of(reserved: ChainEntry, closed: ChainEntry | None, answer: str | None) -> records.CallRecord:
    """The call that its reserve entry, its closing entry and its answer describe."""
    try:
        parts, damage = parts_of(reserved), ""
    except LedgerCorrupted as error:
        parts, damage = None, str(error)
    found = records.CallRecord(
        number=reserved.number,
        dataset=reserved.dataset,
        analyst=reserved.analyst,
        kind=reserved.label,
        body=reserved.body,
        request=reserved.request,
        state=records.State.RESERVED,
        worst=Amount(reserved.main, reserved.delta),
        created=reserved.created,
        origin=reserved.origin,
        basic=reserved.basic,
        parts=parts,
        damage=damage,
    )
    if closed is None:
        return found
    if closed.kind == Kind.VOID:
        return replace(found, state=records.State.VOIDED, settled=closed.created, basic=0)
    return replace(
        found,
        state=records.State.SETTLED,
        price=Amount(closed.main, closed.delta),
        hits=closed.hits,
        tests=closed.tests,
        answer=answer,
        settled=closed.created,
    )


def same_question(held: ChainEntry, kind: str, body: str, parts: str) -> None:
    """Raise `RequestConflict` if an idempotency key that is already in use comes with another question, or for other
    parts."""
    if (held.label, held.body, held.parts) != (kind, body, parts):
        raise RequestConflict("this idempotency key was used before with another question")


def answered() -> records.RequestAnswered:
    """The error for reserving under a key whose answer can be had already."""
    return records.RequestAnswered("this request was answered meanwhile: replay it")


def not_open(call: int, closed: str | None) -> LedgerError:
    """The error for closing a call that is not open: closed before by that kind of entry, or unknown.

    >>> str(not_open(7, Kind.VOID)), str(not_open(8, None))
    ('call 7 is already voided', 'the ledger has no call 8')
    """
    return LedgerError(f"call {call} is already {_STATES[closed]}" if closed else f"the ledger has no call {call}")


def not_held(dataset: str) -> LedgerError:
    """The error for a dataset that was never opened."""
    return LedgerError(f"the ledger holds no dataset {dataset!r}: open it with its terms first")
