"""Guards of quantiles: coverage by exact laws on hostile data and by simulation, privacy by enumeration, drawn rows."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.errors import InvalidParameter
from chary.mechanisms import GuardedQuantiles, HalvedQuantiles, InverseSensitivity, Order, RankDistance
from chary.noise import Seeded
from tests.mechanisms.test_quantiles import databases, is_quantile, order_of, values_of

ALPHA = 1e-6


def law_of(guards, order):
    """The exact law of the place of a single guard."""
    distance = RankDistance(guards.at[0], guards.replace, guards.moves)
    share = Fraction(guards.epsilon)
    stretches = distance.stretches(order.topped(guards.margin(distance, share, order.points)))
    weights = np.exp(-float(share) / 2 * np.repeat(stretches.distances, stretches.widths))
    return weights / weights.sum()


def missed(made, counts):
    """The chance that a quantile of these counts lies outside of the guards, at most; one quantile."""
    order, q = order_of(values_of(counts), len(counts)), Fraction(made.at[0])
    true = [t for t in range(len(counts)) if is_quantile(counts, t, q)]
    above = law_of(made.upper, order)[: max(true)].sum()
    below = law_of(made.lower, order.mirrored())[: len(counts) - 1 - min(true)].sum()
    return above, below


@pytest.mark.parametrize("q", ["1/2", "1/4", "0.9"])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("epsilon", ["1", "12"])
def test_every_small_database_is_covered(q, replace, epsilon):
    made = GuardedQuantiles((q,), epsilon=epsilon, replace=replace, beta="0.2")
    for counts in filter(any, databases(4, 4)):
        assert max(missed(made, counts)) <= 0.1


@pytest.mark.parametrize("q", ["1/2", "1/10"])
@pytest.mark.parametrize("replace", [False, True])
def test_the_worst_data_are_covered_and_come_near_the_level(q, replace):
    """All values on two places, a cliff between: the whole grid on the far side is as likely as it can be."""
    made, worst = GuardedQuantiles((q,), epsilon=3, replace=replace, beta="0.1"), 0.0
    for lower in range(int(2000 * Fraction(q)) - 100, int(2000 * Fraction(q)) + 100, 3):
        counts = [0] * 1000
        counts[-2], counts[0] = 2000 - lower, lower
        worst = max(worst, *missed(made, counts))
    assert worst <= 0.05
    assert worst > 0.005


def test_a_margin_that_ignores_half_of_the_error_misses(monkeypatch):
    """The negative control."""
    kept = HalvedQuantiles.margin
    monkeypatch.setattr(HalvedQuantiles, "margin", lambda *given: kept(*given) // 2)
    made = GuardedQuantiles(("1/2",), epsilon=3, replace=False, beta="0.1")
    cliffs = []
    for lower in range(900, 1100, 5):
        counts = [0] * 1000
        counts[-2], counts[0] = 2000 - lower, lower
        cliffs.append(max(missed(made, counts)))
    assert max(cliffs) > 0.2


@pytest.mark.parametrize("replace", [False, True])
def test_neighbours_are_told_apart_by_epsilon_at_most(replace):
    """Each guard is a third: the ratios of its law over all pairs of small databases."""
    made = GuardedQuantiles(("1/2",), epsilon=3, replace=replace, beta="0.5")
    found = {counts: (law_of(made.upper, order_of(values_of(counts), 4))) for counts in databases(4, 3)}
    worst = 0.0
    for one, other in itertools.combinations(found, 2):
        moved = [a - b for a, b in zip(one, other, strict=True)]
        if replace and (sum(moved) or sum(map(abs, moved)) != 2):
            continue
        if not replace and sum(map(abs, moved)) != 1:
            continue
        worst = max(worst, np.abs(np.log(found[one] / found[other])).max())
    assert worst <= 1 + 1e-9
    assert worst > 0.3


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("moves", [1, 3])
@pytest.mark.parametrize("values", ["few", "many", "ties", "ends"])
def test_several_are_covered_together(replace, moves, values):
    generator, points = np.random.default_rng(3), 200
    known = {
        "few": np.array([5, 180]),
        "many": generator.integers(0, points, 3000),
        "ties": np.repeat([17, 90], [1400, 1600]),
        "ends": np.repeat([0, points - 1], [500, 500]),
    }[values]
    at = ("0.1", "0.25", "0.5", "0.75", "0.9")
    made = GuardedQuantiles(at, epsilon=6, replace=replace, beta="0.1", moves=moves)
    order, source = order_of(known, points), Seeded(9)
    counts = np.bincount(known, minlength=points).tolist()
    true = [[t for t in range(points) if is_quantile(counts, t, Fraction(q))] for q in at]
    times, hits = 60, 0
    for _ in range(times):
        found = made.step(order, source)
        assert found.low == sorted(found.low) or moves > 1
        assert all(low <= it <= high for it, low, high in zip(*(found[k] for k in (0, 1, 2)), strict=True))
        inside = zip(found.low, found.high, true, strict=True)
        hits += all(low <= min(t) and max(t) <= high for low, high, t in inside)
    assert stats.binom.cdf(hits, times, 0.9) > ALPHA


def test_guards_end_within_what_is_foretold():
    generator, points = np.random.default_rng(4), 100_000
    known = generator.permutation(points)[:20_000]
    made = GuardedQuantiles(("0.25", "0.5", "0.75"), epsilon=3, replace=False, beta="0.05")
    order, source, sorted_ = order_of(known, points), Seeded(2), np.sort(known)
    for _ in range(5):
        found = made.step(order, source)
        for q, low, high, reach in zip((0.25, 0.5, 0.75), found.low, found.high, made.reaches(points), strict=True):
            below, above = np.searchsorted(sorted_, [low, high])
            assert q * known.size - reach - 1 <= below <= q * known.size <= above <= q * known.size + reach + 1


def test_more_values_on_the_highest_place():
    for values in ([], [0, 0], [3], [1, 3, 3]):
        order = order_of(values, 4)
        assert order.topped(0) is order
        topped = order.topped(5)
        assert np.repeat(topped.places, topped.counts).tolist() == [
            *(v for v in values if v < 3),
            *([3] * (5 + values.count(3))),
        ]
        mirrored = order.mirrored()
        assert np.repeat(mirrored.places, mirrored.counts).tolist() == sorted(3 - v for v in values)


def test_a_third_of_epsilon_for_each_and_refusals():
    made = GuardedQuantiles(("0.3", "0.6"), epsilon="0.3", replace=True, beta="0.05")
    assert {part.epsilon for part in (made.answers, made.upper, made.lower)} == {Fraction(1, 10)}
    assert (made.rounds, made.event().epsilon) == (6, Fraction(3, 10))
    for wrong in ({"beta": 0}, {"beta": 1}, {"at": ()}, {"at": ("0.5", "0.5")}, {"epsilon": 0}):
        with pytest.raises(InvalidParameter):
            GuardedQuantiles(**({"at": ("0.5",), "epsilon": 1, "replace": False, "beta": "0.05"} | wrong))


@pytest.mark.parametrize(("epsilon", "moves", "q"), [("1/1000000", 1, "0.5"), ("1/1000", 2**20, "1/1000000")])
def test_guards_beyond_more_values_than_can_be_counted_are_refused(epsilon, moves, q):
    made = GuardedQuantiles((q,), epsilon, replace=False, beta="0.05", moves=moves)
    with pytest.raises(InvalidParameter, match="larger epsilon"):
        made.reaches(100)


# Rows drawn at random


def drawn(units, kept, source):
    """The kept values of each unit, of values that tell their unit."""
    places = np.concatenate([np.array(values) for values in units])
    owners = np.repeat(np.arange(1, len(units) + 1), [len(values) for values in units])
    order = Order.drawn(places, owners, kept, 100, source)
    return np.repeat(order.places, order.counts).tolist()


def test_each_row_of_a_unit_is_drawn_alike():
    source, times = Seeded(5), 3000
    units = [[0, 1, 2, 3], [10], [20, 20, 21]]
    found = [drawn(units, 1, source) for _ in range(times)]
    assert {len(each) for each in found} == {3}
    first = Counter(each[0] for each in found)
    assert stats.chisquare([first[k] for k in range(4)]).pvalue > ALPHA
    assert stats.binomtest(sum(20 in each for each in found), times, 2 / 3).pvalue > ALPHA
    pairs = Counter(tuple(each[:2]) for each in (drawn(units, 2, source) for _ in range(times)))
    assert stats.chisquare([pairs[pair] for pair in itertools.combinations(range(4), 2)]).pvalue > ALPHA


def test_what_is_kept_of_a_unit_depends_on_nobody_else():
    """Given its own words, whatever rows others have: the words of a unit are those at its own rows."""
    units = [[0, 1, 2], [10, 11, 12, 13], [20, 21]]

    class Fixed:
        def __init__(self, words):
            self.given = words

        def words(self, count, bits):
            assert (count, bits) == (len(self.given), 64)
            return np.array(self.given, dtype=np.uint64)

    words = [[7, 3, 9], [4, 8, 1, 6], [2, 5]]
    everybody = drawn(units, 2, Fixed([*itertools.chain(*words)]))
    for gone in range(3):
        others = [k for k in range(3) if k != gone]
        left = drawn([units[k] for k in others], 2, Fixed([*itertools.chain(*(words[k] for k in others))]))
        assert left == [value for value in everybody if value // 10 != gone]


def test_no_rows_are_drawn_of_nobody():
    empty = Order.drawn(np.array([], dtype=np.int64), np.array([], dtype=np.int64), 1, 10, Seeded(1))
    assert (empty.places.size, empty.counts.size, repr(empty)) == (0, 0, "Order(<secret>)")
    assert math.isclose(sum(InverseSensitivity(1).law(RankDistance("0.5", False).stretches(empty)).probabilities()), 1)
