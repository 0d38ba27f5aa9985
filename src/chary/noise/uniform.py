"""The uniform law on the first integers."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.noise.parameters import checked_size
from chary.noise.source import Source
from chary.numbers import whole

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
