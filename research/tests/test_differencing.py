"""Two counts that differ in one person: exact ones give the person away, a session's do not."""

import math

import pytest
from scipy.stats import binom, binomtest

from chary import InvalidParameter
from chary_research.attacks import differencing, guess_limit

ALPHA = 1e-6


def two_counts(epsilon):
    """The chance that the difference of two counts, each with noise for epsilon/2, is on the right side of 1/2."""
    ratio = math.exp(-epsilon / 2)
    span = range(-400, 401)
    mass = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in span}
    return sum(mass[j] * mass[k] for j in span for k in span if j >= k)


def rightly(found):
    return round(found.accuracy * found.sessions)


@pytest.mark.parametrize(
    "how",
    [
        {"epsilon": 1},
        {"epsilon": "0.2", "informed": True},
        {"epsilon": 2, "repeats": 3, "sessions": 200},
        {"epsilon": 1, "delta": "1e-6", "informed": True},
        {"epsilon": 2, "delta": "0.01"},
    ],
)
def test_exact_counts_give_the_bit_and_a_session_never_more_than_the_limit(how):
    found = differencing(**({"sessions": 300} | how), seed=1)
    assert found.raw_accuracy == 1
    assert found.limit == guess_limit(how["epsilon"], how.get("delta", 0))
    assert found.p_value == binom.sf(rightly(found) - 1, found.sessions, found.limit)
    assert found.p_value > ALPHA
    assert found.low < found.accuracy < found.high


@pytest.mark.statistical
def test_who_knows_all_but_one_bit_attains_the_limit_of_this_epsilon_and_no_other():
    found = differencing(epsilon=3, informed=True, sessions=800, seed=2)
    assert binomtest(rightly(found), 800, found.limit).pvalue > ALPHA
    for wrong in (2, "4.5"):
        assert binomtest(rightly(found), 800, guess_limit(wrong)).pvalue < ALPHA


@pytest.mark.statistical
def test_two_counts_are_guessed_as_often_as_their_noise_says():
    found = differencing(epsilon=4, sessions=600, seed=3)
    assert binomtest(rightly(found), 600, two_counts(4)).pvalue > ALPHA
    assert binomtest(rightly(found), 600, two_counts(4 * 2)).pvalue < ALPHA
    assert binomtest(rightly(found), 600, two_counts(4 / 3)).pvalue < ALPHA
    assert two_counts(4) < guess_limit(4)


def test_the_check_trips_when_there_is_no_noise():
    found = differencing(epsilon=100, sessions=60)
    assert found.accuracy == 1
    assert binom.sf(rightly(found) - 1, 60, guess_limit(1)) < ALPHA


def test_the_seed_decides_everything_and_progress_is_told():
    told = []
    one = differencing(epsilon=1, sessions=30, seed=5, on_progress=lambda *step: told.append(step))
    assert one == differencing(epsilon=1, sessions=30, seed=5)
    assert len({differencing(epsilon=1, sessions=30, seed=seed).accuracy for seed in range(5)}) > 1
    assert told == [(done, 30) for done in range(1, 31)]
    assert differencing(epsilon=1, sessions=2, seed=None).sessions == 2
    assert list(one.as_dict())[:3] == ["people", "sessions", "repeats"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": 1000},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "people": 1},
        {"epsilon": 1, "sessions": 0},
        {"epsilon": 1, "repeats": 0},
        {"epsilon": 1, "seed": -1},
    ],
)
def test_bad_input(wrong):
    with pytest.raises(InvalidParameter):
        differencing(**wrong)
