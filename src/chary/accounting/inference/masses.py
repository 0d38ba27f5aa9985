"""Unnormalised probabilities of any size, enclosed: a power of e kept exactly, times a decimal between two bounds.

Decimals are correctly rounded integer arithmetic, so what is worked out here is the same on every processor, and a
share that is compared with a level is on the safe side of its true value by a guard that no rounding reaches.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from chary.accounting.exponentials import LARGEST_EXPONENT, decimal

# Relative. Sixty digits lose at most 12 by the finest noise and 20 by differences of tails: 1e-28 is left.
GUARD: Final = Decimal("1e-25")
ONE: Final = Decimal(1)
# Searches for the values of one watch meet the same whole multiples again and again.
KEPT: Final = 1 << 13


class Mass(NamedTuple):
    """A number between `exp(-exponent) low` and `exp(-exponent) high`, up to the guard."""

    exponent: Fraction
    low: Decimal
    high: Decimal


def share_up(part: Sequence[Mass], rest: Sequence[Mass]) -> Decimal:
    """An upper bound of `part / (part + rest)`, sums of positive masses, at most 1; call inside `precise`.

    >>> from chary.accounting.exponentials import precise
    >>> third = [Mass(Fraction(10**30), ONE, ONE)], [Mass(Fraction(10**30), Decimal(2), Decimal(2))]
    >>> with precise():
    ...     round(share_up(*third), 20)
    Decimal('0.33333333333333333333')
    """
    if not part:
        return Decimal(0)
    base = min(mass.exponent for mass in (*part, *rest))
    high = _sum(mass.high * power(mass.exponent - base) for mass in part)
    low = _sum(mass.low * power(mass.exponent - base) for mass in rest if mass.exponent - base <= LARGEST_EXPONENT)
    return min(ONE, high / (high + low) * (1 + GUARD))


def level_down(chance: Fraction) -> Decimal:
    """A level that is certainly kept wherever an upper bound is at most this; call inside `precise`."""
    return decimal(chance) * (1 - GUARD)


@lru_cache(maxsize=KEPT)
def power(exponent: Fraction) -> Decimal:
    """`exp(-exponent)`, or for exponents beyond a million what it is there; call inside `precise()`."""
    return (-decimal(min(exponent, Fraction(LARGEST_EXPONENT)))).exp()


def _sum(terms: Iterable[Decimal]) -> Decimal:
    return sum(terms, Decimal(0))
