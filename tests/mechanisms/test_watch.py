"""A watch over keys: neighbours differ in c of them, and min(hits, c) hits pay for everything, halting or not."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from chary.mechanisms import BarTests, Laplace
from chary.noise import OperatingSystem
from tests.mechanisms.laws import Given, epsilon_of, moment, price_of, transcripts, worst_ratio

RATIO, ORDER = Fraction(9, 10), 4
THRESHOLDS = [-1, 0, 1, 2]


def watched(threshold, most):
    """Everything a watch publishes: how many were tested, which hit, with which values."""

    def run(*noise):
        found = BarTests(Given(noise), threshold, most).step(np.zeros(len(noise), dtype=np.int64), None)
        return found.tested, tuple(found.positions), tuple(found.noisy)

    return run


def law(values, threshold, most):
    return transcripts(values, RATIO, threshold - 2, max(threshold, 1) + 1, watched(threshold, most))


def neighbours(keys, differ):
    """Databases that differ by one step, up or down, in the first `differ` of the keys, or in the last."""
    for signs in itertools.product((-1, 1), repeat=differ):
        changed = (*signs, *[0] * (keys - differ))
        yield changed
        yield changed[::-1]


@pytest.mark.parametrize("most", [None, 1, 2, 3])
@pytest.mark.parametrize(("keys", "differ"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_min_of_hits_and_differing_keys_pays_for_a_watch(keys, differ, most):
    hit = price_of(epsilon_of(RATIO), ORDER)
    paid = differ if most is None else min(differ, most)
    for threshold in THRESHOLDS:
        base = law([0] * keys, threshold, most)
        for changed in set(neighbours(keys, differ)):
            other = law(changed, threshold, most)
            for pair in ((base, other), (other, base)):
                charged = moment(*pair, ORDER, lambda found: hit * min(len(found[1]), paid))
                assert charged <= 1 + 1e-12


def test_charging_one_hit_when_two_keys_differ_would_not_be_enough():
    hit, worst = price_of(epsilon_of(RATIO), ORDER), 0.0
    for threshold in THRESHOLDS:
        for changed in neighbours(2, 2):
            laws = law([0, 0], threshold, None), law(changed, threshold, None)
            worst = max(
                worst, *(moment(*pair, ORDER, lambda t: hit * min(len(t[1]), 1)) for pair in (laws, laws[::-1]))
            )
    assert worst > 1


@pytest.mark.parametrize("most", [None, 1, 2])
@pytest.mark.parametrize("differ", [1, 2, 3])
def test_a_watch_is_private_at_the_sum_over_differing_keys_and_attains_it(differ, most):
    worst = Fraction(1)
    for threshold in THRESHOLDS:
        base = law([0] * 3, threshold, most)
        worst = max(worst, *(worst_ratio(base, law(c, threshold, most)) for c in set(neighbours(3, differ))))
    assert worst <= RATIO**-differ
    if most is None:
        assert worst == RATIO**-differ


def exact(threshold, most, values):
    found = BarTests(Laplace.for_epsilon(1000, sensitivity=1), threshold, most).step(
        np.array(values), OperatingSystem()
    )
    return found.tested, found.positions, found.noisy


def test_a_watch_reports_positions_and_values_in_order():
    assert exact(5, None, [4, 5, 9, -3, 6]) == (5, [1, 2, 4], [5, 9, 6])
    assert exact(50, None, [4, 5, 9, -3, 6]) == (5, [], [])


def test_a_watch_halts_right_after_the_last_hit_that_is_paid():
    assert exact(5, 2, [4, 5, 9, -3, 6]) == (3, [1, 2], [5, 9])
    assert exact(5, 1, [4, 5, 9, -3, 6]) == (2, [1], [5])


def test_the_last_hit_at_the_end_leaves_nothing_untested():
    assert exact(5, 3, [4, 5, 9, -3, 6]) == (5, [1, 2, 4], [5, 9, 6])
    assert exact(5, 4, [4, 5, 9, -3, 6]) == (5, [1, 2, 4], [5, 9, 6])


def test_huge_values_and_thresholds_are_compared_exactly():
    assert exact(2**60 + 1, None, [2**60, 2**60 + 1]) == (2, [1], [2**60 + 1])
    assert exact(2**70, None, np.array([2**70 - 1, 2**70], dtype=object)) == (2, [1], [2**70])
    assert exact(2**70, None, [1, 2]) == (2, [], [])
    assert exact(-(2**70), None, [1, 2]) == (2, [0, 1], [1, 2])


def test_published_values_are_plain_integers():
    _, positions, noisy = exact(0, None, [3, 4])
    assert {type(number) for number in positions + noisy} == {int}
