"""Keyed hashing of elements to 64-bit words, the same in Python and in SQL."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.errors import InvalidParameter

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

    For a column of integers a database computes the same words by hashing `key || 'i' || column`, for one of text
    by hashing `key || 's' || column`, and reading the first 16 hexadecimal digits as a number.

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
