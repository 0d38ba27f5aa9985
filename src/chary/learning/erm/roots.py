"""Square roots of rationals between rationals."""

from fractions import Fraction
from math import isqrt
from typing import Final

# 60 significant bits: above the root by less than a float's last digit.
BITS: Final = 60


def root_bounds(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Multiples of `2**-bits` next to the root of a number that is not negative: `low**2 <= value < high**2`.

    >>> root_bounds(Fraction(2), 3)
    (Fraction(11, 8), Fraction(3, 2))
    """
    whole = isqrt((value.numerator << 2 * bits) // value.denominator)
    return Fraction(whole, 1 << bits), Fraction(whole + 1, 1 << bits)


def root_up(value: Fraction) -> Fraction:
    """A bound on the root from above, which is the root itself where that is a short number.

    >>> root_up(Fraction(1, 4)), float(root_up(Fraction(2)))
    (Fraction(1, 2), 1.414213562373095...)
    """
    bits = max(BITS, BITS + (value.denominator.bit_length() - value.numerator.bit_length()) // 2)
    low, high = root_bounds(value, bits)
    return low if low**2 == value else high
