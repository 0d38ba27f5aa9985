"""Random stopping: its law against the formula of its proof, and the formula's privacy by search."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from chary import Algorithm
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.learning.search import random_stopping
from chary.noise import Seeded

ALPHA = 1e-6


def coins(chances, epsilon):
    """Algorithms whose scores 0, 1, ... have the given chances; the last outcome is a failure."""

    def run(rows, source, chances):
        drawn = int(np.searchsorted(np.cumsum(chances), source.words(1, 32)[0] / 2**32, side="right"))
        return [drawn, drawn] if drawn < len(chances) - 1 else None

    return [
        Algorithm(f"{place}", run, epsilon, parameters={"chances": list(each)}) for place, each in enumerate(chances)
    ]


def stopped_law(chances, runs):
    """The law of the best score (failures last), given that of one run: the formula of `random_stopping`."""
    c, law = 1 / runs, np.mean(chances, axis=0)
    ranked = np.concatenate([law[-1:], law[:-1]])
    higher = ranked[::-1].cumsum()[::-1] - ranked
    found = c * ranked / ((c + (1 - c) * (higher + ranked)) * (c + (1 - c) * higher))
    return np.concatenate([found[1:], found[:1]])


FIRST = np.array([[0.5, 0.3, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [1, 4, 30])
def test_random_stopping_has_the_law_of_its_proof(runs):
    """Against the formula, chi-squared at alpha 1e-6; the formula of twice as many runs is rejected."""
    algorithm, source, counts = random_stopping(coins(FIRST, "0.1"), runs=runs), Seeded(runs), np.zeros(4)
    for _ in range(700):
        try:
            counts[algorithm.outcome(None, source)["score"]] += 1
        except AlgorithmFailed:
            counts[3] += 1
    expected, other = (700 * stopped_law(FIRST, tried) + 1e-9 for tried in (runs, 2 * runs))
    assert expected.sum() == pytest.approx(700)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, 3)
    assert ((counts - other) ** 2 / other).sum() > chi2.isf(ALPHA, 3)


@pytest.mark.parametrize("runs", [1, 2, 10, 1000, 10**6])
def test_random_stopping_is_thrice_as_private_as_one_run(runs):
    """Worst log-ratio over neighbours' laws with ratios e^-epsilon to e^epsilon; it comes near 3 epsilon."""
    epsilon, generator, worst = 0.3, np.random.default_rng(runs), 0.0
    for _ in range(400):
        here = generator.dirichlet(10 ** generator.uniform(-3, 1, 4))
        here = np.maximum(here, 1e-12) / np.maximum(here, 1e-12).sum()
        there = tilted(here, generator.permutation(4), epsilon)
        laws = [stopped_law([law], runs) for law in (here, there)]
        worst = max(worst, np.abs(np.log(laws[0] / laws[1])).max())
    assert worst <= 3 * epsilon + 1e-6
    assert runs < 1000 or worst > 2 * epsilon


def tilted(law, order, epsilon):
    """A neighbour: outcomes gain e^epsilon in the given order, as far as the others can lose e^epsilon."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    high = np.zeros(4)
    left = 1.0
    for place in order:
        high[place] = min(left, law[place] / (1 - p) * 0.5)
        left -= high[place]
    mixed = np.clip(high, law * math.exp(-epsilon), law * math.exp(epsilon))
    for _ in range(200):
        mixed = np.clip(mixed / mixed.sum(), law * math.exp(-epsilon), law * math.exp(epsilon))
    return mixed


def test_of_equal_scores_the_first_is_published():
    ran = []
    algorithms = [
        Algorithm(name, lambda rows, source, name=name: ran.append(name) or [7, name], epsilon="0.1") for name in "abc"
    ]
    for seed in range(20):
        ran.clear()
        assert random_stopping(algorithms, runs=5).outcome(None, Seeded(seed))["solution"] == ran[0]


def test_the_largest_epsilon_counts():
    small, large = (Algorithm(epsilon, lambda rows, source: [0, 0], epsilon=epsilon) for epsilon in ("0.1", "0.2"))
    for algorithms in ([small, large], [large, small]):
        assert random_stopping(algorithms, runs=2).size == (Fraction(6, 10), 0)


def test_random_stopping_needs_pure_algorithms():
    rough = Algorithm("rough", lambda rows, source: [0, 0], epsilon="0.1", delta="1e-9")
    with pytest.raises(InvalidParameter, match="pure"):
        random_stopping([rough], runs=2)
    with pytest.raises(InvalidParameter, match="candidates"):
        random_stopping([], runs=2)
