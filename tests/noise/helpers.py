"""What the noise tests share: scripted sources, exact laws, and the chi-square test."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import chain, repeat

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

ALPHA = 1e-6

Cdf = Callable[[NDArray[np.int64]], NDArray[np.float64]]


class Scripted:
    """A source that hands out the given words in turn, then zeros, and refuses a word too long for its width."""

    def __init__(self, words: Iterable[int]) -> None:
        self._words = chain(words, repeat(0))
        self.asked: list[int] = []

    def words(self, count: int, bits: int) -> NDArray[np.unsignedinteger]:
        self.asked.extend(repeat(bits, count))
        taken = [next(self._words) for _ in range(count)]
        assert all(0 <= word < 1 << bits for word in taken)
        return np.array(taken, dtype=f"uint{bits}")


def ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def leading_bits(value: Callable[[], arb], bits: int) -> int:
    """The first bits of an irrational number in (0, 1), from interval arithmetic at a far higher precision."""
    precision, ctx.prec = ctx.prec, 4 * bits + 4096
    try:
        integer = (value() * arb(2) ** bits).floor().unique_fmpz()
        assert integer is not None, "the ball is too wide"
        return int(integer)
    finally:
        ctx.prec = precision


def split(number: int, words: int) -> list[int]:
    """A number of `64 * words` bits as words, the first one first."""
    return [number >> (64 * place) & (2**64 - 1) for place in reversed(range(words))]


def p_value(samples: NDArray[np.int64], cdf: Cdf, edges: NDArray[np.int64]) -> float:
    """Chi-square test of the samples; `cdf(k)` is P(X < k); neighbouring bins are merged to 10 expected or more."""
    edges = np.unique(edges)
    below = np.concatenate([[0.0], cdf(edges), [1.0]])
    counts = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=edges.size + 1)
    observed, expected = _merged(counts, np.diff(below) * samples.size)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, observed.size - 1))


def _merged(
    counts: NDArray[np.int64], expected: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    bins: list[list[float]] = []
    open_bin = [0.0, 0.0]
    for pair in zip(counts.tolist(), expected.tolist(), strict=True):
        open_bin = [open_bin[0] + pair[0], open_bin[1] + pair[1]]
        if open_bin[1] >= 10:
            bins.append(open_bin)
            open_bin = [0.0, 0.0]
    assert len(bins) >= 2
    bins[-1] = [bins[-1][0] + open_bin[0], bins[-1][1] + open_bin[1]]
    observed, merged = np.array(bins).T
    return observed, merged


def spread(scale: float) -> NDArray[np.int64]:
    """Bin edges over ten scales on either side: every integer for small scales, 400 bins for large ones."""
    reach = 10 * scale + 3
    return np.unique(np.round(np.linspace(-reach, reach, min(400, 2 * int(reach) + 1))).astype(np.int64))


def geometric_cdf(scale: float) -> Cdf:
    return lambda k: np.where(k > 0, -np.expm1(-np.maximum(k, 0) / scale), 0.0)


def laplace_cdf(scale: float) -> Cdf:
    ratio = np.exp(-1 / scale)
    return lambda k: np.where(
        k <= 0,
        np.exp(-np.abs(k - 1) / scale) / (1 + ratio),
        1 - np.exp(-np.abs(k) / scale) / (1 + ratio),
    )


def gaussian_cdf(sigma: float) -> Cdf:
    """Summed term by term for small sigma; for large sigma a half-integer shift errs by less than `1/sigma**2`."""
    if sigma > 10**4:
        return lambda k: stats.norm.cdf((k - 0.5) / sigma)
    support = np.arange(-int(12 * sigma) - 40, int(12 * sigma) + 41)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    below = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return lambda k: below[np.clip(k - support[0], 0, support.size)]
