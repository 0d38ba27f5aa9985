"""Exact numbers and their checks, and the words in which numbers and privacy costs are reported."""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational, Real
from typing import Any, Final

from chary.errors import InvalidParameter

# Exact numbers: what a user wrote, read as a rational without binary rounding.

Number = int | float | str | Decimal | Fraction
# 1,000 bits are below 1e308: numbers well within the range of floats pass at once, all others are looked at closely.
_BITS: Final = 1000
# A decimal such as 1e999999999 would take all memory as a fraction: it is refused by its exponent alone.
_DIGITS: Final = 320
# Numbers are exact, and no longer than these 1,233 digits: what they are multiplied with stays short too.
_LONGEST: Final = 4096
_LONGEST_TEXT: Final = 2 * 1300
# One step of the amounts of ledgers; down to it the guard of 1e-30 in `upper` covers every formula of a cost.
SMALLEST_EPSILON = Fraction(1, 10**15)
# The largest integer of any parameter: nothing that is counted exceeds it.
LARGEST_WHOLE: Final = 10**308 - 1
# A message shows what was typed, not pages of it.
_SHOWN: Final = 40
_LEAST, _MOST = Fraction(1, 10**308), Fraction(10**308)


def exact(value: Number, name: str) -> Fraction:
    """The rational number the user wrote: `0.1` is one tenth, not the nearest binary fraction.

    Floats are read by their shortest decimal form, strings as decimals or as quotients such as `"1/3"`, NumPy scalars
    as what they hold. `InvalidParameter` for NaN, infinities, Booleans, arrays of several numbers and anything else.
    The same for numbers of 1e308 and more or nearer to 0 than 1e-308, however they are written, and those of more than
    1,233 digits.

    >>> exact(0.1, "epsilon"), exact("1/3", "epsilon"), exact(2, "epsilon")
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    if type(value) is Fraction and max(value.numerator.bit_length(), value.denominator.bit_length()) < _BITS:
        return value
    if type(value) is int and value.bit_length() < _BITS:
        return Fraction(value)
    read = _held(value)
    if isinstance(read, bool) or not isinstance(read, (int, float, str, Decimal, Rational)):
        raise InvalidParameter(f"{name} must be a number, not {type(read).__name__}")
    text = repr(float(read)) if isinstance(read, float) else str(read) if isinstance(read, Decimal) else read
    try:
        return _parsed(text) if isinstance(text, str) else _within(Fraction(text))
    except (ValueError, ArithmeticError):
        pass
    if isinstance(read, str) and (set(read) - set("0123456789.+-/eE") or not any(map(str.isdigit, read))):
        raise InvalidParameter(f"{name} must be a finite number, such as 0.5, got {_shortened(read)}")
    raise InvalidParameter(
        f"{name} must be a finite number below 1e308, no nearer to 0 than 1e-308, in 1,233 digits, got "
        f"{_shortened(read)}"
    )


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
    """An integer of at least `least`, below 1e308; Booleans and floats are refused.

    >>> whole(0, "hits")
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: hits must be an integer of at least 1, got 0
    """
    if type(value) is int and least <= value <= LARGEST_WHOLE:
        return value
    read = _held(value)
    if isinstance(read, bool) or not isinstance(read, int) or read < least:
        raise InvalidParameter(f"{name} must be an integer of at least {least}, got {_shortened(read)}")
    if read > LARGEST_WHOLE:
        raise InvalidParameter(f"{name} must be an integer below 1e308, got {_shortened(read)}")
    return read


def flag(value: bool, name: str) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if type(value) is not bool:
        raise InvalidParameter(f"{name} is True or False")
    return value


def plain(value: Fraction | float) -> str:
    """A short decimal that never shows a small number as zero.

    >>> plain(Fraction(1, 10)), plain(1e-6), plain(Fraction(1, 3))
    ('0.1', '1e-06', '0.333333')
    """
    return f"{float(value):.6g}"


def float_or_nan(value: Any) -> float:
    """A value of any kind as a float; NaN for what is no number or beyond all floats.

    >>> float_or_nan("2.5"), float_or_nan(None)
    (2.5, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


@lru_cache(maxsize=1024)
def natural_number(value: Fraction) -> int | float:
    """A number as people read it: integers stay whole, others are the nearest float.

    >>> natural_number(Fraction(6, 2)), natural_number(Fraction(1, 4))
    (3, 0.25)
    """
    return value.numerator if value.denominator == 1 else float(value)


def _parsed(text: str) -> Fraction:
    """A decimal or a quotient; the few numbers that questions come with are parsed once."""
    if len(text) > _LONGEST_TEXT:
        raise OverflowError
    if "/" not in text and abs(Decimal(text).adjusted()) > _DIGITS:
        raise OverflowError
    return _within(Fraction(text))


def _within(number: Fraction) -> Fraction:
    long = max(number.numerator.bit_length(), number.denominator.bit_length()) > _LONGEST
    if long or (number and not _LEAST < abs(number) < _MOST):
        raise OverflowError
    return number


def _held(value: object) -> object:
    """What a NumPy scalar, or an array of one, holds; anything else as it is.

    A float that is longer than Python's own holds only itself: then its shortest decimal form is what was written.
    """
    try:
        held = value.item()  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return value
    return str(held) if isinstance(held, Real) and type(held) is type(value) else held


def _shortened(value: object) -> str:
    """What was given, for a message; of numbers with thousands of digits Python writes none."""
    if isinstance(value, Rational):
        bits = max(int(value.numerator).bit_length(), int(value.denominator).bit_length())
        if bits >= _BITS:
            return f"one of {bits} bits"
    told = repr(value)
    return told if len(told) < _SHOWN else f"{told[: _SHOWN // 2]}..."


def per_call(value: Number) -> Fraction:
    """An epsilon of a call: positive, and not below the resolution of budgets, 1e-15."""
    epsilon = positive(value, "epsilon")
    if epsilon < SMALLEST_EPSILON:
        raise InvalidParameter("epsilon must be at least 1e-15, the resolution of budgets")
    return epsilon


def failing(value: Number) -> Fraction:
    """A delta: 0 or a probability."""
    delta = exact(value, "delta")
    return delta if delta == 0 else probability(delta, "delta")


# Fields of frozen dataclasses, which are read, checked and kept while one is made.

Check = Callable[[Any, str], Any]


def set_fields(made: object, /, **values: object) -> None:
    """Sets fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(made, name, value)


def checked(made: object, /, **checks: Check) -> None:
    """Sets fields to what their checks read from them, such as `checked(self, epsilon=positive, hits=whole)`."""
    set_fields(made, **{name: check(getattr(made, name), name) for name, check in checks.items()})


def optional(check: Check) -> Check:
    """The check of a field that may be None."""
    return lambda value, name: None if value is None else check(value, name)


def work_out(*values: object) -> None:
    """Does nothing. Its arguments were evaluated, which raises the errors of values that cannot be computed."""


# Words for people: proportions of the budget, what was charged and what is left, without what accounting is made of.

# What the accounting is made of. People see costs instead; `to_dict` and `--json` have all of it.
ACCOUNTANTS: Final = frozenset(
    {"alpha", "delta", "epsilon", "epsilon_per_call", "lambda", "log_moment", "order", "rho", "spent"}
)

# Of a value with noise that is outside of its interval: moved to what is possible, values would be biased.
RAW: Final = "a value outside of its interval is the raw noisy one, where the truth cannot be"

# Words for a dataset whose main account has ended (`amounts.Accounts`).
MISSES_ENDED: Final = "free misses have ended"
EVERY_CHARGED: Final = "every call is charged its epsilon, hit or miss"


_LEAST_PERCENT: Final = 1e-9


def percent(share: Fraction | float) -> str:
    """A proportion for people: three digits, and more where fewer would make something of it nothing or all.

    >>> percent(0.02714), percent(1e-7), percent(0.999964), percent(1)
    ('2.71 %', '1e-05 %', '99.996 %', '100 %')
    >>> percent(1 + 1e-15), percent(1e-15)
    ('more than 100 %', 'less than 1e-09 %')
    """
    told = 100 * float(share)
    if 0 < told < _LEAST_PERCENT:
        return f"less than {_LEAST_PERCENT} %"
    for digits in range(3, 12):
        if told == 100 or float(f"{told:.{digits}g}") != 100:
            return f"{told:.{digits}g} %"
    return "more than 100 %" if told > 100 else "less than 100 %"


def sure(confidence: Fraction | float) -> str:
    """A confidence for people.

    >>> sure(0.95)
    '95 % confidence'
    """
    return f"{percent(confidence)} confidence"


CONFIDENT: Final = sure(Fraction(19, 20))


def sentence(said: str) -> str:
    """Words as the beginning of a sentence; what is code in them stays as it is.

    >>> sentence("open another by session.start(SparseVector(...))")
    'Open another by session.start(SparseVector(...))'
    >>> sentence("session.start(...) opens another")
    'session.start(...) opens another'
    """
    return said if re.match(r"\w+[.(=]", said) else said[:1].upper() + said[1:]


def counted(number: int, one: str, many: str) -> str:
    """This many of something, for people.

    >>> counted(1, "call", "calls"), counted(20, "call", "calls")
    ('1 call', '20 calls')
    """
    return f"{number} {one if number == 1 else many}"


LAST: Final = "another such call does not fit, or ends free misses"
REPEATED: Final = "stored under this key before, free now"


def asked_again(before: int) -> str:
    """What is said of an answer that was charged although the same question had been answered.

    >>> asked_again(7)
    'the same question as call 7, charged again: no idempotency key was given'
    """
    return f"the same question as call {before}, charged again: no idempotency key was given"


def priced(charged: float, left: float) -> str:
    """What was charged and what is left, as proportions of the budget, for people.

    >>> priced(0.027, 0.613), priced(0, 0.613)
    ('charged 2.7 %, 61.3 % left', 'free, 61.3 % left')
    """
    return f"{f'charged {percent(charged)}' if charged else 'free'}, {percent(left)} left"


def shown(value: Any) -> str:
    """A value of an answer as people read it.

    >>> shown(None), shown(True), shown([1, 2.5]), shown({"key": "north", "lead": 0.25})
    ('-', 'yes', '1, 2.5', 'key north, lead 0.25')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and "__str__" not in type(value).__dict__:
        return ", ".join(map(shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(inner)}" for name, inner in value.items() if name not in ACCOUNTANTS)
    return plain(value) if isinstance(value, (float, Fraction)) else str(value)


def between(low: float | None, high: float | None, number: Callable[[float], str] = plain) -> str:
    """An interval in words.

    >>> between(482.0, 542.0), between(None, 219.0), between(3, None), between(None, None)
    ('482 to 542', 'up to 219', '3 or more', 'anything')
    """
    if low is None:
        return "anything" if high is None else f"up to {number(high)}"
    return f"{number(low)} or more" if high is None else f"{number(low)} to {number(high)}"
