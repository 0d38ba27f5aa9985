"""The peer draws from the law it is said to have: every way to place two quantiles among three values, enumerated."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.stats import chisquare

from chary_research.joint_quantiles import JointExponential, composed_delta, each_epsilon, sums_before

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


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("wanted", [0, 0.3, 1, 1.5, 2, 4.7, 6, 7, 19, 60])
def test_sums_in_linear_time_are_the_plain_ones(size, wanted):
    logs, place = 3 * np.random.default_rng(size).normal(size=size), np.arange(size)
    found = sums_before(logs, 0.7, wanted)
    assert found[0] == -np.inf
    for k in range(1, size):
        terms = logs[:k] - 0.7 * np.abs(k - place[:k] - wanted)
        assert found[k] == pytest.approx(np.logaddexp.reduce(terms), abs=1e-10)


@pytest.mark.parametrize(("many", "total"), [(1, 0.5), (3, 0.2), (5, 0.7), (8, 1.0)])
def test_the_delta_of_a_composition_is_the_largest_of_all_pairs(many, total):
    each, worst = 0.6, 0.0
    for shift in np.linspace(0, each, 400):
        upper = (1 - math.exp(shift - each)) / (1 - math.exp(-each))
        outcomes = [(shift, upper), (shift - each, 1 - upper)]
        law = {0.0: 1.0}
        for _ in range(many):
            law = _convolved(law, outcomes)
        worst = max(worst, sum(chance * max(0, 1 - math.exp(total - ratio)) for ratio, chance in law.items()))
    found = composed_delta(each, many, total)
    assert worst <= found * (1 + 1e-9)
    assert found == pytest.approx(worst, rel=1e-3)
    assert composed_delta(each_epsilon(total, many, 1e-6), many, total) <= 1e-6


def _convolved(law, outcomes):
    found = {}
    for ratio, chance in law.items():
        for more, likely in outcomes:
            key = round(ratio + more, 12)
            found[key] = found.get(key, 0.0) + chance * likely
    return found
