"""The normal law's distribution function in log space, and how much it changes over a distance.

With b = min(x, 0) and a = max(x, 0), `Phi(x) = exp(-b^2/2) erfcx(-b/sqrt 2) (1 - erfc(a/sqrt 2)/2)`: the middle factor
is 1 for positive x and the last one 1/2 for negative x, so nothing cancels on either side.
"""

import math
from functools import cached_property
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROOT_OF_HALF: Final = math.sqrt(0.5)
_DENSITY: Final = 1 / math.sqrt(2 * math.pi)
# Up to a distance of 3 no exponent of `_near` exceeds 3 + 4.5, where 12 points of Gauss and Legendre err by less than
# rounding does; up to 0.01 3 points do, whose error is of the order of 0.01**7 / 2e6.
_NEAR, _NEARER = 3.0, 0.01


def _legendre(count: int) -> tuple[Floats, Floats]:
    """Points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (1 + points) / 2, weights / 2


_FEW, _MANY = _legendre(3), _legendre(12)


class LogCdf:
    """`ln Phi` at some points: its slope, and its change from there, all with a relative error of some 1e-15.

    The change keeps that precision however small it is and however far in a tail.

    >>> LogCdf(np.array([-40.0, 0.0])).hazard
    array([40.0249...,  0.79788...])
    >>> LogCdf(np.array([-40.0, 0.0, 8.0])).change(np.array([1e-20]))
    array([4.00249...e-19, 7.97884...e-21, 5.05227...e-35])
    """

    def __init__(self, x: Floats) -> None:
        self.x, self.below, self.above = x, np.minimum(x, 0), np.maximum(x, 0)
        self.tail = scipy.special.erfc(_ROOT_OF_HALF * self.above) / 2
        self._erfcx = scipy.special.erfcx(-_ROOT_OF_HALF * self.below)

    @cached_property
    def hazard(self) -> Floats:
        """`phi(x) / Phi(x)`, the slope of `ln Phi`."""
        density = _DENSITY * np.exp(-self.above * self.above / 2)
        return np.asarray(density / (self._erfcx * (1 - self.tail)))

    @cached_property
    def scaled(self) -> Floats:
        """`ln Phi(x) + min(x, 0)^2/2`."""
        return np.asarray(np.log(self._erfcx) + np.log1p(-self.tail))

    def change(self, shift: Floats, end: "LogCdf | None" = None) -> Floats:
        """`ln Phi(x + shift) - ln Phi(x)`; `end` is the function at x + shift where that is known already."""
        distance = np.abs(shift) * np.maximum(np.abs(self.x), 1)
        farthest = float(distance.max())
        # A difference of two values of ln Phi would lose the digits of a small shift; the integral over it loses none.
        if farthest <= _NEAR:
            return _near_density(self.x, shift, self.hazard, farthest)
        near = distance <= _NEAR
        end = end or LogCdf(self.x + shift)
        right = np.log1p((self.tail - end.tail) / (1 - self.tail))
        change = np.where((self.x >= 0) & (end.x >= 0), right, self.change_to(end, shift))
        if near.any():
            x, moved, hazard = (np.broadcast_to(part, near.shape)[near] for part in (self.x, shift, self.hazard))
            change[near] = _near_density(x, moved, hazard)
        return change

    def change_to(self, end: "LogCdf", shift: Floats) -> Floats:
        """`change` to a known end, with an absolute error of some 1e-16 (for positive x, that part of the tail)."""
        apart = np.where((self.x < 0) & (end.x < 0), shift, end.below - self.below)
        return np.asarray(end.scaled - self.scaled - apart * (self.below + end.below) / 2)


def _near_density(x: Floats, shift: Floats, hazard: Floats, farthest: float = _NEAR) -> Floats:
    """Gauss-Legendre for the density over the distance, relative to the density at x; no exponent exceeds 8."""
    points, weights = _FEW if farthest < _NEARER else _MANY
    steps = shift[..., np.newaxis] * points
    density = np.exp(-steps * (x[..., np.newaxis] + steps / 2)) @ weights
    return np.asarray(np.log1p(shift * density * hazard))
