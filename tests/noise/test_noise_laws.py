"""The laws of the samplers, compared with the exact ones; each test also rejects a scale wrong by 2/3 and 3/2."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from chary.noise import (
    Enclosure,
    Seeded,
    Source,
    bernoulli,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    uniform_integers,
)

from .helpers import ALPHA, Cdf, gaussian_cdf, geometric_cdf, laplace_cdf, p_value, spread

Sampler = Callable[[Source, Fraction, int], NDArray[np.int64]]

# 2**39 is the largest power of two whose 3/2 is still a scale.
SCALES = [Fraction(1, 3), Fraction(1), Fraction("7.3"), Fraction(50), Fraction(1000), Fraction(2**20), Fraction(2**39)]
WRONG = [Fraction(2, 3), Fraction(3, 2)]


def gaussian_of_sigma(source: Source, sigma: Fraction, size: int) -> NDArray[np.int64]:
    return discrete_gaussian(source, sigma**2, size)


LAWS: list[tuple[Sampler, Callable[[float], Cdf]]] = [
    (geometric, geometric_cdf),
    (discrete_laplace, laplace_cdf),
    (gaussian_of_sigma, gaussian_cdf),
]


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES, ids=float)
@pytest.mark.parametrize(("sampler", "cdf"), LAWS)
def test_a_large_draw_follows_the_exact_law(sampler: Sampler, cdf: Callable[[float], Cdf], scale: Fraction) -> None:
    def measured(factor: Fraction) -> float:
        samples = sampler(Seeded(20), scale * factor, 200_000)
        return p_value(samples, cdf(float(scale)), spread(float(scale)))

    assert measured(Fraction(1)) > ALPHA
    assert max(map(measured, WRONG)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction("7.3"), Fraction(2**20)], ids=float)
@pytest.mark.parametrize(("sampler", "cdf"), LAWS)
def test_small_draws_follow_the_same_law(
    sampler: Sampler, cdf: Callable[[float], Cdf], scale: Fraction, size: int
) -> None:
    def measured(factor: Fraction) -> float:
        source = Seeded(21)
        samples = np.concatenate([sampler(source, scale * factor, size) for _ in range(2500)])
        return p_value(samples, cdf(float(scale)), spread(float(scale)))

    assert measured(Fraction(1)) > ALPHA
    assert max(map(measured, WRONG)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [Fraction(2**40), Fraction(2**40, 3), Fraction(1000)], ids=float)
def test_every_digit_of_a_geometric_variable_has_its_own_law(scale: Fraction) -> None:
    size = 200_000
    samples = geometric(Seeded(22), scale, size)
    for digit in range(int(scale).bit_length() + 2):
        ones = int((samples >> digit & 1).sum())
        likelihood = 1 / (1 + np.exp(2**digit / float(scale)))
        assert stats.binomtest(ones, size, likelihood).pvalue > ALPHA, digit
        wrong = [1 / (1 + np.exp(2**digit / float(scale * factor))) for factor in WRONG]
        if 0.2 < likelihood < 0.45:
            assert max(stats.binomtest(ones, size, value).pvalue for value in wrong) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("signed", [False, True])
def test_the_digits_and_the_sign_of_a_large_scale_are_independent(signed: bool) -> None:
    size = 200_000
    scale = Fraction(2**40)
    samples = discrete_laplace(Seeded(23), scale, size) if signed else geometric(Seeded(23), scale, size)
    magnitudes = np.where(samples < 0, ~samples, samples)
    digits = [(samples < 0).astype(np.int64)] if signed else []
    digits += [magnitudes >> digit & 1 for digit in range(43)]
    centred = np.array([digit - digit.mean() for digit in digits])
    correlations = np.corrcoef(centred)[np.triu_indices(len(digits), k=1)]
    limit = stats.norm.isf(ALPHA / 2 / correlations.size) / np.sqrt(size)
    assert np.abs(correlations).max() < limit


@pytest.mark.statistical
@pytest.mark.parametrize("upper", [2, 3, 10, 200, 2**31 + 5, 3 * 2**60, 2**62])
def test_uniform_integers_are_uniform(upper: int) -> None:
    def measured(drawn: int) -> float:
        samples = uniform_integers(Seeded(24), drawn, 100_000)
        edges = np.array([upper * step // 100 for step in range(1, 100)], dtype=np.int64)
        return p_value(samples, lambda k: np.asarray(k / upper), edges[edges > 0])

    assert measured(upper) > ALPHA
    assert measured(upper + (upper + 1) // 2 if upper < 2**61 else upper * 2 // 3) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("probability", ["1/3", "1/1000", "0.9"])
def test_bernoulli_has_its_probability(probability: str, size: int) -> None:
    source = Seeded(25)
    rounds = 20_000 if size == 1 else 2
    drawn = [bernoulli(source, Enclosure.rational(probability), size) for _ in range(rounds)]
    hits, trials = int(np.concatenate(drawn).sum()), rounds * size
    true = float(Fraction(probability))
    assert stats.binomtest(hits, trials, true).pvalue > ALPHA
    if true * trials > 100:
        assert stats.binomtest(hits, trials, true * 2 / 3).pvalue < ALPHA
        assert stats.binomtest(hits, trials, min(true * 3 / 2, (1 + true) / 2)).pvalue < ALPHA
