"""Entries of the hash-chained ledger, its head, and constructors of each kind of entry with its rules."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from chary.errors import LedgerError

# What no hash can be expected to be: the chain of every ledger begins with it, so it may never change.
GENESIS = "0" * 64
# Answers of tests are two texts and releases few; 256 digests are a few tens of kilobytes.
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

    `main` and `delta` are the amount the entry states: a capacity (open), a cap (share), the worst price
    (reserve) or the actual one (settle). `back_main` and `back_delta` are what a settle or a void gives back.
    `call` is the number of the reserving entry, `label` the kind of the call or of the note, `answer_hash` that
    of the public answer. `origin` is what the entry was asked through, such as a token of the service; it is hashed
    where there is one, so that entries without it have the hashes that they always had. `basic` is the capacity of the
    basic account (open) or what a call adds to it (reserve), hashed likewise. Fields that do not apply are 0 or empty.
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


_write: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode


def seal(previous: str, entry: ChainEntry) -> str:
    """The hash of an entry: SHA-256 of the previous hash and of the JSON list of all fields, in hexadecimal.

    An empty origin and a basic part of 0 are left out of the list. The chain starts from `GENESIS`. Equal entries after
    equal chains have
    equal hashes on every machine.

    >>> seal(GENESIS, ChainEntry(1, Kind.NOTE, "visits", label="rows"))[:16]
    '...'
    """
    told: tuple[object, ...] = entry[:-2]
    if entry.origin or entry.basic:
        told += tuple(said for said in entry[-2:] if said)
    return sha256((previous + _write(told)).encode()).hexdigest()


@lru_cache(maxsize=KEPT_DIGESTS)
def digest(text: str) -> str:
    """SHA-256 of a public text such as an answer, in hexadecimal; those of recent texts are kept, for tests have two.

    >>> digest("true")[:16]
    'b5bea41b6c623f7c'
    """
    return sha256(text.encode()).hexdigest()


def now() -> str:
    """The time of an entry: UTC, ISO 8601, microseconds; `LedgerError` where a clock is beyond what that can tell."""
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
