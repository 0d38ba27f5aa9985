"""The fold of all entries into accounts: how totals follow from the append-only list, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chary.amounts import Amount
from chary.ledger.accounts import Account, CallCount, Purse
from chary.ledger.drafts import terms_of
from chary.ledger.entries import ChainEntry, Kind


class Books:
    """Accounts by name of the dataset, and the reserve entries of the calls that are still open.

    `post` believes its entry and is what the memory ledger runs on. A verification asks `objections` first.

    >>> books = Books()
    >>> books.post(ChainEntry(1, Kind.OPEN, "visits", body='["ab12","{}"]', main=10))
    >>> books.post(ChainEntry(2, Kind.RESERVE, "visits", "ann", call=2, label="count", main=4))
    >>> books.accounts["visits"].purse.spent_main, sorted(books.open)
    (4, [2])
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.open: dict[int, ChainEntry] = {}

    def post(self, entry: ChainEntry) -> None:
        """Apply one entry to the totals."""
        _POSTS[entry.kind](self, entry)

    def objections(self, entry: ChainEntry) -> Iterator[str]:
        """Why the entry cannot follow the entries posted so far; nothing if it can."""
        if entry.kind not in _POSTS:
            yield "its kind is unknown"
        elif min(entry.main, entry.delta, entry.back_main, entry.back_delta, entry.hits, entry.tests, entry.basic) < 0:
            yield "it holds a negative number"
        elif (entry.kind == Kind.OPEN) == (entry.dataset in self.accounts):
            yield "its dataset is opened twice or never"
        elif entry.kind == Kind.OPEN:
            yield from _opening_objections(entry)
        elif entry.kind in (Kind.SETTLE, Kind.VOID):
            yield from self._closing_objections(entry)
        elif entry.kind == Kind.RESERVE:
            yield from self._reserving_objections(entry)

    def _closing_objections(self, entry: ChainEntry) -> Iterator[str]:
        held = self.open.get(entry.call)
        if held is None:
            yield "it closes a call that is not open"
        elif (held.dataset, held.analyst, held.label) != (entry.dataset, entry.analyst, entry.label):
            yield "it closes a call of another dataset, analyst or kind"
        elif (held.main, held.delta) != (entry.main + entry.back_main, entry.delta + entry.back_delta):
            yield "price and refund do not add up to what was reserved"

    def _reserving_objections(self, entry: ChainEntry) -> Iterator[str]:
        account = self.accounts[entry.dataset]
        if entry.call != entry.number:
            yield "its call has another number"
        if entry.basic != account.purse.counted(entry.basic):
            yield "it adds more to the basic account than closes it"
        asked, own = Amount(entry.main, entry.delta), account.analyst(entry.analyst)
        for purse, cap in ((account.purse, "dataset"), (own, "analyst")):
            if purse.cap is not None and not purse.accounts().fits(asked, own.asks(entry.basic)):
                yield f"it passes the cap of the {cap}"

    def _open(self, entry: ChainEntry) -> None:
        capacity = Amount(entry.main, entry.delta)
        self.accounts[entry.dataset] = Account(terms_of(entry), Purse(capacity, basic_cap=entry.basic))

    def _share(self, entry: ChainEntry) -> None:
        purse = self.accounts[entry.dataset].analysts.setdefault(entry.analyst, Purse())
        purse.cap = Amount(entry.main, entry.delta)

    def _reserve(self, entry: ChainEntry) -> None:
        account = self.accounts[entry.dataset]
        account.purse.charge(entry)
        if entry.analyst not in account.analysts:
            account.analysts[entry.analyst] = Purse()
        account.analysts[entry.analyst].charge(entry)
        self.open[entry.number] = entry

    def _void(self, entry: ChainEntry) -> None:
        account, reserved = self.accounts[entry.dataset], self.open.pop(entry.call)
        account.purse.close(reserved, entry)
        account.analysts[entry.analyst].close(reserved, entry)

    def _settle(self, entry: ChainEntry) -> None:
        self._void(entry)
        tallies = self.accounts[entry.dataset].tallies
        if entry.label not in tallies:
            tallies[entry.label] = CallCount()
        tallies[entry.label].add(entry)

    def _note(self, entry: ChainEntry) -> None:
        self.accounts[entry.dataset].version += 1


def _opening_objections(entry: ChainEntry) -> Iterator[str]:
    try:
        terms_of(entry)
    except (TypeError, ValueError):
        yield "its terms cannot be read"


_POSTS: dict[str, Callable[[Books, ChainEntry], None]] = {
    Kind.OPEN: Books._open,
    Kind.SHARE: Books._share,
    Kind.RESERVE: Books._reserve,
    Kind.SETTLE: Books._settle,
    Kind.VOID: Books._void,
    Kind.NOTE: Books._note,
}
