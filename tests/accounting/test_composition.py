import math
from itertools import product

import numpy as np
import pytest

from chary.accounting import compose, gaussian_delta, gaussian_sigma, optimal_total
from chary.accounting.composition import log_moment, optimal_delta
from chary.errors import InvalidParameter


def _enumerated(epsilon, times, total):
    p = 1 / (1 + math.exp(-epsilon))
    value = 0.0
    for bits in product((0, 1), repeat=times):
        ones = sum(bits)
        first = p ** (times - ones) * (1 - p) ** ones
        second = p**ones * (1 - p) ** (times - ones)
        value += max(0.0, first - math.exp(total) * second)
    return value


@pytest.mark.parametrize("epsilon", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("times", [1, 2, 5, 9])
def test_optimal_delta_is_that_of_enumerated_randomized_response(epsilon, times):
    for total in np.linspace(0, times * epsilon, 7):
        assert optimal_delta(epsilon, times, total) == pytest.approx(_enumerated(epsilon, times, total), abs=1e-13)


@pytest.mark.parametrize(
    ("epsilon", "times", "delta"), [(0.1, 100, 1e-6), (0.5, 7, 1e-3), (3.0, 4, 1e-9), (0.01, 5000, 1e-8)]
)
def test_optimal_total_inverts_optimal_delta_from_above(epsilon, times, delta):
    total = optimal_total(epsilon, times, delta)
    assert optimal_delta(epsilon, times, total) <= delta
    assert optimal_delta(epsilon, times, total * (1 - 1e-8)) > delta


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 1), (0.1, 50), (0.01, 10**6), (2.0, 30), (30.0, 2)])
def test_order_of_the_theorems(epsilon, times):
    found = compose(epsilon=epsilon, times=times, delta=1e-6)
    slack = 1 + 1e-9
    assert found.optimal <= found.renyi * slack <= min(found.basic, found.zcdp) * slack * slack
    assert found.zcdp <= found.advanced * slack


def test_log_moment_is_stable():
    assert log_moment(2, 1e-8) == pytest.approx(3 * 2 * 1e-16 / 2, rel=1e-6)
    assert log_moment(1e-9, 1e-8) == pytest.approx(1e-9 * 1e-16 / 2, rel=1e-6)
    assert log_moment(1, 500) == pytest.approx(500, rel=1e-12)


@pytest.mark.parametrize("sensitivity", [1, 7])
def test_gaussian_sigma_is_the_least(sensitivity):
    for epsilon, delta in ((0.1, 1e-6), (1, 1e-5), (10, 1e-10)):
        sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
        assert gaussian_delta(epsilon=epsilon, sensitivity=sensitivity, sigma=sigma) <= delta
        assert gaussian_delta(epsilon=epsilon, sensitivity=sensitivity, sigma=sigma * 0.999) > delta


@pytest.mark.parametrize("bad", [{"epsilon": -1}, {"epsilon": True}, {"times": 0}, {"delta": 2}, {"times": 10**9}])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InvalidParameter):
        compose(**{"epsilon": 0.1, "times": 3, "delta": 1e-6, **bad})
