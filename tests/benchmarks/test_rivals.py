"""Peers keep the promise they are compared at: laws by enumeration and brute force, and published constants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary import Budget
from chary.accounting import BoundaryCall, SharpTest, optimal_total
from chary.accounting.sharp_widths import draw_table
from chary.filters import RenyiFilter
from chary.mechanisms.boundaries import LabelDraws
from chary.noise import Seeded

EPSILON, DELTA = 1.0, 1e-5


def moved(votes):
    """All votes after one voter moved."""
    for taken, given in itertools.permutations(range(len(votes)), 2):
        if votes[taken]:
            other = list(votes)
            other[taken], other[given] = other[taken] - 1, other[given] + 1
            yield tuple(other)


def test_the_distance_of_a_label_moves_by_one_and_vouches_for_all_neighbours(run_beside):
    made = run_beside("stable_labels")
    for votes in (each for each in itertools.product(range(7), repeat=3) if sum(each) == 6):
        far, label = (int(found(np.array([votes]))[0]) for found in (made.distance, made.winners))
        for other in moved(votes):
            assert abs(int(made.distance(np.array([other]))[0]) - far) <= 1
            assert not far or int(made.winners(np.array([other]))[0]) == label


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_test_of_the_proposed_is_private_at_each_distance(run_beside, gaussian):
    made = run_beside("stable_labels")
    promise = made.Promise(EPSILON, DELTA, 1)
    way = made.ProposeTestRelease(promise, gaussian)
    steps = np.random.default_rng(1)
    unstable = way.label(np.full((200_000, 2), 50), steps)
    assert (unstable != made.NONE).sum() <= 12  # 1 is expected, and 13 come with a chance below 1e-6
    if gaussian:
        return
    passing = [0.5 * math.exp(-max(0.0, way.bar - far) / way.scale) for far in range(int(way.bar))]
    for low, high in itertools.pairwise(passing):
        assert high <= math.exp(EPSILON) * low * (1 + 1e-9)
        assert 1 - low <= math.exp(EPSILON) * (1 - high) * (1 + 1e-9)
    assert passing[0] <= DELTA / 2 * (1 + 1e-9)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("failures", [1, 10, 100])
def test_a_sparse_vector_of_distances_keeps_the_promise(run_beside, published, failures):
    made = run_beside("stable_labels")
    way = made.DistanceToInstability(made.Promise(EPSILON, DELTA, 1000), failures, published)
    assert optimal_total(way.epsilon, failures, DELTA / 2) <= EPSILON
    assert 1000 * made.passing(way.bar, way.scales) <= DELTA / 2 * (1 + 1e-6)
    if not published:
        assert optimal_total(1.01 * way.epsilon, failures, DELTA / 2) > EPSILON
        assert 1000 * made.passing(0.99 * way.bar, way.scales) > DELTA / 2


def test_the_chance_of_two_noises_is_that_of_draws(run_beside):
    made, generator = run_beside("stable_labels"), np.random.default_rng(2)
    drawn = generator.laplace(0, 2, 10**6) + generator.laplace(0, 4, 10**6) >= 8
    assert abs(drawn.mean() - made.passing(8, (2, 4))) < 5 * math.sqrt(0.25e-6)
    assert abs(drawn.mean() - made.passing(8, (2, 3))) > 5 * math.sqrt(0.25e-6)


def test_a_sparse_vector_ends_with_its_failures(run_beside):
    made = run_beside("stable_labels")
    way = made.DistanceToInstability(made.Promise(5.0, DELTA, 100), 3)
    votes = np.array([[1000, 0]] * 50 + [[500, 500]] * 50)
    found = way.label(votes, np.random.default_rng(3))
    assert found.tolist() == [0] * 50 + [made.NONE] * 3


def brute_sensitivities(values, domain):
    """The largest change of the median by one replacement, of all data that differ in at most k values."""
    made = {}
    for data in itertools.product(domain, repeat=len(values)):
        middle = sorted(data)[(len(values) - 1) // 2]
        change = max(
            abs(sorted((*data[:place], new, *data[place + 1 :]))[(len(values) - 1) // 2] - middle)
            for place in range(len(values))
            for new in domain
        )
        apart = sum(one != other for one, other in zip(data, values, strict=True))
        made[apart] = max(made.get(apart, 0), change)
    return list(itertools.accumulate((made[k] for k in range(len(values) + 1)), max))


@pytest.mark.parametrize("values", [(0, 1, 3), (2, 2, 3), (0, 1, 2, 5), (5, 3, 3, 0)])
def test_sensitivities_of_a_median_are_those_of_all_data(run_beside, values):
    made = run_beside("stable_medians")
    found = made.sensitivities(np.array(values, float), 0, 5)
    assert np.maximum.accumulate(found).tolist() == brute_sensitivities(values, range(6))


def test_the_noise_of_neighbours_is_of_nearly_one_size(run_beside):
    made = run_beside("stable_medians")
    for values in itertools.product(range(4), repeat=3):
        for place, new in itertools.product(range(3), range(4)):
            other = (*values[:place], new, *values[place + 1 :])
            pair = [made.sensitivities(np.array(each, float), 0, 3) for each in (values, other)]
            for smooth in (made.SmoothSensitivity(EPSILON), made.SmoothSensitivity(EPSILON, DELTA)):
                here, there = (smooth.scale(local) for local in pair)
                assert here <= math.exp(smooth.beta) * there * (1 + 1e-9)
            near = made.ProposedMedian(EPSILON, DELTA, 1.0)
            assert abs(near.distance(pair[0]) - near.distance(pair[1])) <= 1


def test_cauchy_noise_of_a_smooth_size_is_private(run_beside):
    made = run_beside("stable_medians")
    smooth, places = made.SmoothSensitivity(EPSILON), np.linspace(-500, 500, 4001)
    for values, other in [((0, 1, 3), (0, 3, 3)), ((1, 1, 2), (1, 2, 2)), ((0, 0, 3), (0, 3, 3))]:
        logs = []
        for each in (np.array(values, float), np.array(other, float)):
            scale = smooth.scale(made.sensitivities(each, 0, 3))
            logs.append(-np.log(scale) - np.log1p(((places - made.median(each)) / scale) ** 2))
        assert np.abs(logs[0] - logs[1]).max() <= EPSILON


def test_a_proposal_that_is_too_small_fails(run_beside):
    made = run_beside("stable_medians")
    near, local = made.ProposedMedian(EPSILON, DELTA, 1.0), np.array([2.0, 3.0, 3.0])
    assert near.passes(local) == pytest.approx(DELTA)
    assert near.passes(np.zeros(100)) > 0.99


def test_bars_with_one_noise_keep_the_promise_and_chances_add_up(run_beside):
    made = run_beside("noisy_thresholds")
    way = made.BetweenThresholds(0.5, 0.01)
    said = [
        (*start, end) for start in itertools.product(("low", "high"), repeat=1) for end in ("low", "high", "between")
    ]
    said.append(("between",))
    for gap in (way.gap, 0.2 * way.gap):
        for values in [(-5.0, gap / 2), (1.0, gap), (gap + 3, 2.0)]:
            pair = [
                np.array([way.chance(side[: len(told)], told, gap) for told in said])
                for side in (values, (values[0] + 1, values[1] - 1))
            ]
            assert [each.sum() for each in pair] == pytest.approx([1, 1], abs=1e-6)
            here, there = pair
            lost = np.maximum(here - math.exp(way.epsilon) * there, 0).sum()
            assert gap < way.gap or lost <= way.delta


def test_restarts_keep_the_promise(run_beside):
    made = run_beside("noisy_thresholds").repeated(1.0, 1e-6, 10)
    assert 10 * made.delta == pytest.approx(5e-7)
    assert optimal_total(made.epsilon, 10, 5e-7) <= 1 < optimal_total(1.01 * made.epsilon, 10, 5e-7)


def test_units_leave_when_their_hits_are_used_up(run_beside):
    made = run_beside("units_charged")
    asked = made.Asked(np.array([[True, True, False]] * 3 + [[False, False, True]]), bar=1)
    streams = [made.Stream("counted", 2, lambda value, bar, source: value if value >= bar else None)]
    streams.append(made.Stream("ended", 2, streams[0].told, ends=True))
    counted, ended = (stream.run(asked, Seeded(1)) for stream in streams)
    assert (counted.values, counted.exhausted) == ({0: 2, 1: 2, 3: 1}, pytest.approx(2 / 3))
    assert ended.values == {0: 2, 1: 2}


def test_clear_labels_follow_their_law_and_their_budget(run_beside):
    made = run_beside("votes_labelled")
    votes = np.array([[60, 40]] * 2000)
    law = made.chances(votes[:1], 0.05)[0]
    assert law[0] / law[1] == pytest.approx(math.exp(0.05 / 2 * 20))
    budget, size = Budget(epsilon=1, delta=DELTA), Fraction("0.02")
    found = made.clear(budget, 0.02)(votes, np.random.default_rng(5))
    assert (found == made.NONE).sum() == made.affordable(BoundaryCall(size), RenyiFilter.best(budget, grain=size))
    assert len(found) < len(votes)


def test_two_draws_are_those_of_the_mechanism(run_beside):
    made, budget, hits = run_beside("votes_labelled"), Budget(epsilon=1, delta=DELTA), 300
    filter_ = RenyiFilter.best(budget)
    test = SharpTest(filter_.order, Fraction(filter_.capacity.main // hits, filter_.steps))
    law, votes = LabelDraws(draw_table(test, 2, 2), 2), np.array([[530, 470]] * 5000)
    unclear = float(1 - law.clear_chance(60) - law.other_chance(60))
    found = made.draws(budget, hits, 2)(votes, np.random.default_rng(6))
    assert (found == made.NONE).sum() == hits
    assert abs(len(found) - hits / unclear) < 5 * math.sqrt(hits * (1 - unclear)) / unclear
