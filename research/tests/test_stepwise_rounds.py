"""Rounds step by step: their loss against the exact law of discrete noise, worst rounds by brute force, failures."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.errors import InvalidParameter
from chary.noise import Seeded, discrete_laplace
from chary_research.stepwise import MOST_STEPS, StepwiseNoise

GRID = 8
CASES = {
    "falling": ([2, 1, 1], [1, 1, 1]),
    "noise rises": ([1, 1, 1], [1, 2, 4]),
    "sensitivity rises": ([1, 1, 3], [1, 1, 1]),
    "up and down": ([1, 3, 1], [2, 1, 3]),
    "one step": ([2], [1]),
}


def tail(scale, distance):
    """P(Z >= distance) of discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    above, below = ratio ** np.maximum(distance, 0), 1 + ratio - ratio ** (1 - np.minimum(distance, 0))
    return np.where(distance > 0, above, below) / (1 + ratio)


def log_chance(noises, gaps, hit):
    """The logarithm of the chance of misses at all steps and then a hit at the last; a step of values is 1/GRID."""
    places = np.arange(-900, 901)
    logs = -np.abs(places) * float(noises[0]) / (2 * GRID)
    logs = logs - math.log(np.exp(logs).sum())
    for xi, gap in zip(noises, gaps, strict=False):
        # Sixty misses at each step, so that they decide where the threshold is.
        logs = logs + 60 * np.log1p(-np.minimum(tail(4 * GRID / float(xi), places - gap), 1 - 1e-16))
    logs = logs + np.log(tail(4 * GRID / float(noises[len(gaps) - 1]), places - hit))
    return float(np.logaddexp.reduce(logs))


@pytest.mark.parametrize("name", CASES)
def test_no_neighbours_lose_more_and_some_nearly_that(name):
    """All patterns of questions on a coarse net, and neighbours that move misses one way and the hit the other."""
    sensitivities, noises = CASES[name]
    made = StepwiseNoise(sensitivities, noises)
    for halt in range(len(noises)):
        worst = 0.0
        for gaps in itertools.product((-160, 0, 60), repeat=halt + 1):
            for hit, sign in itertools.product((-320, -160, 60), (1, -1)):
                moved = [gap + sign * GRID * each for gap, each in zip(gaps, sensitivities, strict=False)]
                other = log_chance(noises, moved, hit - sign * GRID * sensitivities[halt])
                worst = max(worst, abs(log_chance(noises, gaps, hit) - other))
        assert 0.8 * made.loss(0, halt) < worst <= made.loss(0, halt) + 1e-9


def test_falling_noise_and_sensitivities_lose_what_the_theorem_says():
    random = np.random.default_rng(3)
    for values, most in ((False, 1), (True, Fraction(3, 2))):
        for _ in range(20):
            falling = np.sort(random.integers(1, 50, (2, 6)), axis=1)[:, ::-1].tolist()
            made = StepwiseNoise(*falling, values=values)
            for begun, halted in itertools.combinations_with_replacement(range(6), 2):
                assert made.loss(begun, halted) <= most * Fraction(falling[0][begun] * falling[1][begun])
            assert made.worst(rounds=3) == 3 * most * falling[0][0] * falling[1][0]


@pytest.mark.parametrize("values", [False, True])
def test_the_worst_rounds_are_those_of_brute_force(values):
    random = np.random.default_rng(5)
    for _ in range(6):
        made = StepwiseNoise(*random.integers(1, 9, (2, 5)).tolist(), values=values)
        for rounds in (1, 2, 3):
            every = itertools.combinations_with_replacement(range(5), 2 * rounds)
            found = max(
                sum(made.loss(ends[2 * place], ends[2 * place + 1]) for place in range(rounds)) for ends in every
            )
            assert made.worst(rounds=rounds) == found


@pytest.mark.parametrize("values", [False, True])
def test_failures_are_above_those_that_are_seen(values):
    """Noise in steps of 1/1000: all tests and the threshold at once, 4,000 rounds."""
    made, tests, steps, many = StepwiseNoise([1] * 3, [4, 8, 2], values=values), [10, 20, 5], 1000, 4000
    alpha, source = made.alpha_up(0, tests, "0.05"), Seeded(1)
    assert made.failure_up(0, tests, alpha) <= 0.05 + 1e-9
    assert made.failure_up(0, tests, alpha * 0.999) > 0.05
    assert made.failure_up(0, tests, alpha) < made.published_failure(0, tests, alpha)
    threshold = np.abs(discrete_laplace(source, Fraction(2 * steps, 4), many))
    worst = np.zeros(many)
    for each, xi in zip(tests, (4, 8, 2), strict=True):
        noise = np.abs(discrete_laplace(source, Fraction(4 * steps, xi), each * many)).reshape(many, each)
        worst = np.maximum(worst, noise.max(axis=1))
    wrong = int((threshold + worst > alpha * steps).sum())
    # Of 4,000 rounds 5 % are 200; 267 or more have a chance below 1e-6.
    assert wrong < 267
    assert int((threshold + worst > alpha * steps / 2).sum()) > 267


def test_what_is_refused():
    for wrong in (([], []), ([1], [1, 1]), ([0], [1]), ([1], [-1]), ([1] * (MOST_STEPS + 1),) * 2):
        with pytest.raises(InvalidParameter):
            StepwiseNoise(*wrong)
    made = StepwiseNoise([1, 1], [1, 1])
    for begun, halted in ((1, 0), (0, 2), (-1, 0)):
        with pytest.raises(InvalidParameter):
            made.loss(begun, halted)
    with pytest.raises(InvalidParameter):
        StepwiseNoise([1], [1], values=1)
    with pytest.raises(InvalidParameter):
        made.worst(rounds=0)
