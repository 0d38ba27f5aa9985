"""The trapezoidal rule for log-concave integrands given by their logarithms: an array by integrand, count and node."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.accounting.gaussian.normal_integrals import Floats

# Stands for the logarithm of 0: minus infinity would make the differences below NaN.
LOWEST: Final = -1e300
# exp(-38) is half a unit in the last place of a sum: ends below that are cut off without a trace.
_NEGLIGIBLE: Final = math.exp(-38)
# exp(-46) is 1e-20: an outline may be off by a few units and still leaves out nothing that rounding would keep.
_OUTSIDE: Final = 46.0
# The error falls with the cube of what the sums over every third node differ by: 1e-5 leaves 1e-15.
_AGREEMENT: Final = 1e-5
# Fewer nodes than that could agree by accident.
_FEWEST: Final = 12
# As in `normal_masses`: what is so far below the first integral never shows in a gain.
_SMALLEST: Final = -660.0


@dataclass(frozen=True)
class Outline:
    """Where integrands matter: bounds in t, the likeliest place of the first one, and its height."""

    low: float
    high: float
    anchor: float
    peak: float
    scattered: bool

    @classmethod
    def of(cls, grid: Floats, terms: Floats) -> "Outline":
        """From values on a grid; integrands are scattered where one matters at a few nodes only."""
        tops = terms.max(axis=2, keepdims=True)
        each = terms > tops - _OUTSIDE
        counted, matter = each.sum(axis=2), each.any(axis=(0, 1))
        first, last = int(matter.argmax()), len(grid) - 1 - int(matter[::-1].argmax())
        low, high = float(grid[max(first - 1, 0)]), float(grid[min(last + 1, len(grid) - 1)])
        scattered = bool((counted[counted > 0] < _FEWEST / 2).any())
        return cls(low, high, float(grid[terms[0, -1].argmax()]), float(tops[0].max()), scattered)


@dataclass(frozen=True)
class Sums:
    """The logarithms of the integrals for several counts, and whether the nodes carry them."""

    logs: Floats
    agree: NDArray[np.bool_]

    @classmethod
    def of(cls, terms: Floats) -> "Sums":
        """The trapezoidal sums of integrands that should vanish at both ends."""
        top = np.maximum(terms.max(axis=2), LOWEST)
        terms -= top[:, :, np.newaxis]
        parts = np.exp(terms, out=terms)
        thirds = parts @ _every_third(terms.shape[2])
        total, ends = thirds.sum(axis=2), parts[:, :, 0] + parts[:, :, -1]
        agree = np.abs(3 * thirds - total[:, :, np.newaxis]).max(axis=2) <= _AGREEMENT * total
        agree &= (np.count_nonzero(parts > _NEGLIGIBLE, axis=2) >= _FEWEST) & (ends < _NEGLIGIBLE * total)
        return cls(top + np.log(total), agree)

    @property
    def settled(self) -> bool:
        """Whether every integral that adds to a gain is known well."""
        return bool((self.agree | (self.logs <= self.logs[0] + _SMALLEST)).all())


def evenly(low: float, high: float, nodes: int) -> Floats:
    """Nodes from low to high."""
    return low + (high - low) / (nodes - 1) * np.arange(nodes, dtype=np.float64)


@lru_cache(maxsize=16)
def _every_third(nodes: int) -> Floats:
    return np.tile(np.eye(3), (nodes // 3, 1))
