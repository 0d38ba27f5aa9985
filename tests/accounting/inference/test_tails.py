"""How often truths below a bar are reported: sharp tests and sparse vectors against brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Silence, false_alarms_up, margin_up, one_sided_noise, sharp_table, sparse_noise
from chary.accounting.sharp_tests import SharpTails
from chary.accounting.sparse_vector import OneSidedNoise, SparseTails

FAR = 2500
NOISES = {
    "one-sided": one_sided_noise(epsilon=1, hits=3),
    "one-sided, monotone": one_sided_noise(epsilon="0.5", hits=2, monotone=True, tests=40),
    "tuned": sparse_noise(epsilon=1, hits=3, monotone=True),
    "published": sparse_noise(epsilon=1, hits=1, form="published"),
}


def brute(noise):
    """The chance, by distance, that noise of the test less that of the threshold reaches it."""
    places = np.arange(-FAR, FAR + 1)
    one_sided = isinstance(noise, OneSidedNoise)

    def law(scale):
        weights = np.where(places < 0, 0.0 if one_sided else 1.0, 1.0) * np.exp(-abs(places) / float(scale))
        return weights / weights.sum()

    both = np.convolve(law(noise.test), law(noise.threshold)[::-1])
    return lambda distance: both[2 * FAR + distance + (noise.shift if one_sided else 0) :].sum()


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_sparse_tails_are_those_of_the_convolution(noise):
    tails, chance = SparseTails(noise), brute(noise)
    for distance in (-60, -7, -1, 0, 1, 2, 15, 60):
        assert float(tails.at_least_up(distance)) == pytest.approx(chance(distance), rel=1e-9)
    for wanted in ("0.3", "0.01", "0.0001"):
        reached = tails.reach_up(wanted)
        assert tails.at_least_up(reached) <= Fraction(wanted)
        assert reached == 0 or tails.at_least_up(reached - 1) > Fraction(wanted)


def test_two_scales_that_are_equal():
    noise = sparse_noise(epsilon=1, hits=1)
    same = type(noise)(1, Fraction(5), Fraction(5), None, False)
    assert float(SparseTails(same).at_least_up(4)) == pytest.approx(brute(same)(4), rel=1e-9)


@pytest.mark.parametrize("bar", [-40, 0, 25])
def test_sharp_tails_are_the_law_itself(bar):
    table = sharp_table(order=18, price="0.19295", steps=2)
    tails = SharpTails(table, bar)
    for distance in (-30, 0, 80, 400):
        assert tails.at_least_up(distance) == table.hit_chance(bar - distance)
    for wanted in ("0.2", "0.001"):
        reached = tails.reach_up(wanted)
        assert tails.at_least_up(reached) <= Fraction(wanted)
        assert reached == 0 or tails.at_least_up(reached - 1) > Fraction(wanted)


def test_margins_and_false_alarms_are_those_of_any_tails():
    tails = SharpTails(sharp_table(order=18, price="0.19295"), -40)
    margin = margin_up(tails, tests=1000, confidence="0.95")
    assert margin == tails.reach_up(Fraction(5, 100_000))
    assert false_alarms_up(tails, bar=margin, truth=0, tests=1000) <= 0.05
    assert math.isclose(false_alarms_up(tails, bar=100, truth=60, tests=7), 7 * float(tails.at_least_up(40)))


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_what_a_sparse_vector_misses_is_that_of_the_convolution(noise):
    tails, chance = SparseTails(noise), brute(noise)
    for distance in (0, 1, 2, 15, 60, 200):
        assert float(tails.missed_up(distance)) == pytest.approx(1 - chance(-distance), rel=1e-6, abs=1e-12)
    for wanted in ("0.3", "0.01", "0.0001"):
        reached = tails.miss_reach_up(wanted)
        assert tails.missed_up(reached) <= Fraction(wanted)
        assert reached == 0 or tails.missed_up(reached - 1) > Fraction(wanted)


@pytest.mark.parametrize("bar", [-40, 0, 25])
@pytest.mark.parametrize("confidence", ["0.6", "0.95", "0.999"])
def test_silence_of_a_sharp_test_rules_out_what_it_hardly_misses(bar, confidence):
    table = sharp_table(order=18, price="0.19295", steps=2)
    most = Silence(SharpTails(table, bar), 100).truths(confidence).high

    def missed(truth):
        return 1 - table.hit_chance(truth - 100 + bar)

    assert missed(most + 1) <= 1 - Fraction(confidence)
    assert most == 99 or missed(most) > 1 - Fraction(confidence)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_silence_of_a_sparse_vector_holds_for_who_follows_its_answers(noise):
    """All outcomes of tests that share a hidden threshold: after probes that were not reported it is high."""
    beta = Fraction(1, 10)
    reach = SparseTails(noise).miss_reach_up(beta / 2)
    places = np.arange(-FAR // 5, FAR // 5 + 1)
    one_sided, shift = isinstance(noise, OneSidedNoise), noise.shift

    def law(scale):
        weights = np.where(places < 0, 0.0 if one_sided else 1.0, 1.0) * np.exp(-abs(places) / float(scale))
        return weights / weights.sum()

    hidden, upwards = law(noise.threshold), np.cumsum(law(noise.test)[::-1])[::-1]

    def missed(truth):
        """The chance that a truth so far above the bar is not reported, given each hidden noise."""
        return 1 - upwards[np.clip(places + shift - truth + len(places) // 2, 0, len(places) - 1)]

    assert (hidden * (1 - (1 - missed(reach)) ** 2)).sum() <= float(beta) + 1e-9
    probes = hidden * missed(reach // 2) ** 9
    assert (probes * missed(reach)).sum() <= float(beta) / 2 + 1e-9
    # It is no statement given the silence of the probes.
    assert (probes * missed(reach)).sum() > probes.sum() * float(beta) / 2
