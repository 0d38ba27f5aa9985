"""The peer draws from the law it is said to have: every way to place two quantiles among three values, enumerated."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from benchmarks.joint_exponential import JointExponential
from scipy.stats import chisquare

VALUES, TOP, AT = (1.0, 4.0, 6.0), 10.0, (0.25, 0.75)
WIDTHS = np.diff([0.0, *VALUES, TOP])
RUNS = 20_000


def law(epsilon, change=1.5):
    """The chance of each pair of gaps; a row more moves the sum of distances by 2 (1 - 1/4)."""
    weights = {}
    for pair in combinations_with_replacement(range(4), 2):
        counts = np.diff([0, *pair, 3])
        far = np.abs(counts - 3 * np.array([0.25, 0.5, 0.25])).sum()
        volume = math.prod(WIDTHS[list(pair)]) / (2 if pair[0] == pair[1] else 1)
        weights[pair] = volume * math.exp(-epsilon * far / (2 * change))
    whole = sum(weights.values())
    return {pair: weight / whole for pair, weight in weights.items()}


@pytest.fixture(scope="module")
def drawn():
    generator = np.random.default_rng(5)
    joint = JointExponential(np.array(VALUES), 3.0, AT, TOP)
    return np.array([joint.draw(generator) for _ in range(RUNS)])


def chance(drawn, expected):
    gaps = np.searchsorted(VALUES, drawn)
    seen = [int(np.all(gaps == pair, axis=1).sum()) for pair in expected]
    assert sum(seen) == RUNS
    return chisquare(seen, RUNS * np.array(list(expected.values()))).pvalue


def test_pairs_of_gaps_are_drawn_as_enumerated(drawn):
    assert chance(drawn, law(3.0)) > 1e-6


def test_another_sensitivity_would_be_noticed(drawn):
    assert chance(drawn, law(3.0, change=2)) < 1e-6


def test_draws_are_ascending_and_in_range(drawn):
    assert np.all(np.diff(drawn, axis=1) >= 0)
    assert 0 <= drawn.min() < drawn.max() <= TOP
