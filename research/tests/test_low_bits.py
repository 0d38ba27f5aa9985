"""The last bits of noise in floats give the secret away; a session's noise has none to give."""

import math

import numpy as np
import pytest

from chary import InvalidParameter
from chary_research.attacks import guess_limit, low_bits, naive_laplace
from chary_research.attacks.low_bits import reachable


@pytest.mark.parametrize("scale", [0.25, 1, 10, 100])
@pytest.mark.parametrize("value", [0, 1, 3, 50])
def test_whatever_the_naive_sampler_gives_is_found_reachable(value, scale):
    rng = np.random.default_rng(7)
    assert all(reachable(naive_laplace(value, scale, rng), value, scale) for _ in range(200))


def test_most_numbers_are_not_reachable():
    """At scale 10 answers near 0 have gaps of many floats; a float drawn anyhow hardly ever is an answer."""
    rng = np.random.default_rng(8)
    drawn = rng.uniform(0, 0.1, 200)
    assert np.mean([reachable(told, 0, 10) for told in drawn]) < 0.2


def test_the_naive_noise_has_the_right_scale():
    """What is wrong with it is not its distribution: the mean distance of 20,000 answers is the scale."""
    rng = np.random.default_rng(9)
    away = [abs(naive_laplace(5, 4, rng) - 5) for _ in range(20_000)]
    assert abs(np.mean(away) - 4) < 5 * 4 / math.sqrt(20_000)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", 1])
def test_floats_give_the_count_away_and_a_session_does_not(epsilon):
    """400 guesses: a share is known to within five standard deviations, an eighth."""
    found = low_bits(epsilon=epsilon, sessions=400)
    assert found.limit == guess_limit(epsilon)
    assert found.naive_accuracy > max(0.65, found.limit)
    assert found.certain > 0.4
    assert found.accuracy < found.limit + 0.125
    assert found.low < found.accuracy < found.high


def test_seeds_and_progress():
    told = []
    one = low_bits(epsilon=1, sessions=5, people=2, seed=3, on_progress=lambda *step: told.append(step))
    assert one == low_bits(epsilon=1, sessions=5, people=2, seed=3)
    assert told[-1] == (5, 5)
    assert low_bits(epsilon=1, sessions=2, seed=None).as_dict()["count"] == 0


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"people": -1}, {"sessions": 0}, {"epsilon": "1e9"}])
def test_bad_input(wrong):
    with pytest.raises(InvalidParameter):
        low_bits(**({"epsilon": 1, "sessions": 3} | wrong))
