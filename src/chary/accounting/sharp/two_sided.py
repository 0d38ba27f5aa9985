"""Two-sided sharp tests: whether a value is far from a public one, above or below."""

from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.sharp.sharp_event import SharpTest
from chary.accounting.sharp.sharp_table import SharpTable
from chary.numbers import Number


@dataclass(frozen=True)
class TwoSidedTable:
    """The law of a test whether integers are `change` steps or more away from 0, for those one unit moves by at most
    the sensitivity of the table.

    `hit_chance(x) = max(f(x - change), f(-x - change))`, f the one-sided law: as f rises, that is `f(|x| - change)`.

    Guarantee: `SharpTest`, the event of the table: |x| moves by no more than x does, so the chances of neighbours, on
    one side or across the valley, are those of two values of the one-sided test that differ by at most its sensitivity,
    also where a step of its chain is several sensitivities long. No test at these prices that hits at 0 with no more
    than `valley` rises faster on either side (docs/theory.md).

    >>> from chary.accounting.sharp.sharp_table import sharp_table
    >>> apart = TwoSidedTable(sharp_table(order=18, price="0.19295", steps=10), change=900)
    >>> apart.hit_chance(900), apart.hit_chance(-900), float(apart.valley)
    (Fraction(1, 2), Fraction(1, 2), 0.051355621145167...)
    """

    table: SharpTable
    change: int

    @property
    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.test

    @property
    def valley(self) -> Fraction:
        """The least chance of a hit, that of 0."""
        return self.hit_chance(0)

    def hit_chance(self, steps: int) -> Fraction:
        """The chance of a hit so many steps above 0, or below it."""
        return self.table.hit_chance(abs(steps) - self.change)

    def false_alarm_reach(self, chance: Number) -> int | None:
        """The most steps from 0 at which a hit has at most this chance; None where even 0 hits more often."""
        most = self.change - self.table.false_alarm_reach(chance)
        return most if most >= 0 else None

    def miss_reach(self, chance: Number) -> int:
        """The fewest steps from 0 from which on a miss has at most this chance."""
        return max(0, self.change + self.table.miss_reach(chance))
