"""The potential argument in full: relative entropy falls with each hard answer and rises little with each row, so that
there are no more hard answers than the theorem says, whatever an adversary asks and appends."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chary.accounting import hard_answers_up
from chary.mechanisms.weights import Change, MultiplicativeWeights, WeightVector
from tests.mechanisms.laws import entropy

CELLS = 12
FALLS = {"projected": 2 / 9, "published": 1 / 36}
both = pytest.mark.parametrize("update", FALLS)


@dataclass(frozen=True)
class Set:
    """Any set of cells of a universe with one column."""

    flags: np.ndarray
    levels = None

    @property
    def which(self):
        return np.zeros(1, np.intp)

    @property
    def patterns(self):
        return self.flags[np.newaxis]

    @property
    def count(self):
        return int(self.flags.sum())


def any_weights(random, rule, size=1000):
    """A histogram that some changes and growth lead to, and people who are nowhere in some cells."""
    weights = WeightVector(rule, 1, CELLS, size)
    for step in range(4):
        cells = Set(random.random(CELLS) < 0.4)
        weights.apply(Change(str(step), size, 1.0, float(random.random()), float(random.uniform(0.1, 10))), cells)
    people = random.dirichlet(np.full(CELLS, 0.2)) * (random.random(CELLS) < 0.7) + 1e-300
    return weights, people / people.sum()


@both
@given(
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.02, 0.1, 0.3, 0.9]),
    part=st.floats(-1, 1),
    told=st.floats(0, 3),
)
def test_a_hard_answer_lowers_the_potential_where_only_its_side_is_known(update, seed, alpha, part, told):
    """As a sparse vector tells it: the truth is off by alpha/3 at least, on a known side; the answer by alpha/3 at
    most, so that it may lie on the other side of the histogram's. The fall is that of the theorem all the same."""
    random, rule = np.random.default_rng(seed), MultiplicativeWeights(alpha, update)
    weights, people = any_weights(random, rule)
    asked = Set(random.random(CELLS) < 0.5)
    truth, share = float(people[asked.flags].sum()), weights.share(asked, 1000)
    assume(abs(truth - share) >= alpha / 3)
    off = part * alpha / 3
    margin = max(abs(off), told * alpha / 3)
    before = entropy(people, weights.shares(1000))
    weights.apply(weights.change("", asked, 1000, truth + off, margin, truth > share), asked)
    fall, moved = before - entropy(people, weights.shares(1000)), weights.share(asked, 1000)
    assert fall >= FALLS[update] * alpha**2 * (1 - 1e-4) - 1e-9
    # What is public of it: how far the histogram moved.
    seen = entropy(np.array([moved, 1 - moved]), np.array([share, 1 - share]))
    assert fall >= seen * (1 - 1e-4) - 1e-9


@both
@given(seed=st.integers(0, 10**6))
def test_a_wrong_side_or_an_answer_beyond_its_margin_may_raise_it(update, seed):
    """The property above can fail."""
    random, rule = np.random.default_rng(seed), MultiplicativeWeights(0.3, update)
    weights, people = any_weights(random, rule)
    asked = Set(random.random(CELLS) < 0.5)
    truth, share = float(people[asked.flags].sum()), weights.share(asked, 1000)
    assume(abs(truth - share) >= 0.1 and 0.2 < share < 0.8)
    before = entropy(people, weights.shares(1000))
    weights.apply(weights.change("", asked, 1000, truth, 0.0, truth < share), asked)
    assert entropy(people, weights.shares(1000)) > before


@pytest.mark.parametrize("mixing", [1, "0.1"])
@given(seed=st.integers(0, 10**6), size=st.integers(1, 1000), place=st.integers(0, CELLS - 1))
def test_a_row_raises_the_potential_by_at_most_ln_n_over_mixing_over_t(mixing, seed, size, place):
    random, rule = np.random.default_rng(seed), MultiplicativeWeights(0.1, mixing=mixing)
    weights, people = any_weights(random, rule, size)
    counts = np.floor(people * size)
    counts[0] += size - counts.sum()
    before = entropy(counts / size, weights.shares(size))
    counts[place] += 1
    rise = entropy(counts / (size + 1), weights.shares(size + 1)) - before
    assert rise <= math.log(CELLS / float(rule.mixing)) / (size + 1) + 1e-9


@both
@pytest.mark.parametrize("mixing", [1, "0.1"])
@pytest.mark.parametrize("seed", range(3))
def test_an_adversary_gets_no_more_hard_answers_than_the_theorem_allows(update, mixing, seed):
    """Queries that are as far off as can be are called hard as soon as noise within alpha/3 can make them so, the noise
    of the answer goes the wrong way, and the new rows go where the histogram expects them least."""
    random, alpha, start = np.random.default_rng(seed), 0.3, 40
    rule = MultiplicativeWeights(alpha, update, mixing)
    weights, counts, hard = WeightVector(rule, 1, CELLS, start), np.zeros(CELLS), 0
    counts[random.integers(CELLS)] = start
    known = {"alpha": alpha, "cells": CELLS, "start": start, "update": update, "mixing": mixing}
    for size in range(start, 4 * start):
        people = counts / size
        while True:
            asked = Set(people > weights.shares(size))
            truth, share = float(people[asked.flags].sum()), weights.share(asked, size)
            if truth - share < alpha / 3:
                break
            off = alpha / 3 * random.choice([-1, 1])
            weights.apply(weights.change("", asked, size, truth + off, alpha / 3, True), asked)
            hard += 1
            assert hard <= hard_answers_up(**known, size=size)
        counts[np.argmin(weights.shares(size))] += 1
    assert hard > 3
