"""The boundary wrapper around tests and choices: exact laws, and neighbours against what its event promises."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from chary import noise
from chary.accounting import Targeted, boundary_epsilon_up, boundary_q_down
from chary.errors import InvalidParameter
from chary.mechanisms import BOUNDARY, BoundaryWrapper, Exponential, Laplace, PermuteAndFlip
from chary.mechanisms.boundaries import BoundaryLaw
from chary.mechanisms.threshold_tests import AdditiveTest
from tests.accounting.pairs import best_q, worst_ratio, wrapped, wrapped_q, wrapped_ratio
from tests.mechanisms.laws import tail
from tests.mechanisms.test_exponential import flips, softmax
from tests.noise.helpers import Scripted, split

RATIO = Fraction(9, 10)


def noisy_test(distance, ratio):
    return [1 - tail(ratio, distance), tail(ratio, distance)]


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("ratio", [RATIO, Fraction(1, 2), Fraction(99, 100)])
def test_wrapped_threshold_tests_keep_their_promise(ratio, sensitivity):
    whole = ratio**-sensitivity
    bound, q = wrapped_ratio(whole, 2), wrapped_q(whole, 2)
    found = []
    for distance, step in product(range(-60, 61), range(1, sensitivity + 1)):
        pair = tuple(wrapped(noisy_test(d, ratio)) for d in (distance, distance - step))
        assert worst_ratio(pair) <= bound
        found.append(best_q(pair, [True, False, False], bound))
    assert q <= min(found) < q * Fraction(6, 5)


@pytest.mark.parametrize("brute", [softmax, flips])
@pytest.mark.parametrize("candidates", [2, 3])
def test_wrapped_choices_keep_their_promise(brute, candidates):
    whole = RATIO**-2
    bound, q = wrapped_ratio(whole, candidates), wrapped_q(whole, candidates)
    target = [True] + [False] * candidates
    for utilities in product((0, 1, 4, 12, 60), repeat=candidates):
        one = wrapped(brute(utilities, RATIO))
        for moves in product((-1, 0, 1), repeat=candidates):
            other = wrapped(brute([u + move for u, move in zip(utilities, moves, strict=True)], RATIO))
            assert worst_ratio((one, other)) <= bound
            found = best_q((one, other), target, bound)
            assert found is None or found >= q


@pytest.mark.parametrize(
    ("chooser", "value", "outcomes"),
    [
        (AdditiveTest(Laplace.for_epsilon("0.3", sensitivity=2), 10), 13, 2),
        (AdditiveTest(Laplace.for_epsilon("0.3", sensitivity=2), 10), -40, 2),
        (AdditiveTest(Laplace.for_epsilon("0.3", sensitivity=2), 10), 10**40, 2),
        (Exponential("0.4", 1), [3, 9, 9, 0], None),
        (Exponential("0.4", 1), [5, 5, 5], None),
        (Exponential("0.4", 1), [5], None),
        (PermuteAndFlip("0.4", 1), [3, 9, 1], None),
    ],
)
def test_the_law_is_algorithm_4_of_the_wrapped_law_and_the_event_its_promise(chooser, value, outcomes):
    boundary = BoundaryWrapper(chooser)
    expected = wrapped([Fraction(p) for p in chooser.law(value).probabilities()])
    law = boundary.law(value)
    assert law.probabilities() == pytest.approx([float(p) for p in expected], abs=1e-15)
    points, error = law.near()
    assert np.abs(points - [low / 2**128 for low, _ in law.cuts(128)]).max(initial=0) < error < 1e-11
    assert all(high - low <= 4 for low, high in law.bounds(90))
    promised = (
        boundary_epsilon_up(chooser.epsilon, outcomes=outcomes),
        boundary_q_down(chooser.epsilon, outcomes=outcomes),
    )
    assert boundary.event().listed == promised


class Rough(noise.FiniteLaw):
    """A law of three outcomes which is known no better than to `error` by its floats and to `width` by its bounds."""

    size = 3

    def __init__(self, side, error=0.0, width=Fraction(0)):
        self.chances = side, 1 - 2 * side, side
        self.error, self.width = error, width

    def bounds(self, bits):
        ends = [((p - self.width) * 2**bits, (p + self.width) * 2**bits) for p in self.chances]
        return [(math.floor(low), math.ceil(high)) for low, high in ends]

    def near(self):
        side = float(self.chances[0])
        return np.array([side - self.error, 1 - side + self.error]), abs(self.error)


@pytest.mark.parametrize("error", [1e-4, -1e-4, 1e-9, 0])
def test_three_errors_of_the_wrapped_law_reach_the_cut_points(error):
    law = BoundaryLaw(Rough(Fraction(1, 1000), error))
    points, promised = law.near()
    exact = [low / 2**128 for low, _ in law.cuts(128)]
    assert 2.98 * abs(error) <= np.abs(points - exact).max() <= promised


@pytest.mark.parametrize("side", [Fraction(1, 1000), Fraction(1, 8), Fraction(1, 4), Fraction(2, 5)])
@pytest.mark.parametrize("off", [Fraction(-1, 10**4), Fraction(1, 10**4)])
def test_the_bounds_hold_for_every_law_within_the_wrapped_ones(side, off):
    law, width = BoundaryLaw(Rough(side, width=2 * abs(off))), 2**64
    for (low, high), chance in zip(law.bounds(64), wrapped(Rough(side + off).chances), strict=True):
        assert low <= chance * width <= high


def test_a_boundary_just_above_an_integer_is_rounded_up():
    chance = Fraction(1, 4) + Fraction(1, 2**18)
    rest = chance / (1 - chance)
    low, high = BoundaryLaw(Rough(rest / 2)).bounds(8)[0]
    assert low <= chance * 256 <= high


def test_the_bounds_of_a_wrapped_law_of_many_outcomes_hold_its_chances():
    size = 3000
    law = BoundaryWrapper(Exponential("0.04", 1)).law([500, *([0] * (size - 1))])
    for bits in (1, 64, 200):
        with ctx.workprec(400):
            weight = (-arb(10)).exp()
            rest = (size - 1) * weight / (1 + (size - 1) * weight)
            boundary = rest / (1 + rest)
            chances = boundary, (1 - boundary) * (1 - rest), (1 - boundary) * rest / (size - 1)
            for (low, high), chance in zip(law.bounds(bits)[:3], chances, strict=True):
                assert low <= chance * arb(2) ** bits <= high
        assert all(high - low <= 2 for low, high in law.bounds(bits))
    points, error = law.near()
    assert abs(float(boundary - arb(float(points[0])))) < error


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(7, 3), Fraction(1000)])
@pytest.mark.parametrize("distance", [-5, -1, 0, 1, 2, 30])
def test_threshold_laws_have_the_tail_of_the_noise(scale, distance):
    additive = Laplace(scale, 1)
    law = AdditiveTest(additive, distance).law(0)
    assert law.probabilities()[1] == pytest.approx(additive.at_least(distance), rel=1e-12, abs=2**-126)
    points, error = law.near()
    assert abs(points[0] - law.cuts(128)[0][0] / 2**128) < error


def test_a_tie_at_one_third_is_never_decided():
    """Two equal candidates: the boundary has 1/3 by both formulas, whose bounds never part."""
    law, third = BoundaryWrapper(Exponential(1, 1)).law([7, 7]), (1 << 256) // 3
    assert law.draw(Scripted(split(third, 4))) == 0
    assert law.draw(Scripted(split(third + 1, 4))) == 1


@pytest.mark.statistical
def test_samples_follow_the_law():
    boundary, source, size = BoundaryWrapper(Exponential("0.5", 1)), noise.Seeded(3), 8000
    drawn = [boundary.step([0, 4, 2], source) for _ in range(size)]
    counts = [drawn.count(outcome) for outcome in (BOUNDARY, 0, 1, 2)]
    for exponent, follows in ((0.25, True), (0.4, False)):
        expected = wrapped(softmax([0, 4, 2], Fraction(math.exp(-exponent))))
        assert (stats.chisquare(counts, [float(p) * size for p in expected]).pvalue > 1e-6) == follows


def test_an_overwhelming_candidate_is_free():
    boundary = BoundaryWrapper(Exponential("0.1", 1))
    assert {boundary.step([0, 2**70, 5], noise.OperatingSystem()) for _ in range(50)} == {1}


def test_a_threshold_test_is_its_law():
    test, source = AdditiveTest(Laplace.for_epsilon(10**5, sensitivity=1), 5), noise.OperatingSystem()
    assert [test.step(value, source) for value in (4, 5, 6)] == [0, 1, 1]
    assert test.event() == Targeted(2**10)


def test_more_outcomes_than_promised_are_refused():
    class Lying(Exponential):
        outcomes = 2

    with pytest.raises(InvalidParameter):
        BoundaryWrapper(Lying("0.1", 1)).step([1, 2, 3], noise.OperatingSystem())


def test_noise_shared_by_several_values_is_refused():
    with pytest.raises(InvalidParameter):
        AdditiveTest(Laplace.for_epsilon("0.1", sensitivity=1, times=2), 0)
