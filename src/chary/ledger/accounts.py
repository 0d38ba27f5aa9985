"""Accounts of datasets and analysts, and the projection of a chain of entries onto them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from chary.amounts import Accounts, Amount, Basic, beside_a_cap
from chary.errors import InvalidParameter
from chary.ledger.entries import ChainEntry, Kind, terms_of
from chary.ledger.records import Balance, CapReached, Tally, Terms, whole_steps

# Running totals of one dataset and of its analysts: what a charge has to look at, and nothing more.


@dataclass(slots=True)
class Purse:
    """What is spent and what is open under one cap; plain integers, because every charge updates them."""

    cap: Amount | None = None
    spent_main: int = 0
    spent_delta: int = 0
    open_main: int = 0
    open_delta: int = 0
    basic_cap: int = 0
    spent_basic: int = 0
    alone: int = 0

    def charge(self, entry: ChainEntry) -> None:
        """Add the worst price of a reserve entry."""
        if self.basic_cap and self.accounts().ended_by(Amount(entry.main)):
            self.alone = 1
        if self.basic_cap:
            self.spent_basic += entry.basic
        self.spent_main += entry.main
        self.spent_delta += entry.delta
        self.open_main += entry.main
        self.open_delta += entry.delta

    def close(self, reserved: ChainEntry, closing: ChainEntry) -> None:
        """Take the reservation out of what is open, and what it gives back out of what is spent."""
        self.spent_main -= closing.back_main
        self.spent_delta -= closing.back_delta
        self.open_main -= reserved.main
        self.open_delta -= reserved.delta
        # Epsilons are charged hit or miss, so only what never ran gives them back; an account that was closed stays so.
        if closing.kind == Kind.VOID and self.basic_cap and self.spent_basic <= self.basic_cap:
            self.spent_basic -= reserved.basic

    def balance(self) -> Balance:
        """The totals as amounts."""
        spent = Amount(self.spent_main, self.spent_delta)
        return Balance(self.cap, spent, Amount(self.open_main, self.open_delta), self.basic)

    @property
    def basic(self) -> Basic | None:
        """The basic account, if there is one."""
        return Basic(self.basic_cap, self.spent_basic, bool(self.alone)) if self.basic_cap else None

    def accounts(self) -> Accounts:
        """What may still be charged; only under a cap."""
        return Accounts(self.cap or Amount(0), Amount(self.spent_main, self.spent_delta), self.basic)

    def counted(self, basic: int) -> int:
        """What an entry says of a charge to the basic account; nothing where there is none."""
        account = self.basic
        return 0 if account is None else account.counted(whole_steps(basic, "basic"))

    def asks(self, basic: int) -> int:
        """What a charge of the analyst asks of the basic account; only the main one admits whoever has a cap."""
        return beside_a_cap(basic, capped=self.cap is not None)

    def admit(self, asked: Amount, cap: str, basic: int = 0) -> None:
        """Raise `CapReached` unless `asked` fits into what is left; without a cap everything fits.

        >>> Purse(Amount(10), spent_main=8).admit(Amount(3), "dataset")
        Traceback (most recent call last):
        ...
        chary.ledger.records.CapReached: asked for 3 (delta 0), but 2 (delta 0) is left of the dataset cap
        """
        if self.cap is not None and not self.accounts().fits(asked, basic):
            raise CapReached(asked, self.accounts().left, cap)

    def recap(self, cap: Amount) -> None:
        """Raise `InvalidParameter` if the new cap is below what is already spent."""
        if not Amount(self.spent_main, self.spent_delta).fits_into(cap):
            raise InvalidParameter(f"a share of {cap} is below what the analyst has already spent")


@dataclass(slots=True)
class CallCount:
    """The running tally of one kind of call; plain integers for the same reason."""

    calls: int = 0
    hits: int = 0
    tests: int = 0
    main: int = 0
    delta: int = 0

    def add(self, settled: ChainEntry) -> None:
        """Count one more settled call."""
        self.calls += 1
        self.hits += settled.hits
        self.tests += settled.tests
        self.main += settled.main
        self.delta += settled.delta

    def tally(self) -> Tally:
        """The sums, with the price as an amount."""
        return Tally(self.calls, self.hits, self.tests, Amount(self.main, self.delta))


@dataclass(slots=True)
class Account:
    """A dataset: its terms, its purse, the purses of its analysts, its tallies and its version."""

    terms: Terms
    purse: Purse
    version: int = 0
    analysts: dict[str, Purse] = field(default_factory=dict)
    tallies: dict[str, CallCount] = field(default_factory=dict)

    def analyst(self, name: str) -> Purse:
        """The purse of an analyst; one never seen has an empty purse without a cap, which is not kept."""
        return self.analysts.get(name) or Purse()


def fitting_share(capacity: Amount, purse: Purse, cap: Amount) -> None:
    """Raise `InvalidParameter` unless a share lies between the analyst's spending and the dataset's capacity."""
    if not cap.fits_into(capacity):
        raise InvalidParameter(f"a share of {cap} is above the dataset's capacity of {capacity}")
    purse.recap(cap)


# The fold of all entries into accounts: how totals follow from the append-only list, and from nothing else.


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
