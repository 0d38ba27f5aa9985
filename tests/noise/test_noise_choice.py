"""Exact categorical draws: every cut point where interval arithmetic says, and the law of large samples."""

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from flint import arb
from scipy import stats

from chary.errors import InvalidParameter
from chary.noise import ExponentialLaw, FiniteLaw, OperatingSystem, RationalLaw, Seeded

from .helpers import ALPHA, Scripted, ball, leading_bits, split

LAWS = [
    ([0, 3, 1, 1, 7], Fraction(1, 4)),
    ([5, -2, 0], Fraction("0.017")),
    ([2**70, 2**70 + 2**66, 2**70 - 5], Fraction(1, 2**66)),
    ([0, 0], Fraction(1)),
    ([10, 14, 12], Fraction(-1, 3)),
    (list(range(40)), Fraction(1, 10)),
]


def cut(exponents, unit, index):
    """The exact probability of the first `index` outcomes, as a ball."""
    best = min(exponents) if unit > 0 else max(exponents)
    weights = [(-ball((entry - best) * unit)).exp() for entry in exponents]
    return sum(weights[:index], arb(0)) / sum(weights, arb(0))


@pytest.mark.parametrize(("exponents", "unit"), [law for law in LAWS if len(set(law[0])) > 1])
def test_every_cut_point_is_exact_to_192_bits(exponents, unit):
    """Words that agree with a cut point for 128 bits are decided by the third word, on the right side."""
    law = ExponentialLaw(exponents, unit)
    for index in range(1, len(exponents)):
        bits = leading_bits(lambda index=index: cut(exponents, unit, index), 192)
        assert law.draw(Scripted(split(bits, 3))) < index
        assert law.draw(Scripted(split(bits + 1, 3))) >= index


def test_a_rational_cut_point_is_settled_although_its_bounds_never_meet():
    law = ExponentialLaw([4, 4, 4], 1)
    third = (1 << 256) // 3
    assert law.draw(Scripted(split(third, 4))) == 0
    assert law.draw(Scripted(split(third + 1, 4))) == 1


@pytest.mark.parametrize(("exponents", "unit"), LAWS)
@pytest.mark.parametrize("bits", [1, 8, 64, 200])
def test_bounds_enclose_and_stay_narrow(exponents, unit, bits):
    law = ExponentialLaw(exponents, unit)
    for index, (low, high) in enumerate(law.bounds(bits)):
        probability = (cut(exponents, unit, index + 1) - cut(exponents, unit, index)) * arb(2) ** bits
        assert not probability < low
        assert not probability > high
        assert high - low <= 2
    assert all(high - low <= 2 for low, high in law.cuts(bits))


@pytest.mark.parametrize(("size", "spread"), [(2, 3), (10, 50), (300, 2000), (5000, 10**6)])
def test_float_cut_points_err_by_less_than_their_bound(size, spread):
    exponents = np.random.default_rng(size).integers(-spread, spread, size)
    law = ExponentialLaw(exponents, Fraction(1, 50))
    points, error = law.near()
    exact = np.array([low / 2**128 for low, _ in law.cuts(128)])
    assert np.abs(points - exact).max() < error < 1e-10


def test_float_cut_points_of_many_outcomes_err_with_their_number_and_stay_within_the_bound():
    """Sums of equal weights round the same way again and again: a bound that forgot the size would be too small."""
    size, unit = 2**17, Fraction(1, 10)
    points, error = ExponentialLaw(np.r_[0, np.ones(size - 1, dtype=np.int64)], unit).near()
    weight = (-ball(unit)).exp()
    exact = {k: (1 + weight * k) / (1 + weight * (size - 1)) for k in range(0, size - 1, 1499)}
    worst = max(abs(float(exact[k] - arb(float(points[k])))) for k in exact)
    assert 100 * error / size < worst < error
    assert error >= size * (2 * 2.0**-49 + 2 * 2.0**-53)


@pytest.mark.parametrize("gap", [0, 400])
def test_bounds_of_many_outcomes_stay_narrow(gap):
    law = ExponentialLaw([gap, *([0] * 3000)], Fraction(-1, 40))
    for bits in (1, 64, 200):
        assert all(high - low <= 2 for low, high in [*law.bounds(bits), *law.cuts(bits)])


def test_weights_err_by_less_than_two_to_the_minus_49():
    law = ExponentialLaw(list(range(60)), Fraction(1, 10) + Fraction(1, 2**57))
    for gap, weight in enumerate(law.near_weights().tolist()):
        assert abs(float((-ball(gap * law._unit)).exp() - arb(weight))) < 2**-49


class Halves(FiniteLaw):
    """A law whose cut point is a float."""

    size = 2

    def bounds(self, bits):
        return [(1 << bits >> 1, 1 << bits >> 1)] * 2

    def near(self):
        return np.array([0.5]), 0.0


def test_a_word_that_rounds_to_a_cut_point_is_below_it_all_the_same():
    assert Halves().draw(Scripted([2**63 - 1])) == 0
    assert Halves().draw(Scripted([2**63])) == 1


def test_words_near_a_cut_point_are_decided_exactly_and_others_by_one_word():
    law = ExponentialLaw([0, 1, 2], "0.5")
    for index, (low, _) in enumerate(law.cuts(64)):
        for word in (low - 300, low - 1, low, low + 1, low + 300):
            assert law.draw(Scripted([word])) == index + (word > low)
    asked = Scripted([1 << 63])
    law.draw(asked)
    assert asked.asked == [64]


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [None, Fraction(2, 3), Fraction(3, 2)])
def test_large_samples_follow_the_law_and_no_wrong_scale(wrong):
    exponents, unit, size = list(range(12)), Fraction(1, 5), 20_000
    law, source = ExponentialLaw(exponents, unit), Seeded(7)
    counts = np.bincount([law.draw(source) for _ in range(size)], minlength=12)
    weights = np.exp(-np.arange(12) * float(unit * (wrong or 1)))
    p = stats.chisquare(counts, weights / weights.sum() * size).pvalue
    assert (p < ALPHA) == (wrong is not None)


def test_exponents_of_any_size_and_kind_give_the_same_law():
    plain = ExponentialLaw([3, 5, 4], "0.5").bounds(80)
    for exponents in (
        [3 + 2**90, 5 + 2**90, 4 + 2**90],
        np.array([3, 5, 4], dtype=np.int8),
        np.array([3 - 2**63, 5 - 2**63, 4 - 2**63], dtype=np.int64),
    ):
        assert ExponentialLaw(exponents, "0.5").bounds(80) == plain
    assert ExponentialLaw([-3, -5, -4], "-0.5").bounds(80) == plain


def test_hopeless_outcomes_are_kept_and_single_ones_certain():
    law = ExponentialLaw([0, 2**63 - 1, -(2**63), 2**200], Fraction(1, 10**6))
    assert law.probabilities()[2] == pytest.approx(1)
    assert {law.draw(OperatingSystem()) for _ in range(20)} == {2}
    assert ExponentialLaw([5], 1).draw(Scripted([2**64 - 1])) == 0


@pytest.mark.parametrize("exponents", [[], [[1, 2]], [1, 2.5], [True, False], ["1"], [None], [math.nan]])
def test_wrong_exponents_are_refused_without_being_shown(exponents):
    with pytest.raises(InvalidParameter) as refusal:
        ExponentialLaw(exponents, 1)
    assert "2.5" not in str(refusal.value)


@pytest.mark.parametrize("unit", [0, math.inf, "x"])
def test_wrong_units_are_refused(unit):
    with pytest.raises(InvalidParameter):
        ExponentialLaw([1, 2], unit)


def test_a_law_shows_nothing():
    assert "4242" not in repr(ExponentialLaw([4242, 1], 1))


class Thirds(FiniteLaw):
    """A law known by bounds and poor floats only."""

    size = 3

    def bounds(self, bits):
        return [((1 << bits) // 3, (1 << bits) // 3 + 1)] * 3

    def near(self):
        return np.array([0.3, 0.7]), 0.05


def test_poor_floats_cost_time_only():
    law, source = Thirds(), Seeded(1)
    counts = np.bincount([law.draw(source) for _ in range(9000)])
    assert stats.chisquare(counts).pvalue > ALPHA
    assert list(accumulate(law.probabilities())) == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize(
    "chances",
    [["1/3", "1/2", "1/6"], ["1/2", "1/2"], [1], [0, 1, 0], ["1/3"] * 3, [f"1/{10**30}", f"{10**30 - 1}/{10**30}"]],
)
def test_a_stated_law_is_exact(chances):
    stated = [Fraction(chance) for chance in chances]
    law = RationalLaw(stated)
    assert law.size == len(stated)
    for bits in (1, 8, 64, 200):
        for (lower, upper), chance in zip(law.bounds(bits), stated, strict=True):
            assert lower <= chance * 2**bits <= upper <= lower + 1
    points, error = law.near()
    cuts = [sum(stated[: place + 1]) for place in range(len(stated) - 1)]
    assert all(abs(Fraction(point) - cut) < Fraction(error) for point, cut in zip(points, cuts, strict=True))
    drawn = {law.draw(Seeded(seed)) for seed in range(200)}
    assert drawn <= {place for place, chance in enumerate(stated) if chance}


@pytest.mark.parametrize("chances", [[], ["1/2"], ["1/2", "2/3"], ["3/2", "-1/2"]])
def test_what_adds_up_to_no_law_is_refused(chances):
    with pytest.raises(InvalidParameter, match="exact rationals"):
        RationalLaw([Fraction(chance) for chance in chances])


@pytest.mark.parametrize("chances", [[0.5, 0.5], [True, False], ["1"]])
def test_floats_are_no_exact_probabilities(chances):
    with pytest.raises(InvalidParameter, match="exact rationals"):
        RationalLaw(chances)
