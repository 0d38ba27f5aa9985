"""Sources of random bits: the operating system, and seeds for tests; uniform integers and sums."""

import os
from fractions import Fraction
from typing import Any, Final, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import positive, whole

# Where random bits come from: the operating system, or a seed for tests.

Words = NDArray[np.unsignedinteger]

# A word by itself costs 0.75 us of system call, one of 512 costs 0.03 us, so small draws share a page. From 64 words on
# a call of their own costs less than handing out entries one by one.
POOL_BYTES: Final = 4096
POOLED_REQUEST_BYTES: Final = 512
AHEAD: Final = 1024

_TYPES: Final[dict[int, type[np.unsignedinteger]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

# 64-bit integers fetched ahead. `list.pop` and `list.extend` are atomic, so no two threads (and no signal handler)
# can be handed the same entry, and a popped entry leaves no trace here.
_pool: Final[list[int]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)


@runtime_checkable
class Source(Protocol):
    """Uniform, independent random words.

    Implementations: `OperatingSystem` (the only one fit for privacy) and `Seeded` (tests).
    """

    def words(self, count: int, bits: int) -> Words:
        """A one-dimensional array of `count` unsigned words of 8, 16, 32 or 64 bits; it may be read-only."""
        ...


class OperatingSystem:
    """The operating system's cryptographic generator.

    Guarantees:

    - every word is made of bytes of `os.urandom`, each byte used at most once in this process;
    - it is safe to share between threads, and between a parent and its forked children. Requests of at most 512 bytes
      are served from a pool of 4096 bytes which all instances share, and which a child drops before its first draw.

    `words` raises `InvalidParameter` for a negative count or a width other than 8, 16, 32 and 64.

    >>> OperatingSystem().words(3, 16).dtype
    dtype('uint16')
    """

    def words(self, count: int, bits: int) -> Words:
        """Return `count` fresh words of the given width."""
        size = _bytes(count, bits)
        if size > POOLED_REQUEST_BYTES:
            return np.frombuffer(os.urandom(size), dtype=_TYPES[bits])
        words = np.array([_pooled() for _ in range(-(-size // 8))], dtype=np.uint64)
        return words if bits == 64 else words.view(_TYPES[bits])[:count]


class Seeded:
    """Reproducible words from a seed: UNSAFE for privacy, anyone who knows the seed can subtract the noise.

    It exists for tests only and is not safe to share between threads.

    >>> bool((Seeded(1).words(9, 64) == Seeded(1).words(9, 64)).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(whole(seed, "seed", least=0))
        self._ahead, self._place = np.empty(0, np.uint32), 0

    def words(self, count: int, bits: int) -> Words:
        """Return the next `count` words of the seed's stream."""
        size = _bytes(count, bits)
        # As the generator hands out bytes: whole words of 32 bits, one even for none.
        needed = -(-size // 4) or 1
        if self._place + needed > len(self._ahead):
            self._fetch(needed)
        start, self._place = self._place, self._place + needed
        return self._ahead[start : self._place].view(np.uint8)[:size].view(_TYPES[bits])

    def _fetch(self, needed: int) -> None:
        """Calls of the generator cost much more than what they draw, so small requests share one."""
        left = self._ahead[self._place :]
        fresh = self._generator.integers(0, 2**32, max(needed - len(left), AHEAD), dtype=np.uint32)
        self._ahead, self._place = np.concatenate([left, fresh]) if len(left) else fresh, 0


def integers(source: Source, count: int) -> list[int]:
    """`count` words of 64 bits as Python integers, for few at a time."""
    if type(source) is OperatingSystem:
        return [_pooled() for _ in range(count)]
    words: list[int] = source.words(count, 64).tolist()
    return words


def _bytes(count: int, bits: int) -> int:
    if bits not in _TYPES:
        raise InvalidParameter(f"a word has 8, 16, 32 or 64 bits, got {bits!r}")
    return whole(count, "count", least=0) * bits // 8


def _pooled() -> int:
    while True:
        try:
            return _pool.pop()
        except IndexError:
            _pool.extend(np.frombuffer(os.urandom(POOL_BYTES), dtype=np.uint64).tolist())


# The domain of the parameters which all samplers share.

# At 2**-10 the noise is 0 but for a probability of exp(-1024): whoever asks for less has too coarse a grid. Up to 2**40
# values leave 64 bits with a probability below exp(-2**22), also those of a Gaussian's proposals (see `Ladder`).
SMALLEST_SCALE: Final = Fraction(1, 2**10)
LARGEST_SCALE: Final = Fraction(2**40)
SMALLEST_VARIANCE: Final = SMALLEST_SCALE**2
LARGEST_VARIANCE: Final = LARGEST_SCALE**2
_RANGE: Final = "must be at least 2**-10 and at most 2**40 grid steps: choose another epsilon or another grid"


def checked_size(size: int) -> int:
    """An integer of at least 0.

    >>> checked_size(-1)
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: size must be an integer of at least 0, got -1
    """
    return whole(size, "size", least=0)


def checked_scale(scale: Fraction) -> Fraction:
    """A rational number from 2**-10 to 2**40.

    >>> checked_scale(Fraction(1, 2048))
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: scale must be at least 2**-10 and at most 2**40 grid steps: ...
    """
    number = positive(scale, "scale")
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:
        raise InvalidParameter(f"scale {_RANGE}")
    return number


def checked_variance(sigma_squared: Fraction) -> Fraction:
    """A rational number from 2**-20 to 2**80, the square of a scale.

    >>> checked_variance(Fraction(2**81))
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: sigma must be at least 2**-10 and at most 2**40 grid steps: ...
    """
    number = positive(sigma_squared, "sigma_squared")
    if not SMALLEST_VARIANCE <= number <= LARGEST_VARIANCE:
        raise InvalidParameter(f"sigma {_RANGE}")
    return number


# The uniform distribution on the first integers.

# Values fit int64, and a 64-bit word is rejected with less than 1/4.
LARGEST_UPPER: Final = 2**62
# With 5 bits more than needed a word is rejected with less than 1/32; more would double the width for little.
SPARE_BITS: Final = 5


def uniform_integers(source: Source, upper: int, size: int) -> NDArray[np.int64]:
    """`size` independent integers, each exactly uniform on 0, 1, ..., upper - 1.

    Words at or above the largest multiple of `upper` are drawn again. An `upper` outside [1, 2**62] or a negative
    size raises `InvalidParameter`; size 0 gives an empty array.

    >>> from chary.noise import OperatingSystem
    >>> uniform_integers(OperatingSystem(), 1, 3)
    array([0, 0, 0])
    """
    upper = _checked_upper(upper)
    values = np.empty(checked_size(size), dtype=np.int64)
    missing = np.arange(values.size)
    bits = _word_bits(upper)
    last = (1 << bits) // upper * upper - 1
    while missing.size:
        words = source.words(missing.size, bits)
        accepted = words <= words.dtype.type(last)
        values[missing[accepted]] = words[accepted] % words.dtype.type(upper)
        missing = missing[~accepted]
    return values


def _checked_upper(upper: int) -> int:
    if whole(upper, "upper") > LARGEST_UPPER:
        raise InvalidParameter("upper must be at most 2**62")
    return int(upper)


def _word_bits(upper: int) -> int:
    """A width that seldom rejects: below 1/32, or below 1/4 where 64 bits are too few for that."""
    wanted = (upper - 1).bit_length() + SPARE_BITS
    return next((bits for bits in (8, 16, 32) if bits >= wanted), 64)


# Sums of integers and noise which never wrap around.

Integers = NDArray[np.int64] | NDArray[np.object_]

# The range in which NumPy adds; beyond it sums are taken in Python ints, because int64 would wrap around silently.
_INT64: Final = np.iinfo(np.int64)


@overload
def add(values: int, noise: int | NDArray[Any]) -> int: ...
@overload
def add(values: NDArray[Any], noise: int | NDArray[Any]) -> Integers: ...
def add(values: int | NDArray[Any], noise: int | NDArray[Any]) -> int | Integers:
    """The exact sum of integer values and noise, whatever their size.

    - a Python int (or NumPy integer) plus an int, or an array of one element, is a Python int;
    - an array plus an int, or an array of the same shape, is an array: of `int64` if every sum fits, else of Python
      ints (dtype object).

    Arrays have any integer dtype, or hold Python ints. Booleans, floats, and shapes that differ raise
    `InvalidParameter`, whose message shows no value.

    >>> add(2**63 - 1, 1) == 2**63
    True
    >>> add(np.array([1, 2]), np.array([-5, 5]))
    array([-4,  7])
    >>> add(np.array([2**63 - 1]), 1)
    array([9223372036854775808], dtype=object)
    """
    if type(values) is int and type(noise) is int:
        return values + noise
    left, right = _integers(values), _integers(noise)
    if isinstance(left, int):
        return left + _single(right)
    if not isinstance(right, int) and right.shape != left.shape:
        raise InvalidParameter("values and noise must have the same shape")
    if _fits(left) and _fits(right):
        return _sum64(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64))
    return _sum(left, right)


def _integers(value: int | NDArray[Any]) -> int | Integers:
    """The argument as a Python int, an array of int64, or an array of Python ints."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, np.ndarray):
        raise InvalidParameter("values and noise must be integers or arrays of integers")
    if value.dtype != object and np.can_cast(value.dtype, np.int64) and value.dtype != np.bool_:
        return value.astype(np.int64, copy=False)
    return _python_integers(value)


def _python_integers(value: NDArray[Any]) -> NDArray[np.object_]:
    if value.dtype.kind not in "uO":
        raise InvalidParameter("values and noise must be integers or arrays of integers")
    result = np.empty(value.shape, dtype=object)
    for index, entry in np.ndenumerate(value):
        if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (int, np.integer)):
            raise InvalidParameter("values and noise must hold integers only")
        result[index] = int(entry)
    return result


def _single(noise: int | Integers) -> int:
    if isinstance(noise, int):
        return noise
    if noise.size != 1:
        raise InvalidParameter("noise for one integer must be one integer")
    return int(noise.item())


def _fits(value: int | Integers) -> bool:
    if isinstance(value, int):
        return bool(_INT64.min <= value <= _INT64.max)
    return value.dtype == np.int64


def _sum64(left: NDArray[np.int64], right: NDArray[np.int64]) -> Integers:
    """The sum of 64-bit integers; it wrapped around where its sign differs from the signs of both terms."""
    total = np.asarray(left + right, dtype=np.int64)
    wrapped = ((left ^ total) & (right ^ total)) < 0
    return _sum(left, right) if wrapped.any() else total


def _sum(left: Integers, right: int | Integers) -> Integers:
    """The sum in Python ints, narrowed to int64 if every sum fits."""
    total = np.empty(left.shape, dtype=object)
    total[...] = left.astype(object) + (right if isinstance(right, int) else right.astype(object))
    narrow = all(_INT64.min <= entry <= _INT64.max for entry in total.flat)
    return total.astype(np.int64) if narrow else total
