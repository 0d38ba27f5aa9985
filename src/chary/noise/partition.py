"""Reals enclosed between rationals as finely as a draw needs, partitions of words, and Bernoulli draws."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.noise.source import Source, checked_size
from chary.numbers import Number, exact, whole

# A probability known through integer bounds at any precision.

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
        """`others / (others + exp(exponent))`: one of this many outcomes comes up, each `exp(-exponent)` times as
        likely as a further one.

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

    def reached(self, source: Source, word: int, bits: int) -> bool:
        """Whether a uniform real number whose first `bits` bits are `word` is below `p`; the source says the rest."""
        return settle(source, self.cuts, word, bits) == 0

    def cuts(self, bits: int) -> list[Bounds]:
        """The cut point at `p`, as `Partition` takes it."""
        return [self.bounds(bits)]


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


def powers(unit: Fraction, gaps: Sequence[int], bits: int) -> list[Bounds]:
    """Bounds of `exp(-unit * level) * 2**bits` for the level 0 and each level that is one of the gaps above the last.

    Each is rounded outwards, so it errs by a unit more than the one before at most.

    >>> powers(Fraction(1), [1, 2], 16)
    [(65536, 65536), (24109, 24110), (3262, 3264)]
    """
    ratios = {gap: Enclosure.exponential(unit * gap).bounds(bits) for gap in set(gaps)}

    def times(power: Bounds, gap: int) -> Bounds:
        return power[0] * ratios[gap][0] >> bits, -(-power[1] * ratios[gap][1] >> bits)

    return list(accumulate(gaps, times, initial=(1 << bits, 1 << bits)))


# A finite distribution as a partition of the unit interval, drawn by looking up 16 random bits.

Cuts = Callable[[int], Sequence[Bounds]]
"""Ascending cut points of [0, 1] at a precision: `cuts(bits)[i]` bounds the i-th one times `2**bits`."""

# A table of 65,536 bytes stays in the processor's cache, and of that many cells at most 254 are open.
LOOKUP_BITS: Final = 16
WORD_BITS: Final = 64
# Up to here bisection of single words is faster than the table; either way decides nothing but speed.
SCALAR_SIZE: Final = 64

# Outcomes are at most 254, so this byte is free to mark the cells that contain a cut point.
_OPEN: Final = 255


class Partition:
    """The distribution of the number of cut points which a uniform real number of [0, 1) has reached.

    With cut points `c_0 <= c_1 <= ...`, outcome `k` has exactly the probability `c_k - c_(k-1)`. The real number is
    drawn lazily: 16 bits decide nearly always by a table of 65,536 outcomes. Cells which contain a cut point are "open"
    and draw a whole 64-bit word more, of which the first 48 bits count. A word on which a cut point falls is settled by
    more and more words against cut points of as many bits.

    At most 254 cut points. Small draws skip the table and start with 64 bits.
    """

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts
        self._lower, self._upper = _columns(cuts(WORD_BITS))

    def draw(self, source: Source, size: int) -> NDArray[np.uint8]:
        """`size` independent outcomes."""
        if size <= SCALAR_SIZE:
            words = source.words(size, WORD_BITS).tolist()
            return np.array([self.place(source, word) for word in words], dtype=np.uint8)
        cells = source.words(size, LOOKUP_BITS)
        outcomes = self._table.take(cells)
        positions = np.flatnonzero(outcomes == _OPEN)
        tails = source.words(positions.size, WORD_BITS) >> np.uint64(LOOKUP_BITS)
        words = (cells[positions].astype(np.uint64) << np.uint64(WORD_BITS - LOOKUP_BITS)) | tails
        outcomes[positions] = [self.place(source, word) for word in words.tolist()]
        return outcomes

    def place(self, source: Source, word: int) -> int:
        """The outcome for a number whose first 64 bits are `word`; `source` is asked for more in case of a tie."""
        least = bisect_right(self._upper, word)
        if least == len(self._lower) or word < self._lower[least]:
            return least
        return settle(source, self._cuts, word, WORD_BITS)

    @cached_property
    def _table(self) -> NDArray[np.uint8]:
        table = np.full(1 << LOOKUP_BITS, _OPEN, dtype=np.uint8)
        cell = 1 << (WORD_BITS - LOOKUP_BITS)
        # Starts round up and ends down: a cell gets an outcome only if all numbers in it have it.
        starts = [0] + [-(-upper // cell) for upper in self._upper]
        ends = [lower // cell for lower in self._lower] + [1 << LOOKUP_BITS]
        for outcome, (start, end) in enumerate(zip(starts, ends, strict=True)):
            table[start:end] = outcome
        return table


def settle(source: Source, cuts: Cuts, word: int, bits: int) -> int:
    """The number of cut points reached by a real number whose first `bits` bits are `word`, drawing the rest.

    Ends with probability one: every 64 bits more leave it open with a probability of about `2**-64` a cut point.
    """
    while True:
        lower, upper = _columns(cuts(bits))
        least = bisect_right(upper, word)
        if least == bisect_right(lower, word):
            return least
        word = word << WORD_BITS | int(source.words(1, WORD_BITS)[0])
        bits += WORD_BITS


def _columns(bounds: Sequence[Bounds]) -> tuple[list[int], list[int]]:
    return [lower for lower, _ in bounds], [upper for _, upper in bounds]


# The Bernoulli distribution of an enclosed probability.


def bernoulli(source: Source, probability: Enclosure, size: int) -> NDArray[np.bool_]:
    """`size` independent Booleans, each true with exactly the enclosed probability.

    The probabilities 0 and 1 are allowed. A negative size raises `InvalidParameter`; size 0 gives an empty array.

    Source: theory chapter 3.

    >>> from chary.noise import OperatingSystem
    >>> bernoulli(OperatingSystem(), Enclosure.rational(1), 2)
    array([ True,  True])
    """
    # One cut point at p: outcome 0, below it, has the probability p, so the Boolean is the negation of the outcome.
    misses = _partition(probability).draw(source, checked_size(size))
    return np.logical_not(misses)


@lru_cache(maxsize=256)
def _partition(probability: Enclosure) -> Partition:
    return Partition(probability.cuts)
