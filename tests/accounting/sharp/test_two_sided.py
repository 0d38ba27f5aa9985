"""Two-sided tables: every pair of neighbours on both sides and across the valley, the best that is allowed."""

from fractions import Fraction

import pytest

from chary.accounting import sharp_table
from chary.accounting.sharp_tests import EDGE_BITS, TwoSidedTable
from tests.accounting.sharp.laws import PRICES, allowed, forbidden

CHANGES = [-3, 0, 1, 9, 40]


def table(prices, change, steps=1):
    order, price, miss_price = prices
    made = sharp_table(order=order, price=price, miss_price=miss_price, steps=steps)
    return TwoSidedTable(made, change * steps)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("steps", [1, 3])
def test_every_pair_of_neighbours_is_allowed_both_ways(prices, change, steps):
    made = table(prices, change, steps)
    far = (abs(change) + 12) * steps
    for x in range(-far, far):
        for gap in range(1, steps + 1):
            assert allowed(made.hit_chance(x), made.hit_chance(x + gap), *prices)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_the_larger_of_the_rising_and_the_mirrored_curve(prices, change):
    made = table(prices, change, 2)
    for x in range(-90, 90):
        rising, mirrored = (made.table.hit_chance(side - 2 * change) for side in (x, -x))
        assert made.hit_chance(x) == max(rising, mirrored) == made.hit_chance(-x) >= made.valley


def test_a_steeper_curve_is_not_allowed():
    order, price, miss_price = PRICES[0]
    steep = TwoSidedTable(sharp_table(order=order, price=2 * Fraction(price), miss_price=miss_price), 9)
    assert any(forbidden(steep.hit_chance(x), steep.hit_chance(x + 1), *PRICES[0]) for x in range(-20, 0))


def test_reaches_are_where_the_chances_are_kept():
    made, chance = table(PRICES[0], 500, 5), Fraction(1, 10**6)
    near, far = made.false_alarm_reach(chance), made.miss_reach(chance)
    assert made.hit_chance(near) <= chance < made.hit_chance(near + 1)
    assert 1 - made.hit_chance(-far) <= chance < 1 - made.hit_chance(1 - far)
    assert table(PRICES[0], 20).false_alarm_reach(chance) is None
    assert table(PRICES[0], -(10**6)).miss_reach(chance) == 0


def test_a_change_beyond_the_table_keeps_its_ends():
    made = table(PRICES[0], 10**30)
    assert 0 < made.valley < Fraction(1, 2 ** (EDGE_BITS - 1))
    assert made.hit_chance(-(10**31)) == made.hit_chance(10**31) < 1
    assert made.event.hit_price_up(Fraction(18)) == Fraction("0.19295")
