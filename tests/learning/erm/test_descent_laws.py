"""The law of descent in a ball: its weights, its proof on every path, its tail by simulation, its earlier form."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from chary.learning.descent import AVERAGING, PROGRESS, RISING, BallDescent, inside
from chary.learning.losses import Logistic
from chary.learning.optimum import Objective, Problem
from chary.learning.risk_bounds import TILTS, descent_height, descent_law, earlier_box_law

from .growing_kit import BETAS, BOXES, of_each_loss
from .test_audited import unit_rows


def weights_of(steps):
    return np.minimum(np.arange(1, steps + 1), -(-steps // RISING))


def test_the_weights_are_as_even_and_as_large_as_the_proof_says():
    for steps in [*range(1, 500), 10**4, 10**6]:
        weights = weights_of(steps).astype(float)
        total = weights.sum()
        assert total >= PROGRESS * steps**2 * (1 - 1e-12)
        assert steps * (weights**2).sum() <= AVERAGING * total**2 * (1 + 1e-12)
        assert (weights**2 / weights.cumsum()).max() < 2
    assert steps * (weights**2).sum() > 0.999 * AVERAGING * total**2


def test_descent_has_these_weights():
    problem = Problem(Logistic(), Fraction(1), Fraction(1, 10**6), 1000, 3, Fraction(2))
    for steps in (1, 7, 64, 100):
        assert BallDescent(problem, Fraction(10**6), steps).step_weights == weights_of(steps).tolist()


@of_each_loss
def test_the_inequality_of_the_proof_holds_for_whatever_noise(loss):
    """Pathwise: `A excess <= (M + x/2) W^2 + sum a <g, w - z> + sum a^2 |g|^2/(2x)`, gradients in float64."""
    rows, targets = unit_rows(200, 3, 2)
    problem = Problem(loss, Fraction(1), Fraction(1, 100), 200, 3, Fraction(2))
    made, norm = Objective(problem, rows, targets), float(problem.norm)

    def value(weights):
        return loss.values(rows @ weights, targets).mean() + float(problem.lam) / 2 * weights @ weights

    ball = {"type": "ineq", "fun": lambda w: norm**2 - w @ w}
    best = optimize.minimize(value, np.zeros(3), constraints=ball, options={"ftol": 1e-14}).x
    generator, nearest = np.random.default_rng(1), np.inf
    for steps, size, x in ((10, 0.1, 1), (30, 1, 30), (30, 10, 1), (200, 0.01, 2), (5, 0, 1e-9)):
        smooth, total = float(problem.smoothness), 0
        rate = 1 / (2 * smooth + x)
        found = far = np.zeros(3)
        told = best @ best * (smooth + x / 2)
        for weight in weights_of(steps).tolist():
            total += weight
            ahead, noise = found + weight / total * (far - found), generator.normal(0, size, 3)
            told += weight * noise @ (best - far) + weight**2 * noise @ noise / (2 * x)
            far = inside(far - rate * weight * (made.gradient(ahead) + noise), problem)
            found = found + weight / total * (far - found)
        excess = value(found) - value(best)
        assert -1e-7 <= excess <= told / total + 1e-7
        nearest = min(nearest, told / total / max(excess, 1e-9))
    assert nearest < 20


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 10, 75])
def test_the_noise_of_the_proof_is_below_its_tail(dimension):
    """The potential with the most variance that the proof allows, driven by noise.

    In units of `sigma sqrt(S) W`; alpha 1e-6. Half of the bound (a third for d = 1) would be exceeded.
    """
    generator, runs, steps = np.random.default_rng(2), 4000, 60
    weights = weights_of(steps)
    part = weights**2 / (weights**2).sum()
    potential = np.full(runs, math.sqrt(dimension) / 2)
    for share in part:
        drift = np.sqrt(np.maximum(potential, 0) * 2 / math.sqrt(dimension) * share)
        along, others = generator.normal(size=runs), generator.chisquare(dimension - 1, runs) if dimension > 1 else 0
        potential += drift * along + share * (along**2 + others) / (2 * math.sqrt(dimension))
    for beta in (0.5, 0.05, 0.001):
        tail = min((-math.log(beta) + exact_height(dimension, t)) / (t * math.sqrt(dimension)) for t in TILTS)
        above = int((potential > tail).sum())
        assert stats.binomtest(above, runs, beta, "greater").pvalue > 1e-6
    wrong = int((potential > tail / (2 if dimension > 1 else 3)).sum())
    assert stats.binomtest(wrong, runs, beta, "greater").pvalue < 1e-6


def exact_height(dimension, t):
    return dimension / 2 * (t / (1 - t) - math.log(1 - t))


@pytest.mark.parametrize("dimension", [1, 5, 75, 1000])
def test_the_law_is_the_formula_of_its_proof(dimension):
    law = descent_law(lipschitz=2, smoothness=3, norm=4, dimension=dimension)
    for beta in BETAS:
        s, unit = -math.log(float(beta)), 2 * 2 * 4 / (1000 * 0.1) * math.sqrt(AVERAGING)
        told = law.error(size=1000, epsilon="0.1", beta=beta) / unit
        best = min((s + descent_height(dimension, t)) / (t * math.sqrt(dimension)) for t in np.arange(1, 1000) / 1000)
        assert best <= told
        if beta == "1e-9":
            assert told < 1.01 * best
    few = descent_law(lipschitz=2, smoothness=3, norm=4, dimension=dimension, most_steps=10)
    assert float(few.base) >= 3 * 16 / (PROGRESS * 100)


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_no_law_promises_less_than_the_one_before_it(box):
    earlier = earlier_box_law(box._problem, box.model, 1000)
    assert box.laws in ([box.law, earlier], [earlier, earlier])
    for beta in ("0.05", "1e-6", "1e-9"):
        for size in (10**3, 10**6):
            told = [law.error(size=size, epsilon="0.1", beta=beta) - float(law.base) for law in box.laws]
            assert told[0] <= told[1] * 1.2


def test_many_columns_have_a_law_that_grows_like_their_root():
    told = [
        descent_law(lipschitz=1, smoothness=1, norm=1, dimension=d).error(size=10, epsilon=1, beta="0.05")
        for d in (10**4, 10**6)
    ]
    assert 9 < told[1] / told[0] < 11
