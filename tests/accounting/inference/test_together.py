"""What holds for all tests at once, for values chosen by their size, and for means: enumeration and drawn noise."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from chary import noise
from chary.accounting import (
    GaussianLaw,
    LaplaceLaw,
    chosen_reach_up,
    confidence_of_each,
    error_of_all_up,
    false_alarms_up,
    least_bar,
    margin_up,
    mean_interval,
)
from chary.accounting.intervals import confidence_at
from chary.errors import InvalidParameter
from chary.mechanisms import Gaussian, Laplace, OneShotTopK
from tests.accounting.inference.laws import gaussian_table, laplace_table

ALPHA = 1e-6
RUNS = 400
TABLES = [(LaplaceLaw(5), laplace_table(5, 400)), (GaussianLaw(30), gaussian_table(30, 200))]


def beyond(table, distance):
    """`P(Z >= distance)`."""
    return float(table[max(0, distance + len(table) // 2) :].sum())


@pytest.mark.parametrize(("law", "table"), TABLES, ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("tests", [1, 40, 100_000])
def test_errors_and_margins_are_the_least_that_are_kept(law, table, tests):
    error = error_of_all_up(law, tests=tests, confidence="0.9")
    assert 2 * beyond(table, error + 1) * tests <= 0.1 < 2 * beyond(table, error) * tests
    margin = margin_up(law, tests=tests, confidence="0.9")
    assert beyond(table, margin) * tests <= 0.1 < beyond(table, margin - 1) * tests
    bar = least_bar(law, truth=-7, tests=tests, confidence="0.9")
    assert false_alarms_up(law, bar=bar, truth=-7, tests=tests) <= 0.1
    assert false_alarms_up(law, bar=bar - 1, truth=-7, tests=tests) > 0.1
    for distance in (-8, 0, 3, 30):
        expected = false_alarms_up(law, bar=12 + distance, truth=12, tests=tests)
        assert expected == pytest.approx(tests * beyond(table, distance), rel=1e-12)


def test_closed_forms_of_laplace_noise():
    law, r = LaplaceLaw(20), math.exp(-1 / 20)
    assert false_alarms_up(law, bar=100, truth=0, tests=364) == pytest.approx(364 * r**100 / (1 + r), rel=1e-14)
    for tests in (10, 1000, 10**6):
        assert abs(error_of_all_up(law, tests=tests, confidence="0.95") - 20 * math.log(tests / 0.05)) <= 1.5
        assert abs(margin_up(law, tests=tests, confidence="0.95") - 20 * math.log(tests / 0.1)) <= 1.5


@pytest.mark.statistical
@pytest.mark.parametrize(
    "additive", [Laplace(Fraction(40), 1), Gaussian(Fraction(2000), 1)], ids=["Laplace", "Gaussian"]
)
def test_drawn_noise_keeps_the_error_and_smaller_ones_are_caught(additive):
    tests = 300
    error = error_of_all_up(additive.law(), tests=tests, confidence="0.95")
    drawn = np.abs(additive.draw(noise.Seeded(11), RUNS * tests)).reshape(RUNS, tests).max(axis=1)
    assert binom.cdf(np.count_nonzero(drawn <= error), RUNS, 0.95) > ALPHA
    assert binom.cdf(np.count_nonzero(drawn <= error * 2 // 3), RUNS, 0.95) < ALPHA
    assert binom.sf(np.count_nonzero(drawn <= error * 3 // 2) - 1, RUNS, 0.95) < ALPHA


def test_confidences_add_up():
    assert confidence_of_each("0.95", 1) == Fraction(19, 20)
    assert 7 * (1 - confidence_of_each("0.95", 7)) == Fraction(1, 20)
    spent = sum(1 - confidence_at("0.95", place) for place in range(1, 2001))
    assert spent < Fraction(1, 20) < spent + Fraction(1, 20) / 1999
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InvalidParameter):
            confidence_of_each("0.95", wrong)
        with pytest.raises(InvalidParameter):
            confidence_at("0.95", wrong)


RULES = [OneShotTopK(1), OneShotTopK(2), OneShotTopK(3, gap=2), OneShotTopK(2, above=3)]


@pytest.mark.parametrize("rule", RULES, ids=["best", "two", "gap", "bar"])
@pytest.mark.parametrize("truths", [(0, 0, 0), (0, 1, 3), (0, 0, 9)])
def test_chosen_values_are_covered_together(rule, truths):
    table, reach = laplace_table(1, 12), 12
    below, above = chosen_reach_up(LaplaceLaw(1), candidates=3, published=rule.most, confidence="0.8")
    missed = 0.0
    for noises in itertools.product(range(-reach, reach + 1), repeat=3):
        values = [truth + z for truth, z in zip(truths, noises, strict=True)]
        if any(not -above <= noises[place] <= below for place in rule.choose(values)):
            missed += math.prod(table[z + reach] for z in noises)
    assert missed <= 0.2


def test_the_usual_bar_fails_for_the_largest_of_many():
    """The largest of 1,000 equal candidates is hardly ever within the bar of one value."""
    law = LaplaceLaw(20)
    usual, table = Laplace(Fraction(20), 1).error_bar(), laplace_table(20, 1500)
    assert (1 - beyond(table, usual + 1)) ** 1000 < 1e-9
    found = chosen_reach_up(law, candidates=1000, published=1, confidence="0.95")
    assert (1 - beyond(table, found.below + 1)) ** 1000 >= 0.95
    assert (found.below, found.above) == (20 * math.log(1000 / 0.05) // 1, usual)


def test_published_are_candidates():
    with pytest.raises(InvalidParameter):
        chosen_reach_up(LaplaceLaw(20), candidates=3, published=4, confidence="0.95")


@pytest.mark.parametrize("sums", [(-9, -4), (-3, 5), (2, 6)])
@pytest.mark.parametrize("counts", [(1, 4), (3, 7), (-2, 3)])
def test_means_of_the_whole_box(sums, counts):
    means = [
        min(max(Fraction(3) + Fraction(s, 2 * n), Fraction(-1)), Fraction(5))
        for s in range(sums[0], sums[1] + 1)
        for n in range(max(1, counts[0]), counts[1] + 1)
    ]
    low, high = mean_interval(sums, counts, center=3, grid="0.5", bounds=(-1, 5))
    assert Fraction(low) <= min(means)
    assert max(means) <= Fraction(high)
    assert (low, high) == pytest.approx((float(min(means)), float(max(means))), abs=1e-15)


def test_means_without_ends():
    box = {"center": 3, "bounds": (-1, 5)}
    assert mean_interval((None, 4), (2, 4), **box) == (-1, 5)
    assert mean_interval((-4, None), (8, 16), **box) == (2.5, 5)
    assert mean_interval((8, 16), (8, None), **box) == (3, 5)
    assert mean_interval((-4, 16), (None, None), **box) == (-1, 5)
    assert mean_interval((2, 4), (-9, 0), **box) == (-1, 5)
    with pytest.raises(InvalidParameter, match="rising"):
        mean_interval((4, 2), (8, 16), **box)
