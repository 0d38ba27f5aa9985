"""What experiments compute for themselves, against brute force and against the library's exact figures."""

import math

import numpy as np
import pytest

from chary.accounting import exact_total, halted_epsilon_up, noisy_max_epsilon_up, sparse_noise
from chary.mechanisms import SparseVectorMachine
from chary.noise import Seeded
from chary_research.experiments.gaussian_losses import QUERIES, STEPS, UNITS, drawn_halt, drawn_maximum, run_terms
from chary_research.experiments.schedules import KEYS, rows_by_key
from chary_research.experiments.synthesis import condition_of, conditions_drawn, drawn, share_of, universe
from chary_research.experiments.thresholds import needed, renyi_hits_total, simple_total

Z = np.linspace(-14, 14, 200_001)


def mean_log(values):
    """The logarithm of the mean of what these are the logarithms of, over a standard normal number, by trapezoids."""
    return np.logaddexp.reduce(values - Z * Z / 2)


@pytest.mark.parametrize("noise", ["0.1", "0.3"])
def test_the_integrands_of_random_draws_are_those_of_the_losses(noise):
    size, moved = float(noise), 1 / UNITS
    halted = mean_log(drawn_halt(Z, moved, size)) - mean_log(drawn_halt(Z, 0.0, size))
    assert halted == pytest.approx(halted_epsilon_up(STEPS, **run_terms(noise, "0.5", UNITS)), rel=1e-4)
    largest = mean_log(drawn_maximum(Z, moved, size)) - mean_log(drawn_maximum(Z, 0.0, size))
    assert largest == pytest.approx(noisy_max_epsilon_up(QUERIES, sensitivity=moved, noise=noise), rel=1e-4)


def test_totals_lie_above_the_exact_curve():
    for size, hits in (("0.1", 1), ("0.02", 20)):
        exact = exact_total(epsilon_per_call=size, hits=hits, delta="1e-6")
        assert (
            exact < renyi_hits_total(epsilon_per_call=size, hits=hits) < simple_total(epsilon_per_call=size, hits=hits)
        )


def test_the_simple_total_by_its_equation():
    q, tail = 1 / (math.exp(0.1) + 1), 1e-6
    part = simple_total(epsilon_per_call="0.1", hits=10) * q / (10 * 0.1) - 1
    assert math.exp(-(part**2) * 10 / (2 * (1 + part))) == pytest.approx(tail)


@pytest.mark.parametrize("hits", [1, 4])
def test_needed_distances_are_the_least(hits):
    made = SparseVectorMachine(sparse_noise(epsilon=1, hits=hits, form="published"), 1)
    tests, bar = 30, 10**6
    last = np.arange(tests) >= tests - hits

    def right(distance, seed):
        source = Seeded(seed)
        _, crossed = made.step(made.start(source), bar + np.where(last, distance, -distance - 1), bar, source)
        return crossed.positions == np.flatnonzero(last).tolist()

    for seed in range(10):
        found = needed(made, tests, seed)
        assert right(found, seed)
        assert found == 1 or not right(found - 1, seed)


def test_conditions_say_what_is_counted():
    rows = drawn(400, seed=3)
    people = rows.to_pylist()
    asked = conditions_drawn(30, seed=2)
    assert len(set(asked)) == 30
    for ranges in asked:
        code = condition_of(ranges).replace(" AND ", " and ")
        held = sum(bool(eval(code, {}, person)) for person in people)
        assert share_of(ranges, rows) == held / 400
    assert universe().cells == 300


def test_rows_by_key_add_up():
    for size in (1000, 1234):
        assert rows_by_key(1000, size).sum() == size
    assert (rows_by_key(1000, 2000)[1:] == 1000 // KEYS).all()
