"""Who is in the data: traced in exact means, not in a session's."""

import math

import numpy as np
import pytest

from chary import InvalidParameter
from chary_research.attacks import Power, guess_limit, membership, tracing_power

LARGEST_T = 7.5
"""What a t statistic of 30 runs exceeds with probability below 1e-6."""


def test_power_agrees_with_counting():
    rng = np.random.default_rng(1)
    members, outsiders = rng.integers(0, 30, 70) + 3.0, rng.integers(0, 30, 90) * 1.0
    found = Power.measured(members, outsiders)
    pairs = [(m > o) + (m == o) / 2 for m in members for o in outsiders]
    assert found.auc == pytest.approx(np.mean(pairs))
    thresholds = [-1.0, *outsiders, *members]
    rates = [((members > t).mean(), (outsiders > t).mean()) for t in thresholds]
    assert found.tpr == max(tpr for tpr, fpr in rates if fpr <= 0.05)
    assert found.advantage == pytest.approx(max(tpr - fpr for tpr, fpr in rates))
    assert found.roc[-1] == 1
    assert found.roc[5] == found.tpr


def test_chance_and_certainty():
    same = Power.measured(np.zeros(40), np.zeros(40))
    assert (same.tpr, same.auc, same.advantage) == (0, 0.5, 0)
    told_apart = Power.measured(np.ones(40), np.zeros(40))
    assert (told_apart.tpr, told_apart.auc, told_apart.advantage) == (1, 1, 1)


@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "attributes"), [(50, 50), (30, 120)])
def test_exact_means_are_traced_as_well_as_theory_says(rows, attributes):
    found = membership(epsilon=1, rows=rows, attributes=attributes, sessions=30)
    assert found.raw.tpr == pytest.approx(found.expected_tpr, abs=0.08)
    wrong = [tracing_power(attributes=attributes, rows=round(rows * factor)) for factor in (1 / 4, 4)]
    assert wrong[1] + 0.08 < found.raw.tpr < wrong[0] - 0.08


def far_above(curves, limit):
    """How many standard errors the mean of independent runs lies above the limit."""
    return (np.mean(curves) - limit) / max(np.std(curves, ddof=1) / math.sqrt(len(curves)), 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", 0), (1, "1e-6")])
def test_a_session_hides_members_as_well_as_it_says(epsilon, delta):
    """Swapping a member and an outsider of one run replaces one person, so its mean AUC is at most `guess_limit`."""
    runs = [membership(epsilon=epsilon, delta=delta, rows=20, attributes=200, sessions=1, seed=s) for s in range(30)]
    limit = guess_limit(epsilon, delta)
    assert far_above([run.private.auc for run in runs], limit) < LARGEST_T
    assert far_above([run.raw.auc for run in runs], limit) > LARGEST_T


def test_without_noise_a_session_is_an_exact_mean():
    found = membership(epsilon=600, rows=10, attributes=10, sessions=3)
    assert found.private == found.raw


def test_people_of_your_own():
    people = np.random.default_rng(3).random((200, 300)) < 0.3
    found = membership(epsilon=1, rows=30, attributes=people, sessions=3)
    assert (found.rows, found.attributes) == (30, 300)
    assert found.raw.auc > 0.9 > found.private.auc
    constant = membership(epsilon=1, rows=2, attributes=np.ones((6, 1), dtype=bool), sessions=1)
    assert constant.raw.auc == 0.5


def test_the_seed_decides_everything_and_progress_is_told():
    told = []
    how = {"epsilon": 1, "rows": 10, "attributes": 20, "sessions": 2}
    one = membership(**how, seed=4, on_progress=lambda *step: told.append(step))
    assert one == membership(**how, seed=4)
    assert one != membership(**how, seed=5)
    assert told == [(1, 2), (2, 2)]
    assert membership(**how, seed=None).sessions == 2
    assert set(one.as_dict()["raw"]) == {"tpr", "auc", "advantage", "roc"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1},
        {"epsilon": "1e9"},
        {"delta": 2},
        {"rows": 1},
        {"attributes": 0},
        {"attributes": 10**7},
        {"attributes": 2.5},
        {"sessions": 0},
        {"attributes": np.zeros((20, 5), dtype=bool)},
        {"attributes": np.zeros((60, 5))},
        {"attributes": np.zeros((60, 0), dtype=bool)},
    ],
)
def test_bad_input(wrong):
    with pytest.raises(InvalidParameter):
        membership(**({"epsilon": 1, "rows": 10, "attributes": 20} | wrong))


def test_tracing_needs_a_rate():
    with pytest.raises(InvalidParameter, match="fpr"):
        tracing_power(attributes=10, rows=10, fpr=0)
