"""How far off rounds on a growing table may be: by brute force, and by the published formulas."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.accounting import error_up, sparse_noise
from chary.accounting.sparse_vector import (
    GrowingRounds,
    RoundAsked,
    growing_error_up,
    growing_failure_up,
    published_failure,
    published_growing_error,
    reach,
    round_noise,
)
from chary.errors import InvalidParameter
from tests.mechanisms.sparse_laws import pmf

FORMS = [("tuned", False), ("tuned", True), ("published", False), ("published", True)]


def wrong(noise, tests_at, alpha):
    """By definition: the chance that a test, or the value at the last size, is off by more than alpha a row."""
    shifts = np.arange(-math.ceil(40 * noise.threshold), math.ceil(40 * noise.threshold) + 1)
    weights = pmf(noise.threshold, shifts)
    for size, tests in tests_at:
        most = math.floor(alpha * size)
        near = 1 - reach(noise.test, shifts + most + 1.0) - reach(noise.test, most + 1.0 - shifts)
        weights = weights * near**tests
    kept = weights.sum()
    if noise.answer is not None:
        most = math.floor(alpha * tests_at[-1][0])
        kept *= pmf(noise.answer, np.arange(-most, most + 1)).sum()
    return 1 - kept


PLANS = [[(10, 1)], [(10, 20), (30, 500)], [(12, 3), (40, 100), (41, 2)]]


@pytest.mark.parametrize(("form", "values"), FORMS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("alpha", ["0.3", "1.37", "4"])
def test_the_failure_of_a_round_is_the_sum_over_its_threshold(form, values, plan, alpha):
    rounds = GrowingRounds(10, 1, "0.5", values, form)
    found = growing_failure_up(rounds, [RoundAsked(10, plan)], alpha)
    expected = wrong(rounds.noise(10), plan, Fraction(alpha))
    assert expected - 1e-12 <= found <= min(1, expected * 1.002 + 1e-12)


def test_rounds_fail_independently_of_each_other():
    rounds = GrowingRounds(10, 1, "0.5")
    first, second = RoundAsked(10, [(10, 5)]), RoundAsked(20, [(20, 5), (25, 9)])
    one, two = (growing_failure_up(rounds, [each], 2) for each in (first, second))
    assert growing_failure_up(rounds, [first, second], 2) == pytest.approx(1 - (1 - one) * (1 - two), rel=1e-9)


@given(
    st.sampled_from(["0", "0.3", "0.5", "1"]),
    st.booleans(),
    st.lists(
        st.tuples(st.integers(50, 400), st.lists(st.tuples(st.integers(0, 300), st.integers(1, 50)), min_size=1)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["0.1", "0.4", "1"]),
)
@settings(max_examples=25, deadline=None)
def test_the_published_conditions_hold_with_a_rising_noise_function(exponent, values, grown, alpha):
    """Noise in counts is at most that of xi_t in shares, at every size: Theorems 26, 28 and 31 as they stand."""
    rounds = GrowingRounds(50, "0.5", exponent, values, "published")
    plan = [RoundAsked(begun, sorted((begun + more, tests) for more, tests in asked)) for begun, asked in grown]
    assert growing_failure_up(rounds, plan, alpha) <= min(1, published_failure(rounds, plan, alpha)) + 1e-12


def test_the_published_conditions_are_the_published_formulas():
    at = math.exp
    for values in (False, True):
        rounds = GrowingRounds(100, "0.3", "0.5", values, "published")
        xi, plan = rounds.noise_function, [RoundAsked(100, [(100, 7), (400, 90)]), RoundAsked(400, [(900, 4)])]
        tests = 7 * at(-2 * xi(100) / 8) + 90 * at(-2 * xi(400) / 8) + 4 * at(-2 * xi(900) / 8)
        thresholds = at(-2 * xi(100) / 4) + at(-2 * xi(400) / 4)
        answers = at(-2 * xi(400) / 2) + at(-2 * xi(900) / 2) if values else 0
        assert published_failure(rounds, plan, 2) == pytest.approx(tests + thresholds + answers)


@pytest.mark.parametrize(("form", "values"), FORMS)
def test_without_growth_the_error_is_that_of_the_static_round(form, values):
    rounds = GrowingRounds(500, "0.2", values=values, form=form)
    noise = round_noise("0.2", values=values, form=form)
    assert growing_error_up(rounds, size=500, tests=40) == pytest.approx(
        error_up(noise, tests=40, confidence="0.95") / 500
    )
    if (form, values) != ("published", True):
        assert noise == sparse_noise(epsilon="0.2", hits=1, form=form, values=values)


@pytest.mark.parametrize("exponent", ["0", "0.5", "1"])
def test_inside_a_round_the_error_falls_with_the_size(exponent):
    rounds = GrowingRounds(500, "0.2", exponent)
    first, later = (growing_error_up(rounds, size=size, begun=500, tests=40) for size in (500, 5000))
    assert later == pytest.approx(first / 10)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("exponent", ["0", "0.4", "0.9", "1"])
@pytest.mark.parametrize("epsilon", ["0.2", "3"])
def test_the_error_holds_for_rounds_that_begin_later_whatever_their_tests(exponent, values, epsilon):
    rounds, tests, number = GrowingRounds(9, epsilon, exponent, values), 12, 2
    alpha = Fraction(growing_error_up(rounds, size=9, tests=tests, number=number, confidence="0.8"))
    for sizes in itertools.product((9, 10, 11, 13, 25, 90), repeat=number):
        for first in (0, 6, 12):
            shares = list(zip(sizes, (first, tests - first), strict=True))
            kept = math.prod(1 - wrong(rounds.noise(size), [(size, many)], alpha) for size, many in shares)
            assert 1 - kept <= 0.2


def test_published_errors_are_the_least_that_keep_the_conditions():
    for number, values in ((1, False), (1, True), (4, True)):
        rounds = GrowingRounds(1000, "0.1", "0.5", values, "published")
        alpha = published_growing_error(rounds, size=2000, begun=1000, tests=50, number=number)
        plan = [RoundAsked(1000, [(2000, 51 - number)]), *[RoundAsked(2000, [(2000, 1)])] * (number - 1)]
        assert published_failure(rounds, plan, alpha) <= 0.05 < published_failure(rounds, plan, alpha * (1 - 1e-9))
        assert growing_error_up(rounds, size=2000, begun=1000, tests=50, number=number) < alpha
    closed = 8 * (math.log(50) + math.log(2 / 0.05)) / 100
    assert published_growing_error(GrowingRounds(1000, "0.1"), size=1000, tests=50) < closed


def test_sensitivity_scales_the_error():
    rounds = GrowingRounds(1000, "0.1")
    one, nine = (growing_error_up(rounds, size=1000, tests=50, sensitivity=size) for size in (1, 9))
    assert nine == pytest.approx(9 * one, rel=0.01)
    plan = [RoundAsked(1000, [(1000, 50)])]
    assert growing_failure_up(rounds, plan, nine, sensitivity=9) == pytest.approx(0.05, rel=0.02)


def test_bad_questions_are_refused():
    rounds = GrowingRounds(100, "0.1")
    bad = [
        lambda: rounds.epsilon_down(99),
        lambda: RoundAsked(100, []),
        lambda: RoundAsked(100, [(99, 1)]),
        lambda: RoundAsked(100, [(100, 0)]),
        lambda: growing_error_up(rounds, size=100, tests=0),
        lambda: growing_error_up(rounds, size=100, tests=1, number=0),
        lambda: growing_error_up(rounds, size=100, begun=200, tests=1),
        lambda: growing_error_up(rounds, size=100, tests=1, confidence=1),
        lambda: growing_failure_up(rounds, [RoundAsked(100, [(100, 1)])], 0),
        lambda: published_failure(rounds, [RoundAsked(100, [(100, 1)])], -1),
        lambda: published_growing_error(rounds, size=100, tests=0),
        lambda: published_growing_error(rounds, size=100, tests=1, confidence=0),
    ]
    for ask in bad:
        with pytest.raises(InvalidParameter):
            ask()
