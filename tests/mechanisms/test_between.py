"""Between thresholds: the exact law of the zone, its worst ratio and its best q, for all neighbours."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary import noise
from chary.accounting import Targeted
from chary.errors import InvalidParameter
from chary.mechanisms import Laplace
from chary.mechanisms.threshold_tests import ThreeZones
from tests.accounting.pairs import best_q, worst_ratio
from tests.mechanisms.laws import tail

TARGET = [False, True, False]


def zones(value, ratio, low, high):
    """The law of (low, between, high) with noise `P(k) ~ ratio^|k|`."""
    reach_low, reach_high = (tail(ratio, bar - value) for bar in (low, high))
    return [1 - reach_low, reach_low - reach_high, reach_high]


@pytest.mark.parametrize("ratio", [Fraction(99, 100), Fraction(9, 10), Fraction(1, 2), Fraction(1, 10)])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 40])
def test_no_neighbours_reveal_more_or_hit_less_and_some_exactly_that(ratio, sensitivity, width):
    whole = ratio**-sensitivity
    q = (1 - ratio**width) / (whole + 1)
    found = {}
    for value in range(-3 * sensitivity - 2, width + 2 * sensitivity + 3):
        for step in range(1, sensitivity + 1):
            pair = zones(value, ratio, 0, width), zones(value + step, ratio, 0, width)
            assert worst_ratio(pair) <= whole
            found[value, step] = best_q(pair, TARGET, whole)
    assert min(found.values()) == q
    assert all(found[value, sensitivity] == q for value in range(-3 * sensitivity - 2, 1 - sensitivity))


@pytest.mark.parametrize(("sensitivity", "width"), [(1, 5), (3, 40)])
def test_its_event_is_that_of_the_formula(sensitivity, width):
    between = ThreeZones(Laplace.for_epsilon("0.1", sensitivity=sensitivity), -2, width - 2)
    event = between.event()
    assert isinstance(event, Targeted)
    assert event.epsilon == Fraction(1, 10)
    exact = -math.expm1(-width / sensitivity / 10) / (math.exp(0.1) + 1)
    assert float(event.q) == pytest.approx(exact, rel=1e-14)


@pytest.mark.statistical
def test_samples_follow_the_law():
    between, source, size = ThreeZones(Laplace.for_epsilon("0.5", sensitivity=1), 10, 13), noise.Seeded(5), 6000
    drawn = [between.step(11, source) for _ in range(size)]
    ratio = Fraction(math.exp(-0.5))
    counts = [drawn.count(zone) for zone in ("low", "between", "high")]
    expected = np.array([float(p) for p in zones(11, ratio, 10, 13)]) * size
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    wrong = np.array([float(p) for p in zones(11, Fraction(math.exp(-0.75)), 10, 13)]) * size
    assert stats.chisquare(counts, wrong).pvalue < 1e-6


def test_bars_are_reached_from_below():
    sure = ThreeZones(Laplace.for_epsilon(10**5, sensitivity=1), 10, 12)
    steps = {value: sure.step(value, noise.OperatingSystem()) for value in (9, 10, 11, 12, 2**80, -(2**80))}
    assert list(steps.values()) == ["low", "between", "between", "high", "high", "low"]


@pytest.mark.parametrize(("low", "high"), [(5, 5), (6, 5), (0.5, 5), (0, True), ("0", 1)])
def test_zones_must_be_whole_and_not_empty(low, high):
    with pytest.raises(InvalidParameter):
        ThreeZones(Laplace.for_epsilon("0.1", sensitivity=1), low, high)


def test_noise_shared_by_several_values_is_refused():
    with pytest.raises(InvalidParameter):
        ThreeZones(Laplace.for_epsilon("0.1", sensitivity=1, times=2), 0, 5)
