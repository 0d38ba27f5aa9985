"""What sharp tests and the values of their hits have in common in an advice: chances, errors, how a price is split."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from chary.accounting import gaussian_error_up
from chary.accounting.sharp_tests import ONE, SharpTable, SharpTest
from chary.accounting.sharp_widths import half_width
from chary.advise.affording import Wanted
from chary.mechanisms import Gaussian
from chary.numbers import exact

# Errors meet at one share to a part in 2^8 of its logarithm; two digits of it are written.
_HALVINGS: Final = 8
_LEAST_SHARE, _LARGEST_SHARE = 0.01, 0.9
_FINE_SHARES: Final = 1000


def wrong_chance(wanted: Wanted) -> Fraction:
    """How often one test may be wrong; each errs on one side only, so all of them take half of what may go wrong."""
    return (1 - exact(wanted.confidence, "confidence")) / (2 * wanted.tests)


@dataclass(frozen=True)
class HitValues:
    """Fresh Gaussian values of all hits, in steps."""

    wanted: Wanted
    rho: Fraction

    @cached_property
    def noise(self) -> Gaussian:
        """Of one value."""
        return Gaussian.for_rho(self.rho, l2_squared=self.wanted.steps**2)

    @property
    def deviation(self) -> float:
        """Of one value."""
        return math.sqrt(self.noise.sigma_squared)

    @property
    def alone(self) -> int:
        """The error of all, with the whole of what may go wrong."""
        return self._error(exact(self.wanted.confidence, "confidence"))

    @property
    def beside_tests(self) -> int:
        """The error of all with half of it, tests having the other half."""
        return self._error((1 + exact(self.wanted.confidence, "confidence")) / 2)

    def _error(self, confidence: Fraction) -> int:
        return gaussian_error_up(self.noise.sigma_squared, tests=self.wanted.hits, confidence=confidence)


def balanced_share(wanted: Wanted, event: SharpTest) -> Fraction:
    """The part of a hit's price with which its value errs as much as tests, to two digits, by halving."""
    order, price, chance = Fraction(event.order), Fraction(event.price), float(wrong_chance(wanted))

    # In steps so small that the share is the same whatever the grid.
    finely = replace(wanted, sensitivity=_FINE_SHARES, grid=1)

    def tests_err_more(share: Fraction) -> bool:
        if price * (1 - share) < Fraction(event.miss_price):
            return True
        width = half_width(SharpTest(order, price * (1 - share), event.miss_price), chance)
        return width > HitValues(finely, price * share / (order * (order - 1))).beside_tests / _FINE_SHARES

    low, high = math.log(_LEAST_SHARE), math.log(_LARGEST_SHARE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if tests_err_more(_two_digits(middle)) else (middle, high)
    return _two_digits(low)


def _two_digits(log_share: float) -> Fraction:
    return Fraction(f"{math.exp(log_share):.2g}")


def deviation(table: SharpTable) -> float:
    """In steps, of the noise which, added to a value, would be above the centre with the chances of the table.

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> round(deviation(sharp_table(order=18, price="0.19295", steps=10)))
    442
    """
    chances = np.array([chance / ONE for chance in table.chances])
    places, climbs = np.arange(len(chances) - 1), np.diff(chances) / (chances[-1] - chances[0])
    return table.spacing * math.sqrt(np.average((places - np.average(places, weights=climbs)) ** 2, weights=climbs))
