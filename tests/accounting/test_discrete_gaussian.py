"""The (epsilon, delta) of discrete Gaussian noise against sums at 60 digits over the grid, in one dimension and two."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from chary.accounting import (
    discrete_gaussian_delta_up,
    discrete_gaussian_variance,
    epsilon_up,
    gaussian_delta,
    gaussian_sigma,
    zero_concentrated_rho_down,
)
from chary.errors import InvalidParameter


def weights(variance, reach):
    """`exp(-j^2 / (2 variance))` at 60 digits for j = -reach, ..., reach."""
    return {j: (-Decimal(j * j) / (2 * Decimal(str(variance)))).exp() for j in range(-reach, reach + 1)}


def true_delta(epsilon, variance, changes):
    """The hockey-stick divergence of independent noise and the same shifted by `changes`, by summing over the grid."""
    with localcontext() as context:
        context.prec = 60
        reach = math.ceil(14 * math.sqrt(variance)) + max(changes)
        one = weights(variance, reach)
        total, rise = sum(one.values()), Decimal(str(epsilon)).exp()
        found = Decimal(0)
        for point in itertools.product(range(-reach, reach + 1), repeat=len(changes)):
            before = math.prod((one[x] for x in point), start=Decimal(1))
            after = math.prod(
                (one.get(x - v, Decimal(0)) for x, v in zip(point, changes, strict=True)), start=Decimal(1)
            )
            found += max(Decimal(0), before - rise * after)
        return float(found / total ** len(changes))


ONE = [
    (2, 1, 1),
    (1, 1, 1),
    ("1.5", 1, 1),
    (1, "17.85", 1),
    ("0.1", 500, 3),
    (3, "0.3", 1),
    ("0.01", 4, 7),
    (8, "0.1", 1),
]


@pytest.mark.parametrize(("epsilon", "variance", "change"), ONE)
def test_one_integer_is_exact_from_above(epsilon, variance, change):
    true = true_delta(epsilon, float(variance), (change,))
    found = discrete_gaussian_delta_up(epsilon=epsilon, sigma_squared=variance, largest=change)
    assert true <= found <= true * (1 + 1e-9)


def test_the_continuous_formula_is_no_bound():
    true = true_delta(2, 1, (1,))
    assert true > 1.18 * gaussian_delta(epsilon=2, sensitivity=1, sigma=1)
    assert true_delta(1, 4.2247**2, (1,)) > gaussian_delta(epsilon=1, sensitivity=1, sigma=4.2247)


@pytest.mark.parametrize("changes", [(1, 1), (1, -1), (2, 1), (3, 4), (5, 0), (2, 2)])
@pytest.mark.parametrize(("epsilon", "ratio"), [("0.5", 1.2), (1, 1.0), (3, 0.5)])
def test_several_integers_are_bounded(changes, epsilon, ratio):
    length = sum(change**2 for change in changes)
    variance = round(length * ratio**2, 3)
    true = true_delta(epsilon, variance, tuple(map(abs, changes)))
    largest = max(map(abs, changes))
    found = discrete_gaussian_delta_up(
        epsilon=epsilon, sigma_squared=str(variance), largest=largest, l2_squared=length, reach=2
    )
    assert true <= found
    if largest == 1 and variance > 2:
        assert found <= true * (1 + 1e-6)


def test_no_part_of_a_change_is_worse_than_the_whole():
    whole = discrete_gaussian_delta_up(epsilon=1, sigma_squared=30, largest=3, l2_squared=18, reach=2)
    for changes in itertools.product(range(4), repeat=2):
        if any(changes):
            assert true_delta(1, 30, changes) <= whole


@pytest.mark.parametrize("epsilon", ["0.05", 1, 5])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
@pytest.mark.parametrize("change", [(1, 1, 1), (1, 7, 7), (300, 90000, 1), (300, 270000, 40)])
def test_the_variance_is_enough_and_hardly_more(epsilon, delta, change):
    largest, length, reach = change
    sizes = {"largest": largest, "l2_squared": length, "reach": reach}
    variance = discrete_gaussian_variance(epsilon=Fraction(epsilon), delta=Fraction(delta), **sizes)
    assert discrete_gaussian_delta_up(epsilon=epsilon, sigma_squared=variance, **sizes) <= float(delta)
    smooth = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1) ** 2 * length
    assert float(variance) <= 1.05 * smooth
    if epsilon != 5:
        assert float(variance) >= 0.95 * smooth
        assert discrete_gaussian_delta_up(epsilon=epsilon, sigma_squared=variance * Fraction(9, 10), **sizes) > float(
            delta
        )


def test_two_integers_at_the_variance_found_keep_the_promise():
    variance = discrete_gaussian_variance(epsilon=Fraction(2), delta=Fraction(1, 50), largest=2, l2_squared=8, reach=2)
    assert true_delta(2, float(variance), (2, 2)) <= 0.02
    assert true_delta(2, float(variance) / 1.3, (2, 2)) > 0.02


@pytest.mark.parametrize("epsilon", ["0.1", 1, 10])
@pytest.mark.parametrize("delta", ["0.01", "1e-6", "1e-15"])
def test_rho_converts_back_and_is_almost_the_largest(epsilon, delta):
    eps, failure = Fraction(epsilon), Fraction(delta)
    rho = zero_concentrated_rho_down(epsilon=eps, delta=failure)
    orders = [1 + Fraction(2) ** power / 64 for power in range(20)] + [1 + Fraction(k, 8) for k in range(1, 2000)]
    assert min(epsilon_up(a * (a - 1) * rho * Fraction(101, 100), a, failure) for a in orders) > eps
    exact = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1)
    assert exact <= (1 / (2 * float(rho))) ** 0.5 <= 1.35 * exact


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"sigma_squared": 0}, {"largest": 0}, {"reach": 0}, {"l2_squared": 1.5}]
)
def test_bad_input(wrong):
    given = {"epsilon": 1, "sigma_squared": 1, "largest": 1, "l2_squared": 1, "reach": 1} | wrong
    with pytest.raises(InvalidParameter):
        discrete_gaussian_delta_up(**given)
