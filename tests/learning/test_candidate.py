"""A candidate's law by enumeration, coins included; its score by hand; its noise by statistics."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from chary.data import NeighborRelation
from chary.errors import InvalidParameter
from chary.learning import Categorical, CountingBayes, Span
from chary.learning import search as candidate_module
from chary.learning.search import Candidate, one_row_each
from chary.mechanisms import Laplace
from chary.noise import Enclosure, OperatingSystem, Seeded
from tests.learning.learners import Majority

ALPHA = 1e-6
EPSILON = Fraction(1, 2)
REACH = 60


def made(learner, neighbors="add_remove", unit=None, baseline="0.75", epsilon=EPSILON):
    return Candidate(learner, "majority", "label", NeighborRelation(neighbors, unit), epsilon, "0.3", baseline)


def law_of(labels, neighbors, baseline, monkeypatch, scale=1):
    """The law of (choice, score in steps), the score's noise widened by `scale`."""
    rows = pa.table({"label": pa.array(labels, pa.int64())})
    share, right = 0.3, math.exp(EPSILON) / (1 + math.exp(EPSILON))
    law = np.zeros((2, 2 * REACH + 1))
    denominator = Fraction(baseline).denominator
    for coins in itertools.product([False, True], repeat=len(labels)):
        monkeypatch.setattr(candidate_module, "bernoulli", lambda *_, coins=coins: np.array(coins, dtype=bool))
        weight = share ** sum(coins) * (1 - share) ** (len(coins) - sum(coins))
        for flip, chance in ((False, right), (True, 1 - right)):
            tried = made(Majority(flip=flip), neighbors, baseline=baseline)
            score, state = tried.run(rows, OperatingSystem())
            away = np.abs(np.arange(-REACH, REACH + 1) - score * denominator)
            step = 1 / (float(tried.noise.scale) * scale)
            law[state["choice"]] += weight * chance * np.exp(-away * step) * math.tanh(step / 2)
    return law


@pytest.mark.parametrize("baseline", ["0", "0.5", "0.75", "1"])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_a_candidate_is_as_private_as_it_says(neighbors, baseline, monkeypatch):
    """All small datasets and all their neighbours; the coins, the model and the noise of the score are summed out."""
    monkeypatch.setattr(Laplace, "draw_one", lambda self, source: 0)
    sizes = range(4) if neighbors == "add_remove" else [3]
    datasets = [
        labels for size in sizes for labels in itertools.product([0, 1], repeat=size) if sorted(labels) == [*labels]
    ]
    laws = {labels: law_of(labels, neighbors, baseline, monkeypatch) for labels in datasets}
    tight = {labels: law_of(labels, neighbors, baseline, monkeypatch, scale=0.5) for labels in datasets}

    def worst(found):
        return max(np.abs(np.log(found[here] / found[there])).max() for here, there in neighbours(datasets, neighbors))

    assert all(law.sum() == pytest.approx(1, abs=1e-3) for law in laws.values())
    assert 0.5 * EPSILON < worst(laws) <= EPSILON + 1e-9
    assert worst(tight) > EPSILON


def neighbours(datasets, neighbors):
    """Pairs of sorted datasets that differ in one unit."""
    for here, there in itertools.permutations(datasets, 2):
        apart = abs(sum(here) - sum(there)), abs((len(here) - sum(here)) - (len(there) - sum(there)))
        if apart in ([(1, 1)] if neighbors == "replace" else [(0, 1), (1, 0)]):
            yield here, there


@pytest.mark.statistical
def test_one_row_of_each_unit_is_drawn_uniformly():
    """Three rows of one unit, among others; chi-squared at alpha 1e-6. NULL belongs to nobody."""
    rows = pa.table({"unit": ["a", "b", "a", None, "a", "c", None], "row": range(7)})
    source, drawn = Seeded(1), np.zeros(7)
    for _ in range(1500):
        kept = one_row_each(rows, "unit", source)
        assert sorted(kept["unit"].to_pylist()) == ["a", "b", "c"]
        drawn[kept["row"].to_numpy()] += 1
    assert drawn[[1, 3, 5, 6]].tolist() == [1500, 0, 1500, 0]
    assert ((drawn[[0, 2, 4]] - 500) ** 2 / 500).sum() < chi2.isf(ALPHA, 2)
    assert one_row_each(rows, None, source) is rows
    assert one_row_each(rows.slice(3, 1), "unit", source).num_rows == 0


def test_zero_has_no_sign_as_a_unit():
    rows = pa.table({"unit": [0.0, -0.0, 2.5, -0.0], "row": range(4)})
    assert one_row_each(rows, "unit", Seeded(1)).num_rows == 2


def toss(monkeypatch, coins):
    """Fix which units validate."""

    def fixed(source, chance, size):
        assert (chance, size) == (Enclosure.rational("0.3"), len(coins))
        return np.array(coins, dtype=bool)

    monkeypatch.setattr(candidate_module, "bernoulli", fixed)


@pytest.mark.parametrize(("coins", "counted"), [([False, False], 4), ([True, False], 2), ([True, True], 0)])
def test_a_unit_with_many_rows_counts_once(coins, counted, monkeypatch):
    """Two units: each trains with one row, which adds to its class and to one cell, or validates with one."""
    rows = pa.table({"unit": ["a"] * 50 + ["b"], "label": [1] * 50 + [0]})
    learner = CountingBayes([Categorical("unit", ["a", "b"])], classes=[0, 1], epsilon=None)
    toss(monkeypatch, coins)
    _, state = made(learner, unit="unit", epsilon=10**6).run(rows, Seeded(1))
    assert sum(state["counts"]) == counted


@pytest.mark.parametrize("baseline", ["0", "0.75", "1"])
def test_the_score_is_that_of_a_model_written_out_by_hand(baseline, monkeypatch):
    """Practically without noise: Bayes' rule on the training rows in fractions, right answers on the others."""
    generator = np.random.default_rng(4)
    kinds, coins = generator.integers(0, 3, (2, 300)), generator.random(300) < 0.3
    labels = (kinds[0] + kinds[1] + generator.integers(0, 2, 300) > 2).astype(int)
    rows = pa.table({"first": kinds[0], "second": kinds[1], "label": labels})
    learner = CountingBayes([Categorical(name, [0, 1]) for name in ("first", "second")], classes=[0, 1], epsilon=None)
    toss(monkeypatch, coins)
    score, _ = made(learner, epsilon=10**6, baseline=baseline).run(rows, Seeded(1))
    right = 0
    for place in np.flatnonzero(coins):
        weights = []
        for one in (0, 1):
            trained = kinds[:, ~coins & (labels == one)]
            alike = [(row == kind).sum() + 1 for row, kind in zip(trained, kinds[:, place], strict=True)]
            prior = Fraction(int((labels[~coins] == one).sum()) + 1)
            weights.append(prior * Fraction(math.prod(map(int, alike)), (trained.shape[1] + 3) ** 2))
        right += (weights[1] > weights[0]) == labels[place]
    assert 0 < right < coins.sum()
    assert score == right - float(baseline) * coins.sum()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("neighbors", "baseline", "scale"), [("add_remove", "0.75", 6), ("add_remove", "0.25", 6), ("replace", "0.75", 8)]
)
def test_the_noise_of_a_score_is_as_wide_as_one_unit_moves_it(neighbors, baseline, scale, monkeypatch):
    """Mean absolute noise in quarters of an answer at alpha 1e-6; 2/3 and 3/2 of the scale are rejected."""
    rows, source = pa.table({"label": [1] * 40}), Seeded(5)
    toss(monkeypatch, [False] * 20 + [True] * 20)
    tried = made(Majority(), neighbors, baseline=baseline)
    exact = 20 * (1 - float(baseline))
    noise = np.abs([4 * (tried.run(rows, source)[0] - exact) for _ in range(1500)])

    def likely(factor):
        r = math.exp(-1 / (scale * factor))
        mean, second = 2 * r / (1 - r**2), 2 * r / (1 - r) ** 2
        return abs(noise.mean() - mean) < 4.9 * math.sqrt((second - mean**2) / noise.size)

    assert tried.noise.scale == scale
    assert likely(1)
    assert not likely(2 / 3)
    assert not likely(3 / 2)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_learner_trains_with_the_epsilon_and_the_relation_of_its_candidate(neighbors):
    learner = CountingBayes([Categorical("kind", [0])], classes=[0, 1], epsilon=None)
    restored = made(learner, neighbors).restored({"counts": [5, 6, 0, 1, 2, 3]})
    assert (restored.epsilon, restored.neighbors, learner.epsilon) == (EPSILON, neighbors, None)


@pytest.mark.parametrize("awkward", ["not a number", "", "12", "1e999"])
def test_no_row_makes_a_candidate_fail_or_moves_the_others(awkward, monkeypatch):
    """One row with a text among numerals in a column of text, or with NULL among large whole numbers."""
    learner = CountingBayes([Span("age", 0, 100), Categorical("key", [2**53])], classes=[0, 1], epsilon=None)
    few = pa.table({"age": ["30", "70"] * 5, "key": [2**53 + 1, 2**53] * 5, "label": [0, 1] * 5})
    many = pa.concat_tables([few, pa.table({"age": [awkward], "key": pa.array([None], pa.int64()), "label": [1]})])
    counts = []
    for rows in (few, many):
        toss(monkeypatch, [False] * len(rows))
        counts.append(np.array(made(learner, epsilon=10**6).run(rows, Seeded(1))[1]["counts"]))
    assert np.abs(counts[1] - counts[0]).sum() == 3


def test_what_cannot_be_a_candidate():
    reads_label = CountingBayes([Categorical("label", [0])], classes=[0, 1], epsilon=None)
    with pytest.raises(InvalidParameter, match="the label 'label'"):
        made(reads_label)
    with pytest.raises(InvalidParameter, match="no privacy units"):
        made(Majority(), "bounded_change")
    with pytest.raises(InvalidParameter):
        made(Majority(), baseline=f"1/{10**40}")
