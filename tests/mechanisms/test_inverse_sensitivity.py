"""Inverse sensitivity: the exact law, distances by brute force, privacy by enumerating tiny domains."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import InverseSensitivity, Stretches, bits_distances, mode_distances
from chary.mechanisms.choices import LevelLaw
from chary.noise import ExponentialLaw, OperatingSystem, Seeded
from tests.mechanisms.laws import edits, moves, worst
from tests.noise.helpers import ball

ALPHA = 1e-6


def law_of(chooser, distances):
    """The exact law over a list of outcomes."""
    return ExponentialLaw(distances, chooser.unit).probabilities()


def per_outcome(chooser, stretches):
    """The law of each single outcome, from that of the levels."""
    law = chooser.law(stretches)
    chances = dict(zip(law.levels.tolist(), law.probabilities(), strict=True))
    flat = np.repeat(stretches.distances, stretches.widths).tolist()
    totals = Counter(flat)
    return [chances[level] / totals[level] for level in flat]


# The law


def test_stretches_have_the_law_of_their_outcomes():
    stretches = Stretches(np.array([0, 3, 4, 9]), np.array([3, 1, 5, 2]), np.array([2, 0, 1, 2]))
    chooser = InverseSensitivity("0.7")
    flat = np.repeat(stretches.distances, stretches.widths)
    assert per_outcome(chooser, stretches) == pytest.approx(law_of(chooser, flat), rel=1e-12)
    expected = np.exp(-0.35 * flat)
    assert per_outcome(chooser, stretches) == pytest.approx(expected / expected.sum(), rel=1e-12)


@pytest.mark.parametrize("totals", [[1], [1, 0, 3], [5, 2**52, 1], [1, *([10**6] * 300)]])
@pytest.mark.parametrize("unit", ["1e-6", "0.5", 30])
def test_floats_stay_within_their_error_of_the_enclosures(totals, unit):
    law = LevelLaw(np.array(totals, dtype=np.int64), Fraction(unit))
    points, error = law.near()
    cuts = law.cuts(96)
    assert len(points) == len(cuts) == len(totals) - 1
    for point, (low, high) in zip(points, cuts, strict=True):
        assert low / 2**96 - error <= point <= high / 2**96 + error
    assert error < 1e-12
    for lower, upper in law.bounds(96):
        assert 0 <= upper - lower <= 4


def test_floats_of_many_levels_err_with_their_number_and_stay_within_the_bound():
    """After 2**52 outcomes each of many weights between 1/2 and 1 is rounded up to 1."""
    levels, unit = 2**18, Fraction(69, 100 * 2**18)
    totals = np.r_[2**52, np.zeros(levels // 2 - 1, dtype=np.int64), np.ones(levels // 2, dtype=np.int64)]
    points, error = LevelLaw(totals, unit).near()
    ratio = (-ball(unit)).exp()
    rest = ratio ** (levels // 2) * (1 - ratio ** (levels // 2)) / (1 - ratio)
    worst = abs(float(arb(2) ** 52 / (arb(2) ** 52 + rest) - arb(float(points[0]))))
    assert error / 16 < worst < error
    assert LevelLaw(np.array([1, 2**52]), Fraction(36)).near()[1] >= 2 * (75 + 8) * 2.0**-52


@pytest.mark.parametrize("exponent", [3, 36])
def test_enclosures_of_many_levels_hold_the_chances_and_stay_narrow(exponent):
    levels = 20_000
    law = LevelLaw(np.r_[1, np.zeros(levels - 1, dtype=np.int64), 2**51], Fraction(exponent, levels))
    for bits in (1, 64, 200):
        enclosed = law.bounds(bits)
        assert enclosed[1] == (0, 0)
        with ctx.workprec(400):
            weight = 2**51 * (-arb(exponent)).exp()
            chances = [part / (1 + weight) * arb(2) ** bits for part in (1, weight)]
            assert all(low <= chance <= high for (low, high), chance in zip(enclosed[::levels], chances, strict=True))
        assert all(high - low <= 2 for low, high in enclosed)


def test_a_word_on_a_cut_point_is_settled_by_more_bits():
    law = LevelLaw(np.array([3, 40, 100]), Fraction(1))

    class Scripted:
        def __init__(self, word):
            self.words_left = [word, 0]

        def words(self, count, bits):
            return np.array([self.words_left.pop(0)], dtype=np.uint64)

    for place, (low, high) in enumerate(law.cuts(64)):
        assert low < high
        assert law.draw(Scripted(low)) == place
        assert law.draw(Scripted(high)) == place + 1


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 1.5, 2 / 3])
def test_draws_follow_the_law_and_no_other(scale):
    stretches = Stretches(np.array([0, 4, 5, 7]), np.array([4, 1, 2, 6]), np.array([3, 1, 0, 2]))
    chooser, source = InverseSensitivity("0.9"), Seeded(11)
    found = np.bincount([chooser.step(stretches, source) for _ in range(8_000)], minlength=13)
    flat = np.repeat(stretches.distances, stretches.widths)
    expected = np.exp(-0.45 * scale * flat)
    p = stats.chisquare(found, expected / expected.sum() * found.sum()).pvalue
    assert p > ALPHA if scale == 1 else p < ALPHA


def test_a_million_levels():
    stretches = Stretches.of(np.arange(10**6))
    assert InverseSensitivity(1).step(stretches, OperatingSystem()) < 200
    assert InverseSensitivity("1e-3").step(stretches, Seeded(2)) < 200_000


def test_widths_up_to_the_largest_grid():
    stretches = Stretches(np.array([0, 1]), np.array([1, 2**53 - 1]), np.array([0, 100]))
    law = InverseSensitivity(1).law(stretches)
    assert law.levels.tolist() == [0, 100]
    assert law.probabilities()[1] == pytest.approx(
        (2**53 - 1) * math.exp(-50) / (1 + (2**53 - 1) * math.exp(-50)), rel=1e-9
    )
    chosen = InverseSensitivity("0.01").step(stretches, Seeded(1))
    assert 0 < chosen < 2**53


def test_nothing_secret_in_a_repr():
    assert "7" not in repr(Stretches.of([7, 0]))


@pytest.mark.parametrize("totals", [[], [0, 1], [1, -1], [1, 2**53]])
def test_no_law_without_a_true_answer(totals):
    with pytest.raises(InvalidParameter):
        LevelLaw(np.array(totals, dtype=np.int64), Fraction(1))


@pytest.mark.parametrize("epsilon", [0, -1, "x", math.nan, "1e-16"])
def test_bad_epsilon(epsilon):
    with pytest.raises(InvalidParameter):
        InverseSensitivity(epsilon)


@pytest.mark.parametrize("epsilon", ["0.1", 1, 4])
def test_the_distance_is_seldom_exceeded(epsilon):
    """Worst case: one true answer, all others at one distance."""
    chooser = InverseSensitivity(epsilon)
    most = chooser.distance_up(1000, "0.05")
    law = law_of(chooser, [0] + [most + 1] * 999)
    assert sum(law[1:]) <= 0.05
    near = law_of(chooser, [0] + [max(0, most - 1)] * 999)
    assert sum(near[1:]) > 0.04
    assert chooser.event() == Pure(epsilon)


# The mode


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("keys", [2, 3])
def test_mode_distances_by_brute_force(keys, replace):
    far = moves if replace else edits
    tables = list(itertools.product(range(6), repeat=keys))
    for counts in itertools.product(range(5), repeat=keys):
        found = mode_distances(np.array(counts), replace=replace).tolist()
        for t in range(keys):
            fewest = min(far(counts, other) for other in tables if other[t] == max(other))
            assert found[t] == fewest


def test_many_keys_are_as_good_as_few():
    counts = np.random.default_rng(3).integers(0, 50, 300)
    found = mode_distances(counts, replace=True)
    for place in range(0, 300, 37):
        k = int(found[place])
        leads = np.maximum(counts - counts[place] - k, 0).sum()
        assert leads <= k
        assert k == 0 or np.maximum(counts - counts[place] - k + 1, 0).sum() > k - 1


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(("replace", "keys", "whole"), [(False, 3, True), (True, 3, False), (True, 2, True)])
def test_the_mode_is_private(epsilon, replace, keys, whole):
    chooser = InverseSensitivity(epsilon, whole=whole)
    tables = list(itertools.product(range(9 if keys == 3 else 14), repeat=keys))
    laws = {c: law_of(chooser, mode_distances(np.array(c), replace=replace)) for c in tables}
    far = moves if replace else edits
    pairs = [(x, y) for x, y in itertools.combinations(tables, 2) if far(x, y) == 1]
    ratio = worst(laws, pairs)
    assert ratio <= epsilon * (1 + 1e-9)
    assert ratio > (0.6 if keys == 3 and replace else 0.9) * epsilon


def test_dropping_the_half_with_three_keys_is_no_longer_private():
    """The negative control: replaced units and three keys need the 1/2."""
    chooser = InverseSensitivity(1, whole=True)
    tables = list(itertools.product(range(9), repeat=3))
    laws = {c: law_of(chooser, mode_distances(np.array(c), replace=True)) for c in tables}
    assert worst(laws, [(x, y) for x, y in itertools.combinations(tables, 2) if moves(x, y) == 1]) > 1.2


# The mean of bits


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_bits_distances_by_brute_force(n):
    if n <= 5:
        for bits in itertools.product((0, 1), repeat=n):
            others = Counter()
            for other in itertools.product((0, 1), repeat=n):
                ones = sum(other)
                apart = sum(a != b for a, b in zip(bits, other, strict=True))
                others[ones] = min(others.get(ones, n), apart)
            assert bits_distances(sum(bits), n).tolist() == [others[j] for j in range(n + 1)]
    for epsilon in (0.3, 3.0):
        chooser = InverseSensitivity(epsilon, whole=n == 1)
        laws = {ones: law_of(chooser, bits_distances(ones, n)) for ones in range(n + 1)}
        ratio = worst(laws, [(ones, ones + 1) for ones in range(n)])
        assert ratio <= epsilon * (1 + 1e-9)
        assert ratio > 0.5 * epsilon
