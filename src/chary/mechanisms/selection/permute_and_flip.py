"""Permute-and-flip, which is report-noisy-max with exponential noise: exact choices of any number of candidates."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.mechanisms.selection.exponential import Exponential
from chary.noise.choice import GUARD_BITS, WEIGHT_ERROR, Floats
from chary.noise.partition import LOOKUP_BITS, WORD_BITS, Bounds, settle

# The law needs numbers of 2 n bits more and n**3 products: 32 candidates take milliseconds. Choices have no limit.
MOST_CANDIDATES: Final = 32
# Sixteen times the error that `near` derives; too wide only sends more draws to the enclosures.
_ERROR: Final = 2.0**-44
# That of the weights in units of a 16-bit word; the rounding of the product with 2**16 is exact.
_CELL_ERROR: Final = WEIGHT_ERROR * 2**LOOKUP_BITS


class PermuteAndFlip(Exponential):
    """Tries the candidates in random order, taking j with the chance `exp(epsilon (u_j - max u) / (2 sensitivity))`.

    Guarantee: `Pure(epsilon)`, under the conditions of `Exponential`; its expected utility is never below that of
    `Exponential`. Choices are exact and fast for any number of candidates; only `law` takes at most 32 of them.

    Source: theory section 2; McKenna, Sheldon 2020; Ding et al. 2021 for the equality with report-noisy-max.

    >>> [round(p, 4) for p in PermuteAndFlip("0.1", sensitivity=1).law([100, 120, 60]).probabilities()]
    [0.1809, 0.7973, 0.0218]
    """

    def law(self, utilities: Sequence[int] | Integers) -> noise.FiniteLaw:
        if len(utilities) > MOST_CANDIDATES:
            raise InvalidParameter(f"the law of permute-and-flip is known for at most {MOST_CANDIDATES} candidates")
        return FlipLaw(noise.ExponentialLaw(utilities, -self.unit))

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate.

        Coins do not depend on the order in which they are tried, so all are thrown at once: the first in random order
        among those that came up is any of them with the same chance.
        """
        taken = np.flatnonzero(_coins(utilities, self.unit, source))
        return int(taken[noise.uniform_integers(source, taken.size, 1)[0]])


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


def _coins(utilities: Sequence[int] | Integers, unit: Fraction, source: noise.Source) -> NDArray[np.bool_]:
    """For each candidate True with chance exactly `exp(-unit (max - utility))`, all independent.

    16 bits decide by a float nearly always; where the chance may lie between them and the next, enclosures decide.
    """
    scaled = noise.ExponentialLaw(utilities, -unit).near_weights() * 2**LOOKUP_BITS
    cells = source.words(scaled.size, LOOKUP_BITS)
    up: NDArray[np.bool_] = cells + 1.0 <= scaled - _CELL_ERROR
    open_ones = np.flatnonzero(~up & (cells < scaled + _CELL_ERROR)).tolist()
    best = int(utilities.max() if isinstance(utilities, np.ndarray) else max(utilities))
    tails = source.words(len(open_ones), WORD_BITS).tolist()
    for j, tail in zip(open_ones, tails, strict=True):
        word = int(cells[j]) << WORD_BITS - LOOKUP_BITS | tail >> LOOKUP_BITS
        up[j] = _settled((best - int(utilities[j])) * unit, word, source)
    return up


def _settled(exponent: Fraction, word: int, source: noise.Source) -> bool:
    """Whether a number that begins with this word is below `exp(-exponent)`."""
    chance = noise.Enclosure.exponential(exponent)
    return settle(source, lambda bits: [chance.bounds(bits)], word, WORD_BITS) == 0


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
