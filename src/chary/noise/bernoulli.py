"""The Bernoulli law of an enclosed probability."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chary.noise.enclosure import Bounds, Enclosure
from chary.noise.parameters import checked_size
from chary.noise.partition import Partition
from chary.noise.source import Source


def bernoulli(source: Source, probability: Enclosure, size: int) -> NDArray[np.bool_]:
    """`size` independent Booleans, each true with exactly the enclosed probability.

    The probabilities 0 and 1 are allowed. A negative size raises `InvalidParameter`; size 0 gives an empty array.

    Source: theory section 8.

    >>> from chary.noise import OperatingSystem
    >>> bernoulli(OperatingSystem(), Enclosure.rational(1), 2)
    array([ True,  True])
    """
    # One cut point at p: outcome 0, below it, has the probability p, so the Boolean is the negation of the outcome.
    misses = _partition(probability).draw(source, checked_size(size))
    return np.logical_not(misses)


@lru_cache(maxsize=256)
def _partition(probability: Enclosure) -> Partition:
    def cuts(bits: int) -> list[Bounds]:
        return [probability.bounds(bits)]

    return Partition(cuts)
