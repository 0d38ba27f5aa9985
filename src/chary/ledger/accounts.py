"""Accounts of datasets and analysts, and the projection of a chain of entries onto them."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from typing import Final

from chary.amounts import LIMIT, Accounts, Amount, Basic, beside_a_cap
from chary.errors import InvalidParameter
from chary.ledger.entries import ChainEntry, Kind, terms_of
from chary.ledger.records import Balance, CapReached, PartitionBalance, Parts, Tally, Terms, whole_steps
from chary.numbers import percent

# What the parts of a partition hold: a unit is in few of them, so the most expensive of those count and no others.

TOTALS: Final = ("spent_main", "spent_delta", "open_main", "open_delta")
Totals = Sequence[int]
_NOTHING: Final = (0, 0, 0, 0)


class Partition:
    """What each part of a partition holds, by `TOTALS`, and what the most expensive `most` of them hold together.

    A unit is in at most `most` parts, so its parts together hold no more than that. A ledger in SQL loads only parts
    that a charge can make the most expensive: those that it names, and the most expensive now.

    >>> held = Partition(2, {"north": (5, 0, 0, 0), "south": (3, 0, 0, 0), "west": (1, 0, 0, 0)})
    >>> held.dearest(), held.raised(["west"], (4, 0, 0, 0)), held.spent(["west"], 10, 0, 0)
    ((8, 0, 0, 0), (10, 0, 0, 0), 6)
    """

    __slots__ = ("_ordered", "most", "parts")

    def __init__(self, most: int, parts: dict[str, Totals] | None = None) -> None:
        self.most = most
        self.parts: dict[str, Totals] = {} if parts is None else parts
        # Of each total what all parts hold, ascending: a charge takes time for its own parts, not for all.
        self._ordered = [sorted(held[total] for held in self.parts.values()) for total in range(len(TOTALS))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and (self.most, self.parts) == (other.most, other.parts)

    __hash__ = None  # type: ignore[assignment]

    def dearest(self) -> Totals:
        """What the most expensive `most` parts hold together, total by total."""
        return tuple(sum(ordered[-self.most :]) for ordered in self._ordered)

    def raised(self, names: Iterable[str], by: Totals) -> Totals:
        """The same once each of these parts holds so much more."""
        held = [self.parts.get(name, _NOTHING) for name in names]
        return tuple(self._raised(total, [each[total] for each in held], by[total]) for total in range(len(TOTALS)))

    def move(self, names: Iterable[str], by: Totals) -> Totals:
        """Let each of these parts hold so much more, or less; by how much the most expensive hold more then."""
        before = self.dearest()
        for name in names:
            old = self.parts.get(name)
            new = self.parts[name] = tuple(have + more for have, more in zip(old or _NOTHING, by, strict=True))
            for total, ordered in enumerate(self._ordered):
                if old is not None:
                    del ordered[bisect_left(ordered, old[total])]
                insort(ordered, new[total])
        return tuple(after - had for after, had in zip(self.dearest(), before, strict=True))

    def spent(self, names: Sequence[str], cap: int, beside: int, total: int) -> int:
        """What counts as spent for these parts, where `beside` is spent on all rows and in other partitions.
        A cost for each of them fits if and only if it is at most the cap minus this.

        A unit may be in j of the parts that are charged. Each of them may then cost at most a j-th of what is left.
        """
        mine = sorted((self.parts.get(name, _NOTHING)[total] for name in names), reverse=True)
        others = self._others(total, mine)
        of_mine, of_others = list(accumulate(mine, initial=0)), list(accumulate(others, initial=0))
        return max(
            cap - (cap - beside - of_mine[inside] - of_others[min(self.most - inside, len(others))]) // inside
            for inside in range(1, min(len(mine), self.most) + 1)
        )

    def balance(self, partition: str) -> PartitionBalance:
        """The balance of the partition, as amounts."""
        main, delta, _, _ = self.dearest()
        held = {name: Amount(*self.parts[name][:2]) for name in sorted(self.parts)}
        return PartitionBalance(partition, self.most, Amount(main, delta), held)

    def _raised(self, total: int, mine: list[int], by: int) -> int:
        found = sorted([*self._others(total, mine), *(each + by for each in mine)])
        return sum(found[-self.most :])

    def _others(self, total: int, mine: list[int]) -> list[int]:
        """The most expensive among all other parts, descending: as many as can be in a most expensive set, at least."""
        found = self._ordered[total][-(self.most + len(mine)) :]
        for each in mine:
            place = bisect_left(found, each)
            if place < len(found) and found[place] == each:
                del found[place]
        return found[::-1]


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
    partitions: dict[str, Partition] = field(default_factory=dict)

    def charge(self, entry: ChainEntry) -> None:
        """Add the worst cost of a reserve entry."""
        parts = Parts.of(entry.parts)
        if self.basic_cap and self.accounts(parts).ended_by(Amount(entry.main)):
            self.alone = 1
        if self.basic_cap:
            self.spent_basic += entry.basic
        self.move((entry.main, entry.delta, entry.main, entry.delta), parts)

    def close(self, reserved: ChainEntry, closing: ChainEntry) -> None:
        """Take the reservation out of what is open, and what it gives back out of what is spent."""
        back = (-closing.back_main, -closing.back_delta, -reserved.main, -reserved.delta)
        self.move(back, Parts.of(reserved.parts))
        # Epsilons are charged hit or miss, so only what never ran gives them back; an account that was closed stays so.
        if closing.kind == Kind.VOID and self.basic_cap and self.spent_basic <= self.basic_cap:
            self.spent_basic -= reserved.basic

    def move(self, by: Totals, parts: Parts | None = None) -> None:
        """Add to all totals: what concerns all rows in full, what concerns some parts as far as the most expensive
        grow."""
        if parts is not None:
            by = self.partitions.setdefault(parts.partition, Partition(parts.most)).move(parts.names, by)
        self.spent_main += by[0]
        self.spent_delta += by[1]
        self.open_main += by[2]
        self.open_delta += by[3]

    def fits(self, price: Amount, basic: int, parts: Parts | None) -> bool:
        """Whether what is spent still fits once all rows, or each of these parts, are charged this cost."""
        if parts is not None:
            held = self.partition(parts)
            before, after = held.dearest(), held.raised(parts.names, (price.main, price.delta, 0, 0))
            main, delta = after[0] - before[0], after[1] - before[1]
            if max(main, delta) > LIMIT:
                return False
            price = Amount(main, delta)
        return self.accounts().fits(price, basic)

    def partition(self, parts: Parts) -> Partition:
        """What is known of the partition that these are parts of; a unit is always in as many of its parts."""
        held = self.partitions.get(parts.partition) or Partition(parts.most)
        if held.most != parts.most:
            raise InvalidParameter(
                f"the ledger holds the partition {parts.partition!r} with most={held.most}, not {parts.most}: in how "
                "many of its parts a unit is at most is fixed by its first call"
            )
        return held

    def balance(self, parts: Parts | None = None) -> Balance:
        """The totals as amounts. With `parts`, what is left is what a call on these parts may be charged."""
        spent = self._spent(parts)
        return Balance(self.cap, spent, Amount(self.open_main, self.open_delta), self.basic)

    @property
    def basic(self) -> Basic | None:
        """The basic account, if there is one."""
        return Basic(self.basic_cap, self.spent_basic, bool(self.alone)) if self.basic_cap else None

    def accounts(self, parts: Parts | None = None) -> Accounts:
        """What may still be charged, to these parts if any are named; only under a cap."""
        return Accounts(self.cap or Amount(0), self._spent(parts), self.basic)

    def _spent(self, parts: Parts | None) -> Amount:
        if parts is None or self.cap is None:
            return Amount(self.spent_main, self.spent_delta)
        held = self.partition(parts)
        dearest, caps, totals = held.dearest(), (self.cap.main, self.cap.delta), (self.spent_main, self.spent_delta)
        main, delta = (held.spent(parts.names, caps[at], totals[at] - dearest[at], at) for at in (0, 1))
        return Amount(main, delta)

    def counted(self, basic: int) -> int:
        """What an entry records for a charge to the basic account; 0 where the dataset has none."""
        account = self.basic
        return 0 if account is None else account.counted(whole_steps(basic, "basic"))

    def asks(self, basic: int) -> int:
        """What a charge of the analyst asks of the basic account; only the main one admits anyone who has a cap."""
        return beside_a_cap(basic, capped=self.cap is not None)

    def admit(self, asked: Amount, cap: str, basic: int = 0, parts: Parts | None = None) -> None:
        """Raise `CapReached` unless `asked` fits into what is left, of these parts; without a cap everything fits.

        >>> Purse(Amount(10), spent_main=8).admit(Amount(3), "dataset")
        Traceback (most recent call last):
        ...
        chary.ledger.records.CapReached: asked for 3 (delta 0), but 2 (delta 0) is left of the dataset cap
        """
        if self.cap is not None and not self.fits(asked, basic, parts):
            raise CapReached(asked, self.accounts(parts).left, cap)


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
        """The sums, with the cost as an amount."""
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


def together(charges: Iterable[tuple[Parts | None, Amount]], names: Collection[str] | None = None) -> Amount:
    """The total of these charges. Those of parts count as far as the most expensive parts hold them; with `names`, only
    these parts count."""
    purse = Purse()
    for parts, charged in charges:
        if parts is not None and names is not None:
            named = tuple(name for name in parts.names if name in names)
            if not named:
                continue
            parts = replace(parts, names=named)
        purse.move((charged.main, charged.delta, 0, 0), parts)
    return Amount(purse.spent_main, purse.spent_delta)


def fitting_share(capacity: Amount, purse: Purse, cap: Amount) -> None:
    """Raise `InvalidParameter` unless a quota lies between the analyst's spending and the dataset's capacity."""
    spent = Amount(purse.spent_main, purse.spent_delta)
    if not cap.fits_into(capacity):
        raise InvalidParameter(f"a quota of {_part(cap, capacity)} of the budget is above the budget")
    if not spent.fits_into(cap):
        told, most = _part(cap, capacity), _part(spent, capacity)
        raise InvalidParameter(f"a quota of {told} of the budget is below what the analyst has already spent, {most}")


def _part(amount: Amount, capacity: Amount) -> str:
    """How much of a capacity it takes, in the account in which that is most."""
    both = ((amount.main, capacity.main), (amount.delta, capacity.delta))
    return percent(max((Fraction(taken, whole) for taken, whole in both if whole), default=Fraction(0)))


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
        elif entry.parts and entry.kind != Kind.RESERVE:
            yield "it names parts and charges none"
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
            yield "cost and refund do not add up to what was reserved"

    def _reserving_objections(self, entry: ChainEntry) -> Iterator[str]:
        account = self.accounts[entry.dataset]
        if entry.call != entry.number:
            yield "its call has another number"
        if entry.basic != account.purse.counted(entry.basic):
            yield "it adds more to the basic account than closes it"
        try:
            parts = Parts.of(entry.parts)
            account.purse.partition(parts) if parts else None
        except ValueError:
            yield "its parts cannot be read, or their partition is held with another number"
            return
        asked, own = Amount(entry.main, entry.delta), account.analyst(entry.analyst)
        basic = own.asks(entry.basic)
        for purse, cap in ((account.purse, "dataset"), (own, "analyst")):
            # Said twice: by what would be spent after it, and by what is left where the parts are.
            if purse.cap is not None and not (
                purse.fits(asked, basic, parts) and purse.accounts(parts).fits(asked, basic)
            ):
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
