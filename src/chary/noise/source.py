"""Where random bits come from: the operating system, or a seed for tests."""

import os
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import whole

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
    - safe to share between threads, and between a parent and its forked children: requests of at most 512 bytes are
      served from a pool of 4096 bytes which all instances share, and which a child drops before its first draw.

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
    """Reproducible words from a seed: UNSAFE for privacy, whoever knows the seed can subtract the noise.

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
