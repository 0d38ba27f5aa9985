"""The right sparse vector passes the audit, by samples and by exact laws; four known mistakes are caught by both."""

import math
from dataclasses import replace

import numpy as np
import pytest

from chary.accounting import sparse_noise
from chary.accounting.sparse_vector import reach
from chary.noise import Seeded
from tests.audit import sparse_variants as variants
from tests.audit.auditor import epsilon_shown
from tests.mechanisms.sparse_laws import Round, pmf

EPSILON, RUNS, LENGTH, HITS = 1, 4000, 600, 250
HALF = LENGTH // 2
# Every question moves by one: the first half up, the second half down.
OPPOSITE = [-1] * HALF + [0] * HALF, [0] * HALF + [-1] * HALF
# The threshold can lie between the two questions on one side only.
CROSSED = [-1, 0], [0, -1]


def second_alone(crossed):
    """Whether the second question was above, the first below."""
    return float(crossed.positions == [1])


def later_less_earlier(crossed):
    """How many more were above in the second half than in the first."""
    above = np.array(crossed.positions)
    return float((above >= HALF).sum() - (above < HALF).sum())


def audited(machine, pair, statistic):
    """What samples show, by the attack in either direction."""
    source, runs = Seeded(17), RUNS if len(pair[0]) == 2 else RUNS // 4
    samples = [
        np.array([statistic(crossed) for crossed in variants.transcripts(machine, values, source, runs)])
        for values in pair
    ]
    return max(epsilon_shown(*samples), epsilon_shown(*samples[::-1]))


MISTAKES = {
    "no noise on the tests": (variants.without_test_noise(EPSILON), CROSSED, second_alone),
    "no end": (variants.without_end(EPSILON), OPPOSITE, later_less_earlier),
    "noise not scaled with the hits": (variants.without_scaling(EPSILON, HITS), OPPOSITE, later_less_earlier),
    "one-sided, no end": (variants.one_sided_without_end(EPSILON), OPPOSITE, later_less_earlier),
    "one-sided, not scaled": (variants.one_sided_without_scaling(EPSILON, HITS), OPPOSITE, later_less_earlier),
}


@pytest.mark.statistical
@pytest.mark.parametrize("mistake", MISTAKES)
def test_samples_catch_the_mistake(mistake):
    assert audited(*MISTAKES[mistake]) > 1.2 * EPSILON


@pytest.mark.statistical
@pytest.mark.parametrize("right", [variants.right, variants.right_one_sided])
@pytest.mark.parametrize("hits", [1, HITS])
@pytest.mark.parametrize(("pair", "statistic"), [(CROSSED, second_alone), (OPPOSITE, later_less_earlier)])
def test_samples_find_nothing_against_the_right_one(pair, statistic, hits, right):
    assert audited(right(EPSILON, hits), pair, statistic) <= EPSILON


def test_the_auditor_finds_the_epsilon_of_randomized_response():
    source, high = np.random.default_rng(3), math.exp(2) / (1 + math.exp(2))
    truth, lie = (source.random(20_000) < chance for chance in (high, 1 - high))
    assert 1.6 < epsilon_shown(truth.astype(float), lie.astype(float)) <= 2
    assert epsilon_shown(truth.astype(float), truth.astype(float)) < 0.2


def a_round(hits=1):
    sizes = sparse_noise(epsilon=EPSILON, hits=hits)
    return Round(float(sizes.threshold), float(sizes.test))


def test_without_noise_on_the_tests_a_transcript_is_possible_on_one_side_only():
    silent = replace(a_round(), test_scale=1 / 1000)
    below, above = (silent.chance(gaps, [False, True]) for gaps in CROSSED)
    assert above < 1e-12 < 0.1 < below
    right = [a_round().chance(gaps, [False, True]) for gaps in CROSSED]
    assert math.log(right[0] / right[1]) <= EPSILON


def published_with(value, misses, gap, *, own_noise):
    """The chance of some misses and then a hit of a question at the threshold, published as this value."""
    scales = sparse_noise(epsilon=EPSILON, hits=1, values=True)
    shifts = np.arange(-600, 601)
    weights = pmf(scales.threshold, shifts) * (1 - reach(scales.test, (shifts - gap).astype(float))) ** misses
    if own_noise:
        return (weights * reach(scales.test, shifts.astype(float))).sum() * pmf(scales.answer, value)
    return weights[shifts <= value].sum() * pmf(scales.test, value)


def test_publishing_the_tested_value_loses_more_with_every_miss():
    ratios = [
        math.log(published_with(0, misses, 0, own_noise=False) / published_with(0, misses, 1, own_noise=False))
        for misses in (1, 10, 100)
    ]
    assert ratios == sorted(ratios)
    assert ratios[1] > EPSILON
    assert ratios[2] > 5 * EPSILON
    for misses in (1, 10, 100):
        right = published_with(0, misses, 0, own_noise=True) / published_with(0, misses, 1, own_noise=True)
        assert math.log(right) <= EPSILON


def test_the_tested_value_that_would_be_published_follows_that_law():
    machine, source, runs = variants.publishing_the_tested_value(EPSILON), Seeded(5), 4000
    found = list(variants.transcripts(machine, [-9, 0], source, runs))
    small = sum(crossed.positions == [1] and crossed.values[0] <= 0 for crossed in found)
    sizes, shifts = machine.sizes, np.arange(-600, 601)
    missed = 1 - reach(sizes.test, (shifts + 9).astype(float))
    hit = reach(sizes.test, shifts.astype(float)) - reach(sizes.test, np.maximum(shifts, 1).astype(float))
    expected = (pmf(sizes.threshold, shifts) * missed * hit).sum()
    assert abs(small - runs * expected) < 5 * math.sqrt(runs * expected)


@pytest.mark.parametrize("hits", [2, 3])
def test_without_end_or_scaling_every_further_hit_loses_more(hits):
    assert a_round(1).worst(1, 3, (-1, 0, 1)) <= EPSILON * (1 + 1e-9)
    assert a_round(1).worst(hits, 3, (-1, 0, 1)) > 1.3 * EPSILON


def test_a_fresh_threshold_with_the_noise_of_a_kept_one_loses_more():
    sizes = sparse_noise(epsilon=EPSILON, hits=2)
    again = Round(float(sizes.threshold), float(sizes.test)).worst(1, 4, (-1, 0, 1))
    assert 2 * again > 1.15 * EPSILON
