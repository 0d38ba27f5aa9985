"""Tables of sharp tests: every pair of neighbours, the best that is allowed, reaches, refusals."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from chary.accounting import SharpTest, next_miss_up, sharp_table
from chary.accounting.sharp_tests import ONE, chance_chain
from chary.errors import InvalidParameter
from tests.accounting.sharp.laws import PRICES, allowed


def table(prices, steps=1):
    order, price, miss_price = prices
    return sharp_table(order=order, price=price, miss_price=miss_price, steps=steps)


@pytest.mark.parametrize("prices", PRICES)
def test_every_pair_a_sensitivity_apart_is_allowed_and_rises(prices):
    chances = [Fraction(chance, ONE) for chance in table(prices).chances]
    assert all(low < high and allowed(low, high, *prices) for low, high in pairwise(chances))
    assert 0 < chances[0] < Fraction(1, 2**99)
    assert 0 < 1 - chances[-1] < Fraction(1, 2**99)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("steps", [2, 7])
def test_every_pair_of_steps_is_allowed(prices, steps):
    made = table(prices, steps)
    far = min(60, len(made.chances)) * steps
    spots = {*range(-far, far), *range(-made.centre * steps - 2 * steps, -made.centre * steps + 2 * steps)}
    top = (len(made.chances) - made.centre) * steps
    for x in spots | {*range(top - 3 * steps, top + 2 * steps)}:
        for gap in (1, steps - 1, steps):
            assert allowed(made.hit_chance(x), made.hit_chance(x + gap), *prices)


@pytest.mark.parametrize("prices", PRICES)
def test_each_chance_is_the_next_of_the_one_before(prices):
    order, price, miss_price = prices
    made = table(prices)
    edge = Fraction(1, 2**98)
    inside = [x for x in range(-6, 40) if edge < made.hit_chance(x) and made.hit_chance(x + 1) < 1 - edge]
    assert len(inside) > 5
    for x in inside:
        miss = next_miss_up(made.hit_chance(x), order=order, price=price, miss_price=miss_price)
        least, found = 1 - miss - made.hit_chance(x), made.hit_chance(x + 1) - made.hit_chance(x)
        assert least * (1 - Fraction(1, 10**11)) <= found <= least


@pytest.mark.parametrize("miss_price", ["1e-9", "9e-10", "1e-15", "1e-40", "1e-100"])
def test_tiny_prices_of_misses_are_told_from_none(miss_price):
    free, paid = table(PRICES[2]), table(("5", "0.38428", miss_price))
    assert all(
        allowed(Fraction(low, ONE), Fraction(high, ONE), "5", "0.38428", miss_price)
        for low, high in pairwise(paid.chances)
    )
    assert paid.centre <= free.centre
    assert (paid.centre < free.centre) == (Fraction(miss_price) > Fraction(1, 10**30))


def test_small_chances_fall_by_one_factor_close_to_the_best():
    made = table(PRICES[0])
    ratios = [Fraction(high, low) for low, high in pairwise(made.chances[:1000])]
    assert max(ratios) - min(ratios) < Fraction(1, 10**20)
    assert 1.02897 < float(min(ratios)) < 1.028981910568015


def test_the_centre_is_where_a_hit_is_as_likely_as_a_miss():
    made = table(PRICES[0], 10)
    assert made.hit_chance(0) == Fraction(1, 2) > made.hit_chance(-1)


def test_the_law_between_is_a_mixture_and_ends_are_kept():
    made = table(PRICES[0], 10)
    assert made.hit_chance(3) == (7 * made.hit_chance(0) + 3 * made.hit_chance(10)) / 10
    assert made.hit_chance(-(10**30)) == Fraction(made.chances[0], ONE)
    assert made.hit_chance(10**30) == Fraction(made.chances[-1], ONE) < 1


def test_small_losses_follow_the_curve_of_the_limit():
    """`sech^2(speed (T - x) / sqrt 2)`: the limit of many hits (theory 10)."""
    order, speed = 20, 0.004
    made = sharp_table(order=order, price=Fraction(str(order * (order - 1) * speed**2)))
    start = math.acosh(math.sqrt(2)) * math.sqrt(2) / speed
    for x in np.arange(-3000, -10, 100).tolist():
        limit = 1 / math.cosh(speed * (start - x) / math.sqrt(2)) ** 2
        # Losses of finite size make the rate a little smaller.
        assert math.log(made.hit_chance(x)) == pytest.approx(math.log(limit), rel=0.05)


def test_misses_charged_alike_give_the_squared_sine():
    order, speed = 20, 0.004
    price = Fraction(str(order * (order - 1) * speed**2))
    made = sharp_table(order=order, price=price, miss_price=price)
    for x in (-150, -40, 0, 90, 150):
        limit = math.sin(math.pi / 4 + speed * x / math.sqrt(2)) ** 2
        assert float(made.hit_chance(x)) == pytest.approx(limit, abs=0.01)


def test_reaches_are_the_first_steps_that_keep_the_chance():
    made, chance = table(PRICES[0], 5), Fraction(1, 10**6)
    below, above = made.false_alarm_reach(chance), made.miss_reach(chance)
    assert made.hit_chance(-below) <= chance < made.hit_chance(1 - below)
    assert 1 - made.hit_chance(above) <= chance < 1 - made.hit_chance(above - 1)
    assert made.bar(chance) == (above - below) // 2 < 0
    with pytest.raises(InvalidParameter, match=r"2\^-100"):
        made.false_alarm_reach(Fraction(1, 2**120))


def test_tables_are_kept_and_do_not_grow_with_the_steps():
    assert chance_chain(SharpTest(18, "0.19295")) is chance_chain(SharpTest("18", "0.19295"))
    assert table(PRICES[0], 10**12).chances is table(PRICES[0]).chances


def test_a_price_too_small_for_a_table_is_refused_with_the_least_that_works():
    with pytest.raises(InvalidParameter, match=r"at least 3\.06306e-08"):
        sharp_table(order=18, price="3e-8")
    with pytest.raises(InvalidParameter, match="steps"):
        sharp_table(order=18, price=1, steps=0)
