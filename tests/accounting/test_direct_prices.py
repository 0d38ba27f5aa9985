"""Prices of boundary and double runs: the moment of every pair of small laws, and how cheap they could be."""

import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import (
    Targeted,
    boundary_epsilon_up,
    boundary_price_up,
    boundary_q_down,
    hit_price_up,
    twice_price_up,
    twice_q_down,
)
from chary.errors import InvalidParameter
from tests.accounting.pairs import epsilon_of, mixed, pairs, wrapped

CASES = [
    (Fraction(1021, 1000), 15),
    (Fraction(21, 20), 4),
    (Fraction(21, 20), 8),
    (Fraction(10, 9), 3),
    (Fraction(5, 4), Fraction(3, 2)),
    (Fraction(3, 2), Fraction(11, 10)),
]


def moment(pair, order, price):
    """E[(P0/P1)^order exp(-price)], in floats with the small excess over 1 kept: `price` is a list."""
    terms = [
        float(b) * (math.exp(float(order) * math.log(a / b) - paid) - 1)
        for a, b, paid in zip(*pair, price, strict=True)
        if a and b
    ]
    return math.fsum(terms)


def doubled(law):
    return [one * other for one in law for other in law]


@pytest.mark.parametrize(("ratio", "order"), CASES)
@pytest.mark.parametrize("outcomes", [2, 3, 4])
def test_charged_hits_bound_the_moment_of_every_pair(ratio, order, outcomes):
    epsilon = epsilon_of(ratio)
    boundary, twice = (float(price(epsilon, Fraction(order))) for price in (boundary_price_up, twice_price_up))
    paid = [boundary] + [0.0] * outcomes
    paid_twice = [twice * (one != other) for one in range(outcomes) for other in range(outcomes)]
    for pair in pairs(outcomes, ratio)[::2]:
        for one, other in (pair, pair[::-1]):
            assert moment((wrapped(one), wrapped(other)), order, paid) <= 1e-13
            assert moment((doubled(one), doubled(other)), order, paid_twice) <= 1e-13


@pytest.mark.parametrize(("ratio", "order"), CASES)
def test_randomized_response_needs_the_whole_price_of_two_runs(ratio, order):
    pair = mixed([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)], ratio)
    price = float(twice_price_up(epsilon_of(ratio), Fraction(order)))
    both = doubled(pair[0]), doubled(pair[1])
    assert moment(both, order, [0, price, price, 0]) == pytest.approx(0, abs=1e-12)
    assert moment(both, order, [0, 0.95 * price, 0.95 * price, 0]) > 1e-6


@pytest.mark.parametrize(("ratio", "order"), CASES[:4])
def test_a_test_at_its_threshold_needs_nearly_all_of_the_price_of_a_boundary(ratio, order):
    pair = [1 - 1 / (2 * ratio), 1 / (2 * ratio)], [Fraction(1, 2)] * 2
    price = float(boundary_price_up(epsilon_of(ratio), Fraction(order)))
    assert moment((wrapped(pair[0]), wrapped(pair[1])), order, [0.85 * price, 0, 0]) > 1e-6


@pytest.mark.parametrize(("epsilon", "order"), [("0.02", 15), ("0.05", 4), ("0.1", 4)])
def test_they_are_several_times_cheaper_than_q_targets(epsilon, order):
    order = Fraction(order)
    targets = (
        Targeted(boundary_epsilon_up(epsilon, outcomes=2), boundary_q_down(epsilon, outcomes=2)),
        Targeted(2 * Fraction(epsilon), twice_q_down(epsilon)),
    )
    for target, price in zip(targets, (boundary_price_up, twice_price_up), strict=True):
        assert 0 < 2 * price(epsilon, order) < hit_price_up(target, order)


@pytest.mark.parametrize("price", [boundary_price_up, twice_price_up])
def test_prices_grow_with_epsilon_and_order_until_there_is_none(price):
    grid = [[price(Fraction(eps, 100), Fraction(order)) for eps in range(1, 60, 6)] for order in (2, 3, 5, 9)]
    table = np.array([[np.inf if found is None else float(found) for found in row] for row in grid])
    assert np.isinf(table[:, -1]).any()
    for before, after in ((table[:, :-1], table[:, 1:]), (table[:-1], table[1:])):
        assert ((before < after) | np.isinf(after)).all()
    assert price(10**6, Fraction(50)) is None
    assert 0 < price("1e-15", Fraction(2)) < Fraction(1, 10**28)


@pytest.mark.parametrize("price", [boundary_price_up, twice_price_up])
@pytest.mark.parametrize(("epsilon", "order"), [(0, Fraction(2)), ("0.1", Fraction(1)), (10**7, Fraction(2))])
def test_the_domain_is_checked(price, epsilon, order):
    with pytest.raises(InvalidParameter):
        price(epsilon, order)
