"""Running totals of one dataset and of its analysts: what a charge has to look at, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field

from chary.amounts import Amount
from chary.errors import InvalidParameter
from chary.ledger.entries import ChainEntry
from chary.ledger.records import Balance, CapReached, Tally
from chary.ledger.terms import Terms


@dataclass(slots=True)
class Purse:
    """What is spent and what is open under one cap; plain integers, because every charge updates them."""

    cap: Amount | None = None
    spent_main: int = 0
    spent_delta: int = 0
    open_main: int = 0
    open_delta: int = 0

    def charge(self, entry: ChainEntry) -> None:
        """Add the worst price of a reserve entry."""
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

    def balance(self) -> Balance:
        """The totals as amounts."""
        spent = Amount(self.spent_main, self.spent_delta)
        return Balance(self.cap, spent, Amount(self.open_main, self.open_delta))

    def admit(self, asked: Amount, cap: str) -> None:
        """Raise `CapReached` unless `asked` fits into what is left; without a cap everything fits.

        >>> Purse(Amount(10), spent_main=8).admit(Amount(3), "dataset")
        Traceback (most recent call last):
        ...
        chary.ledger.records.CapReached: asked for 3 (delta 0), but 2 (delta 0) is left of the dataset cap
        """
        if self.cap is not None:
            main, delta = self.cap.main - self.spent_main, self.cap.delta - self.spent_delta
            if asked.main > main or asked.delta > delta:
                raise CapReached(asked, Amount(main, delta), cap)

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
