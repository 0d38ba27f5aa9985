"""A probability known through integer bounds at any precision."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from chary.errors import InvalidParameter
from chary.numbers import Number, exact, whole

Bounds = tuple[int, int]


@dataclass(frozen=True)
class Enclosure:
    """A probability `p`, given by nested intervals that shrink to it.

    Made by `Enclosure.rational(p)`, `Enclosure.exponential(x)` (`exp(-x)`), `Enclosure.logistic(x)`
    (`1 / (1 + exp(x))`) or `Enclosure.any_of(m, x)` (`m / (m + exp(x))`), with `p` a rational in [0, 1] and `x >= 0` a
    rational; anything else raises `InvalidParameter`. Two enclosures are equal when they were made in the same way.

    >>> half = Enclosure.logistic(0)
    >>> half.bounds(3), Enclosure.exponential(1).bounds(16)
    ((4, 4), (24109, 24110))
    """

    rule: Callable[[Fraction, int], Bounds]
    argument: Fraction

    @classmethod
    def rational(cls, probability: Number) -> "Enclosure":
        """The rational number itself; 0 and 1 are allowed.

        >>> Enclosure.rational("1/3").bounds(4)
        (5, 6)
        """
        number = exact(probability, "probability")
        if not 0 <= number <= 1:
            raise InvalidParameter("probability must be at least 0 and at most 1")
        return cls(_rational, number)

    @classmethod
    def exponential(cls, exponent: Number) -> "Enclosure":
        """`exp(-exponent)`, which is 1 for the exponent 0."""
        number = _exponent(exponent)
        return cls(_exponential, number) if number else cls.rational(1)

    @classmethod
    def logistic(cls, exponent: Number) -> "Enclosure":
        """`1 / (1 + exp(exponent))`, which is 1/2 for the exponent 0."""
        number = _exponent(exponent)
        return cls(_logistic, number) if number else cls.rational(Fraction(1, 2))

    @classmethod
    def any_of(cls, others: int, exponent: Number) -> "Enclosure":
        """`others / (others + exp(exponent))`: one of so many outcomes comes up, each `exp(-exponent)` times as likely
        as a further one.

        >>> Enclosure.any_of(3, 0).bounds(4)
        (12, 12)
        """
        number = _exponent(exponent)
        size = whole(others, "others")
        return cls(_Odds(size), number) if number else cls.rational(Fraction(size, size + 1))

    def bounds(self, bits: int) -> Bounds:
        """`(lo, hi)`, the integers next to `p * 2**bits`: `lo <= p * 2**bits <= hi <= lo + 1`.

        `lo == hi` exactly when `p * 2**bits` is an integer, and more bits always give an interval inside.
        A negative number of bits raises `InvalidParameter`.
        """
        return self.rule(self.argument, whole(bits, "bits", least=0))


def _exponent(value: Number) -> Fraction:
    number = exact(value, "exponent")
    if number < 0:
        raise InvalidParameter("exponent must be at least 0")
    return number


def _rational(value: Fraction, bits: int) -> Bounds:
    scaled = value.numerator << bits
    return scaled // value.denominator, -(-scaled // value.denominator)


def _exponential(exponent: Fraction, bits: int) -> Bounds:
    return _between(exponent, bits, lambda power: power)


def _logistic(exponent: Fraction, bits: int) -> Bounds:
    return _between(exponent, bits, lambda power: power / (1 + power))


@dataclass(frozen=True)
class _Odds:
    """The rule of `any_of`; equal for equally many others."""

    others: int

    def __call__(self, exponent: Fraction, bits: int) -> Bounds:
        return _between(exponent, bits, self._chance, self.others.bit_length())

    def _chance(self, power: Fraction) -> Fraction:
        return self.others * power / (1 + self.others * power)


def _between(exponent: Fraction, bits: int, increasing: Callable[[Fraction], Fraction], above: int = 0) -> Bounds:
    """The integers around `increasing(exp(-exponent)) * 2**bits`, for a function below `2**above` times its argument.

    The value is irrational (the exponent is a nonzero rational; Lindemann), so at some precision both ends of the
    decimal enclosure lie between the same integers.
    """
    # exp(-x) < 2**-x, so the value is below one unit; this also spares the decimals of an exponent that is
    # astronomically large.
    if exponent >= bits + above:
        return 0, 1
    # bits * log10(2) digits and some: the first try nearly always tells the integers apart.
    digits = bits // 3 + 16
    while True:
        low, high = (_rational(increasing(power), bits)[0] for power in _powers(exponent, digits))
        if low == high:
            return low, low + 1
        digits *= 2


def _powers(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of `exp(-exponent)` whose ratio is about `1 + 10**(4 - digits)` at worst."""
    precision = digits + len(str(int(exponent)))
    down, up = (_context(precision, rounding) for rounding in (ROUND_FLOOR, ROUND_CEILING))
    numerator, denominator = Decimal(exponent.numerator), Decimal(exponent.denominator)
    # `Context.exp` is correctly rounded, to the nearest whatever the context says: one more step makes it a bound.
    low = down.next_minus(down.exp(up.divide(numerator, denominator).copy_negate()))
    high = up.next_plus(up.exp(down.divide(numerator, denominator).copy_negate()))
    return Fraction(low), Fraction(high)


def _context(precision: int, rounding: str) -> Context:
    return Context(prec=precision, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, clamp=0, traps=[])
