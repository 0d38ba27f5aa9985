"""Noise that is too small, or that is made of floats."""

import math
from contextlib import contextmanager
from fractions import Fraction
from unittest.mock import patch

from chary import Algorithm
from chary.mechanisms import Laplace
from chary.noise.laplace import ladder


@contextmanager
def two_thirds():
    """All Laplace noise of the package at two thirds of its scale."""

    def draw(self, source, size):
        return ladder(self.scale * Fraction(2, 3), True).draw(source, size)

    def draw_one(self, source):
        return ladder(self.scale * Fraction(2, 3), True).draw_one(source)

    with patch.multiple(Laplace, draw=draw, draw_one=draw_one):
        yield


def float_laplace(rows, source):
    """A count with Laplace noise by the inverse of its distribution function, in floats (Mironov 2012)."""
    first, second = source.words(2, 64).tolist()
    size = -math.log((first + 1) * 2.0**-64)
    return rows.num_rows + (size if second % 2 else -size)


IN_FLOATS = Algorithm("float Laplace", float_laplace, epsilon=1)
