"""Exact draws from a finite distribution of which enclosures are known, such as `exp(-w)` over its sum."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from numbers import Rational
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.noise.partition import WORD_BITS, Bounds, Enclosure, settle
from chary.noise.source import Source
from chary.numbers import Number, exact, positive

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
        powers = {gap: Enclosure.exponential(gap * self._unit).bounds(bits) for gap in set(gaps)}
        return [powers[gap] for gap in gaps]

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
