"""The geometric law."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chary.noise.ladder import ladder
from chary.noise.parameters import checked_scale, checked_size
from chary.noise.source import Source


def geometric(source: Source, scale: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers `k >= 0` with `P(k)` exactly proportional to `exp(-k/scale)`.

    The law is exact when the source is uniform, up to values outside 64 bits, of probability below `exp(-2**22)`.
    A scale outside [2**-10, 2**40] or a negative size raises `InvalidParameter`; size 0 gives an empty array.

    Source: theory section 8.

    >>> from chary.noise import Seeded
    >>> geometric(Seeded(1), Fraction(7, 3), 5).shape
    (5,)
    """
    return ladder(checked_scale(scale), False).draw(source, checked_size(size))
