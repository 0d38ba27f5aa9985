"""Bounds of the excess risk against what is measured, and the regularisation they choose."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.errors import InvalidParameter
from chary.learning import PrivateLogisticRegression
from chary.learning.losses import Logistic
from chary.learning.optimum import Objective, Problem, audited_optimum
from chary.learning.risk_bounds import choose_lam, excess_risk_up
from chary.noise import Seeded

from .test_audited import unit_rows

PROBLEM = Problem(Logistic(), Fraction(1), Fraction(1, 50), 2000, 4)


def test_the_excess_risk_is_below_its_bound_and_not_far():
    rows, targets = unit_rows(2000, 4, 3)
    model = PrivateLogisticRegression(epsilon=2, lam="0.02", radius=1, classes=[-1, 1], fit_intercept=False)
    problem = model.problem(2000, 4)
    made = Objective(problem, rows, targets)

    def risk(weights):
        return Logistic().values(rows @ weights, targets).mean() + 0.01 * weights @ weights

    best = risk(audited_optimum(made))
    found = [risk(model.set_params(unsafe_noise=Seeded(s)).fit(rows, targets).coef_) - best for s in range(300)]
    for chance in (0.5, 0.1):
        bound = excess_risk_up(problem, epsilon=2, chance=chance)
        assert np.mean(np.array(found) > bound) <= chance
        assert np.quantile(found, 1 - chance) > bound / 10


def test_it_falls_with_epsilon_and_size():
    bound = excess_risk_up(PROBLEM, epsilon=1, chance="0.05")
    assert bound / 4 == pytest.approx(excess_risk_up(PROBLEM, epsilon=2, chance="0.05"), rel=0.01)
    assert bound / 4 == pytest.approx(excess_risk_up(replace(PROBLEM, size=4000), epsilon=1, chance="0.05"), rel=0.01)
    longer = excess_risk_up(PROBLEM, epsilon=1, chance="0.05", length=3)
    assert longer == pytest.approx(bound + 0.02 / 2 * 9)


def test_the_chosen_regularisation_is_the_best_one():
    given = {"epsilon": 1, "chance": Fraction(1, 20), "length": 2}
    lam = choose_lam(PROBLEM, **given)
    least = excess_risk_up(replace(PROBLEM, lam=lam), **given)
    for factor in (Fraction(1, 4), Fraction(1, 2), 2, 4):
        assert excess_risk_up(replace(PROBLEM, lam=lam * factor), **given) > least
    assert choose_lam(replace(PROBLEM, size=200_000), **given) < lam


@pytest.mark.parametrize("given", [{"epsilon": 0}, {"chance": 0}, {"chance": 1}, {"length": -1}])
def test_bad_parameters_are_refused(given):
    with pytest.raises(InvalidParameter):
        excess_risk_up(PROBLEM, **{"epsilon": 1, "chance": "0.1"} | given)


@pytest.mark.statistical
@pytest.mark.parametrize("columns", [1, 75])
@pytest.mark.parametrize("chance", [0.5, 0.05, 0.001])
def test_the_bound_covers_equal_rows_and_rows_of_all_directions(columns, chance):
    """The parabola of rows of the most curvature, with drawn noise; alpha 1e-6, and a sixth would be exceeded."""
    problem = replace(PROBLEM, features=columns, lam=Fraction(1, 100))
    generator, runs = np.random.default_rng(4), 20_000
    noise = generator.normal(size=(runs, columns)) * np.sqrt(generator.chisquare(columns + 1, (runs, 1)))
    squares = (noise * float(problem.sensitivity)) ** 2
    told, trace = excess_risk_up(problem, epsilon=1, chance=chance), float(problem.smoothness - problem.lam)
    for share in (np.eye(columns)[0], np.full(columns, 1 / columns)):
        rise = squares @ (trace * share + float(problem.lam)) / 2
        assert stats.binomtest(int((rise > told).sum()), runs, chance, "greater").pvalue > 1e-6
    rise = squares @ (trace * np.eye(columns)[0] + float(problem.lam)) / 2
    assert stats.binomtest(int((rise > told / 6).sum()), runs, chance, "greater").pvalue < 1e-6
