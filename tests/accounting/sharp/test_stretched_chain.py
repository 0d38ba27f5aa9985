"""Tables of very small prices, one chance for several sensitivities: every pair is allowed, and hardly any is lost."""

import math
import random
from fractions import Fraction

import pytest

from chary.accounting import SharpTest, sharp_table
from chary.accounting.sharp_tests import ONE, Inequalities, TwoSidedTable, chance_chain, least_price, stretch
from chary.accounting.sharp_widths import half_width
from chary.errors import InvalidParameter
from tests.accounting.sharp.laws import allowed, forbidden

# An order, a speed, and the part of the price of a hit that a miss costs.
SLOW = [("18", Fraction(1, 2100), 0), ("2", Fraction(1, 10**5), 0), ("100", Fraction(1, 20000), Fraction(1, 10))]
RARE = Fraction(1, 400_000)


@pytest.fixture(scope="module", params=SLOW, ids=str)
def prices(request):
    order, speed, part = request.param
    price = least_price(Fraction(order), speed)
    return order, price, price * part


def test_pairs_one_sensitivity_apart_are_allowed_wherever_they_lie(prices):
    """In ball arithmetic, at random places of the chain, its ends among them, and across two of its steps."""
    order, price, miss_price = prices
    table = sharp_table(order=order, price=price, miss_price=miss_price, steps=3)
    times, chosen = table.spacing // 3, random.Random(1)
    first, last = -table.centre * table.spacing, (len(table.chances) - table.centre) * table.spacing
    near = [table.spacing * j + more for j in (0, 100, -100) for more in (-2, -1, 0, 1)]
    ends = [end + chosen.randrange(-20, 20) * table.spacing + more for end in (first, last) for more in (0, 1, 2)]
    for place in [*near, *ends, *(chosen.randrange(first, last) for _ in range(150))]:
        low, high = table.hit_chance(place), table.hit_chance(place + 3)
        assert low == high or allowed(low, high, *prices)
        assert low <= high
    assert times == stretch(SharpTest(*prices)) > 1


def test_two_sided_tests_of_them_are_allowed_across_the_valley_and_at_both_sides(prices):
    order, price, miss_price = prices
    table = sharp_table(order=order, price=price, miss_price=miss_price, steps=3)
    chosen = random.Random(2)
    for change in (-table.spacing, 0, 1, 40 * table.spacing + 1):
        made = TwoSidedTable(table, change)
        across = [(x, x + gap) for x in (-3, -2, -1, 0) for gap in (1, 2, 3)]
        places = [chosen.randrange(-60 * table.spacing, 60 * table.spacing) for _ in range(20)]
        for x, y in [*across, *((place, place + chosen.choice((1, 2, 3))) for place in places)]:
            first, second = made.hit_chance(x), made.hit_chance(y)
            assert first == second or allowed(first, second, *prices)
            assert first == made.hit_chance(-x)


def test_a_chain_that_climbs_faster_is_caught(prices):
    table = sharp_table(order=prices[0], price=prices[1], miss_price=prices[2])
    for place in (-table.spacing * 40, 0, table.spacing * 40):
        low, high = table.hit_chance(place), table.hit_chance(place + 1)
        assert forbidden(low, low + (high - low) * Fraction(102, 100), *prices)


def test_the_first_and_the_last_pair_of_a_step_decide(prices):
    """Each step of the chain, of which pairs between are mixtures."""
    test = SharpTest(*prices)
    chances, centre = chance_chain(test)
    for place in (centre - 300, centre, centre + 300, len(chances) - 5):
        low, high = (Fraction(chances[place + more], ONE) for more in (0, 1))
        part = (high - low) / stretch(test)
        assert allowed(low, low + part, *prices)
        assert allowed(high - part, high, *prices)


def test_hardly_any_width_is_lost(prices):
    """Against floats that take what is allowed at each place, and where misses are free against the limit."""
    table = sharp_table(order=prices[0], price=prices[1], miss_price=prices[2])
    found = (table.false_alarm_reach(RARE) + table.miss_reach(RARE)) / 2
    assert found == pytest.approx(half_width(SharpTest(*prices), float(RARE)), rel=0.003)
    if not prices[2]:
        order = float(Fraction(prices[0]))
        speed = math.sqrt(float(prices[1]) / (order * (order - 1)))
        assert found == pytest.approx(math.acosh(float(RARE) ** -0.5) / (math.sqrt(2) * speed), rel=0.01)


def test_usual_prices_have_a_chance_for_each_sensitivity():
    assert sharp_table(order=18, price="0.19295", steps=7).spacing == 7


def test_a_price_beyond_all_stretching_is_refused_with_the_least_that_works():
    with pytest.raises(InvalidParameter, match="needs a price of a hit of at least") as refused:
        sharp_table(order=18, price=least_price(Fraction(18), Fraction(9, 10**6)))
    least = str(refused.value).split()[-1]
    assert sharp_table(order=18, price=least).spacing > 1


@pytest.mark.parametrize("part", [0, Fraction(1, 10**6), Fraction(1, 10**10)])
def test_no_chain_of_a_slow_test_verifies_more_than_some_thousand_pairs(monkeypatch, part):
    """Each pair takes four logarithms and powers with 42 to 80 digits."""
    pairs = []
    monkeypatch.setattr(
        "chary.accounting.sharp_tests.Inequalities.allow",
        lambda self, p, q, allow=Inequalities.allow: pairs.append(1) or allow(self, p, q),
    )
    price = least_price(Fraction(18), Fraction(1, 1900))
    chance_chain(SharpTest(18, price, price * part))
    assert len(pairs) < 15_000


@pytest.mark.parametrize("part", [0, Fraction(1, 10**6), Fraction(1, 2)])
@pytest.mark.parametrize("speed", [Fraction(1, 200), Fraction(1, 700)])
def test_a_width_walked_several_sensitivities_at_a_step_is_that_of_the_table(speed, part):
    price = least_price(Fraction(18), speed)
    table = sharp_table(order=18, price=price, miss_price=price * part)
    found = (table.false_alarm_reach(RARE) + table.miss_reach(RARE)) / 2
    assert half_width(table.test, float(RARE)) == pytest.approx(found, rel=0.01)
