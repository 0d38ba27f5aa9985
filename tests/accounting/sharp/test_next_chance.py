"""The next chance of a hit: reference numbers, the allowed side, and nothing left beyond it."""

from fractions import Fraction
from itertools import pairwise

import pytest

from chary.accounting import next_miss_up, tail_down
from chary.errors import InvalidParameter
from tests.accounting.sharp.laws import PRICES, allowed, forbidden
from tests.paths import reference

ROWS = reference("sharp_test.csv")
CHANCES = [Fraction(1, 10**40), Fraction(1, 10**9), "0.001", "0.3", "0.5", "0.9", "0.999999", 1 - Fraction(1, 10**30)]
DIGITS = Fraction(1, 10**15)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["what"] == "next"], ids=lambda row: f"{row['order']}-{row['p']}"
)
def test_next_is_the_reference_on_the_allowed_side(row):
    found, value = next_miss_up(row["p"], order=row["order"], price=row["price"]), Fraction(row["value"])
    # The reference is rounded to 16 digits, so "above" can be told only up to that.
    assert value * (1 - DIGITS) <= found <= value * (1 + Fraction(1, 10**12))
    assert allowed(row["p"], 1 - found, row["order"], row["price"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["what"] == "tail"], ids=lambda row: row["order"])
def test_tail_is_the_reference_on_the_allowed_side(row):
    found, value = tail_down(order=row["order"], price=row["price"]), Fraction(row["value"])
    assert value * (1 - Fraction(1, 10**12)) <= found <= value * (1 + DIGITS)
    for p in (Fraction(1, 10**41), Fraction(1, 10**60)):
        assert allowed(p, found * p, row["order"], row["price"])
        assert forbidden(p, found * p * (1 + Fraction(1, 10**12)), row["order"], row["price"])


@pytest.mark.parametrize("p", CHANCES, ids=lambda p: f"{float(Fraction(p)):.3g}")
@pytest.mark.parametrize("prices", [*PRICES, ("1.001", "5", "0"), ("10000", "0.001", "0.0001"), ("18", "1e-11", "0")])
def test_next_is_allowed_and_a_part_in_1e12_more_is_not(p, prices):
    order, price, miss_price = prices
    miss = next_miss_up(p, order=order, price=price, miss_price=miss_price)
    assert allowed(p, 1 - miss, *prices)
    assert forbidden(p, 1 - miss * (1 - Fraction(1, 10**12)), *prices)


@pytest.mark.parametrize("prices", PRICES)
def test_next_is_concave_and_rises(prices):
    order, price, miss_price = prices
    grid = [Fraction(step, 20) for step in range(1, 20)]
    chances = [1 - next_miss_up(p, order=order, price=price, miss_price=miss_price) for p in grid]
    rises = [high - low for low, high in pairwise(chances)]
    assert all(rise > 0 for rise in rises)
    assert all(later < earlier for earlier, later in pairwise(rises))


def test_a_price_for_misses_lets_chances_climb_faster():
    free, paid = (next_miss_up("0.001", order=18, price="0.2", miss_price=price) for price in (0, "0.002"))
    assert paid < free


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"p": "0.5", "order": 1, "price": 1}, "order must be greater than 1"),
        ({"p": "0.5", "order": "1e8", "price": 1}, "at most 1e7"),
        ({"p": "0.5", "order": 18, "price": 0}, "price must be greater than 0"),
        ({"p": "0.5", "order": 18, "price": 1001}, "at most 1000"),
        ({"p": 0, "order": 18, "price": 1}, "p must be greater than 0"),
        ({"p": 1, "order": 18, "price": 1}, "less than 1"),
        ({"p": "0.5", "order": 18, "price": 1, "miss_price": 2}, "at most `price`"),
        ({"p": "0.5", "order": 18, "price": 1, "miss_price": -1}, "at least 0"),
    ],
)
def test_bad_numbers_are_refused(asked, told):
    with pytest.raises(InvalidParameter, match=told):
        next_miss_up(**asked)


def test_a_price_that_tells_nothing_is_refused_with_the_least_that_works():
    with pytest.raises(InvalidParameter, match=r"3\.06306e-12") as refused:
        next_miss_up("0.5", order=18, price="1e-13")
    least = str(refused.value).split("at least ")[1].split()[0]
    assert next_miss_up("0.5", order=18, price=least) < Fraction(1, 2)
