"""How often a sharp test reports a truth below its bar."""

from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.sharp.sharp_table import SharpTable
from chary.numbers import Number


@dataclass(frozen=True)
class SharpTails:
    """The tails of a sharp test whose bar lies `bar` steps above the centre of its table (usually below: negative).

    >>> from chary.accounting.sharp.sharp_table import sharp_table
    >>> tails = SharpTails(sharp_table(order=18, price="0.19295"), bar=-40)
    >>> tails.reach_up("0.001"), tails.at_least_up(tails.reach_up("0.001")) <= Fraction(1, 1000)
    (189, True)
    """

    table: SharpTable
    bar: int

    def at_least_up(self, distance: int) -> Fraction:
        """The chance of a hit of a truth so far below the bar: the law itself."""
        return self.table.hit_chance(self.bar - distance)

    def reach_up(self, chance: Number) -> int:
        """The fewest steps below the bar from which on a hit has at most this chance; never below 0."""
        return max(0, self.table.false_alarm_reach(chance) + self.bar)

    def miss_reach_up(self, chance: Number) -> int:
        """The fewest steps above the bar from which on a miss has at most this chance; never below 0."""
        return max(0, self.table.miss_reach(chance) - self.bar)
