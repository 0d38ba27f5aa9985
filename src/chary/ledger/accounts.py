"""Accounts of datasets and analysts, and the projection of a chain of entries onto them."""

from __future__ import annotations

from dataclasses import dataclass, field

from chary.amounts import Accounts, Amount, Basic, beside_a_cap
from chary.errors import InvalidParameter
from chary.ledger.checks import whole_steps
from chary.ledger.entries import ChainEntry, Kind
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
