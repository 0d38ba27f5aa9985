"""The estimators beside scikit-learn's, and their privacy by the exact law in one dimension."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import laplace
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from chary.accounting import zero_concentrated_rho_down
from chary.learning import descent, linear
from chary.learning.optimum import Objective, audited_optimum, cells, grid_for
from chary.noise import Seeded

from .estimators_kit import ALL, ENDLESS, labels_for, logistic, median, ridge, rows_of, svc


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_they_are_scikit_learns(delta, fit_intercept):
    """The penalty applies to the intercept, so scikit-learn gets the column of ones as well."""
    rows, labels, numbers = rows_of()
    wide = np.column_stack([rows, np.ones(len(rows))]) if fit_intercept else rows
    c, options = 1 / (len(rows) * 0.01), {"fit_intercept": False, "tol": 1e-12}
    pairs = [
        (logistic, labels, LogisticRegression(C=c, max_iter=10_000, **options)),
        (lambda **given: svc(loss="squared_hinge", **given), labels, LinearSVC(C=c, max_iter=10**6, **options)),
        (ridge, numbers, Ridge(alpha=len(rows) * 0.01, **options)),
    ]
    for make, aims, peer in pairs:
        given = {"epsilon": ENDLESS, "delta": delta, "steps": 500, "fit_intercept": fit_intercept}
        mine = make(**given).fit(rows, aims)
        peer.fit(wide, aims)
        found = np.append(mine.coef_, mine.intercept_) if fit_intercept else mine.coef_
        assert found == pytest.approx(peer.coef_.ravel(), abs=1e-5 if not delta else 4e-3)
        assert (mine.predict(rows) == pytest.approx(peer.predict(wide), abs=1e-2)) if make is ridge else True


def test_probabilities_and_decisions_agree():
    rows, labels, _ = rows_of()
    model = logistic(epsilon=10).fit(rows, labels)
    chances, scores = model.predict_proba(rows), model.decision_function(rows)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert (model.predict(rows) == np.where(scores > 0, "yes", "no")).all()
    assert ((chances[:, 1] > 0.5) == (scores > 0)).all()
    assert scores == pytest.approx(rows @ model.coef_ + model.intercept_)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(rows, labels) > 0.8


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("make", ALL)
def test_rows_are_clipped_to_the_radius_and_labels_to_the_bound(make, delta):
    rows, labels = rows_of()[0], labels_for(make)
    lengths = np.linalg.norm(rows, axis=1)[:, None]
    short = rows / np.maximum(1, lengths / 0.5)
    given = {"radius": "0.5", "epsilon": ENDLESS, "delta": delta}
    long, done = (make(**given).fit(inputs, labels) for inputs in (rows, short))
    assert long.coef_ == pytest.approx(done.coef_, abs=1e-4)
    decided = long.predict if make in (ridge, median) else long.decision_function
    assert decided(rows) == pytest.approx(decided(short))
    if make is ridge:
        assert make(**given).fit(rows, labels * 1e9).coef_ == pytest.approx(
            make(**given).fit(rows, np.sign(labels)).coef_
        )


def test_in_one_dimension_the_law_is_as_private_as_it_says():
    """Two neighbours whose optima are nearly as far apart as they can be; every cell that has a chance worth naming.

    The law of a cell is the Laplace mass in it, which `test_spherical` finds in the cells.
    """
    model = ridge(epsilon="0.5", lam=20, radius=1, fit_intercept=False)
    problem = model.problem(4, 1)
    optima = [
        float(audited_optimum(Objective(problem, np.array([[0.0], [0.0], [0.0], [row]]), np.array([0.0, 0, 0, 1])))[0])
        for row in (1.0, -1.0)
    ]
    scale = float(problem.sensitivity / Fraction(model.epsilon))
    grid = float(grid_for(problem.sensitivity / Fraction(model.epsilon)))

    def worst(width):
        edges = np.arange(-8000, 8001) * grid
        laws = [np.diff(laplace.cdf(edges, loc=start, scale=scale * width)) for start in optima]
        return np.abs(np.log(laws[0] / laws[1])).max()

    assert 0.9 * 0.5 < worst(1) <= 0.5
    assert worst(0.85) > 0.5


def test_the_noise_is_that_of_the_sensitivity(monkeypatch):
    """What the estimator hands to the sampler."""
    seen = []
    monkeypatch.setattr(linear, "cells", lambda *given: seen.append(given) or cells(*given))
    rows, labels, _ = rows_of()
    model = logistic(epsilon="0.25").fit(rows, labels)
    ((center, scale, grid, _),) = seen
    problem = model.problem(600, 3)
    assert problem.features == 4
    assert 5 < problem.radius**2 < 5 * (1 + Fraction(1, 10**8))
    assert scale == 4 * problem.sensitivity
    assert 2 * math.sqrt(5) / (600 * 0.01) < problem.sensitivity < 2 * math.sqrt(5) / (600 * 0.01) * 1.00001
    assert [int(x / grid) for x in center] != [int(x / float(grid)) for x in [*model.coef_, model.intercept_]]


@pytest.mark.parametrize("make", ALL)
def test_noisy_steps_share_the_rho_of_epsilon_and_delta(make, monkeypatch):
    """What the estimator hands to the descent, and that `rho + 2 sqrt(rho ln(1/delta))`, a looser bound, is near."""
    seen = []
    usual = descent.NoisyDescent
    monkeypatch.setattr(descent, "NoisyDescent", lambda *given: seen.append(usual(*given)) or seen[-1])
    make(epsilon="0.5", delta="1e-6", steps=20).fit(rows_of()[0], labels_for(make))
    made = seen[-1]
    assert made.problem == make().problem(600, 3)
    rho = float(20 * made.noisy.noise.event().rho)
    assert rho == pytest.approx(float(made.rho))
    assert 0.45 < rho + 2 * math.sqrt(rho * math.log(1e6)) < 0.65
    assert made.rho <= zero_concentrated_rho_down(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))


@pytest.mark.parametrize("make", ALL)
def test_they_are_estimators_as_scikit_learn_knows_them(make):
    rows, labels = rows_of()[0], labels_for(make)
    model = make()
    twin = clone(model)
    assert {**twin.get_params(), "unsafe_noise": 0} == {**model.get_params(), "unsafe_noise": 0}
    assert twin.set_params(epsilon=5).epsilon == 5
    with pytest.raises(NotFittedError):
        model.predict(rows)
    assert model.fit(rows, labels) is model
    assert model.n_features_in_ == 3
    assert model.predict(pd.DataFrame(rows)).shape == (600,)
    piped = make_pipeline(FunctionTransformer(), make(epsilon=100)).fit(rows, labels)
    assert piped.score(rows, labels) > 0.3
    search = GridSearchCV(make(epsilon=ENDLESS), {"lam": ["0.01", "10"]}, cv=2).fit(rows, labels)
    assert search.best_params_ == {"lam": "0.01"}
    again = clone(model).restore({"weights": [*model.coef_, model.intercept_]})
    assert (again.predict(rows) == model.predict(rows)).all()


@pytest.mark.parametrize("make", ALL)
def test_more_epsilon_and_a_delta_mean_less_noise(make):
    rows, labels = rows_of(200)[0], rows_of(200)[2 if make in (ridge, median) else 1]
    best = make(epsilon=ENDLESS).fit(rows, labels).coef_

    def error(**given):
        return np.mean(
            [np.linalg.norm(make(unsafe_noise=Seeded(s), **given).fit(rows, labels).coef_ - best) for s in range(8)]
        )

    assert error(epsilon=1) > 5 * error(epsilon=100)
    assert error(epsilon=1) > error(epsilon=1, delta="1e-6")


def test_labels_of_one_class_are_no_error():
    """Whether a class occurs is not public."""
    model = logistic(epsilon=100).fit(rows_of()[0], ["yes"] * 600)
    assert model.predict([[0.0, 0.0, 0.0]]).tolist() == ["yes"]
