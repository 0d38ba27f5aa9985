"""Reals enclosed between rationals, partitions of random words, Bernoulli draws and finite distributions: all exact."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from numbers import Rational
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.noise.source import Source, checked_size
from chary.numbers import Number, exact, positive, whole

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


# Exact draws from a finite distribution of which enclosures are known, such as `exp(-w)` over its sum.

Floats = NDArray[np.float64]

# Bounds of n weights widen by n units when they are added up: 8 bits and those of n more keep a cut point's bounds a
# unit or two apart. Fewer would only make a draw read further words, never bias it.
GUARD_BITS: Final = 8
# exp(-2000) is 0 in float64 (exp(-746) is already), so the cap changes no weight and keeps gaps within floats.
NEGLIGIBLE: Final = 2000
# Twice the errors of the weights (below 2**-49, see `near_weights`) and of their sum, with room for the roundings of
# `cumsum`. If it were too small, float64 would decide where only enclosures may.
WEIGHT_ERROR: Final = 2.0**-47
# Three roundings of numbers up to 1, of 2**-53 each (the word and both edges), and the 2**-64 the word leaves open.
WORD_ERROR: Final = 2.0**-51


class FiniteLaw(ABC):
    """A distribution on 0, 1, ..., size - 1. It depends on data, so its repr shows nothing.

    A draw reads one 64-bit word and looks it up among cut points in float64, whose errors are bounded by `near`. Where
    a cut point is closer to the word than the bound, enclosures decide, at as many bits as it takes.

    Guarantee: the distribution is exact when the source is uniform, no float rounding reaches it. No two probabilities
    need be told apart, so ties cost nothing.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of outcomes."""

    @abstractmethod
    def bounds(self, bits: int) -> list[Bounds]:
        """Integers `(lo, hi)` around each probability times `2**bits`, `hi - lo` bounded whatever the bits."""

    @abstractmethod
    def near(self) -> tuple[Floats, float]:
        """The ascending cut points between outcomes in float64, and a bound on the absolute error of each."""

    def cuts(self, bits: int) -> list[Bounds]:
        """Bounds of the cut points between outcomes, at `bits` bits."""
        guard = GUARD_BITS + self.size.bit_length()
        columns = [accumulate(column) for column in zip(*self.bounds(bits + guard), strict=True)]
        pairs = list(zip(*columns, strict=True))[:-1]
        return [(lower >> guard, min(1 << bits, -(-upper >> guard))) for lower, upper in pairs]

    def probabilities(self) -> list[float]:
        """The probabilities as floats, for reports; never used to draw."""
        bits = 2 * WORD_BITS
        return [(lower + upper) / 2 ** (bits + 1) for lower, upper in self.bounds(bits)]

    def draw(self, source: Source) -> int:
        """One outcome."""
        word = int(source.words(1, WORD_BITS)[0])
        points, error = self._near
        place, reach = word * 2.0**-WORD_BITS, error + WORD_ERROR
        least, most = (int(points.searchsorted(edge, "right")) for edge in (place - reach, place + reach))
        return least if least == most else settle(source, self.cuts, word, WORD_BITS)

    @cached_property
    def _near(self) -> tuple[Floats, float]:
        return self.near()


class ExponentialLaw(FiniteLaw):
    """`P(j)` exactly proportional to `exp(-unit * exponents[j])`, for integer exponents of any size and sign.

    Only differences of exponents matter; a negative unit makes the largest one the likeliest. No exponents, exponents
    which are not integers, or a unit of 0 raise `InvalidParameter`, whose message shows no exponent.

    Source: theory sections 2 and 8.

    >>> from chary.noise import OperatingSystem
    >>> law = ExponentialLaw([0, 2, 2**80], "0.5")
    >>> [round(probability, 4) for probability in law.probabilities()]
    [0.7311, 0.2689, 0.0]
    >>> law.draw(OperatingSystem()) in (0, 1)
    True
    """

    def __init__(self, exponents: Sequence[int] | NDArray[Any], unit: Number) -> None:
        signed = exact(unit, "unit")
        self._unit = positive(abs(signed), "unit")
        self._gaps = _gaps(exponents, from_least=signed > 0)

    @property
    def size(self) -> int:
        return len(self._gaps)

    def bounds(self, bits: int) -> list[Bounds]:
        weights = self.weights(bits + GUARD_BITS + self.size.bit_length())
        least, most = (sum(column) for column in zip(*weights, strict=True))
        return [((lower << bits) // most, -((-upper << bits) // least)) for lower, upper in weights]

    def near(self) -> tuple[Floats, float]:
        """The weights' sum is at least 1, so a cut point errs by twice the errors of all weights and of the sum."""
        sums = self.near_weights().cumsum()
        return sums[:-1] / sums[-1], self.size * WEIGHT_ERROR

    def weights(self, bits: int) -> list[Bounds]:
        """Bounds of `exp(-unit * gap)` times `2**bits`, the gap being the distance to the best exponent."""
        gaps = [int(gap) for gap in self._gaps]
        known = {gap: Enclosure.exponential(gap * self._unit).bounds(bits) for gap in set(gaps)}
        return [known[gap] for gap in gaps]

    def near_weights(self) -> Floats:
        """The weights in float64; they err by less than 2**-49.

        Three roundings of the exponent x count for `x exp(-x) <= 1/e` times as much, `exp` for 8 units at most.
        """
        found: Floats = np.exp(-float(self._unit) * self._reachable())
        return found

    def _reachable(self) -> Floats:
        """The gaps as floats, none larger than what makes a weight far smaller than any error."""
        if self._gaps.dtype == np.int64:
            return self._gaps.astype(np.float64)
        cap = int(NEGLIGIBLE / self._unit) + 1
        return np.array([float(min(gap, cap)) for gap in self._gaps], dtype=np.float64)


class RationalLaw(FiniteLaw):
    """The distribution whose probabilities are these rationals, exactly.

    Errors: `InvalidParameter`, which shows none of them, unless they are exact, not negative, and add up to 1.

    >>> RationalLaw([Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)]).probabilities()[1]
    0.5
    """

    def __init__(self, chances: Sequence[Rational]) -> None:
        known = all(isinstance(chance, Rational) and not isinstance(chance, bool) for chance in chances)
        if not known or any(chance < 0 for chance in chances) or sum(chances) != 1:
            raise InvalidParameter("probabilities must be exact rationals that are not negative and add up to 1")
        self._chances = [Fraction(chance) for chance in chances]

    @property
    def size(self) -> int:
        return len(self._chances)

    def bounds(self, bits: int) -> list[Bounds]:
        scaled = [chance * (1 << bits) for chance in self._chances]
        return [(math.floor(chance), math.ceil(chance)) for chance in scaled]

    def near(self) -> tuple[Floats, float]:
        """Sums of rationals are exact, so each cut point is rounded once."""
        return np.array([float(cut) for cut in accumulate(self._chances)][:-1], dtype=np.float64), WORD_ERROR


def _gaps(exponents: Sequence[int] | NDArray[Any], *, from_least: bool) -> NDArray[Any]:
    """How far each exponent is from the best one: int64 where that fits, else Python ints."""
    given = np.asarray(exponents)
    if given.ndim != 1 or not given.size:
        raise InvalidParameter("exponents must be a list or array of at least one integer")
    # Below 2**62 the difference of two int64 cannot wrap around; unsigned arrays could, so they go through Python ints.
    if given.dtype.kind != "i" or int(given.max()) - int(given.min()) >= 2**62:
        given = _python_integers(exponents)
    else:
        given = given.astype(np.int64)
    gaps: NDArray[Any] = given - given.min() if from_least else given.max() - given
    return gaps


def _python_integers(exponents: Sequence[int] | NDArray[Any]) -> NDArray[np.object_]:
    entries = list(exponents)
    if not all(isinstance(entry, (int, np.integer)) and not isinstance(entry, bool) for entry in entries):
        raise InvalidParameter("exponents must be integers")
    integers = np.empty(len(entries), dtype=object)
    integers[:] = [int(entry) for entry in entries]
    return integers
