"""Registers that hold the largest geometric value of their elements: their law and what it says about the number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.errors import InvalidParameter
from chary.mechanisms.streaming.hashing import Words
from chary.noise.partition import Bounds, Partition

Registers = NDArray[np.uint8]
Floats = NDArray[np.float64]

# Rates below 2**-40 cannot be told from 0 with 2**16 registers; 60 halvings leave less than a float's last digit of the
# exponent. 2**120 makes whole numbers of scores, whose sums are exact.
_LOWEST_LOG: Final = -40.0
_HALVINGS: Final = 60
_SCALE: Final = 2.0**120


def checked_registers(count: int) -> int:
    """A power of two from 2**4 to 2**16, which leaves at least 48 bits of a word for the geometric value."""
    if isinstance(count, bool) or count not in (2**bits for bits in range(4, 17)):
        raise InvalidParameter("registers must be a power of two from 2**4 to 2**16")
    return int(count)


def largest_value(count: int) -> int:
    """The cap of the geometric value: one more than the bits that are left of a word."""
    return 66 - count.bit_length()


def place(words: Words, count: int) -> tuple[NDArray[np.intp], Registers]:
    """The register of each word (its first bits) and its geometric value, `P(X > k) = 2**-k` below the cap.

    The value is one more than the number of zeros at the end of the remaining bits.

    >>> place(np.array([0b0101 << 60 | 0b100, 0], dtype=np.uint64), 16)
    (array([5, 0]), array([ 3, 61], dtype=uint8))
    """
    if words.dtype != np.uint64 or words.ndim != 1:
        raise InvalidParameter("words must be a one-dimensional array of unsigned 64-bit integers")
    rest = largest_value(count) - 1
    marked = words | np.uint64(1 << rest)
    lowest = marked & (~marked + np.uint64(1))
    values = np.bitwise_count(lowest - np.uint64(1)) + np.uint8(1)
    return (words >> np.uint64(rest)).astype(np.intp), values


def place_one(word: int, count: int) -> tuple[int, int]:
    """The same for one word.

    >>> place_one(0b0101 << 60 | 0b100, 16)
    (5, 3)
    """
    rest = largest_value(count) - 1
    marked = word | 1 << rest
    return word >> rest, (marked & -marked).bit_length()


def raised(registers: Registers, words: Words) -> Registers:
    """New registers: the larger of each register and the values of its words."""
    # `maximum.at` and not `result[positions]`, which would keep only the last of several words in one register.
    result = registers.copy()
    positions, values = place(words, len(registers))
    np.maximum.at(result, positions, values)
    return result


@dataclass(frozen=True)
class RegisterLaw:
    """The law of a register: elements in Poisson number, `phantoms` more, truncated to [least, most].

    `P(M <= k) = exp(-rate 2**-k) (1 - 2**-k)**phantoms` for least <= k < most.
    """

    phantoms: int
    least: int
    most: int

    def counts(self, registers: Registers) -> list[int]:
        """How many registers hold least, least + 1, ..., most."""
        held = np.bincount(registers, minlength=self.most + 1)
        return [int(count) for count in held[self.least :]]

    def most_likely(self, counts: Sequence[int]) -> float:
        """The rate of largest likelihood, which never falls when a register rises.

        The score of one register grows with its value and falls with the rate, so the root of their sum is unique and
        monotone. Halving decides by exact sums of rounded scores, hence rounding cannot break the order either. Rates
        below `2**-40` are 0; registers that are all at the cap give `2**(most + 1)`.
        """
        held = [(level, count) for level, count in enumerate(counts) if count]
        low, high = _LOWEST_LOG, self.most + 1.0
        if not self._rises(held, 2.0**low):
            return 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._rises(held, 2.0**middle) else (low, middle)
        return float(2.0**high)

    def information(self, rate: float) -> float:
        """The Fisher information of one register about its rate."""
        return float((self.probabilities(rate) * self.scores(rate) ** 2).sum())

    def probabilities(self, rate: float) -> Floats:
        """The probabilities of least, ..., most."""
        below = self._phantom_logs - rate * self._part
        middle = -np.exp(below[1:]) * np.expm1(-self._step(rate))
        return np.concatenate([np.exp(below[:1]), middle, -np.expm1(below[-1:])])

    def scores(self, rate: float) -> Floats:
        """The derivative of the log-likelihood of least, ..., most at a positive rate; never decreasing."""
        part, last = self._part, self._part[-1]
        with np.errstate(over="ignore"):
            middle = part[1:] / np.expm1(self._step(rate)) - part[1:]
            top = last / np.expm1(rate * last - self._phantom_logs[-1])
        return np.maximum.accumulate(np.concatenate([-part[:1], middle, [top]]))

    def _rises(self, held: list[tuple[int, int]], rate: float) -> bool:
        scores = (self.scores(rate) * _SCALE).tolist()
        return sum(count * int(scores[level]) for level, count in held) > 0

    def _step(self, rate: float) -> Floats:
        """`ln P(M <= k) - ln P(M <= k-1)` for least < k < most."""
        return rate * self._part[1:] + self._phantom_step

    @cached_property
    def _part(self) -> Floats:
        return np.ldexp(1.0, -np.arange(self.least, self.most))

    @cached_property
    def _phantom_logs(self) -> Floats:
        return self.phantoms * np.log1p(-self._part) if self.phantoms else 0 * self._part

    @cached_property
    def _phantom_step(self) -> Floats:
        part = self._part[1:]
        return self.phantoms * (np.log1p(-part) - np.log1p(-2 * part)) if self.phantoms else 0 * part


def drawn(law: RegisterLaw, source: noise.Source, count: int) -> Registers:
    """Registers that hold nothing but their phantoms, exactly by their law."""
    return _partition(law).draw(source, count) + np.uint8(law.least)


@lru_cache(maxsize=64)
def _partition(law: RegisterLaw) -> Partition:
    def cuts(bits: int) -> list[Bounds]:
        return [power_bounds(level, law.phantoms, bits) for level in range(law.least, law.most)]

    return Partition(cuts)


def power_bounds(level: int, exponent: int, bits: int) -> Bounds:
    """Integers around `(1 - 2**-level)**exponent * 2**bits`, at most two apart.

    >>> power_bounds(1, 3, 6), power_bounds(2, 2, 4)
    ((8, 8), (9, 9))
    """
    spare = level + 2 * exponent.bit_length() + 8
    one = 1 << (bits + spare)
    lower = upper = one
    # Exact, as `spare` holds `level` more bits; only the squarings round, outwards.
    base = one - (one >> level)
    for digit in bin(exponent)[2:]:
        factor = base if digit == "1" else one
        lower, upper = lower * lower * factor // one**2, -(-upper * upper * factor // one**2)
    return lower >> spare, -(-upper >> spare)
