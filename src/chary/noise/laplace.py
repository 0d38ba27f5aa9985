"""The discrete Laplace law."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chary.noise.ladder import ladder
from chary.noise.parameters import checked_scale, checked_size
from chary.noise.source import Source


def discrete_laplace(source: Source, scale: Fraction, size: int) -> NDArray[np.int64]:
    """`size` independent integers with `P(k)` exactly proportional to `exp(-abs(k)/scale)`.

    Added to an integer that changes by at most D between neighbours, it is `D/scale`-differentially private.

    The law is exact when the source is uniform, up to values outside 64 bits, of probability below `exp(-2**22)`.
    A scale outside [2**-10, 2**40] or a negative size raises `InvalidParameter`; size 0 gives an empty array.

    Source: theory section 8; Ghosh, Roughgarden, Sundararajan 2009 for the privacy of the two-sided geometric law.

    >>> from chary.noise import OperatingSystem
    >>> discrete_laplace(OperatingSystem(), Fraction(1, 1024), 3)
    array([0, 0, 0])
    """
    return ladder(checked_scale(scale), True).draw(source, checked_size(size))
