"""How large the noise on a symmetric matrix can be in any direction, and what that leaves open of its eigenvalues.

Noise E has independent entries on and above the diagonal. Those of the discrete Gaussian of variance s^2 have
`E exp(t X) <= exp(t^2 s^2 / 2)` (Canonne, Kamath and Steinke 2020); those of the discrete Laplace of scale b have
`E exp(t X) <= 1 / (1 - t^2 b^2)`. An entry X at (i, j) is X A with A^2 = e_i e_i' + e_j e_j' (one of them on the
diagonal) and A^3 = A, so `E exp(t X A)` is at most the same function of t times A^2, and Tropp's bound for sums of
random matrices holds: `P(|E| >= x) <= 2 d exp(-t x) exp(sum of the logarithms of one line)`.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.numbers import Number, probability, whole

# Bounds are raised by so much for the rounding of a few float operations.
_SLACK = 1e-9


def gaussian_norm_up(size: int, *, variance: float, beta: Number) -> float:
    """A bound on |E| (L2) with 1 - beta, for variance s^2 on the diagonal and s^2/2 off it.

    The lesser of Tropp's `s sqrt((d + 1) ln(2d/beta))` and of Chernoff's bound on the Frobenius norm, for which
    `|E|_F^2 / s^2` is below a chi-square variable of d(d+1)/2 degrees in every exponential moment.

    >>> round(gaussian_norm_up(5, variance=1, beta="0.05"), 2)
    5.64
    """
    lines, chance = whole(size, "size"), float(probability(beta, "beta"))
    tropp = math.sqrt((lines + 1) * math.log(2 * lines / chance))
    return math.sqrt(variance) * min(tropp, length_up(lines * (lines + 1) // 2, beta=beta)) * (1 + _SLACK)


def length_up(entries: int, *, beta: Number) -> float:
    """A bound on the length of so many independent discrete Gaussians of variance one: x with
    `(x^2/m)^(m/2) e^(-(x^2 - m)/2) = beta`.

    >>> round(length_up(15, beta="0.05"), 2)
    5.72
    """
    size, log = whole(entries, "entries"), -math.log(probability(beta, "beta"))

    def excess(ratio: float) -> float:
        return size / 2 * (ratio - 1 - math.log(ratio)) - log

    most = 2 * (1 + 2 * log / size) + 2
    return math.sqrt(size * float(scipy.optimize.brentq(excess, 1, most))) * (1 + _SLACK)


def laplace_norm_up(size: int, *, scale: float, beta: Number) -> float:
    """A bound on |E| (L2) with 1 - beta, for discrete Laplace noise of this scale on all entries.

    >>> round(laplace_norm_up(5, scale=1, beta="0.05"), 2)
    12.35
    """
    lines = whole(size, "size")
    log = math.log(2 * lines / probability(beta, "beta"))
    tried = np.linspace(0.001, 0.999, 999)
    bounds = (log - lines * np.log1p(-(tried**2))) / tried
    return float(scale * bounds.min() * (1 + _SLACK))


class Spectrum(NamedTuple):
    """Eigenvalues, largest first, and the eigenvectors as rows, each with its largest entry positive."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


def spectrum(matrix: NDArray[np.float64]) -> Spectrum:
    """The spectrum of a symmetric matrix.

    >>> spectrum(np.array([[2.0, 0.0], [0.0, -3.0]])).values
    array([ 2., -3.])
    """
    values, vectors = np.linalg.eigh(matrix)
    rows = vectors.T[::-1]
    largest = np.abs(rows).argmax(axis=1)
    signs = np.sign(rows[np.arange(len(rows)), largest])
    return Spectrum(values[::-1].copy(), rows * signs[:, None])


def angle_up(values: NDArray[np.float64], leading: int, within: float) -> float | None:
    """The largest angle in degrees between the space of the `leading` noisy eigenvectors and of the true ones.

    For eigenvalues that are each off by `within` at most, as the matrix is: `sin <= within / (gap - within)` for the
    gap of the noisy ones (Davis and Kahan 1970). None where that rules nothing out.

    >>> round(angle_up(np.array([5.0, 1.0]), 1, 0.5), 1)
    8.2
    """
    if leading >= len(values):
        return 0.0
    gap = float(values[leading - 1] - values[leading])
    sine = within / (gap - within) if gap > within else math.inf
    return math.degrees(math.asin(sine)) if sine < 1 else None
