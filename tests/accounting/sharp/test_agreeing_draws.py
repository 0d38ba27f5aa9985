"""Two draws of a label: every pair of neighbours by its whole law, the limit, the tail, what is not allowed."""

import math
from fractions import Fraction
from itertools import pairwise

import flint
import pytest

from chary.accounting import SharpTest, tail_down
from chary.accounting.sharp_tests import ONE
from chary.accounting.sharp_widths import clear_depth, draw_chain, draw_table
from chary.errors import InvalidParameter
from chary.mechanisms.boundaries import LabelDraws
from tests.accounting.sharp.laws import BITS, ball

PRICES = [("18", "0.19295"), ("5", "0.38428"), ("1.5", "3"), ("2", "1")]
LABELS = [2, 3, 10, 2**20]


def law(draws, own, depth):
    """The chances of a draw: each of at most three labels that values have, and all the rest together."""
    certain = draws.table.hit_chance(depth)
    uniform = (1 - certain) / draws.labels
    shown = min(3, draws.labels)
    return [uniform + certain * (label == own) for label in range(shown)], uniform, draws.labels - shown


def moment(first, second, test):
    """`Σ P^a Q^(1-a)` over all outcomes of two draws, the charged one discounted."""
    flint.ctx.prec = BITS
    a, kept = ball(test.order), (-ball(test.price)).exp()
    (p, p_other, rest), (q, q_other, _) = first, second
    told = [(x**2, y**2) for x, y in zip(p, q, strict=True)]
    free = sum((ball(x) ** a * ball(y) ** (1 - a) for x, y in told), ball(0))
    free += rest * ball(p_other**2) ** a * ball(q_other**2) ** (1 - a)
    unclear = [1 - sum(x**2 for x in law_) - rest * other**2 for law_, other in ((p, p_other), (q, q_other))]
    return free + kept * ball(unclear[0]) ** a * ball(unclear[1]) ** (1 - a)


def made(prices, labels, steps=1):
    return LabelDraws(draw_table(SharpTest(*prices), labels, steps), labels)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("steps", [1, 3])
def test_every_pair_of_neighbours_is_allowed_both_ways_within_a_label_and_across(prices, labels, steps):
    draws = made(prices, labels, steps)
    end = len(draws.table.chances) * steps
    spots = {*range(12 * steps), *range(40 * steps, 43 * steps), *range(end - 3 * steps, end + 2)}
    within = [((0, d), (0, d + gap)) for d in spots for gap in range(1, steps + 1)]
    across = [((0, d), (1, gap - d)) for gap in range(steps + 1) for d in range(gap + 1)]
    for one, other in within + across:
        first, second = law(draws, *one), law(draws, *other)
        assert bool(moment(first, second, draws.event()) <= 1)
        assert bool(moment(second, first, draws.event()) <= 1)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("labels", LABELS[:3])
def test_half_the_price_does_not_pay_for_it(prices, labels):
    draws, half = made(prices, labels), SharpTest(prices[0], Fraction(prices[1]) / 2)
    pairs = [(law(draws, 0, d), law(draws, 0, d + 1)) for d in range(30)]
    assert any(bool(moment(*pair, half) > 1) or bool(moment(*pair[::-1], half) > 1) for pair in pairs)


def test_labels_that_meet_at_some_depth_are_not_allowed():
    """A control: where own labels change at once, one draw is told from the other."""
    draws = made(PRICES[0], 2)
    assert bool(moment(law(draws, 0, 20), law(draws, 1, 20), draws.event()) > 1)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("labels", LABELS)
def test_chances_rise_from_all_alike_to_the_edge(prices, labels):
    chances = draw_chain(SharpTest(*prices), labels)
    assert chances[0] == 0
    assert all(low < high for low, high in pairwise(chances))
    assert 0 < ONE - chances[-1] <= ONE >> 100


def test_pairs_are_the_farthest_that_are_allowed():
    """A step longer by a part in a billion is not."""
    draws = made(PRICES[0], 2)
    for depth in (0, 1, 7, 30, 100):
        here, there = draws.table.hit_chance(depth), draws.table.hit_chance(depth + 1)
        farther = there + (there - here) / 10**9
        laws = [([u + (1 - u) / 2, (1 - u) / 2], (1 - u) / 2, 0) for u in (here, farther)]
        assert any(bool(moment(*pair, draws.event()) > 1) for pair in (laws, laws[::-1]))


def test_unclear_answers_become_rarer_by_the_factor_of_the_tail():
    draws = made(PRICES[0], 2)
    rest = [1 - draws.table.hit_chance(depth) for depth in (900, 901)]
    assert float(rest[0] / rest[1]) == pytest.approx(float(tail_down(order="18", price="0.19295")), rel=1e-3)


def test_small_losses_follow_the_logistic_curve():
    order, speed = 20, 0.004
    draws = made((order, Fraction(str(order * (order - 1) * speed**2))), 2)
    for depth in (0, 50, 150, 300, 600):
        limit = 1 / (1 + math.exp(math.sqrt(2) * speed * depth))
        assert float(1 - draws.table.hit_chance(depth)) / 2 == pytest.approx(limit, rel=0.05 * (1 + depth / 100))


@pytest.mark.parametrize("labels", [2, 7, 2**30])
def test_the_depth_that_is_clear_is_that_of_the_table(labels):
    test = SharpTest(*PRICES[0])
    draws = LabelDraws(draw_table(test, labels, 1), labels)
    for chance in (Fraction(1, 2), Fraction(1, 10**6)):
        assert -0.05 < draws.reach(chance) - clear_depth(labels, test, float(chance)) < 1.05
    with pytest.raises(InvalidParameter, match=r"2\^-100"):
        draws.reach(Fraction(1, 2**120))


def test_prices_of_misses_and_prices_too_small_are_refused():
    with pytest.raises(InvalidParameter, match="miss"):
        draw_chain(SharpTest(18, "0.2", "0.1"), 2)
    with pytest.raises(InvalidParameter, match="at least"):
        draw_chain(SharpTest(18, "7e-5"), 2)
    with pytest.raises(InvalidParameter, match="at least"):
        clear_depth(2, SharpTest(18, "7e-5"), 1e-6)
