import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Targeted, capacity_down, choose_order, epsilon_up, exact_total, hit_price_up
from tests.accounting.strategies import random_leaves
from tests.paths import reference


def test_reference_prices():
    for name in ("hit_price.csv", "hit_price_q.csv"):
        for row in reference(name):
            found = hit_price_up(Targeted(row["epsilon_per_call"], row.get("q")), Fraction(row["order"]))
            if row["price"] == "inf":
                assert found is None
            else:
                assert float(found) == pytest.approx(float(row["price"]), rel=1e-9)


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(9)])
def test_charged_hits_bound_the_moment_of_every_analyst(order):
    """Theory 1.4: E_P1[(P0/P1)^a exp(-charged)] <= 1, hits of mixed sizes, in both directions."""
    rng = np.random.default_rng(int(order))
    sizes = [0.02, 0.05]
    price = {size: float(hit_price_up(Targeted(size), order)) for size in sizes}
    a = float(order)
    for _ in range(60):
        leaves = random_leaves(rng, sizes, 3, 6)
        for one, other in (("p0", "p1"), ("p1", "p0")):
            moment = sum(
                getattr(leaf, one) ** a
                * getattr(leaf, other) ** (1 - a)
                * math.exp(-sum(price[float(size)] for size in leaf.hits))
                for leaf in leaves
                if min(leaf.p0, leaf.p1) > 0
            )
            assert moment <= 1 + 1e-12


@pytest.mark.parametrize(("epsilon", "order"), [("0.1", 4), ("0.05", 10), ("0.4", 2)])
def test_randomized_response_attains_the_price(epsilon, order):
    """One hit, called until it comes: the moment of the geometric walk is exactly 1."""
    eps, a = float(epsilon), float(order)
    p = 1 / (1 + math.exp(-eps))
    psi = float(hit_price_up(Targeted(epsilon), Fraction(order)))
    low = (1 - p) ** a * p ** (1 - a)
    high = p**a * (1 - p) ** (1 - a)
    assert low / (1 - high) * math.exp(-psi) == pytest.approx(1, rel=1e-12)


def test_no_price_where_the_moment_diverges():
    assert hit_price_up(Targeted("0.1"), Fraction(7)) is not None
    assert hit_price_up(Targeted("0.1"), Fraction(8)) is None
    assert hit_price_up(Targeted(1000), Fraction(2)) is None


def test_tiny_calls_keep_their_digits():
    """In floats this price is noise; its leading term is known: with e^psi = A/(1-B), psi ~ eps^2 (...)"""
    order = Fraction(3)
    coarse, fine = (float(hit_price_up(Targeted(eps), order)) for eps in ("1e-6", "1e-7"))
    assert coarse / fine == pytest.approx(100, rel=1e-5)


def test_price_of_full_target_is_the_ordinary_one():
    event, order = Targeted("0.1", 1), Fraction(5)
    assert float(hit_price_up(event, order)) == pytest.approx(float(event.log_moment_up(order)), rel=1e-12)


def test_renyi_total_is_close_above_the_exact_curve():
    order = choose_order(Fraction(2), Fraction(1, 10**6), Fraction("0.05"))
    spent = 20 * hit_price_up(Targeted("0.05"), order)
    renyi = float(epsilon_up(spent, order, Fraction(1, 10**6)))
    exact = exact_total(epsilon_per_call=0.05, hits=20, delta=1e-6)
    assert exact < renyi < 1.2 * exact


@pytest.mark.parametrize(("epsilon", "grain"), [("1", "0.001"), ("1", "0.02"), ("5", "0.1"), ("20", "0.1")])
def test_no_order_affords_more_hits_than_the_chosen_one(epsilon, grain):
    """To the three digits to which orders are rounded."""
    delta = Fraction(1, 10**6)

    def hits(order):
        return float(capacity_down(Fraction(epsilon), delta, order) / hit_price_up(Targeted(grain), order))

    chosen = choose_order(Fraction(epsilon), delta, Fraction(grain))
    others = [hits(1 + (chosen - 1) * Fraction(part, 400)) for part in range(360, 441)]
    assert max(others) <= hits(chosen) * (1 + 3e-5)


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(20), Fraction(1001)])
def test_capacity_and_conversion_are_inverse_with_safe_rounding(order):
    delta = Fraction(1, 10**6)
    for epsilon in (Fraction(20), Fraction(3), Fraction(1, 2)):
        capacity = capacity_down(epsilon, delta, order)
        if capacity > 0:
            back = epsilon_up(capacity, order, delta)
            assert back <= epsilon
            assert float(back) == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("grain", [51, 700, 710, 10**6])
def test_an_order_is_chosen_also_for_calls_whose_exponential_is_no_float(grain):
    budget = Fraction(2 * grain), Fraction(1, 10**6)
    assert choose_order(*budget, Fraction(grain)) == choose_order(*budget)
