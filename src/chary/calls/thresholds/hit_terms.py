"""What the opening of a run fixes for its sharp tests: the price of a hit, kept in the ledger, and what it buys."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Self

from chary.accounting.sharp_tests import LEAST_SPEED, SharpTest, least_price
from chary.accounting.sharp_widths import half_width
from chary.calls.thresholds.sharpness import Sharpness, Wanted, Width, price_of, rho_of, sharpness_at
from chary.filters import RenyiFilter
from chary.mechanisms import Gaussian

_BITS: Final = 8


@dataclass(frozen=True)
class HitTerms:
    """The price of a hit, the part of it that its value takes, and the chance of an error for which bars are placed."""

    filter: RenyiFilter
    price: Fraction
    share: Fraction
    chance: Fraction | None = None

    @classmethod
    def found(
        cls, wanted: Wanted, filter_: RenyiFilter, sensitivity: Fraction, share: Fraction, width: Width = half_width
    ) -> Self:
        """What follows from what is wanted, of values that one unit moves by so much."""
        return cls(filter_, price_of(wanted, filter_, sensitivity, share, width), share, wanted.chance)

    @property
    def event(self) -> SharpTest:
        """What a test may reveal, with the value of its hit."""
        return SharpTest(self.filter.order, self.price)

    def slower(self, part: Fraction) -> Self:
        """Tests that climb with this part of the speed, at most 1: their price is its square.

        It never falls below that of the slowest test that has a table.
        """
        least = least_price(self.filter.order, LEAST_SPEED) / (1 - self.share) * Fraction(1001, 1000)
        return replace(self, price=min(self.price, max(self.price * part**2, least)))

    def sharpness(self, sensitivity: int = 1, grid: Fraction = Fraction(1)) -> Sharpness:
        """The test of values that one unit moves by so many steps of the grid."""
        return sharpness_at(self.filter, self.price, self.share, self.chance, sensitivity, grid)

    def noise(self, sensitivity: int = 1) -> Gaussian:
        """That of the value of a hit."""
        return Gaussian.for_rho(rho_of(self.price * self.share, self.filter.order), l2_squared=sensitivity**2)


def coarse_down(size: int) -> int:
    """A size taken down to its 8 leading bits, by less than 1 %: not a new table for every row that comes.

    >>> coarse_down(1000), coarse_down(48842)
    (1000, 48640)
    """
    spare = max(0, size.bit_length() - _BITS)
    return size >> spare << spare
