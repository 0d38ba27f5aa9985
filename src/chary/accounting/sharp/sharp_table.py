"""Tables of sharp tests: the chance of a hit at each whole number of steps from the centre, as exact rationals."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.sharp.chance_chain import ONE, chance_chain, stretch
from chary.accounting.sharp.sharp_event import SharpTest
from chary.errors import InvalidParameter
from chary.numbers import Number, probability, whole


@dataclass(frozen=True)
class SharpTable:
    """The law of a sharp test for values that one unit moves by at most a number of steps, its sensitivity.

    `hit_chance(x)` rises with x, is 1/2 at x = 0, and is one of the exact multiples `chances[j] / 2^192` of the chain
    at each j-th of `spacing` steps, one sensitivity or, at very small prices, several; between them it is mixed in
    proportion, and beyond the chain, within 2^-100 of 0 and of 1, it stays. It is the law itself, not an approximation
    of one: a sampler draws from these rationals.

    Guarantee: for values that differ by at most a sensitivity the chances satisfy the test's inequalities, both ways
    round. For whole sensitivities each pair was verified, or lies between two that were; pairs between are mixtures of
    two of them, and allowed pairs are a convex set.

    >>> table = sharp_table(order=18, price="0.19295", steps=10)
    >>> table.hit_chance(0), float(table.hit_chance(10)), float(table.hit_chance(-10**9))
    (Fraction(1, 2), 0.5100463167116..., 7.75...e-31)
    """

    test: SharpTest
    spacing: int
    chances: tuple[int, ...]
    centre: int

    def hit_chance(self, steps: int) -> Fraction:
        """The chance of a hit so many steps above the centre."""
        place, part = divmod(steps, self.spacing)
        low, high = (self.chances[self.place(place + more)] for more in (0, 1))
        return Fraction(low * (self.spacing - part) + high * part, self.spacing * ONE)

    def place(self, spacings: int) -> int:
        """Where in `chances` that of so many times the spacing above the centre is."""
        return min(max(spacings + self.centre, 0), len(self.chances) - 1)

    def false_alarm_reach(self, chance: Number) -> int:
        """The fewest steps below the centre at which a hit has at most this chance.

        A chance below 2^-100 raises `InvalidParameter`.
        """
        most = probability(chance, "chance")
        return self._fewest(lambda steps: self.hit_chance(-steps) <= most, self.centre)

    def miss_reach(self, chance: Number) -> int:
        """The fewest steps above the centre at which a miss has at most this chance; errors as below the centre."""
        most = probability(chance, "chance")
        return self._fewest(lambda steps: 1 - self.hit_chance(steps) <= most, len(self.chances) - self.centre)

    def bar(self, chance: Number) -> int:
        """The steps above the centre, usually negative, that are half way between both reaches: where a bar belongs.

        A test of a value asks for the hit chance at `value - threshold + bar(chance)`.
        """
        return (self.miss_reach(chance) - self.false_alarm_reach(chance)) // 2

    def _fewest(self, holds: Callable[[int], bool], spacings: int) -> int:
        low, high = -1, spacings * self.spacing
        if not holds(high):
            raise InvalidParameter("a sharp test's chances end 2^-100 from 0 and 1: take a larger chance")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


def sharp_table(*, order: Number, price: Number, miss_price: Number = 0, steps: int = 1) -> SharpTable:
    """The test that separates best at these prices of a hit and a miss, for a sensitivity of so many steps.

    Whole sensitivities apart, each chance is the next of the one before (`next_miss_up`), up to a part in 1e11; small
    chances fall by one factor. No test at these prices climbs faster (docs/theory.md). At prices so small that it would
    climb by less than a part in 1,000 a sensitivity (300 where misses cost far less than hits), the table has one
    chance for several of them, evenly divided, and is wider by a part in a hundred at most. Tables are kept: the first
    takes some tens of milliseconds at usual prices, whatever the steps. Errors: as of `SharpTest`, and
    `InvalidParameter` for a price too small for a table.
    """
    test = SharpTest(order, price, miss_price)
    chances, centre = chance_chain(test)
    return SharpTable(test, whole(steps, "steps") * stretch(test), chances, centre)
