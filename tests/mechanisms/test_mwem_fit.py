"""The histogram of MwemRounds: fits that converge and lower the potential, the same bits, the round that is kept."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.accounting.synthesis import REACH
from chary.mechanisms.weights import PASSES, STEEPEST, Exponents, Fit, MwemRounds, Round, best_round, missed, weighted
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.matrix_cells import COLUMNS, ROWS, Sets, people_of

SOURCE = OperatingSystem()


@pytest.mark.parametrize("sizes", [{"epsilon": 10**6}, {"rho": 10**9}])
def test_without_noise_the_histogram_converges_to_the_exact_answers(sizes):
    queries, people = Sets(30), people_of(1)
    exact, errors = queries.counts(people), []
    for rounds in (1, 10, 100):
        found, exponents = MwemRounds(rounds, **sizes).run(exact, 1000, queries, SOURCE)
        assert all(told.measured == exact[told.query] for told in found)
        shares = queries.shares(weighted(queries, exponents).weights)
        errors.append(np.abs(shares - exact / 1000).max())
        assert errors[-1] <= missed(found[best_round(found, 1000)], 1000) + 1 / 1000
    assert errors[2] < 0.01 < 0.02 < errors[1] < errors[0] / 2


def entropy(people, shares):
    part, model = people.ravel() / people.sum(), shares
    inside = part > 0
    return float((part[inside] * np.log(part[inside] / model[inside])).sum())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), noises=st.lists(st.integers(-60, 60), min_size=1, max_size=12))
def test_the_potential_falls_as_the_theorem_says_and_exponents_keep_their_room(seed, noises):
    """The relative entropy is below `ln N - sum 2 (m - v)^2 + |exponents| Z`, whatever the noise, which Z bounds."""
    queries, people = Sets(8, seed), people_of(seed)
    exact, random, fit = queries.counts(people), np.random.default_rng(seed), Fit(queries, 1000)
    gained, room = 0.0, 0.0
    for drawn in noises:
        query = int(random.integers(8))
        share = float(queries.shares(fit.histogram.weights)[query])
        told = Round(query, int(exact[query]) + drawn, share)
        fit.learn(told)
        gained, room = gained + 2 * missed(told, 1000) ** 2, room + REACH * STEEPEST * missed(told, 1000)
        length = math.fsum(map(abs, fit._exponents))
        assert length <= room + 1e-6
        left = entropy(people, np.maximum(fit.histogram.shares(), 1e-300))
        assert left <= math.log(ROWS * COLUMNS) - gained + length * max(map(abs, noises)) / 1000 + 1e-4


def test_a_first_step_is_always_taken_and_is_the_longest_that_is_safe():
    queries = Sets(1)
    queries.flags[0] = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) < 12
    fit = Fit(queries, 100)
    fit.learn(Round(0, 60, 0.5))
    assert fit._exponents[0] >= STEEPEST * 0.1
    assert PASSES > 0
    gains = {}
    for length in (STEEPEST, 2 * STEEPEST):
        step = length * 0.1
        gains[length] = step * 0.6 - math.log(0.5 * math.exp(step) + 0.5)
    assert gains[STEEPEST] >= 2 * 0.1**2 > gains[2 * STEEPEST]


def test_repeated_measurements_of_a_query_are_averaged():
    queries = Sets(1)
    fit = Fit(queries, 1000)
    for measured in (300, 500, 400, 400, 300, 500) * 4:
        fit.learn(Round(0, measured, float(queries.shares(fit.histogram.weights)[0])))
    assert fit.histogram.share(queries.cells(0)) == pytest.approx(0.4, abs=0.005)


def test_the_same_rounds_give_the_same_bits_and_extreme_exponents_stay_finite():
    queries, people = Sets(40, 5), people_of(5)
    found, exponents = MwemRounds(25, epsilon=1).run(queries.counts(people), 1000, queries, Seeded(4))
    again = Fit(queries, 1000)
    for told in found[: best_round(found, 1000)]:
        again.learn(told)
    assert again.exponents == exponents
    assert again.histogram.weights.tobytes() == weighted(queries, exponents).weights.tobytes()
    extreme = weighted(queries, Exponents(tuple(range(6)), (300.0, -300.0, 500.0, 90.0, -700.0, 88.0)))
    assert np.isfinite(extreme.weights).all()
    assert extreme.shares().sum() == pytest.approx(1)


def test_the_best_round_is_the_one_that_missed_least_and_shares_are_cut_to_what_is_possible():
    rounds = [Round(0, 90, 0.2), Round(1, -500, 0.02), Round(2, 31, 0.3), Round(2, 29, 0.3), Round(1, 900, 0.5)]
    assert best_round(rounds, 100) == 3
    assert missed(rounds[1], 100) == 0.02
    assert missed(rounds[4], 100) == 0.5
