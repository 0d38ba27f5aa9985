"""Exponential mechanism and permute-and-flip: exact laws, privacy of all small neighbours, accuracy."""

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import Exponential, PermuteAndFlip
from chary.mechanisms.choices import _coins
from tests.accounting.pairs import worst_ratio
from tests.noise.helpers import Scripted, leading_bits, split

RATIO = Fraction(4, 5)


def softmax(utilities, ratio):
    """The exponential law with weight `ratio` for a step of utility missing."""
    weights = [ratio ** (max(utilities) - u) for u in utilities]
    return [weight / sum(weights) for weight in weights]


def flips(utilities, ratio):
    """Permute-and-flip by going through every order."""
    chances = [ratio ** (max(utilities) - u) for u in utilities]
    law = [Fraction(0)] * len(utilities)
    orders = list(permutations(range(len(utilities))))
    for order in orders:
        left = Fraction(1, len(orders))
        for j in order:
            law[j] += left * chances[j]
            left *= 1 - chances[j]
    return law


LAWS = [(Exponential, softmax), (PermuteAndFlip, flips)]


@pytest.mark.parametrize(("kind", "brute"), LAWS)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_no_neighbours_pass_epsilon_and_some_come_close(kind, brute, sensitivity):
    """A step of utility costs 1/(2 sensitivity) of epsilon, or 1/sensitivity where all utilities move together."""
    general, together = Fraction(1), Fraction(1)
    for utilities in product((0, 1, 9), repeat=3):
        one = brute(utilities, RATIO)
        for moves in product(range(-sensitivity, sensitivity + 1), repeat=3):
            other = brute([u + move for u, move in zip(utilities, moves, strict=True)], RATIO)
            found = worst_ratio((one, other))
            general = max(general, found)
            if min(moves) >= 0 or max(moves) <= 0:
                together = max(together, found)
    for found, bound in ((general, RATIO ** (-2 * sensitivity)), (together, RATIO**-sensitivity)):
        assert found <= bound
        assert math.log(found) > 0.7 * math.log(bound)


@pytest.mark.parametrize(("kind", "brute"), LAWS)
@pytest.mark.parametrize("utilities", [[0], [3, 3], [0, 1, 9], [5, 5, 0, 2], [-4, -9, 7, 7, 1], [0, 0, 0, -1, -2, 3]])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_law_is_that_of_brute_force(kind, brute, utilities, monotone):
    epsilon, sensitivity = Fraction(3, 5), 3
    ratio = Fraction(math.exp(-float(epsilon) / (sensitivity * (1 if monotone else 2))))
    chooser = kind(epsilon, sensitivity, monotone)
    assert chooser.law(utilities).probabilities() == pytest.approx(
        [float(p) for p in brute(utilities, ratio)], abs=1e-14
    )
    assert chooser.event() == Pure(epsilon)


@pytest.mark.parametrize("utilities", [[0] * 32, [0] * 31 + [3], list(range(32))])
def test_bounds_of_the_most_candidates_stay_narrow(utilities):
    law = PermuteAndFlip("0.4", 1).law(utilities)
    assert all(high - low <= 2 for bits in (1, 64, 200) for low, high in law.bounds(bits))


@pytest.mark.parametrize("utilities", [[0, 1, 9], [5, 5, 0, 2], [0, 4, 1, 1, 2, 8, 3, 3]])
def test_bounds_of_permute_and_flip_enclose_the_integral(utilities):
    """Against the same integral, summed over subsets in ball arithmetic."""
    law, bits = PermuteAndFlip("0.3", 1).law(utilities), 150
    precision, ctx.prec = ctx.prec, 400
    try:
        chances = [(-arb(3) * (max(utilities) - u) / 20).exp() for u in utilities]
        for j, (low, high) in enumerate(law.bounds(bits)):
            rest = [a for i, a in enumerate(chances) if i != j]
            total = arb(0)
            for chosen in product((0, 1), repeat=len(rest)):
                term = arb(1)
                for a, taken in zip(rest, chosen, strict=True):
                    term *= -a if taken else 1
                total += term / (sum(chosen) + 1)
            exact = chances[j] * total * arb(2) ** bits
            assert low <= exact <= high
            assert high - low <= 2
    finally:
        ctx.prec = precision


@pytest.mark.parametrize("size", [1, 2, 9, 32])
def test_floats_of_permute_and_flip_err_by_less_than_their_bound(size):
    law = PermuteAndFlip("0.2", 1).law(np.random.default_rng(size).integers(0, 40, size))
    points, error = law.near()
    exact = [low / 2**128 for low, _ in law.cuts(128)]
    assert np.abs(points - np.array(exact)).max(initial=0) < error / 10 < 1e-10


@pytest.mark.statistical
def test_permute_and_flip_is_noisy_max_with_exponential_noise():
    utilities, epsilon, size = np.array([3, 0, 5, 4]), 0.8, 200_000
    rng = np.random.default_rng(3)
    counts = np.bincount((utilities + rng.exponential(2 / epsilon, (size, 4))).argmax(axis=1), minlength=4)
    for used, follows in ((epsilon, True), (epsilon * 1.5, False), (epsilon / 1.5, False)):
        law = np.array(PermuteAndFlip(used, 1).law(utilities).probabilities())
        assert (stats.chisquare(counts, law / law.sum() * size).pvalue > 1e-6) == follows


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "brute"), LAWS)
def test_samples_follow_the_law(kind, brute):
    utilities, size, source = [3, 0, 5, 4], 8000, noise.Seeded(11)
    counts = np.bincount([kind("0.8", 1).step(utilities, source) for _ in range(size)], minlength=4)
    for exponent, follows in ((0.4, True), (0.6, False), (0.4 / 1.5, False)):
        law = np.array([float(p) for p in brute(utilities, Fraction(math.exp(-exponent)))])
        assert (stats.chisquare(counts, law * size).pvalue > 1e-6) == follows


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("beta", [0.01, 0.2])
def test_the_shortfall_is_rarely_passed(kind, beta):
    chooser = kind("0.5", 2)
    lost = chooser.shortfall(20, beta)
    assert lost == pytest.approx(8 * math.log(20 / beta))
    for low in (math.floor(lost), math.ceil(lost), math.ceil(lost) + 30):
        utilities = [low] + [0] * 19
        failing = [p for p, u in zip(chooser.law(utilities).probabilities(), utilities, strict=True) if low - u >= lost]
        assert sum(failing) <= beta


def test_permute_and_flip_never_expects_less_utility():
    for utilities in product((0, 2, 7), repeat=4):
        expected = [sum(p * u for p, u in zip(brute(utilities, RATIO), utilities, strict=True)) for _, brute in LAWS]
        assert expected[1] >= expected[0]


def test_only_the_law_is_for_few_candidates():
    PermuteAndFlip("0.1", 1).law([0] * 32)
    with pytest.raises(InvalidParameter):
        PermuteAndFlip("0.1", 1).law([0] * 33)
    assert PermuteAndFlip("0.1", 1).step([-(10**6)] * 70_000 + [2**70], noise.OperatingSystem()) == 70_000


@pytest.mark.parametrize("utilities", [[0], [3, 3], [0, 1, 9], [5, 5, 0, 2], [-4, -9, 7, 7, 1]])
def test_any_of_the_coins_that_came_up_is_the_first_of_a_random_order(utilities):
    chances, law = [RATIO ** (max(utilities) - u) for u in utilities], [Fraction(0)] * len(utilities)
    for up in product((False, True), repeat=len(utilities)):
        mass = math.prod(a if taken else 1 - a for a, taken in zip(chances, up, strict=True))
        for j in (j for j, taken in enumerate(up) if taken):
            law[j] += mass / sum(up)
    assert law == flips(utilities, RATIO)


def test_a_coin_that_falls_on_its_chance_is_settled_exactly():
    """The chance exp(-0.1) to 192 bits, and the numbers next to it; the best candidate's coin always comes up."""
    chance = leading_bits(lambda: (-arb(1) / 10).exp(), 192)
    for number, up in ((chance - 1, True), (chance + 1, False)):
        cell, (first, *more) = number >> 176, split(number, 3)
        source = Scripted([2**16 - 1, cell, 2**64 - 1, first << 16 & 2**64 - 1, *more])
        assert _coins([1, 0], Fraction(1, 10), source).tolist() == [True, up]
        assert source.asked == [16, 16, 64, 64, 64, 64]


@pytest.mark.statistical
def test_coins_of_many_candidates_follow_their_chances():
    utilities, source, size = np.arange(400), noise.Seeded(3), 2000
    counts = sum(_coins(utilities, Fraction(1, 50), source).astype(int) for _ in range(size))
    chances = np.exp(-(399 - utilities[:-1]) / 50)
    for scale, follows in ((1, True), (1.5, False), (2 / 3, False)):
        expected = chances**scale
        found = ((counts[:-1] - size * expected) ** 2 / (size * expected * (1 - expected))).sum()
        assert (stats.chi2.sf(found, 399) > 1e-6) == follows


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"), [(0, 1), (-1, 1), ("nan", 1), ("0.1", 0), ("0.1", 1.5), ("0.1", True)]
)
def test_parameters_are_checked(epsilon, sensitivity):
    with pytest.raises(InvalidParameter):
        Exponential(epsilon, sensitivity)


@pytest.mark.parametrize(("candidates", "beta"), [(0, 0.1), (2, 0), (2, 1)])
def test_the_shortfall_has_a_domain(candidates, beta):
    with pytest.raises(InvalidParameter):
        Exponential(1, 1).shortfall(candidates, beta)
