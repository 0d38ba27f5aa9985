"""Errors that all of many noises keep: against sums over the exact laws, quadrature, and drawn noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from chary import noise
from chary.accounting import crossing_error_up, gaussian_error_up, laplace_deviation, laplace_error_up
from chary.errors import InvalidParameter

ALPHA = 1e-6
RUNS = 400


def within(weights, error):
    """The chance that noise with weights P(k) ~ weights[|k|] lies within the error."""
    return (2 * weights[: error + 1].sum() - weights[0]) / (2 * weights.sum() - weights[0])


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(3, 2), 20])
@pytest.mark.parametrize("tests", [1, 10, 1000])
def test_laplace_error_is_the_least_that_is_kept(scale, tests):
    error = laplace_error_up(scale, tests=tests, confidence=0.95)
    weights = np.exp(-np.arange(5000) / float(scale))
    assert within(weights, error) ** tests >= 0.95
    assert error == 0 or within(weights, error - 1) ** tests < 0.95


@pytest.mark.parametrize("variance", [1, 9, 400])
@pytest.mark.parametrize("tests", [1, 1000])
def test_gaussian_error_is_kept_and_hardly_above_the_least(variance, tests):
    error = gaussian_error_up(variance, tests=tests, confidence=0.9)
    weights = np.exp(-(np.arange(2000.0) ** 2) / (2 * variance))
    assert within(weights, error) ** tests >= 0.9
    assert within(weights, error - 2) ** tests < 0.9


@pytest.mark.parametrize("thresholds", [1, 4])
def test_crossing_error_is_the_integral_over_the_farthest_threshold(thresholds):
    own, other, tests = 3.0, 5.0, 200
    error = crossing_error_up(own, other, thresholds=thresholds, tests=tests, confidence=0.95)

    def kept(z, reach):
        density = thresholds * (2 * norm.cdf(z / own) - 1) ** (thresholds - 1) * 2 * norm.pdf(z / own) / own
        return density * (norm.cdf((reach - z) / other) - norm.cdf((-reach - z) / other)) ** tests

    assert quad(kept, 0, 40, args=(error,), limit=500)[0] >= 0.95 - 1e-9
    assert quad(kept, 0, 40, args=(error * 0.998,), limit=500)[0] < 0.95


def test_drawn_noise_stays_within_and_smaller_errors_are_caught():
    source, tests, scale = noise.Seeded(5), 300, Fraction(40)
    error = laplace_error_up(scale, tests=tests, confidence=0.95)
    farthest = np.abs(noise.discrete_laplace(source, scale, RUNS * tests)).reshape(RUNS, tests).max(axis=1)
    assert binom.cdf(np.count_nonzero(farthest <= error), RUNS, 0.95) > ALPHA
    assert binom.cdf(np.count_nonzero(farthest <= error * 2 // 3), RUNS, 0.95) < ALPHA


def test_deviation_is_the_root_of_the_variance():
    places, scale = np.arange(-900, 901), 7
    chances = np.exp(-np.abs(places) / scale)
    assert laplace_deviation(scale) == pytest.approx(math.sqrt(chances @ places**2 / chances.sum()))


@pytest.mark.parametrize("error_up", [laplace_error_up, gaussian_error_up])
@pytest.mark.parametrize("wrong", [{"tests": 0}, {"confidence": 1}, {"confidence": math.nan}, {"tests": True}])
def test_bad_sizes_are_refused(error_up, wrong):
    with pytest.raises(InvalidParameter):
        error_up(10, **({"tests": 5, "confidence": 0.95} | wrong))


def test_a_confidence_beyond_the_precision_is_refused():
    with pytest.raises(InvalidParameter, match="precision"):
        crossing_error_up(1, 1, thresholds=1, tests=10, confidence=1 - Fraction(1, 10**15))
