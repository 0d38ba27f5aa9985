"""Distinct counts by a Flajolet-Martin sketch that is itself private (Smith, Song, Thakurta 2020)."""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.streaming.hashing import Words, checked_key, new_key, words
from chary.mechanisms.streaming.registers import RegisterLaw, Registers, checked_registers, drawn, largest_value, raised
from chary.numbers import Number, positive, probability, whole

# exp(-epsilon) is rounded up, so phantoms and the least value only ever grow; 256 bits tell it from 1 for any epsilon
# that 48 bits of a register can hide.
_BITS: Final = 256


@dataclass(frozen=True)
class Distinct:
    """Public parameters of a private distinct count.

    Each element falls into one of `registers` registers with a geometric value; a register holds the largest value of
    its elements and of `phantoms` random ones, and at least `least`. The relative error is about
    `1.04 / sqrt(registers)` of the elements and phantoms together, so choose registers well below `epsilon * n`.

    Guarantee: publishing all registers is epsilon-DP for adding or removing one element; a unit that may hold m
    distinct elements has m epsilon. It rests on the keyed hash being a random function and on the key staying secret.
    What may be published of one sketch is said under `Phantoms`.

    Errors: `InvalidParameter` for an epsilon too small for 48 bits, or registers not a power of two from 2**4 to 2**16.

    >>> distinct = Distinct("0.1", registers=1024)
    >>> distinct.phantoms, distinct.least, distinct.event()
    (10, 4, Pure(bound=Fraction(1, 10)))
    >>> round(distinct.error_bar(100_000))
    7007
    """

    epsilon: Number
    registers: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        checked_registers(self.registers)
        if self._decay_up >= 1 or self.least + 2 > largest_value(self.registers):
            raise InvalidParameter("epsilon is too small for the values of the registers, about 2**-48 at least")

    @property
    def phantoms(self) -> int:
        """The least number of phantom elements in each register: `1 + 1/phantoms <= exp(epsilon)`."""
        return math.ceil(self._decay_up / (1 - self._decay_up))

    @property
    def least(self) -> int:
        """The least value of a register: `1 - 2**-least >= exp(-epsilon)`."""
        return (math.ceil(1 / (1 - self._decay_up)) - 1).bit_length()

    def event(self) -> Pure:
        """What one published outcome may reveal about one element under add/remove (replace: twice that)."""
        return Pure(self.epsilon)

    def start(self, source: noise.Source) -> "Phantoms":
        """An empty sketch with a fresh key and fresh phantoms."""
        registers = drawn(self.law(1), source, self.registers)
        return Phantoms(self, new_key(source), frozenset([_name(source)]), registers.tobytes())

    def law(self, veils: int) -> RegisterLaw:
        """The law of a register with the phantoms of that many draws."""
        return RegisterLaw(veils * self.phantoms, self.least, largest_value(self.registers))

    def error_bar(self, n: int, *, veils: int = 1, confidence: float = 0.95) -> float:
        """How far, in elements, an estimate of n elements lies off with this probability (normal approximation)."""
        probability(confidence, "confidence")
        rate = max(whole(n, "n", least=0), 1) / self.registers
        deviation = math.sqrt(self.registers / self.law(whole(veils, "veils")).information(rate))
        return float(scipy.special.ndtri((1 + confidence) / 2)) * deviation

    @cached_property
    def _decay_up(self) -> Fraction:
        upper = noise.Enclosure.exponential(self.epsilon).bounds(_BITS)[1]
        return Fraction(upper, 1 << _BITS)


@dataclass(frozen=True)
class Phantoms:
    """Registers with phantoms: secret state, its repr shows public parameters only.

    Formal guarantees, for streams that differ by all occurrences of one element:

    1. Any function of the sketch at one time is epsilon-DP, all of them together too.
    2. Any functions at several times are epsilon-DP together if between two times that updates separate there was a
       `veil`. Without it they are not private at all: a register that rises reveals that something arrived.
    3. Merging keeps 1 and 2 if only the merged sketch is published, or if the parts are forks and every element
       occurs in one part only.

    Published sketches of the same key that share elements or phantoms have no joint guarantee: two registers with the
    same large value betray a common element. Start a new sketch for each question.

    >>> from chary.noise import OperatingSystem
    >>> sketch = Distinct(2, registers=1024).start(OperatingSystem()).add(range(5000)).add(range(1000))
    >>> sketch
    Phantoms(<secret>, Distinct(epsilon=Fraction(2, 1), registers=1024), veils=1)
    >>> 3500 < sketch.estimate() < 6500
    True
    """

    distinct: Distinct
    key: str
    veils: frozenset[str]
    registers: bytes

    def __post_init__(self) -> None:
        checked_key(self.key)
        whole(len(self.veils), "the number of veils")
        values = self._array()
        least, most = self.distinct.least, largest_value(self.distinct.registers)
        if len(values) != self.distinct.registers or values.min() < least or values.max() > most:
            raise InvalidParameter("the registers do not fit the parameters of the sketch")

    def __repr__(self) -> str:
        return f"Phantoms(<secret>, {self.distinct!r}, veils={len(self.veils)})"

    def add(self, values: Any) -> "Phantoms":
        """With more elements, hashed here; see `words` for what an element is."""
        return self.update(words(self.key, values))

    def update(self, hashed: Words) -> "Phantoms":
        """With more elements, given by their words under this sketch's key (a `uint64` array)."""
        return self._holding(raised(self._array(), hashed))

    def veil(self, source: noise.Source) -> "Phantoms":
        """With fresh phantoms, which hide the arrivals since the last outcome; each veil costs accuracy."""
        fresh = drawn(self.distinct.law(1), source, self.distinct.registers)
        return replace(self._holding(np.maximum(self._array(), fresh)), veils=self.veils | {_name(source)})

    def merge(self, other: "Phantoms") -> "Phantoms":
        """The sketch of the elements of both, with the phantoms of both; `InvalidParameter` for another origin.

        Associative, commutative and idempotent: phantoms that both sketches inherited count once.
        """
        if (self.distinct, self.key) != (other.distinct, other.key):
            raise InvalidParameter("only sketches of the same parameters and key can be merged")
        return replace(self._holding(np.maximum(self._array(), other._array())), veils=self.veils | other.veils)

    def fork(self, source: noise.Source) -> "Phantoms":
        """An empty sketch with this one's key and phantoms of its own, to be merged into it."""
        return replace(self.distinct.start(source), key=self.key)

    def estimate(self) -> float:
        """The most likely number of distinct elements; it never falls when a register rises."""
        law = self.distinct.law(len(self.veils))
        return self.distinct.registers * law.most_likely(law.counts(self._array()))

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        public = [str(self.distinct.epsilon), self.distinct.registers]
        return json.dumps([*public, self.key, sorted(self.veils), self.registers.hex()]).encode()

    @classmethod
    def load(cls, data: bytes) -> "Phantoms":
        """The state that `dump` wrote."""
        epsilon, count, key, veils, registers = json.loads(data)
        return cls(Distinct(epsilon, count), key, frozenset(veils), bytes.fromhex(registers))

    def _array(self) -> Registers:
        return np.frombuffer(self.registers, dtype=np.uint8)

    def _holding(self, registers: Registers) -> "Phantoms":
        return replace(self, registers=registers.tobytes())


def _name(source: noise.Source) -> str:
    return source.words(2, 64).tobytes().hex()
