"""Amounts of budget: whole numbers of tiny steps, so that sums are exact and survive any storage."""

import math
from dataclasses import dataclass
from fractions import Fraction

MAIN_STEPS = 10**15
DELTA_STEPS = 10**18
LARGEST = 2**62


@dataclass(frozen=True)
class Amount:
    """What is charged or left: `main` in the filter's own unit, `delta` in steps of 1e-18.

    `main` counts steps of 1e-15 of epsilon (pure filter), steps of 1e-15 of log-moment (Renyi filter) or tokens (exact
    filter). Both lie between 0 and 2^62.

    >>> ten = Amount(0)
    >>> for _ in range(10):
    ...     ten += Amount(steps_up(Fraction(1, 10), MAIN_STEPS))
    >>> ten == Amount(steps_down(Fraction(1), MAIN_STEPS))
    True
    """

    main: int
    delta: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.main <= LARGEST and 0 <= self.delta <= LARGEST):
            raise ValueError("an amount lies between 0 and 2^62 in each part")

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.main - other.main, self.delta - other.delta)

    def times(self, count: int) -> "Amount":
        """The same amount `count` times."""
        return Amount(self.main * count, self.delta * count)

    def fits_into(self, room: "Amount") -> bool:
        """Whether neither part exceeds the room's."""
        return self.main <= room.main and self.delta <= room.delta

    def copies_in(self, room: "Amount") -> int | None:
        """How many copies fit into the room; None if a copy costs nothing.

        >>> Amount(3).copies_in(Amount(10)), Amount(0).copies_in(Amount(10))
        (3, None)
        """
        counts = [have // need for need, have in ((self.main, room.main), (self.delta, room.delta)) if need]
        return min(counts) if counts else None


def steps_up(value: Fraction, steps: int) -> int:
    """The least number of steps that covers the value."""
    return math.ceil(value * steps)


def steps_down(value: Fraction, steps: int) -> int:
    """The largest number of steps within the value."""
    return math.floor(value * steps)
