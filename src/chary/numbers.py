"""Exact numbers: what a user wrote, read as a rational without binary rounding."""

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Final

from chary.errors import InvalidParameter

Number = int | float | str | Decimal | Fraction
_BITS: Final = 1000
_DIGITS: Final = 320
_SHOWN: Final = 40
_LEAST, _MOST = Fraction(1, 10**308), Fraction(10**308)


def exact(value: Number, name: str) -> Fraction:
    """The rational number the user wrote: `0.1` is one tenth, not the nearest binary fraction.

    Floats are read by their shortest decimal form, strings as decimals or as quotients such as `"1/3"`.
    NaN, infinities, Booleans, numbers of 1e308 and more or nearer to 0 than 1e-308, and anything else raise
    `InvalidParameter`.

    >>> exact(0.1, "epsilon"), exact("1/3", "epsilon"), exact(2, "epsilon")
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    if isinstance(value, Fraction):
        return value
    if type(value) is int and value.bit_length() < _BITS:
        return Fraction(value)
    if hasattr(value, "item"):
        return exact(value.item(), name)
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal, Rational)):
        raise InvalidParameter(f"{name} must be a number, not {type(value).__name__}")
    text = repr(float(value)) if isinstance(value, float) else str(value) if isinstance(value, Decimal) else value
    try:
        return _parsed(text) if isinstance(text, str) else _within(Fraction(text))
    except (ValueError, ArithmeticError):
        pass
    raise InvalidParameter(f"{name} must be a finite number below 1e308, got {_shortened(value)}")


def positive(value: Number, name: str) -> Fraction:
    """Like `exact`, and greater than zero.

    >>> positive("-1", "epsilon")
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: epsilon must be greater than 0, got -1
    """
    number = exact(value, name)
    if number.numerator <= 0:
        raise InvalidParameter(f"{name} must be greater than 0, got {plain(number)}")
    return number


def probability(value: Number, name: str) -> Fraction:
    """Like `exact`, and strictly between 0 and 1.

    >>> probability(1e-6, "delta")
    Fraction(1, 1000000)
    """
    number = exact(value, name)
    if not 0 < number.numerator < number.denominator:
        raise InvalidParameter(f"{name} must be greater than 0 and less than 1, got {plain(number)}")
    return number


def whole(value: int, name: str, *, least: int = 1) -> int:
    """A whole number of at least `least`; Booleans and floats are refused.

    >>> whole(0, "hits")
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: hits must be a whole number of at least 1, got 0
    """
    if type(value) is int and value >= least:
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidParameter(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def plain(value: Fraction | float) -> str:
    """A short decimal that never shows a small number as zero.

    >>> plain(Fraction(1, 10)), plain(1e-6), plain(Fraction(1, 3))
    ('0.1', '1e-06', '0.333333')
    """
    return f"{float(value):.6g}"


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Fraction:
    """A decimal or a quotient; the few numbers that questions come with are parsed once."""
    if "/" not in text and abs(Decimal(text).adjusted()) > _DIGITS:
        raise OverflowError
    return _within(Fraction(text))


def _within(number: Fraction) -> Fraction:
    if number and not _LEAST < abs(number) < _MOST:
        raise OverflowError
    return number


def _shortened(value: object) -> str:
    return repr(value) if isinstance(value, (str, float, Decimal)) and len(str(value)) < _SHOWN else "one that is not"
