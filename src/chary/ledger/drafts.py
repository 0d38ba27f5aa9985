"""Entries before they are sealed: every kind is checked and put together here, for every ledger alike."""

from __future__ import annotations

from chary.amounts import Amount
from chary.errors import InvalidParameter, LedgerError, RequestConflict, RequestInFlight
from chary.ledger.checks import canonical, count, label, parsed, parts, text, whole_steps
from chary.ledger.entries import ChainEntry, Kind, digest, now
from chary.ledger.records import CallRecord, Note, RequestAnswered, State
from chary.ledger.terms import Terms

_STATES: dict[str, State] = {Kind.SETTLE: State.SETTLED, Kind.VOID: State.VOIDED}


def opening(number: int, terms: Terms) -> ChainEntry:
    """The entry that creates a dataset; `terms_of` reads the terms back."""
    main, delta = parts(terms.capacity, "capacity")
    body = canonical([terms.fingerprint, terms.conditions])
    basic = whole_steps(terms.basic, "basic")
    return ChainEntry(number, Kind.OPEN, terms.name, body=body, main=main, delta=delta, created=now(), basic=basic)


def terms_of(entry: ChainEntry) -> Terms:
    """The terms an opening entry recorded; a `ValueError` if it does not hold any.

    >>> terms_of(opening(1, Terms("visits", "ab12", "{}", Amount(9)))).capacity
    Amount(main=9, delta=0)
    """
    fingerprint, conditions = parsed(entry.body, "body")
    return Terms(entry.dataset, fingerprint, conditions, Amount(entry.main, entry.delta), entry.basic)


def sharing(number: int, dataset: str, analyst: str, cap: Amount, origin: str = "") -> ChainEntry:
    """The entry that caps an analyst."""
    main, delta = parts(cap, "cap")
    label(analyst, "analyst"), text(origin, "origin")
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
) -> ChainEntry:
    """The entry that charges the worst price of a call, whose number is that of the entry; `basic` as it is counted."""
    label(analyst, "analyst"), label(kind, "kind"), text(body, "body"), text(origin, "origin")
    key = None if request is None else label(request, "request")
    main, delta = parts(worst, "worst")
    return ChainEntry(
        number,
        Kind.RESERVE,
        dataset,
        analyst,
        number,
        kind,
        body,
        key,
        main,
        delta,
        0,
        0,
        0,
        0,
        "",
        now(),
        origin,
        basic,
    )


def settling(number: int, reserved: ChainEntry, price: Amount, hits: int, tests: int, answer: str) -> ChainEntry:
    """The entry that replaces the worst price by the actual one; `InvalidParameter` if that is higher."""
    main, delta = parts(price, "price")
    if main > reserved.main or delta > reserved.delta:
        raise InvalidParameter("the price of a call must be at most what was reserved for it, in both parts")
    owner = (reserved.dataset, reserved.analyst, reserved.number, reserved.label)
    amounts = (main, delta, reserved.main - main, reserved.delta - delta)
    counts = (count(hits, "hits"), count(tests, "tests"))
    return ChainEntry(number, Kind.SETTLE, *owner, "", None, *amounts, *counts, digest(text(answer, "answer")), now())


def voiding(number: int, reserved: ChainEntry) -> ChainEntry:
    """The entry that gives a whole reservation back."""
    owner = (reserved.dataset, reserved.analyst, reserved.number, reserved.label)
    return ChainEntry(number, Kind.VOID, *owner, back_main=reserved.main, back_delta=reserved.delta, created=now())


def noting(number: int, dataset: str, kind: str, body: str, origin: str = "") -> ChainEntry:
    """The entry that records something about a dataset."""
    label(kind, "kind"), text(body, "body"), text(origin, "origin")
    return ChainEntry(number, Kind.NOTE, dataset, label=kind, body=body, created=now(), origin=origin)


def note_of(version: int, entry: ChainEntry) -> Note:
    """The note an entry tells of."""
    return Note(version, entry.label, entry.body, entry.created, entry.number, entry.origin)


def call_of(reserved: ChainEntry, closed: ChainEntry | None, answer: str | None) -> CallRecord:
    """The call two entries and an answer tell of."""
    owner = (reserved.number, reserved.dataset, reserved.analyst, reserved.label, reserved.body, reserved.request)
    worst = Amount(reserved.main, reserved.delta)
    if closed is None:
        origin, basic = reserved.origin, reserved.basic
        return CallRecord(*owner, State.RESERVED, worst, reserved.created, origin=origin, basic=basic)
    if closed.kind == Kind.VOID:
        ended, origin = closed.created, reserved.origin
        return CallRecord(*owner, State.VOIDED, worst, reserved.created, settled=ended, origin=origin)
    outcome = (Amount(closed.main, closed.delta), closed.hits, closed.tests, answer, closed.created, reserved.origin)
    return CallRecord(*owner, State.SETTLED, worst, reserved.created, *outcome, reserved.basic)


def same_question(held: ChainEntry, kind: str, body: str) -> None:
    """Raise `RequestConflict` if a request key that is already in use comes with another question."""
    if (held.label, held.body) != (kind, body):
        raise RequestConflict("this request key was used before with another question")


def answered() -> RequestAnswered:
    """The error for reserving under a key whose answer can be had already."""
    return RequestAnswered("this request was answered meanwhile: replay it")


def in_flight() -> RequestInFlight:
    """The error for reserving under a key whose first call still runs."""
    return RequestInFlight(
        "another call under this request key is still running: ask again under the same key, and once that call is "
        "answered its answer is free (one that failed or was killed stays charged, and asking again is charged anew)"
    )


def not_open(call: int, closed: str | None) -> LedgerError:
    """The error for closing a call that is not open: closed before by that kind of entry, or unknown.

    >>> str(not_open(7, Kind.VOID)), str(not_open(8, None))
    ('call 7 is already voided', 'the ledger has no call 8')
    """
    return LedgerError(f"call {call} is already {_STATES[closed]}" if closed else f"the ledger has no call {call}")


def not_settled(call: int) -> LedgerError:
    """The error for a secret of a call that is not a settled one of the same dataset."""
    return LedgerError(f"call {call} is not a settled call of this dataset")


def not_held(dataset: str) -> LedgerError:
    """The error for a dataset that was never opened."""
    return LedgerError(f"the ledger holds no dataset {dataset!r}: open it with its terms first")
