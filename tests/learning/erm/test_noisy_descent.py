"""Exact integer gradients by hand, how far a row moves them, the law of the noise, and the optimum without it."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.learning.descent import ROW_BITS, NoisyDescent, integer_rows
from chary.learning.losses import Logistic, SmoothedHinge, SquaredError, SquaredHinge
from chary.learning.optimum import Objective, Problem, audited_optimum
from chary.noise import Seeded

from .test_audited import unit_rows

ALPHA = 1e-6
ALL = [Logistic(), SmoothedHinge(), SquaredHinge(), SquaredError(Fraction(1))]
NEAR = {Logistic: 0.3, SmoothedHinge: 0.99, SquaredHinge: 0.3, SquaredError: 0.3}
named = pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)


def descent(loss, rows, rho="0.01", steps=10, lam="0.05"):
    return NoisyDescent(Problem(loss, Fraction(1), Fraction(lam), *rows.shape), Fraction(rho), steps)


@named
def test_the_integer_gradient_is_an_exact_sum_near_the_gradient(loss):
    rows, targets = unit_rows(500, 3, 1)
    made = descent(loss, rows)
    whole = integer_rows(rows, Fraction(1))
    weights = np.array([0.3, -0.7, 0.2])
    total = made.noisy.gradients.total(whole, targets, weights)
    alone = sum(made.noisy.gradients.total(whole[[row]], targets[[row]], weights) for row in range(500))
    order = np.random.default_rng(1).permutation(500)
    assert total.tolist() == alone.tolist()
    assert total.tolist() == made.noisy.gradients.total(whole[order], targets[order], weights).tolist()
    exact = Objective(made.problem, rows, targets).gradient(weights) - float(made.problem.lam) * weights
    assert total * made.noisy.gradients.unit == pytest.approx(exact, abs=3e-4 * float(made.problem.lipschitz))


def test_a_row_that_is_no_number_or_too_long_counts_as_zeros():
    rows = np.array([[np.nan, 0.5], [np.inf, 0.0], [-np.inf, np.nan], [0.9, 0.9], [0.25, 0.5]])
    with np.errstate(invalid="ignore", over="ignore"):
        whole = integer_rows(rows, Fraction(1))
    assert not whole[:4].any()
    assert whole[4].tolist() == [2 ** (ROW_BITS - 2), 2 ** (ROW_BITS - 1)]


@named
def test_a_replaced_row_moves_the_integer_gradient_no_further_than_its_bound(loss):
    """Extreme rows at extreme weights; the hinge comes up to the bound."""
    compass = np.array([(np.cos(angle), np.sin(angle)) for angle in np.arange(8) * np.pi / 4])
    made = descent(loss, np.zeros((4, 2)))
    worst = 0
    for weights in compass * float(made.problem.norm):
        whole = integer_rows(compass, Fraction(1))
        alone = [
            made.noisy.gradients.total(whole[[row]], np.array([target]), weights)
            for row, target in itertools.product(range(8), [-1.0, 1.0])
        ]
        worst = max(worst, *(int(((here - there) ** 2).sum()) for here, there in itertools.combinations(alone, 2)))
    assert NEAR[type(loss)] * made.noisy.noise.l2_squared < worst <= made.noisy.noise.l2_squared


def test_weights_that_are_too_long_do_not_lengthen_a_gradient():
    made = descent(SquaredHinge(), np.zeros((4, 2)))
    moved = made.noisy.gradients.total(np.array([[2.0**ROW_BITS, 0]]), np.array([1.0]), np.array([-1e4, 0.0]))
    assert np.abs(moved).max() == 1 << 2 * ROW_BITS


def test_rows_that_are_too_long_count_as_zeros():
    side = 0.6
    rows = np.array([[side, 0.8], [side, 0.8001], [1.0, 0.0], [1.0, 1e-3]])
    whole = integer_rows(rows, Fraction(1))
    assert (whole != 0).any(axis=1).tolist() == [True, False, True, False]
    assert ((whole**2).sum(axis=1) <= 4**ROW_BITS).all()


@pytest.mark.parametrize("steps", [1, 7, 80])
def test_the_steps_add_up_to_rho(steps):
    made = descent(Logistic(), np.zeros((4, 2)), steps=steps)
    assert steps * made.noisy.noise.event().rho == Fraction("0.01")
    assert made.noisy.noise.l2_squared == (2 * 4**ROW_BITS) ** 2


@pytest.mark.statistical
def test_each_step_has_the_noise_it_says():
    """One step from 0 over rows of zeros is noise alone; chi-squared over its coordinates."""
    rows = np.zeros((1000, 3000))
    made = descent(Logistic(), rows, rho="10000", steps=1)
    weights = made.weights(rows, np.ones(1000), Seeded(5)) * float(made.problem.smoothness)

    def fits(deviation):
        found = float((weights**2).sum()) / deviation**2
        return 2 * min(stats.chi2.cdf(found, 3000), stats.chi2.sf(found, 3000))

    assert fits(made.noisy.deviation) > ALPHA
    assert max(fits(made.noisy.deviation * wrong) for wrong in (2 / 3, 3 / 2)) < ALPHA
    assert made.noisy.deviation == pytest.approx(2 / 1000 / np.sqrt(2 * 10000))


@named
def test_without_noise_it_finds_the_optimum(loss):
    rows, targets = unit_rows(400, 3, 4)
    made = descent(loss, rows, rho=10**14, steps=400)
    best = audited_optimum(Objective(made.problem, rows, targets))
    found = made.weights(rows, targets, Seeded(1))
    assert np.linalg.norm(found - best) < 2e-3 * (1 + np.linalg.norm(best))
    noisy = replace(made, rho=Fraction(1, 100)).weights(rows, targets, Seeded(1))
    assert np.linalg.norm(noisy - best) > 2e-2
