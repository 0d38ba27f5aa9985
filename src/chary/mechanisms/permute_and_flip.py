"""Permute-and-flip, which is report-noisy-max with exponential noise: its exact law on a few candidates."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from chary import noise
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.mechanisms.exponential import Exponential
from chary.noise.choice import GUARD_BITS, Floats
from chary.noise.enclosure import Bounds

MOST_CANDIDATES: Final = 32
_ERROR: Final = 2.0**-44


class PermuteAndFlip(Exponential):
    """Tries the candidates in random order, taking j with the chance `exp(epsilon (u_j - max u) / (2 sensitivity))`.

    Guarantee: `Pure(epsilon)`, under the conditions of `Exponential`; its expected utility is never below that of
    `Exponential`. More than 32 candidates raise `InvalidParameter`.

    Source: theory section 2; McKenna, Sheldon 2020; Ding et al. 2021 for the equality with report-noisy-max.

    >>> [round(p, 4) for p in PermuteAndFlip("0.1", sensitivity=1).law([100, 120, 60]).probabilities()]
    [0.1809, 0.7973, 0.0218]
    """

    def law(self, utilities: Sequence[int] | Integers) -> noise.FiniteLaw:
        if len(utilities) > MOST_CANDIDATES:
            raise InvalidParameter(f"permute-and-flip takes at most {MOST_CANDIDATES} candidates")
        return FlipLaw(noise.ExponentialLaw(utilities, -self.unit))


class FlipLaw(noise.FiniteLaw):
    """The law of permute-and-flip, from weights a_j of which the largest is 1.

    With independent uniform times of arrival, P(j) is a_j times the integral over [0, 1] of the product over i != j of
    `1 - a_i t`, a polynomial.
    """

    def __init__(self, chances: noise.ExponentialLaw) -> None:
        self._chances = chances

    @property
    def size(self) -> int:
        return self._chances.size

    def bounds(self, bits: int) -> list[Bounds]:
        """The product has coefficients below 2**size, and the sums lose as many bits again."""
        work = bits + 2 * self.size + GUARD_BITS
        weights = self._chances.weights(work)
        found = {weights[j]: _flip_bounds(j, weights, work) for j in range(self.size)}
        return [(found[weight][0] >> work - bits, -(-found[weight][1] >> work - bits)) for weight in weights]

    def near(self) -> tuple[Floats, float]:
        """Gauss-Legendre quadrature, exact for the degree: all its terms are positive and err by size * 2**-48."""
        weights = self._chances.near_weights()
        times, shares = _quadrature(self.size)
        misses = 1 - np.outer(times, weights)
        parts = [weights[j] * (shares @ np.delete(misses, j, axis=1).prod(axis=1)) for j in range(self.size)]
        return np.cumsum(parts)[:-1], self.size**2 * _ERROR


@lru_cache(maxsize=MOST_CANDIDATES)
def _quadrature(size: int) -> tuple[Floats, Floats]:
    nodes, shares = np.polynomial.legendre.leggauss(size // 2 + 1)
    return (nodes + 1) / 2, shares / 2


def _flip_bounds(chosen: int, weights: Sequence[Bounds], bits: int) -> Bounds:
    """Bounds of P(chosen), from the coefficients `e_k >= 0` of the product, which count with the sign of (-1)^k."""
    rest = [weight for j, weight in enumerate(weights) if j != chosen]
    least, most = (_symmetric([weight[end] for weight in rest], bits, round_up=end == 1) for end in (0, 1))
    terms = [(k + 1, pair) for k, pair in enumerate(zip(least, most, strict=True))]
    lower = sum(low // k if k % 2 else high // -k for k, (low, high) in terms)
    upper = -sum(high // -k if k % 2 else low // k for k, (low, high) in terms)
    return max(0, lower) * weights[chosen][0] >> bits, -(-upper * weights[chosen][1] >> bits)


def _symmetric(values: Iterable[int], bits: int, *, round_up: bool) -> list[int]:
    """The elementary symmetric polynomials of values scaled by 2**bits, each product rounded one way."""
    sums = [1 << bits]
    for value in values:
        products = [-(-term * value >> bits) if round_up else term * value >> bits for term in sums]
        sums = [term + product for term, product in zip([*sums, 0], [0, *products], strict=True)]
    return sums
