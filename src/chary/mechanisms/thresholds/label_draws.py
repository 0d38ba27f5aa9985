"""Two draws of a label: where they agree it is told, free; where they do not, the answer is unclear, and charged."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chary import noise
from chary.accounting.sharp_tests import SharpTable, SharpTest
from chary.errors import InvalidParameter
from chary.mechanisms.thresholds.sharp import SharpSampler


@dataclass(frozen=True)
class LabelDraws:
    """Two draws of one of so many labels, given the own label of a value and its depth.

    `table`, whose spacing is one sensitivity, has the chance that a draw is the own label for certain, by depth;
    otherwise it is any label, all with the same chance. At depth 0 all labels are alike.

    Guarantee: `SharpTest`, a hit is that no label is told, if own label and depth of neighbours are at most the table's
    sensitivity apart: depths of one label as numbers, those of two labels by their sum (docs/theory.md).

    >>> from chary.accounting.sharp_widths import draw_table
    >>> draws = LabelDraws(draw_table(SharpTest(18, "0.19295"), labels=2, steps=1), labels=2)
    >>> draws.step(1, 10**6, noise.OperatingSystem())
    1
    """

    table: SharpTable
    labels: int

    def __post_init__(self) -> None:
        self._certain  # noqa: B018 - refuses places too far apart to draw between

    def event(self) -> SharpTest:
        """What one answer may reveal; a hit is that nothing is told."""
        return self.table.test

    def step(self, own: int, depth: int, source: noise.Source) -> int | None:
        """The label that both draws are, None where they differ."""
        first, second = (self._draw(own, depth, source) for _ in range(2))
        return first if first == second else None

    def clear_chance(self, depth: int) -> Fraction:
        """The chance that the own label is told."""
        certain = self.table.hit_chance(depth)
        return (certain + (1 - certain) / self.labels) ** 2

    def other_chance(self, depth: int) -> Fraction:
        """The chance that some one other label is told."""
        return ((1 - self.table.hit_chance(depth)) / self.labels) ** 2

    def reach(self, chance: Fraction) -> int:
        """The least depth from which on the own label is told but for at most this chance."""
        low, high = -1, len(self.table.chances) * self.table.spacing
        if 1 - self.clear_chance(high) > chance:
            raise InvalidParameter("an answer is unclear with a chance of 2^-100 at least: take a larger chance")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if 1 - self.clear_chance(middle) <= chance else (middle, high)
        return high

    def _draw(self, own: int, depth: int, source: noise.Source) -> int:
        if self._certain.step(depth, source):
            return own
        return int(noise.uniform_integers(source, self.labels, 1)[0])

    @cached_property
    def _certain(self) -> SharpSampler:
        return SharpSampler(self.table)
