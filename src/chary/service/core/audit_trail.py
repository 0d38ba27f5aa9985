"""The audit log of a service: hash-chained records of who did what, and from where; and the lines of its log."""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from sqlalchemy import insert, select

from chary.errors import LedgerError
from chary.ledger import Ledger
from chary.ledger.entries import Head, head_of, now
from chary.service.auth.tokens import Principal
from chary.service.store import TRAIL, ServiceStore

# The log on standard error, in lines of JSON.

LOG: Final = logging.getLogger("chary.service")


def log_line(**said: Any) -> str:
    """A line of the log, with the time; what is None is left out."""
    known = {name: value for name, value in said.items() if value is not None}
    return json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | known)


# Actions of which an entry has the head of the ledger before it, and that by which the operator accepts another ledger.
HEADED: Final = ("ask", "start", "question", "lesson")
ACCEPTED: Final = "accept-ledger"

# The audit trail: who asked what, from which token, before it was asked; each entry sealed with the one before it.

_FIRST: Final = "0" * 64


@dataclass(frozen=True)
class TrailEntry:
    """One request to change something. `request` is the idempotency key under which the ledger has the call, if any."""

    number: int
    time: str
    token: str
    analyst: str
    dataset: str
    action: str
    request: str | None
    asked: str
    sealed: str


class AuditTrail:
    """An entry for every request that could change anything, written before the change.

    The outcome is in the ledger, which has the calls by analyst and idempotency key. Guarantee: `broken` finds an entry
    that was changed, removed or moved afterwards, unless all later entries were forged as well.
    """

    def __init__(self, store: ServiceStore) -> None:
        self._store = store
        self._waiting: list[tuple[dict[str, Any], Future[int]]] = []
        self._queue, self._writing = threading.Lock(), threading.Lock()

    def add(self, who: Principal, dataset: str, action: str, asked: Mapping[str, Any], request: str | None) -> int:
        """Write an entry and return its number. Entries added by several threads at once share a transaction."""
        entry: dict[str, Any] = {
            "time": now(),
            "token": who.token,
            "analyst": who.analyst,
            "dataset": dataset,
            "action": action,
            "request": request,
            "asked": json.dumps(asked, sort_keys=True),
        }
        mine: Future[int] = Future()
        with self._queue:
            self._waiting.append((entry, mine))
        with self._writing:
            if not mine.done():
                self._write()
        return mine.result()

    def _write(self) -> None:
        with self._queue:
            taken, self._waiting = self._waiting, []
        try:
            numbers = self._written([entry for entry, _ in taken])
        except BaseException as error:  # no entry was written, and every waiting thread gets the error
            for _, each in taken:
                each.set_exception(error)
        else:
            for number, (_, each) in zip(numbers, taken, strict=True):
                each.set_result(number)

    def _written(self, entries: Sequence[Mapping[str, Any]]) -> Sequence[int]:
        last = select(TRAIL.c.number, TRAIL.c.sealed).order_by(TRAIL.c.number.desc()).limit(1)
        with self._store.transaction("trail") as connection:
            found = connection.execute(last).first()
            first, before = (found.number + 1, found.sealed) if found else (1, _FIRST)
            rows = []
            for number, entry in enumerate(entries, first):
                row = dict(entry) | {"number": number}
                before = _sealed(row, before)
                rows.append(row | {"sealed": before})
            connection.execute(insert(TRAIL), rows)
        return range(first, first + len(rows))

    def entries(self, after: int = 0, limit: int = 100) -> list[TrailEntry]:
        """Up to `limit` entries after that number, oldest first."""
        found = self._store.rows(select(TRAIL).where(TRAIL.c.number > after).order_by(TRAIL.c.number).limit(limit))
        return [TrailEntry(**row._mapping) for row in found]

    def done(self, dataset: str, action: str) -> list[TrailEntry]:
        """All entries of one action on one dataset, oldest first."""
        here = select(TRAIL).where(TRAIL.c.dataset == dataset, TRAIL.c.action == action).order_by(TRAIL.c.number)
        return [TrailEntry(**row._mapping) for row in self._store.rows(here)]

    def asked_of(self, dataset: str) -> bool:
        """Whether a call, a run or a question to a run was ever asked of a dataset."""
        asked = TRAIL.c.action.in_(("ask", "start", "question"))
        return bool(self._store.rows(select(TRAIL.c.number).where(TRAIL.c.dataset == dataset, asked).limit(1)))

    def lacks(self, dataset: str, ledger: Ledger) -> bool:
        """Whether the ledger of a dataset lacks calls that it held when it was asked last: it is an older copy, or a
        new one. Not known, and so False, of what was asked by versions that did not record the head."""
        here = TRAIL.c.dataset == dataset, TRAIL.c.action.in_((*HEADED, ACCEPTED))
        last = self._store.rows(select(TRAIL.c.asked).where(*here).order_by(TRAIL.c.number.desc()).limit(1))
        told = json.loads(last[0].asked).get("head") if last else None
        head = Head() if told is None else Head.parse(told)
        return head != Head() and not (ledger.lasting and ledger.holds(head))

    def broken(self) -> int | None:
        """The number of the first entry that differs from what was written; None if there is none."""
        before = _FIRST
        for expected, entry in enumerate(self.entries(limit=2**31), 1):
            row = {name: value for name, value in asdict(entry).items() if name != "sealed"}
            if entry.number != expected or entry.sealed != _sealed(row, before):
                return expected
            before = entry.sealed
        return None


def _sealed(row: Mapping[str, Any], before: str) -> str:
    written = json.dumps([before, dict(row)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()


def headed(ledger: Ledger) -> dict[str, str]:
    """The head of a ledger, as an entry has it; that of an empty one for a ledger in memory, or not made yet."""
    return {"head": str(head_of(ledger) or Head())}


# The origin of ledger entries: a ledger that adds it to every write.

_MARKED: Final = frozenset({"reserve", "set_quota", "note"})


def asked_through(ledger: Ledger, origin: str, ended: Callable[[], object] = lambda: None) -> Ledger:
    """The same ledger, with this origin in the entry (and so in the hash chain) of all that is reserved, capped or
    noted.

    An origin is public: the name of a token, never its secret. `ended` is called after a reservation with which free
    misses ended for everybody.

    >>> from chary.ledger import Amount, Terms, open_ledger
    >>> ledger = open_ledger(":memory:")
    >>> ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    >>> call = asked_through(ledger, "token 1f").reserve("visits", "ann", "count", "{}", Amount(4))
    >>> ledger.call(call.call).origin
    'token 1f'
    """
    return cast("Ledger", _AskedThrough(ledger, origin, ended))


class _AskedThrough:
    def __init__(self, ledger: Ledger, origin: str, ended: Callable[[], object]) -> None:
        self._ledger, self._origin, self._ended = ledger, origin, ended

    def _has_free_misses(self, dataset: str) -> bool:
        basic = self._ledger.balance(dataset).basic
        return basic is not None and not basic.alone

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._ledger, name)
        if name not in _MARKED:
            return found

        def marked(dataset: str, *arguments: Any, **options: Any) -> Any:
            free = name == "reserve" and self._has_free_misses(dataset)
            recorded = found(dataset, *arguments, **options, origin=self._origin)
            # What is reserved is used, whether or not the ledger can be looked at once more.
            with suppress(LedgerError):
                if free and not self._has_free_misses(dataset):
                    self._ended()
            return recorded

        return marked

    def __repr__(self) -> str:
        return repr(self._ledger)
