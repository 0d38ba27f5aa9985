"""Amounts of budget: integers of tiny steps, so that sums are exact and survive any storage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from chary.errors import InvalidParameter

# An epsilon of 1e-15 is one step, and 2**62 of them are an epsilon of 4,611; deltas are finer by a thousand, for one of
# 1e-18 is below any that is promised. Totals below 2**62 fit the 64 bits of every engine.
MAIN_STEPS = 10**15
DELTA_STEPS = 10**18
LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Amount:
    """A cost, a cap or a balance.

    `main` counts steps of 1e-15 of epsilon (pure filter), steps of 1e-15 of log-moment (Renyi filter) or tokens (exact
    filter); `delta` counts steps of 1e-18. Both are integers from 0 to 2^62; anything else, Booleans and floats
    included, raises `InvalidParameter`, and so does a sum or a difference outside that range. Amounts are compared part
    by part, which is only a partial order: see `fits_into`.

    >>> ten = Amount(0)
    >>> for _ in range(10):
    ...     ten += Amount(steps_up(Fraction(1, 10), MAIN_STEPS))
    >>> ten == Amount(steps_down(Fraction(1), MAIN_STEPS))
    True
    """

    main: int
    delta: int = 0

    def __post_init__(self) -> None:
        if type(self.main) is not int or not 0 <= self.main <= LIMIT:
            raise InvalidParameter(f"main must be an integer from 0 to 2^62, got {self.main!r}")
        if type(self.delta) is not int or not 0 <= self.delta <= LIMIT:
            raise InvalidParameter(f"delta must be an integer from 0 to 2^62, got {self.delta!r}")

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.delta - other.delta)

    def __str__(self) -> str:
        return f"{self.main} (delta {self.delta})"

    def times(self, count: int) -> Amount:
        """The same amount `count` times, cut off at `LIMIT`, which fits into no capacity."""
        return Amount(min(self.main * count, LIMIT), min(self.delta * count, LIMIT))

    def fits_into(self, room: Amount) -> bool:
        """Whether both parts are at most those of `room`.

        >>> Amount(3).fits_into(Amount(3)), Amount(3, 1).fits_into(Amount(4, 0))
        (True, False)
        """
        return self.main <= room.main and self.delta <= room.delta

    def copies_in(self, room: Amount) -> int | None:
        """How many copies fit into `room`; None if a copy costs nothing.

        >>> Amount(3).copies_in(Amount(10)), Amount(0).copies_in(Amount(10))
        (3, None)
        """
        counts = [have // need for need, have in ((self.main, room.main), (self.delta, room.delta)) if need]
        return min(counts) if counts else None

    def cut_to(self, room: Amount) -> Amount:
        """As much of it as fits into `room`, part by part.

        >>> Amount(3, 1).cut_to(Amount(2, 5))
        Amount(main=2, delta=1)
        """
        return Amount(min(self.main, room.main), min(self.delta, room.delta))


@dataclass(frozen=True, slots=True)
class Shares:
    """Amounts as proportions of a capacity: the one place where a fraction of a budget is worked out.

    Whichever of main and delta takes more counts: the larger share of what is charged, the smaller of what is left.

    >>> whole = Shares(Amount(100, 4))
    >>> whole.taken(Amount(1, 3)), whole.left(Amount(99, 1)), whole.cap(Fraction(1, 2))
    (0.75, 0.25, Amount(main=50, delta=2))
    """

    capacity: Amount

    def taken(self, amount: Amount) -> float:
        """What a charge takes; more than 1 where it is more than everything."""
        # Whole numbers divide to the nearest float, so that a half reads 0.5.
        return max(part / max(1, whole) for part, whole in self._parts(amount))

    def exactly(self, amount: Amount) -> Fraction:
        """What a charge takes, as a fraction, to compare or to continue."""
        return max(Fraction(part, max(1, whole)) for part, whole in self._parts(amount))

    def left(self, room: Amount, after: Amount | None = None) -> float:
        """What is left, and where so much of it is charged, after that; negative where it does not fit."""
        gone = Amount(0) if after is None else after
        shares = ((room.main - gone.main, self.capacity.main), (room.delta - gone.delta, self.capacity.delta))
        return min((part / whole for part, whole in shares if whole), default=0.0)

    def cap(self, share: Fraction) -> Amount:
        """The amount that a proportion is, rounded down in both parts."""
        return Amount(steps_down(share, self.capacity.main), steps_down(share, self.capacity.delta))

    def _parts(self, amount: Amount) -> tuple[tuple[int, int], tuple[int, int]]:
        return (amount.main, self.capacity.main), (amount.delta, self.capacity.delta)


@dataclass(frozen=True, slots=True)
class Basic:
    """The basic account of a dataset: the pure epsilons of all calls, hit or miss, in steps of its own.

    What has no pure epsilon counts as more than all of it. A call that does not fit closes it: it then holds one step
    more than its capacity, for ever. `alone` says that the main account has ended, so that every call must fit here.
    """

    capacity: int
    spent: int = 0
    alone: bool = False

    def counted(self, asked: int) -> int:
        """What is written down of a charge: no more than what closes the account.

        >>> Basic(10, 4).counted(3), Basic(10, 4).counted(9), Basic(10, 11).counted(3)
        (3, 7, 0)
        """
        return min(asked, self.capacity + 1 - self.spent)

    def fits(self, asked: int) -> bool:
        """Whether the sum stays within the capacity."""
        return self.spent + asked <= self.capacity

    def sound(self, main_within: bool) -> bool:
        """Whether charges can have led to this, where main is within its capacity or not."""
        if self.capacity == 0:
            return main_within and not self.spent and not self.alone
        if self.alone:
            return 0 <= self.spent <= self.capacity
        return main_within and 0 <= self.spent <= self.capacity + 1


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a dataset may still be charged: the one rule of admission, of the ledger and of everything that foretells.

    A call fits if its delta fits and its main part does or, where there is a basic account, its epsilons do. One that
    fits by its epsilons alone ends the main account for good: from then on every call must fit into the basic one.
    Proof of the promise: docs/theory/charging.md, two accounts. `own` is what an analyst may still take of main and
    delta under a cap, which holds as well. Since it counts no epsilons, the main account alone admits their calls.

    >>> both = Accounts(Amount(10), Amount(8), Basic(100, 60))
    >>> both.fits(Amount(2), LIMIT), both.fits(Amount(3), 40), both.fits(Amount(3), 41), both.ended_by(Amount(3))
    (True, True, False, True)
    """

    capacity: Amount
    spent: Amount
    basic: Basic | None = None
    own: Amount | None = None

    def fits(self, asked: Amount, basic: int = LIMIT) -> bool:
        """Whether a call may be charged that asks for so much, and adds up to so much epsilon."""
        if self.own is not None and not asked.fits_into(self.own):
            return False
        if self.spent.delta + asked.delta > self.capacity.delta:
            return False
        return not self.ended_by(asked) or self._fits_basic(asked, basic)

    def ended_by(self, asked: Amount) -> bool:
        """Whether it does not fit into the main account: if it is charged, that account has ended."""
        return self.alone or self.spent.main + asked.main > self.capacity.main

    def _fits_basic(self, asked: Amount, basic: int) -> bool:
        # Main parts are counted further, for the caps of analysts, as far as there are numbers.
        counted = beside_a_cap(basic, capped=self.own is not None)
        return self.basic is not None and self.basic.fits(counted) and self.spent.main + asked.main <= LIMIT

    def copies(self, each: Amount, basic: int = LIMIT) -> int | None:
        """How many such calls fit, one after another; None if one costs nothing."""
        if each == Amount(0) and (not self.alone or not basic):
            return None
        by_main = 0 if self.alone else self._whole(each.main, self.capacity.main - self.spent.main)
        counted = beside_a_cap(basic, capped=self.own is not None)
        by_basic = 0 if self.basic is None else self._whole(counted, self.basic.capacity - self.basic.spent)
        by_delta = self._whole(each.delta, self.capacity.delta - self.spent.delta)
        by_cap = None if self.own is None else each.copies_in(self.own)
        return min(max(by_main, by_basic), by_delta, LIMIT if by_cap is None else by_cap)

    @staticmethod
    def _whole(each: int, room: int) -> int:
        if room < 0:
            return 0
        return room // each if each else LIMIT

    @property
    def alone(self) -> bool:
        """Whether only the basic account lives."""
        return self.basic is not None and self.basic.alone

    def told_alone(self) -> Accounts:
        """The same once the main account has ended."""
        return self if self.basic is None else replace(self, basic=replace(self.basic, alone=True))

    @property
    def left(self) -> Amount:
        """What is left of main and delta."""
        main = 0 if self.alone else max(0, self.capacity.main - self.spent.main)
        room = Amount(main, self.capacity.delta - self.spent.delta)
        return room if self.own is None else room.cut_to(self.own)

    def taken(self, amount: Amount, basic: int = LIMIT) -> float:
        """The fraction of the budget that a charge takes: of the main account while it lives, then of the basic one."""
        if self.basic is None or not self.alone:
            return Shares(self.capacity).taken(amount)
        counted = Amount(min(basic, self.basic.capacity + 1), amount.delta)
        return Shares(Amount(self.basic.capacity, self.capacity.delta)).taken(counted)

    def share_left(self, gone: Amount = Amount(0), basic: int = 0) -> float:
        """The proportion that is left, likewise, and after a charge; negative where that does not fit."""
        if self.basic is None or not self.alone:
            return Shares(self.capacity).left(self.left, gone)
        room = Amount(0 if self.own is not None else self.basic_left, self.left.delta)
        return Shares(Amount(self.basic.capacity, self.capacity.delta)).left(room, Amount(basic, gone.delta))

    @property
    def basic_left(self) -> int:
        """What calls may still add to the basic account."""
        return 0 if self.basic is None else max(0, self.basic.capacity - self.basic.spent)

    def within(self, share: Fraction, amount: Amount, basic: int) -> bool:
        """Whether such charges stay within a fraction of the budget: of main and of delta, and once the main account
        has ended, of the basic one too.

        >>> both = Accounts(Amount(10), Amount(8), Basic(100, 60))
        >>> half = Fraction(1, 2)
        >>> both.within(half, Amount(5), 51), both.told_alone().within(half, Amount(5), 51)
        (True, False)
        """
        if not amount.fits_into(Shares(self.capacity).cap(share)):
            return False
        return self.basic is None or not self.alone or basic <= steps_down(share, self.basic.capacity)


def beside_a_cap(basic: int, *, capped: bool) -> int:
    """What a call counts for in the basic account when it is admitted: for an analyst under a cap, more than all of it.

    A cap counts main and delta, so misses that are paid in epsilons would pass it by. What adds nothing was paid.

    >>> beside_a_cap(5, capped=False), beside_a_cap(5, capped=True) == LIMIT, beside_a_cap(0, capped=True)
    (5, True, 0)
    """
    return LIMIT if capped and basic else basic


def steps_up(value: Fraction, steps: int) -> int:
    """The least number of steps that covers the value; `LIMIT`, which fits into no capacity, if it is larger.

    >>> steps_up(Fraction(1, 3), 10), steps_up(Fraction(10**30), 10) == LIMIT
    (4, True)
    """
    return min(math.ceil(value * steps), LIMIT)


def steps_down(value: Fraction, steps: int) -> int:
    """The largest number of steps within the value, below `LIMIT` so that nothing that was cut off fits.

    >>> steps_down(Fraction(1, 3), 10), steps_down(Fraction(10**30), 10) == LIMIT - 1
    (3, True)
    """
    return min(math.floor(value * steps), LIMIT - 1)
