"""Randomized response: the exact law of answers, privacy, and that its estimates keep their word for every n."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import RandomizedResponse
from chary.noise import Seeded
from tests.noise.helpers import Scripted


def chances(response):
    """The chance of a lie as a ball of 100 bits."""
    low, high = response.lie.bounds(100)
    return low / 2**100, high / 2**100


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", 3])
def test_a_bit_is_exactly_private(epsilon):
    response = RandomizedResponse(epsilon)
    lie = chances(response)[0]
    assert math.log((1 - lie) / lie) == pytest.approx(float(Fraction(epsilon)), rel=1e-12)
    assert response.lie_chance == pytest.approx(lie, rel=1e-14)
    assert response.event() == Pure(epsilon)


def test_two_coins_are_log_three_rounded_up():
    coins = RandomizedResponse.coins()
    assert chances(coins) == (0.25, 0.25)
    assert coins.lie_chance == 0.25
    assert 0 <= float(coins.epsilon) - math.log(3) < 1e-15
    assert coins.epsilon * 10**17 > Fraction("109861228866810969")
    assert coins == RandomizedResponse.coins() != RandomizedResponse(coins.epsilon)


def test_the_law_of_a_vector_by_all_coins():
    """With coins of one quarter every two bits of randomness decide a lie: 4^n equally likely ways."""
    truth, law = [True, False, True], {}
    for words in product(range(4), repeat=3):
        found = RandomizedResponse.coins().answers(truth, source=Scripted([word << 62 for word in words]))
        law[tuple(found.tolist())] = law.get(tuple(found.tolist()), 0) + Fraction(1, 64)
    for answers, mass in law.items():
        lies = sum(a != b for a, b in zip(answers, truth, strict=True))
        assert mass == Fraction(1, 4) ** lies * Fraction(3, 4) ** (3 - lies)
    assert len(law) == 8


def ones_law(yes, units, lie):
    """The law of the number of ones, by going through all lies."""
    law = [0.0] * (units + 1)
    for lies in product((0, 1), repeat=units):
        ones = sum(told ^ (place < yes) for place, told in enumerate(lies))
        law[ones] += math.prod(lie if told else 1 - lie for told in lies)
    return law


def test_counting_the_answers_is_answering_and_counting(monkeypatch):
    for lies in product((False, True), repeat=4):
        monkeypatch.setattr(noise, "bernoulli", lambda source, chance, size, lies=lies: np.array(lies))
        for yes in range(5):
            truth = [unit < yes for unit in range(4)]
            assert RandomizedResponse(1).ones(yes, 4, Seeded(1)) == sum(RandomizedResponse(1).answers(truth))


@pytest.mark.parametrize("epsilon", ["0.3", 1, 4])
@pytest.mark.parametrize("units", [1, 2, 5, 8])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_estimates_are_unbiased_and_intervals_hold_for_every_number_of_units(epsilon, units, confidence):
    response = RandomizedResponse(epsilon)
    found = [response.share_of(ones, units, confidence) for ones in range(units + 1)]
    for yes in range(units + 1):
        law = ones_law(yes, units, response.lie_chance)
        mean = sum(mass * estimate.share for mass, estimate in zip(law, found, strict=True))
        spread = sum(mass * (estimate.share - yes / units) ** 2 for mass, estimate in zip(law, found, strict=True))
        covered = sum(m for m, e in zip(law, found, strict=True) if e.low <= yes / units <= e.high)
        assert mean == pytest.approx(yes / units, abs=1e-12)
        assert math.sqrt(spread) == pytest.approx(found[0].standard_error, abs=1e-12)
        assert covered >= confidence


@pytest.mark.parametrize("units", [1, 4, 9])
def test_intervals_about_the_population_hold_with_the_error_of_drawing(units):
    response = RandomizedResponse("0.8")
    found = [response.share_of(ones, units, "0.9", about="population") for ones in range(units + 1)]
    for share in np.linspace(0, 1, 21):
        law = stats.binom.pmf(np.arange(units + 1), units, response.lie_chance + share * (1 - 2 * response.lie_chance))
        covered = sum(m for m, e in zip(law, found, strict=True) if e.low - 1e-9 <= share <= e.high + 1e-9)
        assert covered >= 0.9
    own = response.share_of(units, units, "0.9")
    assert found[-1].share == own.share
    assert found[units // 2].standard_error >= response.share_of(units // 2, units).standard_error * (1 - 1e-9)


@pytest.mark.statistical
def test_intervals_of_many_units_are_neither_wrong_nor_wide():
    response, source, units = RandomizedResponse("0.5"), Seeded(8), 1000
    truth = np.arange(units) < 300
    found = [response.estimate(response.answers(truth, source=source), 0.8) for _ in range(400)]
    missed = sum(not e.low <= 0.3 <= e.high for e in found)
    assert stats.binomtest(missed, 400, 0.2, alternative="greater").pvalue > 1e-6
    assert missed > 40
    shares = np.array([e.share for e in found])
    ratio = shares.var() * 400 / found[0].standard_error ** 2
    assert 1e-6 < stats.chi2.cdf(ratio, 399) < 1 - 1e-6
    for scale in (2 / 3, 1.5):
        assert not 1e-6 < stats.chi2.cdf(ratio / scale**2, 399) < 1 - 1e-6


@pytest.mark.statistical
def test_answers_follow_the_law():
    response, size = RandomizedResponse("0.7"), 200_000
    answers = response.answers(np.arange(size) % 2 == 0, source=Seeded(4))
    lies = int((answers ^ (np.arange(size) % 2 == 0)).sum())
    for epsilon, follows in ((0.7, True), (0.7 * 1.5, False), (0.7 / 1.5, False)):
        assert (stats.binomtest(lies, size, 1 / (1 + math.exp(epsilon))).pvalue > 1e-6) == follows
    counts = [response.ones(60, 100, source) for source in [Seeded(5)] * 5000]
    direct = [int(response.answers(np.arange(100) < 60, source=source).sum()) for source in [Seeded(6)] * 5000]
    assert stats.ks_2samp(counts, direct).pvalue > 1e-6


def test_practically_without_noise():
    sure = RandomizedResponse(1000)
    bits = np.array([True, False, False, True, False])
    assert (sure.answers(bits) == bits).all()
    assert sure.answer(False) is False
    found = sure.estimate(sure.answers(bits))
    assert (found.share, found.standard_error, found.low, found.high) == (0.4, pytest.approx(0), 0.4, 0.4)
    assert sure.answers([]).shape == (0,)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, "x", None, 2.0**-41])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(InvalidParameter):
        RandomizedResponse(epsilon)


@pytest.mark.parametrize("bits", [[1, 0], [0.5], [math.nan], [[True]], ["yes"], [None], True])
def test_bits_are_booleans(bits):
    with pytest.raises(InvalidParameter):
        RandomizedResponse(1).answers(bits)


def test_estimates_have_a_domain():
    response = RandomizedResponse(1)
    for ask in (
        lambda: response.estimate([]),
        lambda: response.estimate([True], confidence=1),
        lambda: response.share_of(3, 2),
        lambda: response.share_of(-1, 2),
    ):
        with pytest.raises(InvalidParameter):
            ask()
