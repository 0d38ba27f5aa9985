"""Numbers on the safe side: results of short formulas as rationals of 18 digits, which ledgers keep; floats."""

import math
import sys
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

from chary.errors import InvalidParameter

# 18 digits keep what ledgers store short, and lose at most 1e-17 of it, always against the analyst.
_DIGITS: Final = 18
# Short formulas at 60 digits err by less even where 30 of them cancel, and the 18 digits that are kept do not show it.
_GUARD: Final = Decimal("1e-25")
LARGEST_FLOAT: Final = sys.float_info.max
# As a rational, a decimal such as 1e-999999999 would take all memory: no number of so many digits is made.
_FAR: Final = 1000
_UP, _DOWN = (
    Context(prec=_DIGITS, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN) for rounding in (ROUND_CEILING, ROUND_FLOOR)
)


def rounded_up(value: Decimal) -> Fraction:
    """A rational above a positive result whose relative error is below 1e-25; call inside `precise`.

    Results below 1e-1000 are told as that. Errors: `InvalidParameter` for results above 1e1000.

    >>> rounded_up(Decimal(1) / 3)
    Fraction(166666666666666667, 500000000000000000)
    """
    if value and value.adjusted() < -_FAR:
        return Fraction(1, 10**_FAR)
    return Fraction(_UP.plus(_near(value) * (1 + _GUARD)))


def rounded_down(value: Decimal) -> Fraction:
    """A rational below a positive result whose relative error is below 1e-25; call inside `precise`.

    Errors: `InvalidParameter` for results above 1e1000 or below 1e-1000.

    >>> rounded_down(Decimal(2) / 3)
    Fraction(333333333333333333, 500000000000000000)
    """
    return Fraction(_DOWN.plus(_near(value) * (1 - _GUARD)))


def _near(value: Decimal) -> Decimal:
    """The value; `InvalidParameter` for one of more than a thousand digits before or behind its point."""
    if value and abs(value.adjusted()) > _FAR:
        raise InvalidParameter("these numbers lie too far apart: a result has more than a thousand digits")
    return value


def float_up(value: Fraction) -> float:
    """The least float that is not below the value; infinite beyond all floats.

    >>> float_up(Fraction(1, 10)) == 0.1, Fraction(float_up(Fraction(3, 10))) >= Fraction(3, 10)
    (True, True)
    """
    try:
        found = float(value)
    except OverflowError:
        return math.inf if value > 0 else -LARGEST_FLOAT
    return found if found >= value else math.nextafter(found, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float that is not above the value."""
    return -float_up(-value)
