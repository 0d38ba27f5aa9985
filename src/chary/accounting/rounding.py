"""Results of short formulas as rationals of 18 digits, on the safe side: what ledgers keep as public parameters."""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

_DIGITS: Final = 18
_GUARD: Final = Decimal("1e-25")
_UP, _DOWN = (
    Context(prec=_DIGITS, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN) for rounding in (ROUND_CEILING, ROUND_FLOOR)
)


def rounded_up(value: Decimal) -> Fraction:
    """A rational above a positive result whose relative error is below 1e-25; call inside `precise`.

    >>> rounded_up(Decimal(1) / 3)
    Fraction(166666666666666667, 500000000000000000)
    """
    return Fraction(_UP.plus(value * (1 + _GUARD)))


def rounded_down(value: Decimal) -> Fraction:
    """A rational below a positive result whose relative error is below 1e-25; call inside `precise`.

    >>> rounded_down(Decimal(2) / 3)
    Fraction(333333333333333333, 500000000000000000)
    """
    return Fraction(_DOWN.plus(value * (1 - _GUARD)))
