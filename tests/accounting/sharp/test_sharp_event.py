"""The event of a sharp test: its price at its own order, below and above, and under each filter."""

import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Event, Joint, Pure, Repeated, SharpTest, ZeroConcentrated
from chary.errors import NotPriced
from chary.filters import Budget, ExactFilter, PureFilter, RenyiFilter
from tests.accounting.sharp.test_sharp_adversaries import neighbours

BUDGET = Budget(epsilon=1, delta=1e-6)
TESTS = [SharpTest(18, "0.19295"), SharpTest(18, "0.19295", "0.00002"), SharpTest(2, 1, 1), SharpTest("1.5", 3)]


def at(test, order, *, hit, miss):
    """The largest discounted moment of any pair of neighbours at an order."""
    p, not_p, q, not_q = neighbours((str(test.order), str(test.price), str(test.miss_price)))
    power = float(order) - 1
    return np.max(p * (p / q) ** power * math.exp(-hit) + not_p * (not_p / not_q) ** power * math.exp(-miss))


@pytest.mark.parametrize("test", TESTS, ids=str)
@pytest.mark.parametrize("part", ["0.01", "0.3", "0.7", "1"])
def test_prices_at_lower_orders_hold_for_all_pairs(test, part):
    order = 1 + (Fraction(test.order) - 1) * Fraction(part)
    hit, miss = test.hit_price_up(order), test.miss_price_up(order)
    assert at(test, order, hit=float(hit), miss=float(miss)) <= 1 + 1e-12
    assert at(test, order, hit=0, miss=0) <= math.exp(float(test.log_moment_up(order))) * (1 + 1e-12)
    assert (hit, miss) == (Fraction(test.price) * Fraction(part), Fraction(test.miss_price) * Fraction(part))


def test_a_hundredth_less_than_the_own_price_does_not_hold():
    for test in TESTS:
        hit, miss = float(test.price) * 0.99, float(test.miss_price) * 0.99
        assert at(test, test.order, hit=hit, miss=miss) > 1 + 1e-7


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_above_its_order_it_has_no_price(test):
    order = Fraction(test.order) * Fraction(1001, 1000)
    assert test.hit_price_up(order) is None
    assert test.miss_price_up(order) == 0
    with pytest.raises(NotPriced, match="epsilon="):
        test.log_moment_up(order)


def test_events_are_frozen_and_equal_by_their_numbers():
    assert SharpTest("18", 0.5) == SharpTest(18, Fraction(1, 2))
    assert len({SharpTest("18", 0.5), SharpTest(18, "0.5", 0)}) == 1
    assert (TESTS[0].epsilon, TESTS[0].delta, TESTS[0].copies) == (None, 0, (TESTS[0], 1))


def test_a_renyi_filter_charges_hits_and_what_misses_were_priced():
    filter_ = RenyiFilter(BUDGET, Fraction(18))
    free, paid = (filter_.price(test) for test in TESTS[:2])
    assert free.free_miss
    assert not paid.free_miss
    assert free.hit == paid.hit
    assert (free.hit.main, paid.miss.main) == (192_950_000_000_000, 20_000_000_000)
    assert filter_.price(Repeated(TESTS[1], 3)).miss == paid.miss.times(3)


def test_a_renyi_filter_of_a_higher_order_refuses():
    with pytest.raises(NotPriced, match="order 19"):
        RenyiFilter(BUDGET, Fraction(19)).price(TESTS[0])


@pytest.mark.parametrize("filter_", [PureFilter(BUDGET), ExactFilter(BUDGET, Fraction(1, 50))], ids=lambda f: f.kind)
def test_other_filters_name_what_to_ask_instead(filter_):
    with pytest.raises(NotPriced, match="ask with epsilon= for a Laplace test"):
        filter_.price(TESTS[0])


def test_it_is_released_together_with_others_at_its_order():
    value = ZeroConcentrated("0.001")
    both = Joint((TESTS[0], value))
    assert both.epsilon is None
    assert both.log_moment_up(Fraction(18)) == TESTS[0].log_moment_up(Fraction(18)) + value.log_moment_up(Fraction(18))
    assert RenyiFilter(BUDGET, Fraction(18)).price(both).miss == RenyiFilter(BUDGET, Fraction(18)).price(both).hit


def test_other_events_have_free_misses_and_the_usual_advice():
    event: Event = Pure(1)
    assert (event.miss_price_up(Fraction(18)), event.otherwise) == (0, "")
