"""Amounts of budget: whole numbers of tiny steps, so that sums are exact and survive any storage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from chary.errors import InvalidParameter

# An epsilon of 1e-15 is one step, and 2**62 of them are an epsilon of 4,611; deltas are finer by a thousand, for one of
# 1e-18 is below any that is promised. Totals below 2**62 fit the 64 bits of every engine.
MAIN_STEPS = 10**15
DELTA_STEPS = 10**18
LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Amount:
    """A price, a cap or a balance.

    `main` counts steps of 1e-15 of epsilon (pure filter), steps of 1e-15 of log-moment (Renyi filter) or tokens (exact
    filter); `delta` counts steps of 1e-18. Both are whole numbers from 0 to 2^62; anything else, Booleans and floats
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
            raise InvalidParameter(f"main must be a whole number from 0 to 2^62, got {self.main!r}")
        if type(self.delta) is not int or not 0 <= self.delta <= LIMIT:
            raise InvalidParameter(f"delta must be a whole number from 0 to 2^62, got {self.delta!r}")

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
        """How many copies fit into the room; None if a copy costs nothing.

        >>> Amount(3).copies_in(Amount(10)), Amount(0).copies_in(Amount(10))
        (3, None)
        """
        counts = [have // need for need, have in ((self.main, room.main), (self.delta, room.delta)) if need]
        return min(counts) if counts else None

    def cut_to(self, room: Amount) -> Amount:
        """As much of it as the room holds, part by part.

        >>> Amount(3, 1).cut_to(Amount(2, 5))
        Amount(main=2, delta=1)
        """
        return Amount(min(self.main, room.main), min(self.delta, room.delta))


@dataclass(frozen=True, slots=True)
class Shares:
    """Amounts as shares of a capacity: the one place where a fraction of a budget is worked out.

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
        """What a charge takes, as a fraction, to compare or to go on with."""
        return max(Fraction(part, max(1, whole)) for part, whole in self._parts(amount))

    def left(self, room: Amount, after: Amount | None = None) -> float:
        """What is left, and where so much of it is charged, after that; negative where it does not fit."""
        gone = Amount(0) if after is None else after
        shares = ((room.main - gone.main, self.capacity.main), (room.delta - gone.delta, self.capacity.delta))
        return min((part / whole for part, whole in shares if whole), default=0.0)

    def cap(self, share: Fraction) -> Amount:
        """The amount that a share is, rounded down in both parts."""
        return Amount(steps_down(share, self.capacity.main), steps_down(share, self.capacity.delta))

    def _parts(self, amount: Amount) -> tuple[tuple[int, int], tuple[int, int]]:
        return (amount.main, self.capacity.main), (amount.delta, self.capacity.delta)


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
