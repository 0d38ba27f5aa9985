"""Sizes that fit: the largest, never above, and by the theorems they are named after."""

import math
from fractions import Fraction

import pytest

from chary.accounting import (
    charging_size,
    exact_tail_total,
    four_digits_down,
    gaussian_delta,
    largest_size,
    plain_noise,
    published_total,
)
from chary.accounting.composition import optimal_delta
from chary.accounting.numerics import four_digits_up
from chary.errors import InvalidParameter


@pytest.mark.parametrize("most", [0.3, 1, 7e-9])
@pytest.mark.parametrize("edge", [0.9, 0.1, 1e-8])
def test_the_largest_size_fits_and_one_a_little_larger_does_not(most, edge):
    found = largest_size(lambda size: size <= edge * most, most)
    assert edge * most / 1.0001 <= found <= edge * most


def test_all_of_it_fits_or_nothing():
    assert largest_size(lambda size: True, 0.7) == 0.7
    with pytest.raises(InvalidParameter, match="nothing fits"):
        largest_size(lambda size: False, 1)


@pytest.mark.parametrize("number", [Fraction(1, 3), 1 / 7, 0.5, 1e-9, 123.456, 98765.4, 0.99999])
def test_four_digits_enclose_a_number(number):
    low, high = four_digits_down(number), four_digits_up(number)
    assert low <= number <= high
    assert (high - low) <= Fraction(number) / 999
    assert four_digits_down(low) == low
    assert four_digits_up(high) == high


@pytest.mark.parametrize("tests", [1, 3, 10_000])
def test_plain_noise_spends_the_delta(tests):
    noise = plain_noise(epsilon=1, delta=1e-6, tests=tests)
    if noise.gaussian:
        spent = [gaussian_delta(epsilon=1, sensitivity=math.sqrt(tests), sigma=k * noise.deviation) for k in (1, 0.99)]
    else:
        spent = [optimal_delta(math.sqrt(2) / (k * noise.deviation), tests, 1) for k in (1, 0.99)]
    assert spent[0] <= 1e-6 < spent[1]
    assert noise.gaussian == (tests == 10_000)


@pytest.mark.parametrize("total", [published_total, exact_tail_total])
def test_charging_sizes_spend_the_budget(total):
    size = charging_size(total, epsilon="0.5", delta=1e-6, hits=20)
    assert 0.999 < total(epsilon_per_call=size, hits=20, delta=1e-6) / 0.5 <= 1
