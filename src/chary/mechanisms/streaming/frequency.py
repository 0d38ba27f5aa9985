"""Frequencies of a stream in little space, by a count sketch."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.mechanisms.streaming.hashing import Element, checked_key, digest
from chary.numbers import whole

# A digest is eight words of 32 bits, one a row: seven is the largest odd depth, and 31 bits (one is the sign) give a
# column of any power of two evenly.
MOST_WIDTH: Final = 2**16
MOST_DEPTH: Final = 7


class CountSketch:
    """How often an item occurred, without bias and with a standard deviation of at most `||f|| / sqrt(width)` a row.

    `||f||` is the root of the sum of squared frequencies. Every item has a column and a sign in each of `depth` rows;
    the estimate is the median of its signed counters, which lies off by more than three of these deviations only if
    most rows do, each with probability 1/9 at most. It is right for streams and items that were fixed beforehand, and
    it is not private. Source: Charikar, Chen and Farach-Colton (2002).

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
