"""Sketches on streams: distinct elements, frequencies, robust estimators, keyed hashes."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.accounting.numerics import least
from chary.errors import InvalidParameter
from chary.mechanisms.additive import padded, unpadded
from chary.noise.partition import Bounds, Partition
from chary.numbers import Number, checked, positive, probability, whole

# Answers of many independent estimators as votes: what a private median of them needs.
#
# The database is the k copies of an estimator, each with its own key; neighbours differ in one copy. Then every number
# here is an integer that changes by at most 1, whatever the estimator. Source: Hassidim, Kaplan, Mansour, Matias and
# Stemmer (2020).

Votes = NDArray[np.int64]

# A choice among that many cells takes milliseconds, and a step of 0.7 per cent already reaches 10**300 with them,
# beyond which powers of the ratio would leave the floats.
MOST_CELLS: Final = 100_000
LARGEST: Final = 10**300


@dataclass(frozen=True)
class Grid:
    """The public answers 0, 1, (1+step), (1+step)**2, ... up to the first that reaches `largest`.

    Errors: `InvalidParameter` for a step that is not positive, `largest` below 1, or more than 100,000 cells.

    >>> grid = Grid("0.5", largest=4)
    >>> grid.values
    (0.0, 1.0, 1.5, 2.25, 3.375, 5.0625)
    >>> grid.cells([0, 1.2, 3, 1e9]).tolist()
    [0, 1, 4, 5]
    """

    step: Number
    largest: int

    def __post_init__(self) -> None:
        checked(self, step=positive)
        if whole(self.largest, "largest") > LARGEST:
            raise InvalidParameter("the largest answer may be 10**300 at most")
        if math.log(self.largest) > (MOST_CELLS - 3) * math.log1p(self._ratio - 1):
            raise InvalidParameter("the grid would have more than 100,000 cells: choose a larger step")

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The answer that each cell stands for."""
        powers = math.ceil(math.log(self.largest) / math.log(self._ratio)) + 1
        return (0.0, *(self._ratio**power for power in range(powers)))

    def cells(self, estimates: Sequence[float]) -> NDArray[np.int64]:
        """The cell of each estimate: the nearest power in ratio, 0 below `1/sqrt(1+step)`, the last for the largest.

        NaN and negative estimates fall into cell 0, since a refusal would tell about one copy.
        """
        clean = np.nan_to_num(np.asarray(estimates, dtype=np.float64), posinf=self.values[-1])
        return np.searchsorted(self._edges, clean, side="right").astype(np.int64)

    def votes(self, estimates: Sequence[float]) -> Votes:
        """The number of copies in each cell; each copy has one vote."""
        return np.bincount(self.cells(estimates), minlength=len(self.values)).astype(np.int64)

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return np.array(self.values[1:]) / math.sqrt(self._ratio)

    @property
    def _ratio(self) -> float:
        return 1 + float(Fraction(self.step))


def rank_utilities(votes: Votes) -> Votes:
    """For each cell, minus the number of copies that would have to move for it to hold the median.

    The distance of the cell's ranks `[below, below + here]` from k/2, rounded up. It is an integer, 0 for the median's
    cell, and of sensitivity 1 when one copy changes its vote, appears or disappears.

    >>> rank_utilities(np.array([1, 0, 5, 2, 3]))
    array([-5, -5,  0, -1, -3])
    """
    copies, upto = int(votes.sum()), np.cumsum(votes)
    short, over = (copies + 1) // 2 - upto, upto - votes - copies // 2
    utilities: Votes = np.minimum(-np.maximum(short, over), 0)
    return utilities


# Keyed hashing of elements to 64-bit words, the same in Python and in SQL.

Element = int | float | str | bytes
Words = NDArray[np.uint64]

# 64 characters fill one block of SHA-256, so every element starts from the same secret state after it.
KEY_DIGITS: Final = 64


def new_key(source: noise.Source) -> str:
    """A secret key: 256 random bits as 64 hexadecimal digits, one block of SHA-256."""
    return source.words(KEY_DIGITS // 16, 64).tobytes().hex()


def checked_key(key: str) -> str:
    """A key of 64 lower-case hexadecimal digits; the error does not show it."""
    if not isinstance(key, str) or len(key) != KEY_DIGITS or set(key) - set("0123456789abcdef"):
        raise InvalidParameter(f"a key has {KEY_DIGITS} lower-case hexadecimal digits")
    return key


def words(key: str, values: Iterable[Any]) -> Words:
    """The first 64 bits of SHA-256 of the key, the kind of the element and its text; `None` gives no word.

    Elements are ints, floats, strings and bytes, or a NumPy array of them. Elements that are equal in Python (`1`,
    `1.0`, `True`; `0.0` and `-0.0`) have the same word, and so have all NaN. Other types raise `InvalidParameter`.

    A database computes the same words by hashing `key || 'i' || column` for a column of integers, and
    `key || 's' || column` for one of text. It reads the first 16 hexadecimal digits as a number.

    >>> words("0" * 64, [7, "seven", 7.0]) == words("0" * 64, np.array([7, 7, 7]))
    array([ True, False,  True])
    """
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    start = checked_key(key).encode()
    digests = [sha256(start + canonical(value)).digest()[:8] for value in listed if value is not None]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def digest(key: str, value: Element) -> bytes:
    """All 32 bytes of the keyed hash of one element."""
    return sha256(key.encode() + canonical(value)).digest()


def canonical(value: Any) -> bytes:
    """The kind of an element (one letter) and its text.

    >>> canonical(12), canonical(12.0), canonical("12"), canonical(0.5)
    (b'i12', b'i12', b's12', b'f0.5')
    """
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if hasattr(value, "item"):
        return canonical(value.item())
    raise InvalidParameter(f"an element is an int, a float, a string or bytes, not {type(value).__name__}")


def _float(value: float) -> bytes:
    # 1.0 and 1 are one element for Python, and must be one for the hash, or a count would be off by what was converted.
    return b"i%d" % int(value) if value.is_integer() else b"f" + repr(value).encode()


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    bool: lambda value: b"i%d" % value,
    int: lambda value: b"i%d" % value,
    float: _float,
    str: lambda value: b"s" + value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: b"b" + value,
}

# Frequencies of a stream in little space, by a count sketch.

# A digest is eight words of 32 bits, one a row: seven is the largest odd depth, and 31 bits (one is the sign) give a
# column of any power of two evenly.
MOST_WIDTH: Final = 2**16
MOST_DEPTH: Final = 7


class CountSketch:
    """How often an item occurred, without bias and with a standard deviation of at most `||f|| / sqrt(width)` a row.

    `||f||` is the root of the sum of squared frequencies. Every item has a column and a sign in each of `depth` rows.
    The estimate is the median of its signed counters. It lies off by more than three of these deviations only if most
    rows do, each with probability 1/9 at most. It is right for streams and items that were fixed beforehand, and it is
    not private. Source: Charikar, Chen and Farach-Colton (2002).

    Errors: `InvalidParameter` for a width that is no power of two up to 2**16, or a depth not odd or above 7.

    >>> sketch = CountSketch("0" * 64, width=256, depth=5)
    >>> sketch.update("a", 40)
    >>> sketch.update("b")
    >>> sketch.estimate("a"), sketch.estimate("never seen")
    (40.0, 0.0)
    """

    def __init__(self, key: str, *, width: int, depth: int) -> None:
        if whole(width, "width") > MOST_WIDTH or width & (width - 1):
            raise InvalidParameter("width must be a power of two of at most 2**16")
        if whole(depth, "depth") > MOST_DEPTH or depth % 2 == 0:
            raise InvalidParameter("depth must be odd and at most 7")
        self._key = checked_key(key)
        self._counters = np.zeros((depth, width))

    def update(self, item: Element, amount: float = 1) -> None:
        """`amount` more of the item; it may be negative."""
        columns, signs = self._place(item)
        self._counters[np.arange(len(columns)), columns] += amount * signs

    def estimate(self, item: Element) -> float:
        """The frequency of the item so far."""
        columns, signs = self._place(item)
        return float(np.median(signs * self._counters[np.arange(len(columns)), columns]))

    def _place(self, item: Element) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        depth, width = self._counters.shape
        words: NDArray[np.int64] = np.frombuffer(digest(self._key, item), dtype=">u4")[:depth].astype(np.int64)
        return (words >> 1) % width, np.where(words & 1, 1.0, -1.0)


# Registers that hold the largest geometric value of their elements: their distribution and what it says about the
# number.

Registers = NDArray[np.uint8]
Floats = NDArray[np.float64]

# Rates below 2**-40 cannot be told from 0 with 2**16 registers; 60 halvings leave less than a float's last digit of the
# exponent. 2**120 makes integers of scores, whose sums are exact.
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
    """`place` for one word.

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
    """The distribution of a register: elements in Poisson number, `phantoms` more, truncated to [least, most].

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
        if not self._rises(held, 2.0**_LOWEST_LOG):
            return 0.0
        log = least(lambda log: not self._rises(held, 2.0**log), _LOWEST_LOG, self.most + 1.0, times=_HALVINGS)
        return float(2.0**log)

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
    """Registers that hold nothing but their dummy elements, exactly by their distribution."""
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


# Distinct counts by a Flajolet-Martin sketch that is itself private (Smith, Song, Thakurta 2020).

# exp(-epsilon) is rounded up, so dummy elements and the least value only ever grow; 256 bits tell it from 1 for any
# epsilon that 48 bits of a register can hide.
_BITS: Final = 256


@dataclass(frozen=True)
class Distinct:
    """Public parameters of a private distinct count.

    Each element falls into one of `registers` registers with a geometric value; a register holds the largest value of
    its elements and of `phantoms` random ones, and at least `least`. The relative error is about
    `1.04 / sqrt(registers)` of the elements and dummy elements together, so choose registers well below `epsilon * n`.

    Guarantee: publishing all registers is epsilon-DP for adding or removing one element; a unit that may hold m
    distinct elements has m epsilon. It rests on the keyed hash being a random function and on the key staying secret.
    `Phantoms` states what may be published of one sketch.

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
        checked(self, epsilon=positive)
        checked_registers(self.registers)
        if self._decay_up >= 1 or self.least + 2 > largest_value(self.registers):
            raise InvalidParameter("epsilon is too small for the values of the registers, about 2**-48 at least")

    @property
    def phantoms(self) -> int:
        """The least number of dummy elements in each register: `1 + 1/phantoms <= exp(epsilon)`."""
        return math.ceil(self._decay_up / (1 - self._decay_up))

    @property
    def least(self) -> int:
        """The least value of a register: `1 - 2**-least >= exp(-epsilon)`."""
        return (math.ceil(1 / (1 - self._decay_up)) - 1).bit_length()

    def event(self) -> Pure:
        """What one published outcome may reveal about one element under add/remove (replace: twice that)."""
        return Pure(self.epsilon)

    def start(self, source: noise.Source) -> "Phantoms":
        """An empty sketch with a fresh key and fresh dummy elements."""
        registers = drawn(self.law(1), source, self.registers)
        return Phantoms(self, new_key(source), frozenset([_name(source)]), registers.tobytes())

    def law(self, veils: int) -> RegisterLaw:
        """The distribution of a register with the dummy elements of that many draws."""
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
    """Registers with dummy elements: secret state, its repr shows public parameters only.

    Formal guarantees, for streams that differ by all occurrences of one element:

    1. Any function of the sketch at one time is epsilon-DP, all of them together too.
    2. Any functions at several times are epsilon-DP together if between two times that updates separate there was a
       `veil`. Without it they are not private at all: a register that rises reveals that something arrived.
    3. Merging keeps 1 and 2 if only the merged sketch is published, or if the parts are forks and every element
       occurs in one part only.

    Published sketches of the same key that share elements or dummy elements have no joint guarantee: two registers with
    the same large value betray a common element. Start a new sketch for each question.

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
        """The sketch with more elements, hashed here; `words` defines what an element is."""
        return self.update(words(self.key, values))

    def update(self, hashed: Words) -> "Phantoms":
        """The sketch with more elements, given by their words under its key (a `uint64` array)."""
        return self._holding(raised(self._array(), hashed))

    def veil(self, source: noise.Source) -> "Phantoms":
        """The sketch with fresh dummy elements, which hide arrivals since the last outcome. It costs accuracy."""
        fresh = drawn(self.distinct.law(1), source, self.distinct.registers)
        return replace(self._holding(np.maximum(self._array(), fresh)), veils=self.veils | {_name(source)})

    def merge(self, other: "Phantoms") -> "Phantoms":
        """The sketch of the elements of both, with the dummy elements of both; `InvalidParameter` for another origin.

        Associative, commutative and idempotent: dummy elements that both sketches inherited count once.
        """
        if (self.distinct, self.key) != (other.distinct, other.key):
            raise InvalidParameter("only sketches of the same parameters and key can be merged")
        return replace(self._holding(np.maximum(self._array(), other._array())), veils=self.veils | other.veils)

    def fork(self, source: noise.Source) -> "Phantoms":
        """An empty sketch with this one's key and dummy elements of its own, to be merged into it."""
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


# Streaming estimators that are not private: right on streams which do not depend on their answers.


@runtime_checkable
class Estimator(Protocol):
    """One number about a stream, kept in little space with internal randomness (the key).

    Implementations: `FlajoletMartin` (distinct elements), `SecondMoment` (sum of squared frequencies). They are
    accurate for any stream that was fixed beforehand; a stream that depends on their answers may fool them.
    """

    def update(self, item: Element) -> None:
        """One more item of the stream."""
        ...

    def estimate(self) -> float:
        """The number for the stream so far, at least 0."""
        ...


class FlajoletMartin:
    """The number of distinct elements, by maximum likelihood, with a relative error of about 1.04/sqrt(registers).

    No privacy and no secret beyond the key: for private counts see `Distinct`. Source: Flajolet and Martin (1985).

    >>> sketch = FlajoletMartin("0" * 64, registers=1024)
    >>> for item in range(3000):
    ...     sketch.update(item)
    >>> 2700 < sketch.estimate() < 3300
    True
    """

    def __init__(self, key: str, registers: int) -> None:
        self._key = checked_key(key)
        self._registers = bytearray(checked_registers(registers))
        self._law = RegisterLaw(0, 0, largest_value(registers))
        self._answer: float | None = 0.0

    def update(self, item: Element) -> None:
        """The item is in the stream."""
        word = int.from_bytes(digest(self._key, item)[:8], "big")
        position, value = place_one(word, len(self._registers))
        if value > self._registers[position]:
            self._registers[position] = value
            self._answer = None

    def estimate(self) -> float:
        """The number of distinct elements so far."""
        if self._answer is None:
            rate = self._law.most_likely(self._law.counts(np.frombuffer(self._registers, dtype=np.uint8)))
            self._answer = len(self._registers) * rate
        return self._answer


class SecondMoment:
    """The sum of squared frequencies, with a relative error of about sqrt(2 / 256), 9 per cent.

    The mean of 256 squared sums with random signs. Source: Alon, Matias and Szegedy (1996).

    >>> sketch = SecondMoment("0" * 64)
    >>> sketch.update("a", amount=-30)
    >>> sketch.estimate()
    900.0
    """

    def __init__(self, key: str) -> None:
        self._key = checked_key(key)
        self._sums = np.zeros(256)

    def update(self, item: Element, amount: float = 1) -> None:
        """`amount` more of the item; it may be negative."""
        bits = np.unpackbits(np.frombuffer(digest(self._key, item), dtype=np.uint8))
        self._sums += amount * (2.0 * bits - 1)

    def estimate(self) -> float:
        """The sum of squared frequencies so far."""
        return float(np.mean(self._sums**2))


# Counters for individual privacy accounting ([TCT] Algorithm 5): how many published answers each unit took part in.

_ABOUT = b"chary"
_UNITS = pa.schema([("unit", pa.int64()), ("used", pa.int64())])
_ROOM = 2**14  # for some ten thousand units, compressed, and little beside the pages that a charge writes anyway


@dataclass(frozen=True, eq=False)
class Counters:
    """The counters of one stream: secret state, shown nowhere.

    `used` has a row for each unit that took part in a published answer. Its columns are the id `unit` (int64 or string,
    ascending) and `used`, from 1 to `hits`; with `hits` it is out. `published` counts the published answers, so that
    the state of a stream never returns to an earlier one. A counter beyond `hits` raises `InvalidParameter`: it would
    be a unit that paid more than it had.

    >>> counters = Counters(hits=2).raised(pa.table({"unit": [7, 3], "used": [1, 2]}))
    >>> counters
    Counters(hits=2, <secret>)
    >>> counters.rooms().to_pydict()
    {'unit': [3, 7], 'room': [0, 1]}
    """

    hits: int
    published: int = 0
    used: Any = field(default_factory=_UNITS.empty_table)

    def __post_init__(self) -> None:
        whole(self.hits, "hits")
        counts = self.used["used"].to_numpy()
        if len(counts) and not 1 <= counts.min() <= counts.max() <= self.hits:
            raise InvalidParameter("a unit takes part in at least one and at most `hits` published answers")

    def raised(self, took: Any) -> "Counters":
        """The counters after one more published answer; `took` says which units took part, and in how many keys."""
        both = [part.cast(_schema(part)) for part in (self.used, took) if len(part)]
        if not both:
            return Counters(self.hits, self.published + 1)
        ordered = pa.concat_tables(both).sort_by("unit").combine_chunks()
        units = ordered["unit"].combine_chunks()
        changes = pc.not_equal(units[1:], units[:-1]).to_numpy(zero_copy_only=False)
        firsts = np.flatnonzero(np.concatenate([[True], changes]))
        sums = np.add.reduceat(ordered["used"].to_numpy(), firsts)
        return Counters(self.hits, self.published + 1, pa.table({"unit": units.take(firsts), "used": sums}))

    def rooms(self) -> Any:
        """How often each counted unit may still take part: columns `unit` and `room`."""
        return pa.table({"unit": self.used["unit"], "room": pc.subtract(self.hits, self.used["used"])})

    def dump(self) -> bytes:
        """The state for the ledger's secret table: compressed, integer ids as differences.

        How many units it counts is secret, and no public number bounds it: its length is that of the next power of two.
        """
        units = self.used["unit"].combine_chunks()
        if pa.types.is_int64(units.type):
            units = pa.array(np.diff(units.to_numpy(), prepend=np.int64(0)))
        table = pa.table({"unit": units, "used": self.used["used"]})
        about = {_ABOUT: json.dumps([self.hits, self.published]).encode()}
        sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema.with_metadata(about), options=options) as writer:
            writer.write_table(table)
        return padded(bytes(sink.getvalue()), _ROOM)

    @classmethod
    def load(cls, data: bytes) -> "Counters":
        """The state that `dump` wrote."""
        with pa.ipc.open_stream(unpadded(data)) as reader:
            table = reader.read_all()
        hits, published = json.loads(table.schema.metadata[_ABOUT])
        units = table["unit"].combine_chunks()
        if pa.types.is_int64(units.type):
            units = pa.array(np.cumsum(units.to_numpy()))
        return cls(hits, published, pa.table({"unit": units, "used": table["used"]}))

    def __repr__(self) -> str:
        return f"Counters(hits={self.hits}, <secret>)"


def _schema(table: Any) -> Any:
    kind = pa.int64() if pa.types.is_int64(table.schema.field("unit").type) else pa.large_string()
    return pa.schema({"unit": kind, "used": pa.int64()})
