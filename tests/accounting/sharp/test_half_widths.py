"""Half-widths: the figures of the theory, what the table says itself, refusals."""

from fractions import Fraction

import pytest

from chary.accounting import SharpTest, capacity_down, sharp_table, sharp_width
from chary.accounting.sharp_widths import AgreedNumber, half_width, laplace_width
from chary.errors import InvalidParameter
from chary.filters import Budget, RenyiFilter, largest_call


def width(hits, tests=10_000, epsilon=1, share=0):
    return sharp_width(epsilon=epsilon, delta="1e-6", tests=tests, hits=hits, misses_share=share).within


@pytest.mark.parametrize(
    ("hits", "sharp", "laplace"), [(5, 140, 322), (20, 211, 490), (50, 295, 690), (200, 524, 1241)]
)
def test_widths_without_a_number_of_tests(hits, sharp, laplace):
    assert round(width(hits)) == sharp
    size = largest_call(Budget(epsilon=1, delta=1e-6), hits, "renyi")
    assert round(laplace_width(size, tests=10_000)) == laplace


def test_width_of_half_the_epsilon():
    assert width(20, epsilon="0.5") == pytest.approx(400, abs=2)


@pytest.mark.parametrize(
    ("tests", "hits", "shares"),
    [
        (10_000, 5, (141, 120, 113)),
        (10_000, 20, (212, 170, 161)),
        (10_000, 50, (295, 226, 212)),
        (1000, 3, (104, 89, 81)),
        (1000, 10, (142, 113, 105)),
        (1000, 20, (177, 136, 124)),
        (1000, 50, (247, 177, 161)),
    ],
)
def test_widths_of_an_agreed_number_of_tests(tests, hits, shares):
    """The table of the theory, made with orders a little off the best."""
    for share, most in zip((0, "0.05", "0.2"), shares, strict=True):
        assert most - 2 < width(hits, tests, share=share) < most + 0.7


@pytest.mark.parametrize(("tests", "hits"), [(10_000, 20), (1000, 3), (10, 10), (1, 1)])
def test_the_best_share_is_no_wider_than_any_other(tests, hits):
    best = sharp_width(epsilon=1, delta="1e-6", tests=tests, hits=hits, misses_share="best")
    assert all(best.within <= width(hits, tests, share=share) * 1.001 for share in ("0", "0.1", "0.2", "0.3", "0.45"))
    assert 0 < best.share < 1


def test_a_budget_is_used_up_and_not_passed():
    asked = {"epsilon": 1, "delta": "1e-6", "tests": 1000, "hits": 20}
    test = sharp_width(**asked, misses_share="0.2").test
    spent = 20 * Fraction(test.price) + 1000 * Fraction(test.miss_price)
    capacity = capacity_down(Fraction(1), Fraction(1, 10**6), Fraction(test.order))
    assert capacity * Fraction(999_999, 10**6) < spent <= capacity
    free = sharp_width(**asked).test
    filter_ = RenyiFilter(Budget(epsilon=1, delta=1e-6), Fraction(free.order))
    assert filter_.price(free).hit.copies_in(filter_.capacity) == 20


@pytest.mark.parametrize("miss_price", ["0", "0.0001"])
def test_a_half_width_is_that_of_the_table(miss_price):
    test, chance = SharpTest(18, "0.19295", miss_price), Fraction(1, 10**5)
    made = sharp_table(order=18, price="0.19295", miss_price=miss_price, steps=1000)
    reaches = made.false_alarm_reach(chance) + made.miss_reach(chance)
    assert half_width(test, float(chance)) == pytest.approx(reaches / 2000, abs=0.02)


def test_the_order_is_the_best():
    agreed = AgreedNumber(1, "1e-6", tests=10_000, hits=20)
    found = sharp_width(epsilon=1, delta="1e-6", tests=10_000, hits=20)
    others = [
        agreed.test(Fraction(found.test.order) * part, Fraction(0)) for part in (Fraction(9, 10), Fraction(11, 10))
    ]
    assert all(half_width(test, 0.05 / 20_000) > found.within for test in others)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tests": 0}, "tests must be"),
        ({"hits": 0}, "hits must be"),
        ({"hits": 1001}, "at most tests"),
        ({"delta": 0}, "delta must be"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"confidence": 1}, "confidence must be"),
    ],
)
def test_bad_numbers_are_refused(changed, told):
    with pytest.raises(InvalidParameter, match=told):
        AgreedNumber(**{"epsilon": 1, "delta": "1e-6", "tests": 1000, "hits": 3} | changed)


@pytest.mark.parametrize("share", ["-0.1", "1", "0.9"])
def test_a_share_is_refused_where_misses_would_cost_more_than_hits(share):
    with pytest.raises(InvalidParameter, match="misses_share"):
        sharp_width(epsilon=1, delta="1e-6", tests=5, hits=3, misses_share=share)


def test_a_hundredth_of_a_budget_is_right_within_a_hundred_times_as_much():
    small, usual = (sharp_width(epsilon=epsilon, delta="1e-6", tests=300, hits=200) for epsilon in ("0.01", "1"))
    assert 50 < small.within / usual.within < 120


def test_a_budget_too_small_for_a_test_is_refused():
    with pytest.raises(InvalidParameter, match="fewer hits or a larger budget"):
        sharp_width(epsilon="0.0001", delta="1e-6", tests=300, hits=200)
