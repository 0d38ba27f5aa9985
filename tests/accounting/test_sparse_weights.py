"""How accurate rounds of sparse vector for multiplicative weights are: by simulation and by union bounds; bad terms."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from chary.accounting.weights import (
    Allowance,
    ExactRounds,
    published_weights_alpha,
    round_alpha_up,
    sparse_weights_alpha,
    weight_rounds,
)
from chary.errors import InvalidParameter

PUBLISHED = {"constants": "published", "update": "published", "mixing": 1}


def test_an_accuracy_is_kept_by_noise_like_that():
    """Thresholds, tests and values drawn many times: the chance of missing alpha/3 is 5 % at most, not much less."""
    size, queries, rounds = 2000, 30, 4
    noise = ExactRounds(Allowance(size, Fraction(3), Fraction(2)), "1/2", epsilon=1).noise(1, size)
    off = round_alpha_up(noise, size=size, queries=queries, rounds=rounds) * size / 3
    random, runs = np.random.default_rng(3), 20_000
    shift = random.laplace(scale=float(noise.threshold), size=(runs, rounds)).round()
    tests = random.laplace(scale=float(noise.test), size=(runs, 2 * queries)).round()
    values = random.laplace(scale=float(noise.answer), size=(runs, rounds)).round()
    which = np.arange(2 * queries) * rounds // (2 * queries)
    missed = (np.abs(tests - shift[:, which]).max(1) > off) | (np.abs(values).max(1) > off)
    assert 0.015 < missed.mean() < 0.05


def test_the_least_alpha_is_kept_and_a_smaller_one_is_not():
    terms = {"rho": "0.0175", "rounds": 50}
    known = {"cells": 1000, "size": 10**6, "queries": 100}
    alpha = sparse_weights_alpha(**known, **terms)
    for part, kept in ((1, True), (0.99, False)):
        rounds = weight_rounds(alpha=part * alpha, cells=1000, start=10**6, **terms)
        reached = round_alpha_up(
            rounds.noise(1, 10**6), size=10**6, queries=100, rounds=min(100, rounds.allowance.most(10**6))
        )
        assert (reached <= part * alpha) == kept
    for terms in ({"epsilon": 1}, {"epsilon": 1, "delta": "1e-6", "constants": "published"}):
        assert sparse_weights_alpha(cells=1000, size=5000, queries=100, **terms) == math.inf


@pytest.mark.parametrize(("delta", "exponent"), [(0, "1/2"), ("1e-6", "1/2"), (0, "1/4"), ("1e-6", "3/4")])
def test_the_published_accuracy_is_a_union_over_all_noises_for_ever(delta, exponent):
    """With x = alpha xi/18: two tests, a threshold and a value for each query; they come as early as is allowed."""
    size, queries = 10**10, 1000
    terms = {"epsilon": 1, "delta": delta, "exponent": exponent}
    alpha = published_weights_alpha(cells=1000, size=size, queries=queries, **terms)
    assert 0 < alpha < 0.2
    rounds = weight_rounds(alpha=alpha, cells=1000, start=size, **terms, **PUBLISHED)
    failed = 0.0
    asked = [queries * 1.1**step for step in range(400)]
    x = math.log(9 * queries / 0.05)
    for fewer, more in pairwise([0.0, *asked]):
        grown = (1 + 2 / x * math.log(max(1, fewer / queries))) ** float(1 / Fraction(exponent))
        noise, far = rounds.noise(1, int(size * grown)), alpha * size * grown
        once = (
            2 * math.exp(-2 / 9 * far / noise.test)
            + math.exp(-far / 9 / noise.threshold)
            + math.exp(-far / 3 / noise.answer)
        )
        failed += (more - fewer) * once
    assert 0.02 < failed <= 0.05


def test_at_the_least_size_of_alpha_the_published_powers_show():
    for delta, power in ((0, 3), ("1e-6", 2)):
        known = {"cells": 1000, "queries": 1000, "delta": delta, "size": 10**8}
        one, eighth = (published_weights_alpha(**known, epsilon=epsilon) for epsilon in (8, 1))
        assert eighth / one == pytest.approx(8 ** (1 / power))


def test_a_delta_of_zero_is_none_however_it_is_written():
    known = {"cells": 1000, "size": 10**8, "queries": 1000, "epsilon": 1}
    assert published_weights_alpha(**known, delta="0") == published_weights_alpha(**known, delta=0.0)
    assert published_weights_alpha(**known, delta="0") == published_weights_alpha(**known)


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": None},
        {"rho": 1},
        {"epsilon": 0},
        {"epsilon": None, "rho": -1},
        {"exponent": 0},
        {"exponent": 1},
        {"delta": "1e-6"},
        {"constants": "better"},
        {"rounds": 0},
        {"rounds": 1.5},
        {"alpha": 1},
        {"cells": 1},
        {"start": 0},
        {"mixing": 2},
        {"update": "quick"},
        {"constants": "published", "epsilon": None, "rho": 1},
        {"constants": "published", "rounds": 3},
        {"constants": "published", "delta": 1},
        {"constants": "published", "exponent": 1},
    ],
)
def test_bad_terms_are_refused(other):
    with pytest.raises(InvalidParameter):
        weight_rounds(**({"alpha": "0.1", "cells": 100, "start": 1000, "epsilon": 1} | other))
