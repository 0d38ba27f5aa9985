"""Correctly rounded exponentials and logarithms at 60 digits, with the error on the safe side.

Binary floats lose the price of a small call: it is a difference of numbers near one, of the size of epsilon squared.
The standard library's decimal arithmetic rounds `exp` and `ln` correctly at any precision, so a fixed guard added to
the result covers every rounding of the short formulas in this floor.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DecimalException, localcontext
from fractions import Fraction

from chary.errors import InvalidParameter

# The price of the smallest call is of the size (1e-15)**2: at 60 digits 30 are left beside it for guard and rounding.
DIGITS = 60
GUARD = Fraction(1, 10**30)
_CONTEXT = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Beyond it callers take the pure bound, or no price: decimals would still do, but no budget could pay.
LARGEST_EXPONENT = 10**6


@contextmanager
def precise(more: int = 0) -> Iterator[None]:
    """Decimal arithmetic at 60 digits, and so many more, inside the block.

    Errors: `InvalidParameter` where numbers leave the range of decimals.
    """
    with localcontext(_CONTEXT, prec=DIGITS + more):
        try:
            yield
        except DecimalException:
            raise InvalidParameter("these numbers are too large or too small to calculate with") from None


def decimal(number: Fraction) -> Decimal:
    """The rational as a decimal; call inside `precise`."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def upper(value: Decimal) -> Fraction:
    """A rational above the true result of a short formula evaluated inside `precise`, and never below 0.

    The guard of 1e-30 exceeds the rounding of a dozen operations on numbers below 1e20.
    """
    if value.adjusted() < -DIGITS:  # as a rational, 1e-999999999 would take all memory
        value = Decimal(1).scaleb(-DIGITS)
    return max(Fraction(0), Fraction(value) + GUARD)
