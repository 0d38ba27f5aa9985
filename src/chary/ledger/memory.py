"""A store in memory, for throwaway sessions and as the model in tests: the same rules, and nothing is kept."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from chary.errors import InvalidParameter, LedgerError
from chary.ledger import entries, records, verification
from chary.ledger.accounts import Account, Books, Partition, Purse
from chary.ledger.claims import Claim
from chary.ledger.entries import ChainEntry, Head, Kind
from chary.ledger.store import PAGE, Asked, Closing, Key, Progress, Standing, Wanted, key_of


class MemoryStore:
    """See `SqlStore`; nothing survives the process.

    Safe to share between threads. It refuses to charge in a forked child, where it would be a copy with a budget of its
    own. Entries are hash-chained only when they are exported.
    """

    lasting = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._held = MemoryTransaction()

    def __repr__(self) -> str:
        return f"MemoryStore({self._held.end().entries} entries)"

    @contextmanager
    def writing(self) -> Iterator["MemoryTransaction"]:
        """All there is, held against other threads."""
        with self._lock:
            if self._closed:
                raise LedgerError("the ledger is closed")
            if os.getpid() != self._process:
                raise LedgerError("a ledger in memory belongs to one process: keep it in a file to share a budget")
            yield self._held

    reading = kept = writing

    def checkpoint(self, path: Path) -> Head:
        """`InvalidParameter`: a ledger in memory has no copies, so it needs no checkpoint."""
        raise InvalidParameter("only a ledger that is opened by its path or its URL has a checkpoint")

    def verify(self, progress: Progress | None) -> records.Verification:
        """Recompute every total and answer hash."""
        with self.writing() as held:
            return held.verify(progress)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed, self._held = True, MemoryTransaction()


class MemoryTransaction:
    """See `SqlTransaction`: what a ledger in memory holds."""

    def __init__(self) -> None:
        self._books = Books()
        self._entries: list[ChainEntry] = []
        self._closings: dict[int, ChainEntry] = {}
        self._answers: dict[int, str] = {}
        self._secrets: dict[int, bytes] = {}
        self._requests: dict[Key, list[ChainEntry]] = {}
        self._running: set[int] = set()

    def end(self) -> Head:
        """How many entries there are."""
        return Head(len(self._entries))

    def standing(self, dataset: str, analyst: str, parts: records.Parts | None = None) -> Standing:
        """The purses themselves."""
        account = self.account(dataset)
        own = account.analyst(records.label(analyst, "analyst"))
        return Standing(self.end(), account.terms.capacity, account.purse, own, known=True)

    def asked(self, key: Key) -> Asked | None:
        """The first that was settled, or else one that is open."""
        held = [entry for entry in self._requests.get(key, ()) if self._closing(entry.number) != Kind.VOID]
        settled = [entry for entry in held if entry.number in self._closings]
        if settled:
            return Asked(min(settled, key=lambda entry: self._closings[entry.number].number), settled=True)
        return Asked(held[0], settled=False) if held else None

    def running(self, key: Key) -> bool:
        """Whether an open call under this key is claimed."""
        return any(entry.number in self._running & self._books.open.keys() for entry in self._requests.get(key, ()))

    def reserved(self, call: int) -> tuple[Head, ChainEntry]:
        """The reserve entry of an open call."""
        if call not in self._books.open:
            raise entries.not_open(call, self._closing(call))
        return self.end(), self._books.open[call]

    def settled_in(self, call: int) -> str | None:
        """The dataset of a settled call."""
        return self._closings[call].dataset if self._closing(call) == Kind.SETTLE else None

    def same_secret(self, call: int, secret: bytes | None) -> bool:
        """Whether this is the secret of a call."""
        return self._secrets.get(call) == secret

    def post(self, end: Head, entry: ChainEntry, closes: Closing | None = None, known: bool = True) -> str:
        """Append an entry and move the totals; it has no hash yet."""
        self._books.post(entry)
        self._entries.append(entry)
        if closes is not None:
            self._closings[closes.reserved.number] = entry
            if entry.kind == Kind.SETTLE:
                self._answers[entry.call] = closes.answer
        return ""

    def claim(self, entry: ChainEntry, sealed: str) -> Claim:
        """The sign that a reserved call is being run, by its number."""
        self._requests.setdefault(key_of(entry), []).append(entry)
        self._running.add(entry.number)
        return Claim(partial(self._running.discard, entry.number))

    def add_secret(self, call: int, secret: bytes) -> None:
        """Keep a secret."""
        self._secrets[call] = secret

    def drop_secret(self, call: int) -> bool:
        """Forget a secret."""
        return self._secrets.pop(call, None) is not None

    def secret(self, call: int) -> bytes | None:
        """The secret of a call."""
        return self._secrets.get(self.call(call).number)

    def account(self, dataset: str, parts: records.Parts | None = None) -> Account:
        """The account itself."""
        account = self._books.accounts.get(records.label(dataset, "dataset"))
        if account is None:
            raise entries.not_held(dataset)
        return account

    def analyst(self, dataset: str, name: str, parts: records.Parts | None = None) -> Purse:
        """An analyst's purse."""
        return self.account(dataset).analyst(name)

    def partitions(self, dataset: str) -> dict[str, Partition]:
        """What each part holds."""
        return dict(sorted(self.account(dataset).purse.partitions.items()))

    def tally(self, dataset: str) -> dict[str, records.Tally]:
        """Sums over the settled calls by kind."""
        return {kind: each.tally() for kind, each in sorted(self.account(dataset).tallies.items())}

    def terms(self) -> list[records.Terms]:
        """The terms of all datasets, by name."""
        return [account.terms for _, account in sorted(self._books.accounts.items())]

    def notes(self, dataset: str) -> list[records.Note]:
        """Everything recorded about the dataset."""
        self.account(dataset)
        noted = [entry for entry in self._entries if entry.kind == Kind.NOTE and entry.dataset == dataset]
        return [entries.note_of(version, entry) for version, entry in enumerate(noted, 1)]

    def last_note(self, dataset: str) -> records.Note | None:
        """What was recorded last about the dataset."""
        held = self.notes(dataset)
        return held[-1] if held else None

    def call(self, number: int) -> records.CallRecord:
        """One call."""
        reserved = self._entries[number - 1] if 0 < number <= len(self._entries) else None
        if reserved is None or reserved.kind != Kind.RESERVE:
            raise entries.not_open(number, None)
        return entries.call_of(reserved, self._closings.get(number), self._answers.get(number))

    def last_settled(
        self, dataset: str, kind: str, body: str, parts: records.Parts | None = None
    ) -> records.CallRecord | None:
        """The latest call that was settled for a question."""
        self.account(dataset)
        asked = (Kind.RESERVE, dataset, kind, body, records.written(parts))
        for entry in reversed(self._entries):
            question = (entry.kind, entry.dataset, entry.label, entry.body, entry.parts)
            if question == asked and self._closing(entry.number) == Kind.SETTLE:
                return self.call(entry.number)
        return None

    def charged_under(self, dataset: str, analyst: str, keys: str) -> records.Balance:
        """What an analyst's calls were charged whose idempotency keys begin with these words."""
        whole = self.account(dataset).purse.basic
        purse, whose, added = Purse(), (Kind.RESERVE, dataset, analyst), 0
        for entry in self._entries:
            if (entry.kind, entry.dataset, entry.analyst) == whose and (entry.request or "").startswith(keys):
                # A plain sum, whatever parts they were about.
                plain = entry._replace(parts="")
                purse.charge(plain)
                # What never ran gave its epsilons back.
                added += entry.basic if self._closing(entry.number) != Kind.VOID else 0
                if entry.number in self._closings:
                    purse.close(plain, self._closings[entry.number])
        basic = None if whole is None else replace(whole, spent=added)
        return replace(purse.balance(), basic=basic)

    def page(self, wanted: Wanted, limit: int) -> list[records.CallRecord]:
        """The next calls that are looked for."""
        self.account(wanted.dataset)
        end = min(len(self._entries), max(wanted.before - 1, 0))
        numbers = range(max(wanted.after, 0), end)
        found = (self._entries[place] for place in (reversed(numbers) if wanted.newest else numbers))
        fitting = islice((entry for entry in found if _is_wanted(entry, wanted)), limit)
        return [self.call(entry.number) for entry in fitting]

    def analysts_of(self, dataset: str) -> list[str]:
        """Anyone who has asked or was capped."""
        return sorted(self.account(dataset).analysts)

    def lines(self, dataset: str, after: int) -> list[dict[str, object]]:
        """The next exported entries; the chain is only made now."""
        self.account(dataset)
        lines = entries.chained(self._entries, self._answers)
        own = (line for line in lines if line["dataset"] == dataset and int(str(line["number"])) > after)
        return list(islice(own, PAGE))

    def holds(self, head: Head) -> bool:
        """Whether the chain goes on from this head."""
        lines = islice(entries.chained(self._entries, self._answers), head.entries)
        hashes = [line["hash"] for line in lines]
        return head == Head() or (len(hashes) == head.entries and hashes[-1:] == [head.hash])

    def verify(self, progress: Progress | None) -> records.Verification:
        """Recompute every total and answer hash."""
        held = self._books.accounts
        return verification.audited(self._entries, len(self._entries), held, self._answers, progress)

    def _closing(self, call: int) -> str | None:
        closed = self._closings.get(call)
        return closed.kind if closed else None


def _is_wanted(entry: ChainEntry, wanted: Wanted) -> bool:
    """Whether it reserved a call that is looked for."""
    asked = entry.kind == Kind.RESERVE and entry.dataset == wanted.dataset and wanted.analyst in (None, entry.analyst)
    under = wanted.keys is None or (entry.request is not None and entry.request.startswith(wanted.keys))
    return asked and under and (wanted.kinds is None or entry.label in wanted.kinds)
