"""Menus of sharp tests: figures of the single calculators, what a value costs, and what is refused."""

import math

import pytest
from scipy.stats import norm

from chary.accounting import SharpTest, sharp_width, sparse_half_width_up
from chary.accounting.sharp_widths import half_width, sharp_menu
from chary.errors import InvalidParameter

BUDGET = {"epsilon": 1, "delta": "1e-6"}


def test_figures_are_those_of_the_calculators():
    for choice in sharp_menu(**BUDGET, tests=1000, hits=(3, 30), confidence="0.9"):
        asked = {"tests": 1000, "hits": choice.hits, "confidence": "0.9"}
        assert choice.alone == sharp_width(**BUDGET, **asked).within
        assert choice.agreed == sharp_width(**BUDGET, **asked, misses_share="best").within
        assert choice.sparse == sparse_half_width_up(epsilon=1, **asked)


@pytest.mark.parametrize("value", ["0.1", "0.4"])
def test_a_value_gets_what_its_test_leaves(value):
    [choice] = sharp_menu(**BUDGET, tests=10_000, hits=[20], value=value)
    test = sharp_width(**BUDGET, tests=10_000, hits=20).test
    order, price = float(test.order), float(test.price)
    left = SharpTest(test.order, price * (1 - float(value)))
    assert choice.within == pytest.approx(half_width(left, 0.05 / 20_000))
    # All 20 values together, each of a sigma whose zCDP costs the part of the price (theory 1.1).
    sigma = choice.value_error / norm.isf((1 - 0.95 ** (1 / 20)) / 2)
    assert order * (order - 1) / (2 * sigma**2) == pytest.approx(price * float(value))


def test_a_larger_part_for_values_widens_tests_and_narrows_values():
    small, large = (sharp_menu(**BUDGET, tests=100, hits=[5], value=value)[0] for value in (0.1, 0.5))
    assert (small.alone, small.agreed, small.sparse) == (large.alone, large.agreed, large.sparse)
    assert small.within < large.within
    assert small.value_error > large.value_error


def test_more_hits_than_tests_are_left_out():
    assert [choice.hits for choice in sharp_menu(**BUDGET, tests=5)] == [1, 2, 5]


def test_a_budget_too_small_for_a_test_leaves_the_sparse_vector():
    [choice] = sharp_menu(epsilon="0.001", delta="1e-6", tests=100_000, hits=[50_000])
    assert (choice.alone, choice.within, choice.value_error) == (None, None, None)
    assert math.isfinite(choice.sparse)


@pytest.mark.parametrize(
    "wrong", [{"tests": 0}, {"value": 0}, {"value": 1}, {"delta": 0}, {"confidence": 1}, {"epsilon": -1}]
)
def test_bad_input_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        sharp_menu(**(BUDGET | {"tests": 100} | wrong))
