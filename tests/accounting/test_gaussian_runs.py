"""Runs of Gaussian above threshold together: the bound against every way to spread the hits."""

import itertools
from functools import cache

import numpy as np
import pytest

from chary.accounting import above_threshold_epsilons_up, runs_epsilon_up, runs_noise
from chary.accounting import gaussian_runs as gaussian_runs

TERMS = {"sensitivity": 1, "threshold": 50, "low": 0, "high": 100}
NOISE = {"threshold_noise": 20, "query_noise": 35}


def worst(tests, hits):
    """The most that runs can lose in all, over every split of the tests, by dynamic programming."""
    halted, running = above_threshold_epsilons_up(tests, **TERMS, **NOISE)

    @cache
    def most(left, runs):
        if not left or not runs:
            return 0.0
        return max(running[left - 1], *(halted[t - 1] + most(left - t, runs - 1) for t in range(1, left + 1)), 0.0)

    return most(tests, hits)


@pytest.mark.parametrize(("tests", "hits"), [(1, 1), (7, 7), (40, 1), (40, 3), (60, 8)])
def test_no_spread_of_hits_loses_more_and_the_worst_loses_as_much(tests, hits):
    bound = runs_epsilon_up(tests, hits, **TERMS, **NOISE)
    assert worst(tests, hits) <= bound < 1.03 * worst(tests, hits)


def test_looking_at_fewer_tests_only_rounds_up(monkeypatch):
    exact = runs_epsilon_up(900, 4, **TERMS, **NOISE)
    monkeypatch.setattr(gaussian_runs, "_ONE_BY_ONE", 30)
    assert exact <= runs_epsilon_up(900, 4, **TERMS, **NOISE) < 1.02 * exact


def test_more_tests_hits_or_budget():
    losses = [runs_epsilon_up(tests, hits, **TERMS, **NOISE) for tests, hits in ((50, 2), (100, 2), (100, 4))]
    assert losses == sorted(losses)
    noises = [runs_noise(100, 3, epsilon=size, ratio=1.75, **TERMS) for size in (0.5, 1, 2)]
    assert noises == sorted(noises, reverse=True)


@pytest.mark.parametrize("hits", [1, 5])
def test_noise_fits_and_a_percent_less_does_not(hits):
    own = runs_noise(100, hits, epsilon=1, ratio=1.75, **TERMS)
    noises = [{"threshold_noise": k * float(own), "query_noise": k * float(own) * 1.75} for k in (1, 0.99)]
    lost = [runs_epsilon_up(100, hits, **TERMS, **noise) for noise in noises]
    assert lost[0] <= 1 < lost[1]


def test_the_hull_is_concave_and_above():
    places, heights = [0, 1, 2, 4, 7, 9], [0.0, 1.0, 1.1, 3.0, 3.1, 3.2]
    found = [gaussian_runs._hull(places, heights, at) for at in np.arange(0, 12, 0.5)]
    assert all(found[2 * place] >= height for place, height in zip(places, heights, strict=True))
    assert all(a - b <= 1e-12 for a, b in itertools.pairwise(np.diff(found)[::-1]))
    assert gaussian_runs._hull(places, heights, 20) == 3.2


LOUD_BAR = {"sensitivity": 1, "threshold": 0, "low": 0, "high": 1, "threshold_noise": 40, "query_noise": 20}


@pytest.mark.parametrize("terms", [TERMS | NOISE, LOUD_BAR])
def test_tests_that_are_not_looked_at_lose_no_more_than_the_next_that_is(monkeypatch, terms):
    """Every point of the hull is above the losses it stands for, to the last test of its stretch."""
    seen = {}
    hull = gaussian_runs._hull
    monkeypatch.setattr(gaussian_runs, "_ONE_BY_ONE", 1)
    monkeypatch.setattr(gaussian_runs, "_hull", lambda *points: seen.update(points=points) or hull(*points))
    runs_epsilon_up(60, 4, **terms)
    halted, running = above_threshold_epsilons_up(61, **terms)
    places, heights, at = seen["points"]
    assert at == 15
    for (first, height), last in zip(zip(places, heights, strict=True), [*places[1:], 61], strict=True):
        for tests in range(max(1, first), last):
            assert max(halted[tests - 1], running[tests - 1]) <= height * (1 + 1e-12)
            if first > 1 and tests == last - 1:
                assert height >= halted[tests] * (1 - 1e-12), "a run that still runs may halt at the next test"
