"""The recomputation of a ledger from its entries: every hash, every rule and every running total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chary.ledger.accounts import Account
from chary.ledger.books import Books
from chary.ledger.entries import GENESIS, ChainEntry, Kind, digest, seal
from chary.ledger.protocol import Progress
from chary.ledger.records import Verification

# A damaged ledger has as many problems as entries: a hundred lines can be read. Progress is told every 2,000 entries,
# some tens of milliseconds.
SHOWN = 100
STEP = 2_000


class Audit:
    """Reads entries in order, folds them into books of its own and collects what does not add up.

    After a wrong hash the recorded one is believed, so that one changed field is one problem, not thousands.

    >>> audit = Audit()
    >>> audit.read(ChainEntry(2, Kind.NOTE, "visits"))
    >>> audit.verdict().problems
    ['entry 1 is missing', 'entry 2: its dataset is opened twice or never']
    """

    def __init__(self) -> None:
        self.books = Books()
        self.number = 0
        self.hash = GENESIS
        self._problems: list[str] = []
        self._unlisted = 0

    def report(self, problem: str) -> None:
        """Add a problem, or only count it if many are listed already."""
        if len(self._problems) < SHOWN - 1:
            self._problems.append(problem)
        else:
            self._unlisted += 1

    def expect(self, right: bool, problem: str) -> None:
        """Report the problem unless all is right."""
        if not right:
            self.report(problem)

    def read(self, entry: ChainEntry, sealed: str | None = None) -> None:
        """Check the next entry, and its hash if it has one, and post it."""
        if entry.number != self.number + 1:
            self.report(f"entry {self.number + 1} is missing")
        if sealed is not None:
            self.expect(seal(self.hash, entry) == sealed, f"entry {entry.number}: its hash does not follow")
            self.hash = sealed
        self.number = entry.number
        objections = list(self.books.objections(entry))
        for objection in objections:
            self.report(f"entry {entry.number}: {objection}")
        if not objections:
            self.books.post(entry)

    def skip(self, number: int, problem: str, sealed: object) -> None:
        """Report the next entry as one that cannot be read; what follows is checked against the hash it has."""
        if number != self.number + 1:
            self.report(f"entry {self.number + 1} is missing")
        self.report(problem)
        self.number, self.hash = number, sealed if isinstance(sealed, str) else self.hash

    def compare(self, held: Mapping[str, Account]) -> None:
        """Report every dataset whose stored terms or totals differ from the recomputed ones."""
        for name in sorted(held.keys() | self.books.accounts.keys()):
            stored, derived = held.get(name), self.books.accounts.get(name)
            if stored is None or derived is None:
                self.report(f"dataset {name!r} is in the totals or in the entries, but not in both")
                continue
            for part in ("terms", "purse", "version", "analysts", "tallies"):
                same = getattr(stored, part) == getattr(derived, part)
                self.expect(same, f"dataset {name!r}: its {part} differ from what the entries say")

    def verdict(self) -> Verification:
        """What was found so far."""
        more = [f"and {self._unlisted} more"] if self._unlisted else []
        return Verification(self.number, self._problems + more)


def audited(
    entries: Iterable[ChainEntry],
    total: int,
    accounts: Mapping[str, Account],
    answers: Mapping[int, str],
    progress: Progress | None,
) -> Verification:
    """The verdict on a ledger that is wholly in memory; its hashes are made on demand and need no check."""
    audit = Audit()
    for entry in entries:
        audit.read(entry)
        if entry.kind == Kind.SETTLE:
            same = digest(answers.get(entry.call, "")) == entry.answer_hash
            audit.expect(same, f"call {entry.call}: its answer was changed")
        if progress and (entry.number % STEP == 0 or entry.number == total):
            progress(entry.number, total)
    audit.compare(accounts)
    return audit.verdict()
