"""Votes of copies: the grid, counts outside a band, rank utilities; sensitivities by brute force."""

import itertools
import math

import numpy as np
import pytest

from chary.errors import InvalidParameter
from chary.mechanisms import Grid, rank_utilities
from chary.noise import Seeded


@pytest.mark.parametrize(("step", "largest"), [("0.5", 100), ("0.1", 10**9), (1, 1), ("0.01", 3)])
def test_the_grid_starts_at_0_and_1_and_reaches_the_largest(step, largest):
    values = Grid(step, largest).values
    assert values[:2] == (0, 1)
    assert values[-1] >= largest * (1 - 1e-12)
    assert len(values) == 2 or values[-2] < largest
    assert np.allclose(np.diff(np.log(values[1:])), math.log1p(float(step)))


def test_an_estimate_falls_into_the_nearest_cell_in_ratio():
    grid = Grid("0.1", 10**6)
    estimates = np.exp(np.random.default_rng(1).uniform(0, math.log(10**6), 1000))
    for estimate, cell in zip(estimates, grid.cells(estimates), strict=True):
        distance = [abs(math.log(estimate / value)) for value in grid.values[1:]]
        assert cell - 1 == int(np.argmin(distance))
        assert distance[cell - 1] <= math.log(1.1) / 2 + 1e-12


def test_every_value_is_its_own_cell():
    grid = Grid("0.25", 10**4)
    assert grid.cells(grid.values).tolist() == list(range(len(grid.values)))


def test_whatever_a_copy_says_it_has_one_vote():
    grid = Grid("0.5", 4)
    said = [0, -3, float("nan"), -math.inf, 0.8, 1, 1e300, math.inf]
    assert grid.cells(said).tolist() == [0, 0, 0, 0, 0, 1, 5, 5]
    assert grid.votes(said).tolist() == [5, 1, 0, 0, 0, 2]
    assert grid.votes([]).tolist() == [0] * 6


@pytest.mark.parametrize(
    ("step", "largest"), [(0, 10), (-1, 10), ("nan", 10), (1, 0), (1, 2.5), ("1e-9", 100), (True, 5), ("1e-30", 2)]
)
def test_a_grid_is_finite(step, largest):
    with pytest.raises(InvalidParameter):
        Grid(step, largest)


def brute_utility(ballots, cell, cells):
    """The fewest copies that change their vote so that `cell` holds a median."""
    copies = len(ballots)
    for moved in range(copies + 1):
        for who in itertools.combinations(range(copies), moved):
            for new in itertools.product(range(cells), repeat=moved):
                changed = list(ballots)
                for copy, vote in zip(who, new, strict=True):
                    changed[copy] = vote
                changed.sort()
                if changed[(copies - 1) // 2] <= cell <= changed[copies // 2]:
                    return -moved
    raise AssertionError("moving all copies always does")


def tally(ballots, cells):
    return np.bincount(ballots, minlength=cells)


@pytest.mark.parametrize("copies", [1, 3, 5])
def test_the_utility_counts_the_copies_to_move(copies):
    """An odd number of copies has one median."""
    for ballots in itertools.combinations_with_replacement(range(3), copies):
        expected = [brute_utility(ballots, cell, 3) for cell in range(3)]
        assert rank_utilities(tally(ballots, 3)).tolist() == expected


@pytest.mark.parametrize("copies", [2, 4])
def test_an_even_number_of_copies_has_every_cell_between_its_medians(copies):
    for ballots in itertools.combinations_with_replacement(range(3), copies):
        expected = [brute_utility(ballots, cell, 3) for cell in range(3)]
        assert rank_utilities(tally(ballots, 3)).tolist() == expected


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_one_copy_changes_every_number_by_at_most_one(copies):
    for ballots in itertools.product(range(4), repeat=copies):
        neighbours = [(*ballots[1:], vote) for vote in range(4)] + [ballots[1:]]
        votes = tally(ballots, 4)
        for other in (tally(np.array(ballot, dtype=int), 4) for ballot in neighbours):
            assert np.abs(rank_utilities(votes) - rank_utilities(other)).max() <= 1


def test_utilities_are_integers_with_a_best_cell():
    for seed in range(50):
        votes = Seeded(seed).words(12, 8).astype(np.int64) % 7
        utilities = rank_utilities(votes)
        assert utilities.dtype == np.int64
        assert utilities.max() == 0
        upto = np.cumsum(votes)
        assert utilities[np.searchsorted(upto, upto[-1] / 2)] == 0
