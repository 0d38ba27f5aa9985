"""How often a sparse vector reports a truth below its bar, one test by itself."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from chary.accounting.exponentials import decimal, precise
from chary.accounting.rounding import rounded_up
from chary.accounting.sparse.noise_split import SparseNoise
from chary.accounting.sparse.one_sided import OneSidedNoise
from chary.accounting.sparse.sparse_errors import least_error
from chary.numbers import Number, positive

_LEAST = Fraction(1, 10**330)


@dataclass(frozen=True)
class SparseTails:
    """The law of one test: its noise less that of the hidden threshold, both drawn with that test alone in mind.

    All tests share the threshold's noise, so they are not independent; expectations and union bounds over many of them
    hold all the same. Two Laplace noises, or for `OneSidedNoise` two geometric ones and the shift of its bar.

    >>> from chary.accounting.sparse.one_sided import one_sided_noise
    >>> tails = SparseTails(one_sided_noise(epsilon=1, hits=3, monotone=True))
    >>> round(float(tails.at_least_up(0)), 4), tails.reach_up("0.001")
    (0.0224, 13)
    """

    noise: OneSidedNoise | SparseNoise

    def at_least_up(self, distance: int) -> Fraction:
        """The chance that a truth so many steps below the bar (negative: above) is reported, rounded up."""
        with precise():
            if isinstance(self.noise, OneSidedNoise):
                found = self._one_sided(distance + self.noise.shift)
            else:
                found = self._symmetric(distance) if distance > 0 else 1 - self._symmetric(1 - distance)
            return min(Fraction(1), max(_LEAST, rounded_up(found)))

    def reach_up(self, chance: Number) -> int:
        """The fewest steps below the bar from which on a report has at most this chance."""
        most = positive(chance, "chance")
        return least_error(lambda distance: self.at_least_up(max(distance, 0)) <= most)

    def miss_reach_up(self, chance: Number) -> int:
        """The fewest steps above the bar from which on a truth is not reported with at most this chance."""
        most = positive(chance, "chance")
        return least_error(lambda distance: self.missed_up(max(distance, 0)) <= most)

    def missed_up(self, distance: int) -> Fraction:
        """The chance that a truth so many steps above the bar is not reported, rounded up."""
        with precise():
            if isinstance(self.noise, OneSidedNoise):
                found = self._pulled_down(distance - self.noise.shift + 1)
            else:
                found = self._symmetric(distance + 1)
            return min(Fraction(1), max(_LEAST, rounded_up(found)))

    def _pulled_down(self, least: int) -> Decimal:
        """`P(R - Z >= m)` of geometric noises: the same the other way round."""
        test, hidden = self._ratios
        both = 1 - test * hidden
        if least < 0:
            return 1 - test ** (1 - least) * (1 - hidden) / both
        return hidden**least * (1 - test) / both

    def _one_sided(self, least: int) -> Decimal:
        """`P(Z - R >= m)` of geometric noises: `a^m (1 - b)/(1 - ab)`, mirrored below 0."""
        test, hidden = self._ratios
        both = 1 - test * hidden
        if least < 0:
            return 1 - hidden ** (1 - least) * (1 - test) / both
        return test**least * (1 - hidden) / both

    def _symmetric(self, least: int) -> Decimal:
        """`P(Z - R >= m)`, m >= 1, of Laplace noises: sums over the hidden one, below 0, from 0 to m - 1, and above."""
        test, hidden = self._ratios
        share, both = (1 - hidden) / (1 + hidden), 1 - test * hidden
        ratio = hidden / test
        between = Decimal(least) if ratio == 1 else (1 - ratio**least) / (1 - ratio)
        low = share * test**least / (1 + test) * (test * hidden / both + between)
        return low + hidden**least / (1 + hidden) - share * test / (1 + test) * hidden**least / both

    @property
    def _ratios(self) -> tuple[Decimal, Decimal]:
        """Of the noise of a test and of the threshold: `e^(-1/scale)`."""
        return (-1 / decimal(self.noise.test)).exp(), (-1 / decimal(self.noise.threshold)).exp()
