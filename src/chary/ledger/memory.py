"""A ledger in memory: the same rules without a file, for throwaway sessions and as the model in tests."""

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from chary.amounts import LIMIT, Amount
from chary.errors import LedgerError
from chary.ledger import entries, ledger, records, verification
from chary.ledger.accounts import Account, Books, Purse, fitting_share
from chary.ledger.claims import Claim
from chary.ledger.entries import ChainEntry, Kind, chained


class MemoryLedger:
    """See `Ledger` for what every method guarantees; nothing survives the process.

    Safe to share between threads. It refuses to charge in a forked child, where it would be a copy with a
    budget of its own.

    >>> from chary.ledger import Terms
    >>> ledger = MemoryLedger()
    >>> ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    >>> call = ledger.reserve("visits", "ann", "count", '{"where":"age > 65"}', Amount(4))
    >>> ledger.settle(call, Amount(1), hits=1, tests=1, answer="true")
    >>> ledger.balance("visits").left
    Amount(main=9, delta=0)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._books = Books()
        self._entries: list[ChainEntry] = []
        self._closings: dict[int, ChainEntry] = {}
        self._answers: dict[int, str] = {}
        self._secrets: dict[int, bytes] = {}
        self._requests: dict[tuple[str, str, str], list[ChainEntry]] = {}
        self._running: set[int] = set()

    def __repr__(self) -> str:
        return f"MemoryLedger({len(self._entries)} entries)"

    def open(self, terms: records.Terms) -> None:
        """Create the dataset or check its terms."""
        with self._lock:
            self._alive()
            held = self._books.accounts.get(terms.name)
            if held:
                records.agree(held.terms, terms)
            else:
                self._append(entries.opening(self._next(), terms))

    def set_quota(self, dataset: str, analyst: str, cap: Amount, origin: str = "") -> None:
        """Cap one analyst."""
        with self._lock:
            account = self._account(dataset)
            entry = entries.sharing(self._next(), dataset, analyst, cap, origin)
            fitting_share(account.terms.capacity, account.analyst(analyst), cap)
            self._append(entry)

    def reserve(
        self,
        dataset: str,
        analyst: str,
        kind: str,
        body: str,
        worst: Amount,
        request: str | None = None,
        origin: str = "",
        basic: int = LIMIT,
    ) -> records.Reservation:
        """Charge the worst price before any data are touched."""
        with self._lock:
            account = self._account(dataset)
            adds = account.purse.counted(basic)
            entry = entries.reserving(self._next(), dataset, analyst, kind, body, worst, request, origin, adds)
            self._unclaimed(entry)
            own = account.analyst(analyst)
            account.purse.admit(worst, "dataset", own.asks(adds))
            own.admit(worst, "analyst")
            self._append(entry)
            return records.Reservation(entry.number, None if request is None else self._claimed(entry, request))

    def settle(
        self,
        reservation: records.Reservation,
        price: Amount,
        hits: int,
        tests: int,
        answer: str,
        secret: bytes | None = None,
        secrets: Mapping[int, bytes | None] | None = None,
        seen: Mapping[int, bytes | None] | None = None,
    ) -> None:
        """Replace the worst price by the actual one and store the public answer."""
        with self._lock:
            reserved = self._reserved(reservation.call)
            entry = entries.settling(self._next(), reserved, price, hits, tests, answer)
            rivals = self._asked(reserved.dataset, reserved.analyst, reserved.request)
            if any(each.number in self._closings for each in rivals):
                raise entries.answered()
            records.still(seen or {}, self._secrets.get)
            changes = {reserved.number: records.masked(secret, "secret")}
            for call, new in (secrets or {}).items():
                records.masked(new, "secret")
                if self._settled(call, reserved.dataset) in self._secrets:
                    changes[call] = new
            self._append(entry)
            self._closings[reserved.number] = entry
            self._answers[reserved.number] = answer
            self._keep(changes)

    def void(self, reservation: records.Reservation) -> None:
        """Give the whole reservation back."""
        with self._lock:
            reserved = self._reserved(reservation.call)
            entry = entries.voiding(self._next(), reserved)
            self._append(entry)
            self._closings[reserved.number] = entry

    def note(self, dataset: str, kind: str, body: str, after: int | None = None, origin: str = "") -> int:
        """Record something about the dataset and raise its version."""
        with self._lock:
            records.unchanged(self._account(dataset).version, after)
            self._append(entries.noting(self._next(), dataset, kind, body, origin))
            return self._account(dataset).version

    def notes(self, dataset: str) -> list[records.Note]:
        """Everything recorded about the dataset."""
        with self._lock:
            self._account(dataset)
            noted = [entry for entry in self._entries if entry.kind == Kind.NOTE and entry.dataset == dataset]
            return [entries.note_of(version, entry) for version, entry in enumerate(noted, 1)]

    def last_note(self, dataset: str) -> records.Note | None:
        """What was recorded last about the dataset."""
        held = self.notes(dataset)
        return held[-1] if held else None

    def replay(self, dataset: str, analyst: str, request: str, kind: str, body: str) -> records.CallRecord | None:
        """The call first settled under this key."""
        with self._lock:
            self._account(dataset)
            records.label(analyst, "analyst"), records.label(request, "request")
            held = self._asked(dataset, analyst, request)
            for entry in held:
                entries.same_question(entry, kind, body)
            settled = [entry.number for entry in held if entry.number in self._closings]
            return self._call(min(settled, key=lambda call: self._closings[call].number)) if settled else None

    def last_settled(self, dataset: str, kind: str, body: str) -> records.CallRecord | None:
        """The latest call that was settled for this question."""
        with self._lock:
            self._account(dataset)
            for entry in reversed(self._entries):
                question = (entry.kind, entry.dataset, entry.label, entry.body)
                if question == (Kind.RESERVE, dataset, kind, body) and self._closing_kind(entry.number) == Kind.SETTLE:
                    return self._call(entry.number)
            return None

    def charged_under(self, dataset: str, analyst: str, keys: str) -> records.Balance:
        """What an analyst's calls were charged whose request keys begin with these words."""
        with self._lock:
            whole = self._account(dataset).purse.basic
            records.label(keys, "request")
            purse, whose, added = Purse(), (Kind.RESERVE, dataset, records.label(analyst, "analyst")), 0
            for entry in self._entries:
                if (entry.kind, entry.dataset, entry.analyst) == whose and (entry.request or "").startswith(keys):
                    purse.charge(entry)
                    # What never ran gave its epsilons back.
                    added += entry.basic if self._closing_kind(entry.number) != Kind.VOID else 0
                    if entry.number in self._closings:
                        purse.close(entry, self._closings[entry.number])
            basic = None if whole is None else replace(whole, spent=added)
            return replace(purse.balance(), basic=basic)

    def secret(self, call: int) -> bytes | None:
        """The secret of a call."""
        with self._lock:
            return self._secrets.get(self._call(call).number)

    def balance(self, dataset: str) -> records.Balance:
        """What is spent of the dataset's capacity."""
        with self._lock:
            return self._account(dataset).purse.balance()

    def analyst_balance(self, dataset: str, analyst: str) -> records.Balance:
        """What one analyst has spent."""
        with self._lock:
            return self._account(dataset).analyst(records.label(analyst, "analyst")).balance()

    def tally(self, dataset: str) -> dict[str, records.Tally]:
        """Sums over the settled calls by kind of call."""
        with self._lock:
            return {kind: each.tally() for kind, each in sorted(self._account(dataset).tallies.items())}

    def version(self, dataset: str) -> int:
        """How many notes the dataset has."""
        with self._lock:
            return self._account(dataset).version

    def call(self, number: int) -> records.CallRecord:
        """One call."""
        with self._lock:
            return self._call(number)

    def calls(
        self,
        dataset: str,
        after: int = 0,
        limit: int | None = None,
        *,
        before: int | None = None,
        analyst: str | None = None,
        kinds: Collection[str] | None = None,
        keys: str | None = None,
        newest: bool = False,
    ) -> Iterator[records.CallRecord]:
        """The dataset's calls that are looked for."""

        def fits(entry: ChainEntry) -> bool:
            asked = entry.kind == Kind.RESERVE and entry.dataset == dataset and analyst in (None, entry.analyst)
            under = keys is None or (entry.request is not None and entry.request.startswith(keys))
            return asked and under and (kinds is None or entry.label in kinds)

        with self._lock:
            self._account(dataset)
            most = None if limit is None else records.count(limit, "limit")
            end = len(self._entries) if before is None else min(len(self._entries), max(before - 1, 0))
            numbers = range(max(after, 0), end)
            entries = (self._entries[place] for place in (reversed(numbers) if newest else numbers))
            found = list(islice((entry for entry in entries if fits(entry)), most))
            return iter([self._call(entry.number) for entry in found])

    def analysts(self, dataset: str) -> list[str]:
        """Whoever has asked or was capped."""
        with self._lock:
            return sorted(self._account(dataset).analysts)

    def datasets(self) -> list[records.Terms]:
        """The terms of every dataset."""
        with self._lock:
            self._alive()
            return [self._books.accounts[name].terms for name in sorted(self._books.accounts)]

    def export(self, dataset: str) -> Iterator[dict[str, object]]:
        """Every entry of the dataset with its hash and answer."""
        with self._lock:
            self._account(dataset)
            return iter([line for line in chained(self._entries, self._answers) if line["dataset"] == dataset])

    def verify(self, progress: ledger.Progress | None = None) -> records.Verification:
        """Recompute every total and answer hash."""
        with self._lock:
            self._alive()
            entries = self._entries
            return verification.audited(entries, len(entries), self._books.accounts, self._answers, progress)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            for kept in (self._entries, self._closings, self._answers, self._secrets, self._requests):
                kept.clear()

    def _alive(self) -> None:
        if self._closed:
            raise LedgerError("the ledger is closed")
        if os.getpid() != self._process:
            raise LedgerError("a ledger in memory belongs to one process: use SqlLedger to share a budget")

    def _account(self, dataset: str) -> Account:
        self._alive()
        account = self._books.accounts.get(dataset)
        if account is None:
            raise entries.not_held(records.label(dataset, "dataset"))
        return account

    def _next(self) -> int:
        return len(self._entries) + 1

    def _append(self, entry: ChainEntry) -> None:
        self._books.post(entry)
        self._entries.append(entry)

    def _asked(self, dataset: str, analyst: str, request: str | None) -> list[ChainEntry]:
        """The calls under a request key, without the voided ones."""
        held = self._requests.get((dataset, analyst, request), []) if request is not None else []
        return [entry for entry in held if self._closing_kind(entry.number) != Kind.VOID]

    def _unclaimed(self, entry: ChainEntry) -> None:
        """Raise why the entry's request key cannot be used now, if it cannot."""
        held = self._asked(entry.dataset, entry.analyst, entry.request)
        for each in held:
            entries.same_question(each, entry.label, entry.body)
        if any(each.number in self._closings for each in held):
            raise entries.answered()
        if any(each.number in self._running for each in held):
            raise entries.in_flight()

    def _claimed(self, entry: ChainEntry, request: str) -> Claim:
        self._requests.setdefault((entry.dataset, entry.analyst, request), []).append(entry)
        self._running.add(entry.number)
        return Claim(partial(self._running.discard, entry.number))

    def _closing_kind(self, call: int) -> str | None:
        closed = self._closings.get(call)
        return closed.kind if closed else None

    def _reserved(self, call: int) -> ChainEntry:
        self._alive()
        reserved = self._books.open.get(call)
        if reserved is None:
            raise entries.not_open(call, self._closing_kind(call))
        return reserved

    def _settled(self, call: int, dataset: str | None = None) -> int:
        self._alive()
        if self._closing_kind(call) != Kind.SETTLE or dataset not in (None, self._closings[call].dataset):
            raise entries.not_settled(call)
        return call

    def _call(self, number: int) -> records.CallRecord:
        self._alive()
        reserved = self._entries[number - 1] if 0 < number <= len(self._entries) else None
        if reserved is None or reserved.kind != Kind.RESERVE:
            raise entries.not_open(number, None)
        return entries.call_of(reserved, self._closings.get(number), self._answers.get(number))

    def _keep(self, changes: Mapping[int, bytes | None]) -> None:
        for call, new in changes.items():
            if new is None:
                self._secrets.pop(call, None)
            else:
                self._secrets[call] = new
