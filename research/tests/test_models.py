"""Classifiers that memorise give their people away; private ones do not."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from chary import InvalidParameter
from chary.demo.panel import of_year, people
from chary_research.attacks import guess_limit, value_limit
from chary_research.attacks.models import Cases, built_in_cases, draw_inversion, draw_shadows, inversion, shadows


@pytest.fixture(scope="module")
def cases():
    return built_in_cases(of_year(people(), 1))


@pytest.fixture(scope="module")
def coins():
    """Labels and columns are fair coins: nothing can be learned but from a model that memorises."""
    rng = np.random.default_rng(1)
    return Cases((rng.random((1500, 12)) < 0.5).astype(float), rng.integers(0, 2, 1500))


def test_a_memorising_tree_is_inverted_and_a_private_model_is_not(cases):
    found = inversion(cases, epsilon=1, models=4)
    assert found.raw > found.raw_outsiders + 0.1
    assert abs(found.private - found.private_outsiders) < 0.05
    assert found.private < found.limit == value_limit(1, [found.baseline, 1 - found.baseline])
    assert inversion(cases, epsilon=1, delta="1e-6", models=1, rows=50).limit is None


def test_what_nobody_can_know_is_not_known_of_outsiders(coins):
    """500 fair coins of 4 models' outsiders: five standard deviations are 0.06."""
    found = inversion(coins, epsilon=1, rows=500, models=4)
    assert found.raw > 0.6
    assert abs(found.raw_outsiders - 0.5) < 0.06
    assert abs(found.private - 0.5) < 0.06


def test_shadows_find_who_is_in_the_training_data(cases):
    found = shadows(cases, epsilon=1, models=3, shadows=4)
    assert found.raw.auc > 0.65
    assert found.private.auc < guess_limit(1)
    assert found.limit.auc == pytest.approx(guess_limit(1))
    assert found.as_dict()["private"]["auc"] == found.private.auc


def test_a_model_that_learns_nothing_gives_nothing_away(coins):
    found = shadows(coins, epsilon=1, rows=100, models=2, shadows=2, raw=DummyClassifier(strategy="uniform"))
    assert found.raw.auc == pytest.approx(0.5, abs=0.1)
    assert inversion(coins, epsilon=1, rows=100, models=2, raw=DummyClassifier()).raw == pytest.approx(0.5, abs=0.2)


def test_seeds_progress_and_pictures(coins, tmp_path):
    told = []
    how = {"epsilon": 1, "rows": 60, "models": 2, "seed": 5}
    one = inversion(coins, **how, on_progress=lambda *step: told.append(step))
    assert one == inversion(coins, **how)
    assert told == [(1, 2), (2, 2)]
    draw_inversion(one, tmp_path / "in.png")
    draw_shadows(shadows(coins, **how, shadows=1, on_progress=lambda *step: told.append(step)), tmp_path / "sh.svg")
    assert (tmp_path / "in.png").read_bytes().startswith(b"\x89PNG")
    assert told[-1] == (2, 2)


@pytest.mark.parametrize(
    ("rows", "labels", "sensitive"),
    [
        (np.zeros(3), np.zeros(3), 0),
        (np.zeros((3, 2)), np.zeros(2), 0),
        (np.zeros((3, 2)), np.full(3, 2), 0),
        (np.full((3, 2), 1.5), np.zeros(3), 0),
        (np.full((3, 2), np.nan), np.zeros(3), 0),
        (np.full((3, 2), 0.5), np.zeros(3), 0),
        (np.zeros((3, 2)), np.zeros(3), 2),
    ],
)
def test_cases_that_are_none(rows, labels, sensitive):
    with pytest.raises(InvalidParameter):
        Cases(rows, labels, sensitive)


def test_bad_input(coins):
    for wrong in ({"epsilon": 0}, {"rows": 1}, {"models": 0}, {"rows": 10_000}):
        for attack in (inversion, shadows):
            with pytest.raises(InvalidParameter):
                attack(coins, **({"epsilon": 1, "rows": 60, "models": 1} | wrong))
