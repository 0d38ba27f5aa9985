"""The public histogram: products against brute force, growth collapsed or not, the potential argument, bits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chary.accounting import hard_answers_up, weights_alpha, weights_epsilon
from chary.errors import InvalidParameter
from chary.mechanisms.weights import Change, MultiplicativeWeights, Transcript, WeightVector
from tests.mechanisms.laws import entropy
from tests.mechanisms.matrix_cells import COLUMNS, ROWS, Set

sets = st.lists(st.booleans(), min_size=ROWS * COLUMNS, max_size=ROWS * COLUMNS).map(
    lambda flags: Set(np.array(flags).reshape(ROWS, COLUMNS))
)


def people_of(random):
    people = random.dirichlet(np.full(ROWS * COLUMNS, 0.3))
    people[random.random(len(people)) < 0.3] = 0
    return people / people.sum()


@pytest.mark.parametrize("update", ["projected", "published"])
@given(data=st.data())
def test_each_hard_answer_lowers_the_potential_by_what_the_theorem_says(update, data):
    """Answers are within alpha/3 of the truth; the histogram is any that some changes and growth lead to."""
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    alpha, size, margin = data.draw(st.sampled_from([0.02, 0.1, 0.3])), 1000, data.draw(st.floats(0, 1 / 3))
    rule = MultiplicativeWeights(alpha, update)
    weights, people = WeightVector(rule, ROWS, COLUMNS, size), people_of(random)
    for step in range(4):
        cells = Set(random.random((ROWS, COLUMNS)) < 0.4)
        weights.apply(Change(str(step), size, 1.0, float(random.random()), float(random.uniform(0.2, 5))), cells)
    asked = data.draw(sets)
    truth, share = people[asked.flags.ravel()].sum(), weights.share(asked, size)
    off = margin * alpha
    answer = truth + data.draw(st.sampled_from([-off, 0.0, off]))
    assume(abs(answer - share) > 2 * alpha / 3)
    before = entropy(people, weights.shares(size))
    weights.apply(weights.change("asked", asked, size, answer, off), asked)
    least = 2 * (2 * alpha / 3 - off) ** 2 if update == "projected" else alpha**2 / 36
    assert before - entropy(people, weights.shares(size)) >= least * (1 - 1e-4) - 1e-9
    assert least >= (2 / 9 if update == "projected" else 1 / 36) * alpha**2 * (1 - 1e-9)


def test_a_step_that_is_too_long_would_raise_the_potential():
    """The property above can fail: past the answer, mass is taken from where it belongs."""
    people = np.array([0.2, 0.8])
    too_far = np.array([0.9, 0.1])
    assert entropy(people, too_far) > entropy(people, np.array([0.5, 0.5]))


@pytest.mark.parametrize("mixing", [1, "0.1"])
@given(seed=st.integers(0, 10**6), start=st.integers(1, 500), more=st.integers(1, 50))
def test_growth_raises_the_potential_by_at_most_ln_n_over_t(mixing, seed, start, more):
    random, rule = np.random.default_rng(seed), MultiplicativeWeights(0.1, mixing=mixing)
    weights, counts = WeightVector(rule, ROWS, COLUMNS, start), np.zeros(ROWS * COLUMNS)
    np.add.at(counts, random.integers(0, len(counts), start), 1)
    weights.apply(Change("", start, 1.0, 0.0, 7.0), Set(random.random((ROWS, COLUMNS)) < 0.5))
    for size in range(start + 1, start + more):
        before = entropy(counts / (size - 1), weights.shares(size - 1))
        counts[random.integers(0, len(counts))] += 1
        rise = entropy(counts / size, weights.shares(size)) - before
        assert rise <= math.log(len(counts) / float(rule.mixing)) / size + 1e-9


@given(sets, st.lists(st.integers(1, 40), min_size=1, max_size=8), st.sampled_from([1.0, 0.5, 0.1]))
def test_growth_in_batches_is_growth_step_by_step(cells, batches, mixing):
    start = 30
    weights = WeightVector(MultiplicativeWeights(0.1, mixing=mixing), ROWS, COLUMNS, start)
    weights.apply(Change("", start, 1.0, 0.0, 3.0), cells)
    plain, last = weights.shares(start), start + sum(batches)
    for size in range(start + 1, last + 1):
        row = (1 - mixing) * plain + mixing / len(plain)
        plain = (size - 1) / size * plain + row / size
    assert weights.shares(last) == pytest.approx(plain, rel=1e-9)
    assert weights.share(cells, last) == pytest.approx(plain[cells.flags.ravel()].sum(), rel=1e-9)
    change = weights.change("", Set(np.zeros((ROWS, COLUMNS), bool)), last, 1.0, 0.0)
    assert change.factor == 1
    weights.apply(change, cells)
    assert weights.size == last
    assert weights.shares(last) == pytest.approx(plain, rel=1e-6)


def test_the_same_transcript_gives_the_same_bits():
    random = np.random.default_rng(2)
    rule, asked = MultiplicativeWeights(0.1), {str(n): Set(random.random((ROWS, COLUMNS)) < 0.5) for n in range(40)}
    weights, transcript = WeightVector(rule, ROWS, COLUMNS, 50), Transcript()
    for size, (name, cells) in enumerate(asked.items(), 50):
        transcript = transcript.then(weights.change(name, cells, 3 * size, float(random.random()), 0.01))
        weights.apply(transcript.changes[-1], cells)
    again = WeightVector(rule, ROWS, COLUMNS, 50)
    for change in Transcript.load(transcript.dump()).changes:
        again.apply(change, asked[change.query])
    assert again.histogram.weights.tobytes() == weights.histogram.weights.tobytes()
    assert again.changes == weights.changes == transcript.changes


def test_weights_stay_within_single_precision():
    rule = MultiplicativeWeights("0.01")
    weights, cells = WeightVector(rule, 1, 4, 10), Set(np.array([[True, False, False, False]]))
    for _ in range(60):
        for answer in (0.999, 0.0001):
            weights.apply(weights.change("", cells, 10, answer, 0.0), cells)
            assert weights.shares(10).sum() == pytest.approx(1)
            assert weights.share(cells, 10) == pytest.approx(answer, rel=1e-3)


@given(st.fractions(0, 1), st.integers(1, 10**6), st.sampled_from(["0.1", "0.03", "1/7"]))
def test_easy_counts_are_those_within_two_thirds_of_alpha_exactly(share, size, alpha):
    rule, known = MultiplicativeWeights(alpha), float(share)
    low, high = rule.easy(known, size)
    far = Fraction(rule.alpha) * 2 / 3
    for count in (low - 1, low, high, high + 1):
        easy = abs(Fraction(count, size) - Fraction(known)) <= far
        assert easy == (low <= count <= high) or low > high


def test_a_published_step_is_that_of_the_paper():
    """exp(-alpha/6 r) with r = f below and 1 - f above, normalised."""
    alpha, cells = 0.3, Set(np.random.default_rng(3).random((ROWS, COLUMNS)) < 0.5)
    for answer, penalty in ((0.0, cells.flags), (1.0, ~cells.flags)):
        weights = WeightVector(MultiplicativeWeights(alpha, "published"), ROWS, COLUMNS, 10)
        weights.apply(weights.change("", cells, 10, answer, 0.0), cells)
        plain = np.exp(-alpha / 6 * penalty)
        assert weights.shares(10) == pytest.approx((plain / plain.sum()).ravel(), rel=1e-6)


def test_answers_that_cannot_be_near_the_truth_change_nothing():
    rule = MultiplicativeWeights("0.3")
    assert rule.factor(0.95, 1.4, 0.1) == 1
    assert rule.factor(0.05, -0.4, 0.1) == 1
    assert rule.factor(1.0, 0.2, 0.1) == rule.factor(0.0, 0.8, 0.1) == 1


def test_calculators():
    known = {"alpha": "0.1", "cells": 1000, "start": 500}
    published, projected = (hard_answers_up(**known, update=update) for update in ("published", "projected"))
    assert published / projected == pytest.approx(8)
    assert published == pytest.approx(3600 * math.log(1000), rel=1e-9)
    grown = hard_answers_up(**known, size=5000, update="published")
    assert grown >= 3600 * math.log(1000) * (1 + sum(1 / size for size in range(501, 5001)))
    assert grown <= 3600 * math.log(1000) * (1 + sum(1 / size for size in range(500, 5001)))
    assert hard_answers_up(**known, size=5000, mixing="0.1") > hard_answers_up(**known, size=5000, mixing=1)
    epsilon = weights_epsilon(alpha="0.1", size=5000, queries=1000)
    assert weights_alpha(epsilon=epsilon, size=5000, queries=1000) == pytest.approx(0.1, rel=0.01)
    steps = math.floor(500 / 3) + 1
    tail = 2 * math.exp(-epsilon * steps) / (1 + math.exp(-epsilon))
    assert 0.5 * 0.05 / 1000 < tail <= 0.05 / 1000


@pytest.mark.parametrize(
    "bad",
    [
        lambda: MultiplicativeWeights(0),
        lambda: MultiplicativeWeights(1),
        lambda: MultiplicativeWeights("0.1", "quick"),
        lambda: MultiplicativeWeights("0.1", mixing=0),
        lambda: MultiplicativeWeights("0.1", mixing="1.1"),
        lambda: hard_answers_up(alpha="0.1", cells=10, start=5, size=4, update="published"),
        lambda: hard_answers_up(alpha="0.1", cells=10, start=5, update="quick"),
        lambda: hard_answers_up(alpha="0.1", cells=1, start=5, update="published"),
    ],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidParameter):
        bad()
