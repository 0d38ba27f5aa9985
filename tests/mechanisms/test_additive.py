import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import DiscreteLaplace, Repeated, ZeroConcentrated
from chary.errors import InvalidParameter
from chary.mechanisms import Gaussian, Laplace
from chary.noise import OperatingSystem, Seeded
from tests.noise.helpers import ALPHA, gaussian_cdf, laplace_cdf, p_value, spread

SCALES = [Fraction(1, 3), Fraction(1), Fraction("7.3"), Fraction(50)]
VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(30), Fraction(399)]
DISTANCES = [-40, -3, -1, 0, 1, 2, 5, 17, 60]


def laplace_weights(scale):
    return [math.exp(-abs(k) / scale) for k in symmetric(int(60 * scale) + 200)]


def gaussian_weights(variance):
    return [math.exp(-(k**2) / (2 * variance)) for k in symmetric(int(12 * math.sqrt(variance)) + 200)]


def symmetric(reach):
    return range(-reach, reach + 1)


def brute_at_least(weights, distance):
    reach = len(weights) // 2
    return math.fsum(weights[reach + distance :]) / math.fsum(weights)


def brute_error_bar(weights, confidence):
    reach, whole = len(weights) // 2, math.fsum(weights)
    inside = itertools.accumulate((2 * weight for weight in weights[reach + 1 :]), initial=weights[reach])
    return next(m for m, mass in enumerate(inside) if mass / whole >= confidence)


LAWS = [(Laplace(scale, 1), laplace_weights(scale)) for scale in SCALES]
LAWS += [(Gaussian(variance, 1), gaussian_weights(variance)) for variance in VARIANCES]


@pytest.mark.parametrize(("additive", "weights"), LAWS, ids=lambda x: repr(x) if not isinstance(x, list) else "")
def test_tails_are_the_sums_of_the_exact_law(additive, weights):
    for distance in DISTANCES:
        assert additive.at_least(distance) == pytest.approx(brute_at_least(weights, distance), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("variance", [Fraction(401), Fraction(2500), Fraction("1e5")])
def test_tails_of_wide_gaussian_noise_are_right_to_half_a_per_cent(variance):
    weights, sigma = gaussian_weights(variance), math.sqrt(variance)
    for distance in (int(part * sigma) for part in (-2, 0, 0.5, 1, 2, 3, 4)):
        assert Gaussian(variance, 1).at_least(distance) == pytest.approx(brute_at_least(weights, distance), rel=5e-3)


@pytest.mark.parametrize(("additive", "weights"), LAWS, ids=lambda x: repr(x) if not isinstance(x, list) else "")
def test_a_wrong_call_is_a_miss_at_or_above_and_a_hit_below(additive, weights):
    for distance in (0, 1, 4, 19):
        missed = brute_at_least(weights, distance + 1)  # by symmetry, noise of -(distance + 1) or less
        assert additive.wrong_call(distance) == pytest.approx(missed, rel=1e-9, abs=1e-300)
    for distance in (-1, -4, -19):
        assert additive.wrong_call(distance) == pytest.approx(brute_at_least(weights, -distance), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("additive", "weights"), LAWS, ids=lambda x: repr(x) if not isinstance(x, list) else "")
@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.8, 0.95, 0.999])
def test_error_bar_is_the_least_that_holds(additive, weights, confidence):
    assert additive.error_bar(confidence) == brute_error_bar(weights, confidence)


def test_error_bars_grow_with_the_confidence():
    bars = [Laplace(Fraction(50), 1).error_bar(confidence) for confidence in (0.1, 0.5, 0.9, 0.95, 0.99)]
    assert bars == sorted(set(bars))


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -1, float("nan"), float("inf"), True])
def test_a_confidence_lies_between_0_and_1(confidence):
    with pytest.raises(InvalidParameter):
        Laplace(Fraction(50), 1).error_bar(confidence)


def test_scales_follow_from_sensitivity_and_size():
    assert Laplace.for_epsilon("0.1", sensitivity=3) == Laplace(Fraction(30), 3)
    assert Laplace.for_epsilon("0.1", sensitivity=3, times=4) == Laplace(Fraction(120), 3, 4)
    assert Gaussian.for_rho("0.02", l2_squared=4) == Gaussian(Fraction(100), 4)


def test_events_are_those_of_the_noise():
    assert Laplace.for_epsilon("0.1", sensitivity=3).event() == DiscreteLaplace(30, 3)
    several = Laplace.for_epsilon("0.1", sensitivity=3, times=4).event()
    assert several == Repeated(DiscreteLaplace(120, 3), 4)
    assert several.epsilon == Fraction(1, 10)
    assert Gaussian.for_rho("0.02", l2_squared=4).event() == ZeroConcentrated("0.02")


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), True, "x", None])
def test_sizes_that_are_no_positive_numbers_are_refused(size):
    with pytest.raises(InvalidParameter):
        Laplace.for_epsilon(size, sensitivity=1)
    with pytest.raises(InvalidParameter):
        Gaussian.for_rho(size, l2_squared=1)


@pytest.mark.parametrize("additive", [Laplace.for_epsilon(1000, sensitivity=1), Gaussian.for_rho(10**5, l2_squared=1)])
def test_practically_no_noise_gives_the_values_back(additive):
    values = np.array([0, -7, 12, 2**60 + 1, -(2**62)])
    assert additive.apply(values, OperatingSystem()).tolist() == values.tolist()


def test_values_beyond_64_bits_neither_wrap_nor_round():
    values = np.array([2**63 - 1, 2**64 + 1, -(2**70)], dtype=object)
    noise = Laplace.for_epsilon(1000, sensitivity=1)
    assert noise.apply(values, OperatingSystem()).tolist() == [2**63 - 1, 2**64 + 1, -(2**70)]
    wide = Laplace(Fraction(10), 1)
    sums = [wide.apply(np.array([2**60 + 1]), Seeded(seed))[0] - (2**60 + 1) for seed in range(20)]
    assert sums == [wide.draw(Seeded(seed), 1)[0] for seed in range(20)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("make", "cdf"),
    [
        (lambda factor: Laplace.for_epsilon(Fraction(1, 10) / factor, sensitivity=2), laplace_cdf(20.0)),
        (lambda factor: Laplace.for_epsilon(Fraction(1, 2) / factor, sensitivity=2, times=5), laplace_cdf(20.0)),
        (lambda factor: Gaussian.for_rho(Fraction(1, 200) / factor**2, l2_squared=4), gaussian_cdf(20.0)),
    ],
)
def test_applied_noise_has_the_scale_that_was_asked_for(make, cdf):
    def measured(factor):
        noisy = make(factor).apply(np.zeros(50_000, dtype=np.int64), Seeded(5))
        return p_value(noisy, cdf, spread(20.0))

    assert measured(Fraction(1)) > ALPHA
    assert max(measured(Fraction(2, 3)), measured(Fraction(3, 2))) < ALPHA
