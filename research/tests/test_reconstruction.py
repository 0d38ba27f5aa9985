"""Everybody's bit from many counts: found where counts are exact, not found where a session answers."""

from itertools import product

import numpy as np
import pytest

from chary import InvalidParameter
from chary_research.attacks import guess_limit, reconstruction, value_limit
from chary_research.attacks.reconstruction import reconstructed


def test_the_linear_program_finds_the_nearest_bits():
    """On tiny sets: nobody's bits, tried one by one, are nearer to the counts than those found."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        groups = rng.random((9, 5)) < 0.5
        bits = rng.random(5) < 0.5
        told = groups @ bits.astype(float)
        found = reconstructed(groups, told)
        apart = {
            tried: np.abs(groups @ np.array(tried, dtype=float) - told).sum() for tried in product((0, 1), repeat=5)
        }
        assert apart[tuple(found.astype(int))] == min(apart.values()) == 0


def test_exact_and_rounded_counts_give_bits_away():
    found = reconstruction(epsilon=1, people=60, sessions=3)
    assert found.exact == 1
    assert found.rounded > 0.9
    assert found.private < 0.75
    assert found.limit == value_limit(1, [found.baseline, 1 - found.baseline])


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["0.1", 1, 3])
def test_a_session_hides_bits_as_well_as_it_says(epsilon):
    """The share of 240 bits that are right, each with chance at most the limit: groups of 40 depend on each other, so
    one in five is counted; 1e-6 is five standard deviations away."""
    runs = [reconstruction(epsilon=epsilon, people=40, sessions=1, seed=seed).private for seed in range(6)]
    limit = guess_limit(epsilon)
    assert np.mean(runs) < limit + 5 * (limit * (1 - limit) / (240 / 5)) ** 0.5


def test_without_noise_a_session_gives_everything_away():
    assert reconstruction(epsilon=700, people=12, counts=24, sessions=2).private == 1


def test_too_few_or_too_rough_counts_hide():
    assert reconstruction(epsilon=1, people=80, counts=8).exact < 0.9
    assert reconstruction(epsilon=1, people=80, off=40).rounded < 0.8


def test_people_of_your_own_progress_and_seeds():
    told, bits = [], np.arange(30) % 3 == 0
    how = {"epsilon": 1, "people": bits, "sessions": 2}
    one = reconstruction(**how, seed=4, on_progress=lambda *step: told.append(step))
    assert one == reconstruction(**how, seed=4)
    assert told == [(1, 2), (2, 2)]
    assert one.baseline == pytest.approx(2 / 3)
    assert one.as_dict()["people"] == 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"people": 1},
        {"people": np.array([True])},
        {"people": np.array([0, 1, 1])},
        {"counts": 0},
        {"off": -1},
        {"sessions": 0},
        {"people": 2000, "counts": 2000},
    ],
)
def test_bad_input(wrong):
    with pytest.raises(InvalidParameter):
        reconstruction(**({"epsilon": 1, "people": 10} | wrong))
