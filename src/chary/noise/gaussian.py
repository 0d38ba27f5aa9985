"""Exact Gaussian noise: discrete, and normals bit by bit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chary.noise import laplace, partition
from chary.noise.source import Source, Words, checked_size, checked_variance, integers

# The discrete Gaussian distribution.

# Half of the 64 bits suffice: 32 leave a proposal undecided once in some 2**32, and then bounds and more bits decide.
WORD_BITS: Final = 32
# Eight times the error in float64 that `Proposal` derives; more would cost time, less the exactness of the
# distribution.
MARGIN: Final = 2.0**-40
# exp(-64) 2**32 is below one step of the word: the cap only raises the upper bound, never the lower one above a step.
LARGEST_EXPONENT: Final = 64.0


def discrete_gaussian(source: Source, sigma_squared: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers with `P(k)` exactly proportional to `exp(-k**2 / (2*sigma_squared))`.

    Added to an integer that changes by at most D between neighbours, it is `D**2 / (2*sigma_squared)`-zCDP.

    The distribution is exact when the source is uniform, up to values outside 64 bits, of probability below
    `exp(-2**22)`. A variance parameter outside [2**-20, 2**80] or a negative size raises `InvalidParameter`; size 0
    gives an empty array.

    Source: theory chapter 3; Canonne, Kamath, Steinke 2020, Algorithm 3 and Theorem 4.

    >>> from chary.noise import OperatingSystem
    >>> discrete_gaussian(OperatingSystem(), Fraction(1, 2**20), 3)
    array([0, 0, 0])
    """
    proposal = _proposal(checked_variance(sigma_squared))
    values = np.empty(checked_size(size), dtype=np.int64)
    filled = 0
    while filled < values.size:
        # Between 44% and 77% of the proposals are accepted; the first `missing` of those are as good as any.
        missing = values.size - filled
        accepted = proposal.draw(source, min(missing + missing // 2 + 2, laplace.CHUNK))[:missing]
        values[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return values


class Proposal:
    """Discrete Laplace proposals of scale `t = floor(sigma) + 1`, accepted with `exp(-(abs(y) - s/t)**2 / (2s))`.

    Here `s` is `sigma_squared`. The acceptance compares a random word of 32 bits with the probability in floating
    point. It is settled by exact bounds when the two are closer than the floating-point error can be.

    The error: let unit roundoff be `u = 2**-53` and `s/t < sigma`. The difference `abs(y) - s/t` is off by at most
    `2u * (sigma + abs(difference))`. So an exponent x is off by at most `u * (4*sqrt(2x) + 12x)`, below `2**-43` for x
    <= 64. NumPy's `exp` adds a few units in the last place. The relative margin of `2**-40` is eight times that.
    """

    def __init__(self, sigma_squared: Fraction) -> None:
        self._sigma_squared = sigma_squared
        scale = Fraction(isqrt(int(sigma_squared)) + 1)
        self._ladder = laplace.ladder(scale, True)
        self._center = sigma_squared / scale
        self._float_center = float(self._center)
        self._float_factor = float(-1 / (2 * sigma_squared))

    def draw(self, source: Source, size: int) -> NDArray[np.int64]:
        """The accepted ones, in order, of `size` proposals."""
        values = self._ladder.draw(source, size)
        return values[self.accept(source, values)]

    def accept(self, source: Source, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Independent decisions on the values of proposals."""
        words = source.words(values.size, WORD_BITS)
        lower, upper = self._float_bounds(values)
        accepted: NDArray[np.bool_] = words + 1.0 <= lower
        for position in np.flatnonzero((words < upper) & ~accepted).tolist():
            accepted[position] = self._settled(source, int(values[position]), int(words[position]))
        return accepted

    def _float_bounds(self, values: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the acceptance probability times `2**32`; a probability below `exp(-64)` is bounded by that."""
        difference = np.abs(values) - self._float_center
        exponents = np.maximum(difference * difference * self._float_factor, -LARGEST_EXPONENT)
        scaled = np.exp(exponents) * 2.0**WORD_BITS
        return scaled * (1 - MARGIN), scaled * (1 + MARGIN)

    def _settled(self, source: Source, value: int, word: int) -> bool:
        exponent = (abs(value) - self._center) ** 2 / (2 * self._sigma_squared)
        return partition.Enclosure.exponential(exponent).reached(source, word, WORD_BITS)


@lru_cache(maxsize=64)
def _proposal(sigma_squared: Fraction) -> Proposal:
    return Proposal(sigma_squared)


# Normal deviates as real numbers: each is known to that many bits, and more are drawn when a comparison needs them.

# A fraction, a sign and a probability fill one word of 64 bits, so a proposal costs one; bits needed later come by
# words.
FRACTION_BITS: Final = 31
CHANCE_BITS: Final = 32
MORE_BITS: Final = 64
# exp(-64) 2**32 is far below 1: from there on the cap accepts nothing for certain, and the probability 0 is left to
# bounds. Four times what the open bits of the fraction move the exponent, (k+1) 2**-32; see `_decided`. A wider margin
# costs time, a narrower one the exactness of the distribution.
NORMAL_MARGIN: Final = 2.0**-30
_CHANCES: Final = (1 << CHANCE_BITS) - 1
_SCALE: Final = 2.0**-FRACTION_BITS

Real = TypeVar("Real", float, Fraction, NDArray[np.float64])


@dataclass(frozen=True)
class Deviate:
    """A standard normal number z of which only `floor(z * 2**bits)` is known so far; it is noise, so nothing shows it.

    Guarantee: given what is known, the further bits are independent and uniform, so z has exactly the normal
    distribution however many are drawn, and when. Keep the deviate that `refined` or `reaches` returns: drawing the
    same bits twice would be another number.

    >>> from chary.noise import OperatingSystem
    >>> z = Deviate(-3, 1).refined(OperatingSystem())
    >>> -1.5 <= float(z) <= -1, z
    (True, Deviate(<secret>))
    """

    floor: int
    bits: int

    def refined(self, source: Source) -> "Deviate":
        """The same number, known to 64 bits more."""
        return Deviate(self.floor << MORE_BITS | integers(source, 1)[0], self.bits + MORE_BITS)

    def __float__(self) -> float:
        return math.ldexp(float(self.floor) + 0.5, -self.bits)

    def __repr__(self) -> str:
        return "Deviate(<secret>)"


class Decision(NamedTuple):
    """Whether a sum was at least 0, and the deviates in it as they are known by now."""

    reached: bool
    deviates: tuple[Deviate, ...]


def deviate(source: Source) -> Deviate:
    """One standard normal deviate.

    >>> from chary.noise import OperatingSystem
    >>> -40 < float(deviate(OperatingSystem())) < 40
    True
    """
    while True:
        found = _judged(source, _halves().draw_one(source), integers(source, 1)[0])
        if found is not None:
            return found


def reaches(source: Source, offset: Fraction, terms: Sequence[tuple[Fraction, Deviate]]) -> Decision:
    """Whether `offset + sum(factor * z)` over independent deviates is at least 0: exact, no rounding decides.

    Bits are drawn until the sum is told apart from 0, which ends with probability one when a factor is not 0.

    >>> from chary.noise import OperatingSystem
    >>> reaches(OperatingSystem(), Fraction(-1, 4), [(Fraction(1, 2), Deviate(1, 0))]).reached
    True
    """
    while True:
        low = high = offset
        for factor, z in terms:
            step = factor / (1 << z.bits)
            ends = (step * z.floor, step * (z.floor + 1))
            low, high = low + min(ends), high + max(ends)
        if low >= 0 or high <= 0:
            return Decision(low >= 0, tuple(z for _, z in terms))
        terms = [(factor, z.refined(source)) for factor, z in terms]


@dataclass(frozen=True, eq=False)
class Normals:
    """Many independent deviates: `floors[j] <= z_j * 2**31 <= floors[j] + 1`. Nothing shows them.

    `longer` holds the rare ones of which more than 31 bits are known.
    """

    floors: NDArray[np.int64]
    longer: dict[int, Deviate] = field(default_factory=dict)

    def near(self) -> NDArray[np.float64]:
        """The deviates in float64; each errs by at most `2**-32 + 2**-52 * abs(z)`."""
        return _middles(self.floors)

    def one(self, position: int) -> Deviate:
        """One of them."""
        return self.longer.get(position) or Deviate(int(self.floors[position]), FRACTION_BITS)

    def __repr__(self) -> str:
        return f"Normals({self.floors.size}, <secret>)"


def normals(source: Source, size: int) -> Normals:
    """`size` independent standard normal deviates; a negative size raises `InvalidParameter`.

    A whole part k is proposed with `P(k) ~ exp(-k/2)`, and a fraction x uniformly. Both are accepted with the
    probability `exp(-(k(k-1) + x(2k+x)) / 2)`, which makes their density proportional to `exp(-(k+x)**2 / 2)`; then a
    fair sign. The probability is compared with 32 random bits in float64 at the 31 bits of x that are known. Where that
    cannot decide, enclosures at more bits of both do. Since only the known bits of x decide, the others stay uniform.

    Source: Karney 2014, Algorithm N, with its tests for k and x put together.

    >>> from chary.noise import OperatingSystem
    >>> normals(OperatingSystem(), 3).near().shape
    (3,)
    """
    made = Normals(np.empty(checked_size(size), dtype=np.int64))
    filled = 0
    while filled < size:
        wanted = size - filled
        wholes = _halves().draw(source, min(2 * wanted + wanted // 8 + 8, laplace.CHUNK))
        filled += _accepted(source, wholes, made, filled)
    return made


def _accepted(source: Source, wholes: NDArray[np.int64], made: Normals, filled: int) -> int:
    """Put the accepted ones of many proposals into `made`; returns how many fitted."""
    words = source.words(wholes.size, 64)
    fractions = (words >> np.uint64(CHANCE_BITS + 1)).astype(np.int64)
    accepted, open_ = _decided(wholes, fractions, words)
    late = {}
    for position in np.flatnonzero(open_).tolist():
        found = _judged(source, int(wholes[position]), int(words[position]))
        if found is not None:
            accepted[position], late[position] = True, found
    chosen = np.flatnonzero(accepted)[: made.floors.size - filled]
    floors = wholes[chosen] << FRACTION_BITS | fractions[chosen]
    # A bit flip mirrors a number in [f, f+1]: minus it lies in [~f, ~f + 1]; plain negation would shift it by one unit.
    made.floors[filled : filled + chosen.size] = np.where(words[chosen] >> np.uint64(CHANCE_BITS) & 1, ~floors, floors)
    places = {position: filled + place for place, position in enumerate(chosen.tolist())} if late else {}
    made.longer.update({places[position]: found for position, found in late.items() if position in places})
    return chosen.size


def _decided(
    wholes: NDArray[np.int64], fractions: NDArray[np.int64], words: Words
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which proposals are accepted for certain, and which float64 leaves undecided.

    Within the known bits the exponent moves by at most `(k+1) * 2**-31`, and its rounding and that of `exp` are far
    smaller: a relative margin of `(k+2) * 2**-30` covers both.
    """
    whole = wholes.astype(np.float64)
    exponents = np.minimum(_exponent(whole, _middles(fractions)), LARGEST_EXPONENT)
    chances = np.exp(-exponents) * 2.0**CHANCE_BITS
    margins = chances * ((whole + 2) * NORMAL_MARGIN)
    drawn = (words & np.uint64(_CHANCES)).astype(np.float64)
    accepted: NDArray[np.bool_] = drawn + 1 <= chances - margins
    return accepted, (drawn < chances + margins) & ~accepted


def _judged(source: Source, whole: int, word: int) -> Deviate | None:
    """The deviate of one proposal, or None if it is rejected: by float64 where that is certain, else exactly."""
    fraction, chance = word >> CHANCE_BITS + 1, word & _CHANCES
    exponent = min(_exponent(float(whole), (fraction + 0.5) * _SCALE), LARGEST_EXPONENT)
    middle = math.exp(-exponent) * 2.0**CHANCE_BITS
    margin = middle * ((whole + 2) * NORMAL_MARGIN)
    if chance >= middle + margin:
        return None
    begun = Deviate(whole << FRACTION_BITS | fraction, FRACTION_BITS)
    known = begun if chance + 1 <= middle - margin else _settled(source, begun, chance)
    negative = word >> CHANCE_BITS & 1
    return Deviate(~known.floor, known.bits) if known and negative else known


def _settled(source: Source, known: Deviate, chance: int) -> Deviate | None:
    """Draw bits of the number (not negative) and of the probability until it is certain whether it is accepted."""
    bits = CHANCE_BITS
    while (accepted := accepts(known, chance, bits)) is None:
        known = known.refined(source)
        chance, bits = chance << MORE_BITS | integers(source, 1)[0], bits + MORE_BITS
    return known if accepted else None


def accepts(known: Deviate, chance: int, bits: int) -> bool | None:
    """Whether a proposal is accepted whose number and whose uniform probability begin like this; None if it is open
    yet.

    >>> accepts(Deviate(0, 1), 1, 2), accepts(Deviate(1, 1), 3, 2), accepts(Deviate(1, 1), 2, 2)
    (True, None, None)
    """
    whole, part = divmod(Fraction(known.floor, 1 << known.bits), 1)
    least, most = (_exponent(Fraction(whole), edge) for edge in (part, part + Fraction(1, 1 << known.bits)))
    if chance + 1 <= partition.Enclosure.exponential(most).bounds(bits)[0]:
        return True
    return False if chance >= partition.Enclosure.exponential(least).bounds(bits)[1] else None


def _middles(floors: NDArray[np.int64]) -> NDArray[np.float64]:
    return (floors.astype(np.float64) + 0.5) * _SCALE


def _exponent(whole: Real, part: Real) -> Real:
    """Minus the logarithm of the probability to accept a whole part and a fraction."""
    return (whole * (whole - 1) + part * (2 * whole + part)) / 2


def _halves() -> laplace.Ladder:
    """Geometric variables with `P(k) ~ exp(-k/2)`."""
    return laplace.ladder(Fraction(2), False)
