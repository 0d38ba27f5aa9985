"""Unanimous runs: the price and the q against pairs of laws of every kind, and against a grid of all pairs of two."""

import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import (
    best_runs,
    boundary_chance,
    narrow_price_up,
    twice_price_up,
    unanimous_price_up,
    unanimous_q_down,
)
from chary.errors import InvalidParameter
from tests.accounting.strategies import random_pair, response_pair

CASES = [("0.1", 3, 4), ("0.1", 6, 2), ("0.3", 4, 2), ("0.02", 7, 15), ("0.02", 20, 15)]


def needed(pair, runs, order):
    """The least price that this pair of laws allows."""
    p, q = pair
    hits = [-np.expm1(np.log(np.sum(law**runs))) for law in pair]
    kept = 1 - np.sum((p**order * q ** (1 - order)) ** runs)
    return math.log(hits[0] ** order * hits[1] ** (1 - order) / kept)


def pairs_of_two(epsilon, size=300):
    """All pairs on a grid of two outcomes, as far apart as they may be or nearer."""
    likely, rare = math.exp(epsilon), math.exp(-epsilon)
    for x in np.concatenate([np.geomspace(1e-4, 0.1, size // 2), np.linspace(0.1, 0.9, size)]):
        low, high = max(rare * x, 1 - likely * (1 - x)), min(likely * x, 1 - rare * (1 - x))
        yield from ((np.array([x, 1 - x]), np.array([y, 1 - y])) for y in (low, low + 0.3 * (high - low), high))


@pytest.mark.parametrize(("epsilon", "runs", "order"), CASES)
def test_the_price_is_that_of_the_worst_pair_of_two_outcomes(epsilon, runs, order):
    price = float(unanimous_price_up(epsilon, runs, Fraction(order)))
    worst = max(needed(pair, runs, order) for pair in pairs_of_two(float(epsilon)))
    worst = max(worst, needed(response_pair(float(epsilon)), runs, order))
    assert worst <= price * (1 + 1e-9)
    assert worst > price * (1 - 1e-3)


@pytest.mark.parametrize(("epsilon", "runs", "order"), CASES)
def test_more_outcomes_are_not_worse(epsilon, runs, order):
    rng, price = np.random.default_rng(4), float(unanimous_price_up(epsilon, runs, Fraction(order)))
    pairs = [random_pair(rng, float(epsilon), outcomes) for outcomes in (3, 4, 5) for _ in range(200)]
    assert max(needed(pair, runs, order) for pair in pairs) <= price * (1 + 1e-9)


def test_two_runs_cost_what_publishing_both_costs_and_many_a_narrow_choice():
    order = Fraction(15)
    assert unanimous_price_up("0.02", 2, order) == twice_price_up("0.02", order)
    prices = [float(unanimous_price_up("0.02", runs, order)) for runs in (2, 3, 4, 5, 6, 7, 12, 200)]
    assert prices == sorted(prices, reverse=True)
    assert 1 <= prices[-1] / float(narrow_price_up("0.02", order)) < 1.001


@pytest.mark.parametrize("epsilon", ["0.02", "0.5", "2"])
@pytest.mark.parametrize("runs", [2, 3, 6])
def test_the_q_holds_for_all_pairs(epsilon, runs):
    """The best q of a pair of laws is what hits at least, of what cannot be shed (docs/theory/charging.md)."""
    size, q, rng = math.exp(float(epsilon) * runs), float(unanimous_q_down(epsilon, runs)), np.random.default_rng(5)
    pairs = [*pairs_of_two(float(epsilon), 60), *(random_pair(rng, float(epsilon), 4) for _ in range(200))]
    best = []
    for one, other in ((p**runs, q_**runs) for p, q_ in pairs):
        shed = (size * np.minimum(one, other) - np.maximum(one, other)) / (size - 1)
        best.append(min(1 - one.sum(), 1 - other.sum()) / (1 - shed.sum()))
    assert q <= min(best) * (1 + 1e-9)
    assert q > min(best) / 2


def test_the_best_number_of_runs_pays_least():
    order = Fraction(15)
    paid = {k: float(unanimous_price_up("0.02", k, order)) * boundary_chance("0.1", k) for k in range(2, 13)}
    assert best_runs("0.02", order, "0.1") == min(paid, key=paid.get)
    assert boundary_chance("0.1", 3) == pytest.approx(3 * 0.1 * 0.9)


def test_where_there_is_no_price():
    assert unanimous_price_up(1, 3, Fraction(15)) is None
    assert unanimous_price_up("1e-9", 3, Fraction(15)) is None
    with pytest.raises(InvalidParameter, match="smaller epsilon"):
        best_runs(1, Fraction(15), "0.1")
    for wrong in [("0.1", 1, Fraction(2)), ("0.1", 3, Fraction(1)), (0, 3, Fraction(2))]:
        with pytest.raises(InvalidParameter):
            unanimous_price_up(*wrong)
