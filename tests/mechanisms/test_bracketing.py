"""Choices that look at likely places alone, and coins thrown late: the same laws as of all places and all coins."""

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from chary.mechanisms import HalvedQuantiles, InverseSensitivity, Order, RankDistance, Stretches
from chary.mechanisms import quantiles as order_statistics
from chary.mechanisms.choices import LevelLaw
from chary.mechanisms.quantiles import Coins, Scattered, Stretch, choose_place
from chary.noise import Seeded
from tests.mechanisms.test_inverse_sensitivity import per_outcome
from tests.mechanisms.test_quantiles import databases, order_of, values_of
from tests.noise.helpers import Scripted as Words

ALPHA = 1e-6


class Walk:
    """Stands in for coins: follows a script, then takes the first outcome, and notes the chances."""

    def __init__(self, script):
        self.script, self.taken, self.sizes, self.chance = list(script), [], [], 1.0

    def pick(self, chances):
        at = len(self.taken)
        self.taken.append(self.script[at] if at < len(self.script) else 0)
        self.sizes.append(len(chances))
        self.chance *= chances[self.taken[-1]]
        return self.taken[-1]

    def place(self, chooser, stretches):
        return self.pick(per_outcome(chooser, stretches))

    def accepts(self, chooser, more):
        chance = math.exp(-float(chooser.unit) * more)
        assert more >= 0
        return more == 0 or self.pick([chance, 1 - chance]) == 0

    def half(self, count):
        return self.pick([math.comb(count, k) / 2**count for k in range(count + 1)])

    def next(self):
        """The next script in depth-first order, None after the last."""
        taken = self.taken[:]
        while taken and taken[-1] + 1 == self.sizes[len(taken) - 1]:
            taken.pop()
        return [*taken[:-1], taken[-1] + 1] if taken else None


def law_of(work):
    """The exact law of what some work finds, by walking through all that its coins can say."""
    law, script = Counter(), []
    while script is not None:
        walk = Walk(script)
        law[work(walk)] += walk.chance
        script = walk.next()
    assert sum(law.values()) == pytest.approx(1)
    return law


def chosen(chooser, distance, order, first, last, more, coins):
    """A place of a part of the grid, in which the values stay where they are."""
    return choose_place(chooser, distance, Stretch(order.scattered(0, coins), first, last, more), coins)


def plain_law(chooser, distance, order, more=0):
    """The law of a choice that looks at all places."""
    return dict(enumerate(per_outcome(chooser, distance.stretches(order.topped(more)))))


@pytest.mark.parametrize(("q", "replace", "moves"), [("1/2", False, 1), ("1/4", True, 1), ("0.9", False, 2)])
@pytest.mark.parametrize("more", [0, 2])
def test_a_choice_has_the_law_of_all_places(q, replace, moves, more):
    chooser, distance = InverseSensitivity("1.5"), RankDistance(q, replace, moves)
    for counts in databases(3, 3):
        order = order_of(values_of(counts), 3)
        found = law_of(partial(chosen, chooser, distance, order, 0, 2, more))
        assert found == pytest.approx(plain_law(chooser, distance, order, more), rel=1e-9)


def test_places_are_refused_and_within_a_part_others_do_not_count(monkeypatch):
    """A part of a grid on which values are few and far between; without brackets much is refused."""
    chooser, distance = InverseSensitivity(2), RankDistance("1/2", replace=False)
    order = order_of([0, 2, 3, 3, 5], 6)
    part = order_of([0, 1, 1], 3)
    for brackets in (Stretch.brackets, lambda part, wanted: [part.first, part.last + 1]):
        monkeypatch.setattr(Stretch, "brackets", brackets)
        found = law_of(partial(chosen, chooser, distance, order, 2, 4, 0))
        assert found == pytest.approx(plain_law(chooser, distance, part), rel=1e-9)


def test_a_choice_that_refused_nothing_would_be_seen(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(Walk, "accepts", lambda *_: True)
    monkeypatch.setattr(Stretch, "brackets", lambda part, wanted: [part.first, part.last + 1])
    chooser, distance, order = InverseSensitivity(2), RankDistance("1/2", replace=False), order_of([0, 1, 1], 3)
    found = law_of(partial(chosen, chooser, distance, order, 0, 2, 0))
    assert found != pytest.approx(plain_law(chooser, distance, order), rel=0.01)


def scattered_law(asked):
    """The law of how many of five values are below each fine place, asked in this order."""

    def work(coins):
        values = Scattered(np.array([1, 4]), np.array([3, 2]), 5, 2, coins)
        found = {place: values.below(place) for place in asked}
        assert all(values.below(place) == below for place, below in found.items())
        return tuple(found[place] for place in sorted(asked))

    return law_of(work)


def test_coins_thrown_late_have_the_law_of_coins_of_each_value():
    asked = [4, 5, 6, 7, 8, 17, 19]
    expected = Counter()
    for first in itertools.product(range(4), repeat=3):
        for second in itertools.product(range(4), repeat=2):
            fine = [*(4 + shift for shift in first), *(16 + shift for shift in second)]
            expected[tuple(sum(value < place for value in fine) for place in asked)] += 4.0**-5
    for order in (asked, asked[::-1], [7, 17, 5, 8, 19, 4, 6]):
        found = scattered_law(order)
        assert {below: chance for below, chance in found.items() if chance} == pytest.approx(expected)


def reference(made, order, bits):
    """The law of several quantiles where each value has thrown its coins beforehand and all places are looked at."""
    law, values = Counter(), np.repeat(order.places, order.counts).tolist()
    for shifts in itertools.product(range(2**bits), repeat=len(values)):
        fine = order_of(
            [(value << bits) + shift for value, shift in zip(values, shifts, strict=True)], order.points << bits
        )
        for found, chance in all_looked_at(made, fine).items():
            law[tuple(place >> bits for place in found)] += chance / 2 ** (bits * len(values))
    return law


def all_looked_at(made, fine):
    """The law of quantiles of values that are apart: each of those between what was found above it and below it."""
    share, values = Fraction(made.epsilon) / made.rounds, np.repeat(fine.places, fine.counts)
    found = {(None,) * len(made.at): 1.0}
    for choice in order_statistics.halvings(tuple(Fraction(q) for q in made.at)):
        distance, own = made.choice(choice, share)
        at, law = choice.position, Counter()
        for known, chance in found.items():
            low = max((place + 1 for place in known[:at] if place is not None), default=0)
            high = min((place for place in known[at + 1 :] if place is not None), default=fine.points - 1)
            inside = order_of(values[(values >= low) & (values <= high)] - low, high - low + 1)
            laws = plain_law(InverseSensitivity(own), distance, inside) if low <= high else {-1: 1.0}
            for place, then in laws.items():
                law[*known[:at], low + place, *known[at + 1 :]] += chance * then
        found = law
    return found


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("at", "values"), [(2, []), (2, [0]), (2, [0, 0, 1]), (3, []), (3, [1])], ids=lambda told: str(told)
)
def test_several_quantiles_have_the_law_of_coins_thrown_beforehand(replace, at, values):
    made, order = HalvedQuantiles(("1/4", "1/2", "2/3")[:at], 3, replace), order_of(values, 2)
    share = Fraction(made.epsilon) / made.rounds
    found = law_of(lambda it: tuple(place >> 1 for place in made.halved(order.scattered(1, it), share, it)))
    assert {places: chance for places, chance in found.items() if chance} == pytest.approx(reference(made, order, 1))


def test_coins_are_counted_in_bits():
    ones = (1 << 64) - 1
    assert Coins(Words([0b101 << 61])).half(3) == 2
    assert Coins(Words([ones, ones, 1 << 62])).half(130) == 129
    assert Coins(Words([ones >> 3])).half(3) == 0
    assert Coins(Words([])).half(0) == 0


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 1.5, 2 / 3])
def test_coins_accept_by_the_law_and_no_other(scale):
    coins, times = Coins(Seeded(4)), 4000
    taken = sum(coins.accepts(InverseSensitivity("0.6"), 2) for _ in range(times))
    assert (stats.binomtest(taken, times, math.exp(-0.6 * scale)).pvalue > ALPHA) == (scale == 1)
    assert Coins(Words([])).accepts(InverseSensitivity(1), 0)


def test_equal_values_by_the_million_cost_what_their_number_does_not():
    """Ten billion rows of a thousand values: nothing is made of them one by one."""
    order = Order(np.arange(1000), np.full(1000, 10**7), 1001)
    found = HalvedQuantiles(("0.2555", "0.5055", "0.7555"), "0.001", False).step(order, Seeded(1))
    assert found == [255, 505, 755]
    assert repr(order.scattered(3, Coins(Seeded(1)))) == "Scattered(<secret>)"


def test_levels_without_a_place_cost_nothing():
    stretches = Stretches(np.array([0, 1]), np.array([1, 5]), np.array([0, 2**52]))
    assert InverseSensitivity(1).law(stretches).levels.tolist() == [0, 2**52]
    assert InverseSensitivity(1).step(stretches, Seeded(1)) == 0


@pytest.mark.parametrize("far", [5, 10**6, 2**52])
def test_levels_with_gaps_are_weighed_alike_by_floats_and_by_bounds(far):
    """Against decimals; at all exponents up to where a weight tells no more, and at any number of outcomes."""
    levels = np.array([0, 1, far // 3 + 2, far])
    for totals, exponent in itertools.product(([1, 1, 1, 1], [1, 7, 2**52, 2**51]), (1, 36, 75)):
        law = LevelLaw(np.array(totals), Fraction(exponent, far), levels)
        with localcontext(prec=60):
            step = Decimal(exponent) / far
            weights = [total * (-step * int(level)).exp() for total, level in zip(totals, levels, strict=True)]
            chances = [weight / sum(weights) for weight in weights]
            for chance, (low, high) in zip(chances, law.bounds(130), strict=True):
                assert low <= chance * 2**130 <= high <= low + 2
            points, error = law.near()
            cuts = itertools.accumulate(chances[:-1])
            assert all(abs(Decimal(float(point)) - cut) < error for point, cut in zip(points, cuts, strict=True))
