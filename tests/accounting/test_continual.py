"""Continual counting: trees against brute force, the root against plain matrices, tails against other ways to them."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from chary.accounting.continual import (
    MOST_ROOT_STEPS,
    MOST_STEPS,
    PrefixTree,
    best_tree,
    error_up,
    gaussian_beyond,
    laplace_beyond,
    most_steps,
    normal_beyond,
    root_deviations,
    root_length,
    root_weights,
)
from chary.errors import InvalidParameter

LENGTHS = [1, 2, 3, 4, 5, 7, 10, 11, 30, 100, 257, 1139, 1140]


def sums_of(tree):
    """The steps (first, last) of each sum, as they arise when only the last ones are dropped, and the sums in use."""
    held, made = [], []
    for step in range(1, tree.steps + 1):
        held = held[: tree.height(step) - 1]
        first = held[-1][1] + 1 if held else 1
        held.append((first, step))
        made.append(held[-1])
        assert len(held) == tree.height(step) <= tree.parts
        assert [part[0] for part in held] == [1, *(part[1] + 1 for part in held[:-1])]
    return made


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("steps", LENGTHS)
def test_no_step_is_in_more_sums_than_the_reach_and_the_first_is_in_as_many(steps, power):
    tree = best_tree(steps, power=power)
    made = sums_of(tree)
    times = [sum(first <= step <= last for first, last in made) for step in range(1, steps + 1)]
    assert max(times) == times[0] == tree.reach
    assert tree.heights().tolist() == [tree.height(step) for step in range(1, steps + 1)]
    assert tree.heights().max() == tree.parts


@cache
def longest(reach, parts):
    """How many running counts there can be, by trying every length of the first sum."""
    if not (reach and parts):
        return 0
    return longest(reach - 1, parts) + 1 + longest(reach, parts - 1)


def test_a_tree_has_so_many_steps_and_no_more():
    for reach in range(1, 7):
        for parts in range(1, 7):
            assert most_steps(reach, parts) == longest(reach, parts)
            PrefixTree(most_steps(reach, parts), reach, parts)
            with pytest.raises(InvalidParameter, match="more parts or more reach"):
                PrefixTree(most_steps(reach, parts) + 1, reach, parts)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("steps", LENGTHS)
def test_the_best_tree_is_the_best_of_all(steps, power):
    """A reach of 12 with 12 parts is enough for all these lengths, and more reach is worse with Gaussian noise, too."""
    enough = [(a, b) for a in range(1, 13) for b in range(1, steps + 1) if most_steps(a, b) >= steps]
    tree = best_tree(steps, power=power)
    assert tree.reach**power * tree.parts == min(a**power * b for a, b in enough)


def test_the_best_tree_beats_the_binary_one():
    for steps, factor in ((100, 5), (1000, 5.5), (10_000, 7)):
        height = steps.bit_length()
        binary = height**2 * max(step.bit_count() for step in range(1, steps + 1))
        tree = best_tree(steps, power=2)
        assert binary > factor * tree.reach**2 * tree.parts


def matrix(steps):
    weights = root_weights(steps).tolist()
    return np.array(
        [[weights[row - column] if row >= column else 0 for column in range(steps)] for row in range(steps)]
    )


@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_the_root_is_the_square_root_of_all_sums(steps):
    weights = matrix(steps)
    sums = np.tril(np.ones((steps, steps)))
    assert np.allclose(weights @ weights / 2**32, sums, atol=steps * 2.0**-16)
    exact = [2**16 * math.comb(2 * k, k) / 4**k for k in range(steps)]
    assert np.abs(root_weights(steps) - exact).max() <= 0.5 + 1e-9
    assert root_length(steps) == max(int(column @ column) for column in weights.T)
    told = sums @ np.linalg.inv(weights.astype(float))
    assert np.allclose(root_deviations(steps), np.sqrt((told**2).sum(axis=1)), rtol=1e-9)


def test_the_root_is_within_a_thousandth_of_the_unrounded_one_at_its_longest():
    steps = MOST_ROOT_STEPS
    length = float(np.cumprod(np.concatenate([[1.0], 1 - 0.5 / np.arange(1, steps)])) @ root_weights(steps)) / 2**16
    assert root_deviations(steps)[-1] * math.sqrt(root_length(steps)) == pytest.approx(length, rel=1e-3)


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.4, 3.0, 40.0])
def test_tails_of_sums_are_those_of_plain_convolution(scale, copies):
    places = np.arange(-3000, 3001)
    laws = {laplace_beyond: np.exp(-np.abs(places) / scale), gaussian_beyond: np.exp(-(places**2) / (2 * scale))}
    for beyond, single in laws.items():
        law = single = single / single.sum()
        for _ in range(copies - 1):
            law = np.convolve(law, single)
        middle = len(law) // 2
        for rows in (0, 1, 3, 17, 60, 200):
            plain = law[: middle - rows].sum() + law[middle + rows + 1 :].sum()
            assert beyond(scale, copies)(rows) == pytest.approx(plain, rel=1e-6, abs=2e-13)


def test_tails_of_wide_sums_are_bounds_and_close():
    for copies in (1, 4, 20):
        exact, bound = laplace_beyond(1024, copies), laplace_beyond(1025, copies)
        for rows in (500, 5000, 15_000):
            assert exact(rows) <= bound(rows) <= exact(rows) * 1.05 + 1e-12
        exact, bound = gaussian_beyond(1024**2, copies), gaussian_beyond(1025**2, copies)
        for rows in (500, 2000, 5000):
            assert exact(rows) - 2e-13 <= bound(rows) <= exact(rows) * 1.05 + 1e-12


def test_errors_are_the_least_that_keep_the_chance():
    for beyond in (laplace_beyond(7, 3), gaussian_beyond(50, 4), normal_beyond(12.3)):
        error = error_up(beyond, confidence=0.95)
        assert beyond(error) <= 0.05 < beyond(error - 1)
    assert error_up(normal_beyond(1000.0), confidence=0.95) == math.ceil(1000 * stats.norm.ppf(0.975))
    with pytest.raises(InvalidParameter, match="too close to 1"):
        error_up(laplace_beyond(7, 3), confidence=1 - 1e-15)


@pytest.mark.parametrize("steps", [0, -1, True, 1.5, MOST_STEPS + 1])
def test_lengths_out_of_range_are_refused(steps):
    with pytest.raises(InvalidParameter, match="steps"):
        best_tree(steps, power=2)
    with pytest.raises(InvalidParameter, match="steps"):
        root_weights(steps)
