"""Laws with their numbers rounded up to few digits, so that a law is the same on every machine."""

from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.schedules import Law
from chary.numbers import Number

# Laws hold at every chance; at this one, which a late run of a schedule has, they are as tight as the exact tail.
TIGHT: Final = Fraction(1, 10**9)
# A few float operations, upwards, and twelve digits.
MARGIN: Final = 1e-6
DIGITS: Final = 12


def law_up(power: Number, factor: float, choices: Decimal, log_power: Number, base: float) -> Law:
    """The law with its numbers rounded up.

    >>> law_up(1, 0.1, Decimal(3), 1, 0).choices
    Fraction(4, 1)
    """
    return Law(power, number_up(factor), _whole_up(choices), log_power, number_up(base) if base else 0)


def number_up(value: float) -> Fraction:
    """A little more than the number, with few digits; the margin covers the roundings of float64 in it."""
    return Fraction(f"{value * (1 + MARGIN):.{DIGITS}g}")


def _whole_up(value: Decimal) -> int:
    return int(((1 + Decimal(MARGIN)) * value).to_integral_value(ROUND_CEILING))
