"""Descent in a ball and its noisy sums: how far they get, in how many steps, at which rho."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from chary import InvalidParameter
from chary.learning.descent import (
    AVERAGING,
    CURVED_SHARE,
    LEAST_RHO,
    LEAST_STEPS,
    PROGRESS,
    BallDescent,
    IntegerGradients,
    NoisyDescent,
    NoisySum,
)
from chary.learning.optimum import Objective, Problem
from chary.learning.risk_bounds import descent_rounding
from chary.mechanisms import Gaussian
from chary.noise import Seeded

from .growing_kit import ALPHA, LOSSES, WRONG, logistic, of_each_loss
from .test_audited import unit_rows


def descent(loss=LOSSES[0], rho="0.01", size=400, steps=2000, length=3, columns=3):
    problem = Problem(loss, Fraction(1), Fraction(1, 1000), size, columns, Fraction(length))
    return BallDescent(problem, Fraction(rho), steps)


@of_each_loss
def test_descent_without_noise_finds_the_best_weights_of_the_ball(loss):
    rows, targets = unit_rows(400, 3, 4)
    for length in ("0.5", 3):
        made = descent(loss, rho=10**10, length=length, steps=500)
        found = made.weights(rows, targets, Seeded(1))
        value = Objective(made.problem, rows, targets)

        def risk(weights, loss=loss, value=value):
            return loss.values(rows @ weights, targets).mean() + float(value.problem.lam) / 2 * weights @ weights

        norm = float(made.problem.norm)
        ball = {"type": "ineq", "fun": lambda w, norm=norm: norm**2 - w @ w}
        best = optimize.minimize(risk, np.zeros(3), constraints=ball, options={"ftol": 1e-13}).fun
        remains = float(made.problem.smoothness) * norm**2 / (PROGRESS * 500**2) + descent_rounding(made.problem)
        assert np.linalg.norm(found) <= norm * (1 + 1e-9)
        assert -1e-6 <= risk(found) - best <= remains + 1e-6


def test_as_many_steps_are_taken_as_the_noise_deserves():
    """The least number at which the curvature adds a sixteenth of the noise; at least 64, at most those allowed."""
    for rho, size in (("0.01", 10**5), (1, 10**6), (20, 10**5)):
        made = descent(rho=rho, size=size, steps=20_000)
        steep, smooth, norm = (float(getattr(made.problem, name)) for name in ("lipschitz", "smoothness", "norm"))
        noise = 2 * steep * norm * math.sqrt(AVERAGING * 3) / (size * math.sqrt(2 * made.rho))
        remains = [smooth * norm**2 / (PROGRESS * steps**2) for steps in (made.steps, made.steps - 1)]
        assert remains[0] <= CURVED_SHARE * noise * (1 + 1e-9)
        assert remains[1] > CURVED_SHARE * noise * (1 - 1e-9)
    assert descent(rho="1e-9").steps == LEAST_STEPS
    assert descent(rho=10**9, steps=100).steps == 100
    assert descent(rho="1e-9", steps=7).steps == 7


@pytest.mark.parametrize("rho", ["100", "0.01", "1e-6", "1e-11"])
def test_the_steps_add_up_to_rho(rho):
    made = descent(rho=rho)
    assert made.steps * made.noisy.noise.event().rho == Fraction(rho)
    plain = 2 * float(made.problem.lipschitz) * math.sqrt(made.steps / (2 * Fraction(rho))) / made.problem.size
    assert plain * (1 - 1e-12) <= made.noisy.deviation <= plain * (1 + (math.sqrt(3) + 1) / 2**15)


@pytest.mark.parametrize("rho", ["100", "1e-6", "1e-13"])
@of_each_loss
def test_a_replaced_row_moves_the_noisy_sum_no_further_than_its_bound(loss, rho):
    """Extreme rows at extreme weights, with other rows that decide how the sum is rounded."""
    compass = np.array([(np.cos(angle), np.sin(angle)) for angle in np.arange(8) * np.pi / 4])
    noisy = NoisySum(descent(loss, columns=2, size=4).noisy.gradients, Fraction(rho))
    assert (noisy.shift > 0) == (rho != "100")
    whole, generator, worst = noisy.gradients.rows(compass), np.random.default_rng(3), 0
    for weights in compass * float(noisy.gradients.problem.norm):
        others = generator.integers(-(10**9), 10**9, (3, 2))
        alone = [noisy.gradients.total(whole[[row]], np.array([t]), weights) for row in range(8) for t in (-1.0, 1.0)]
        for other in others:
            sums = np.array([(other + single) >> noisy.shift for single in alone]).astype(object)
            worst = max(worst, ((sums[:, None] - sums[None]) ** 2).sum(axis=2).max())
    assert worst <= noisy.noise.l2_squared
    assert worst > 0.05 * noisy.noise.l2_squared


@pytest.mark.statistical
@pytest.mark.parametrize("rho", ["1000", "1e-9"])
def test_the_noisy_sum_has_the_noise_it_says(rho):
    """Over rows of zeros it is noise alone; chi-squared over its coordinates, with and without bits dropped."""
    problem = replace(descent(columns=3000, size=1000).problem)
    noisy = NoisySum(IntegerGradients(problem, 20, 17, 32), Fraction(rho))
    found = noisy.mean(np.zeros((1, 3000)), np.ones(1), np.zeros(3000), Seeded(5))

    def fits(deviation):
        square = float((found**2).sum()) / deviation**2
        return 2 * min(stats.chi2.cdf(square, 3000), stats.chi2.sf(square, 3000))

    assert fits(noisy.deviation) > ALPHA
    assert max(fits(noisy.deviation * wrong) for wrong in WRONG) < ALPHA
    assert noisy.deviation == pytest.approx(2 / 1000 / math.sqrt(2 * float(rho)), rel=1e-3)


def test_momentum_descends_at_any_rho():
    """Below 1e-5 the noise of its sums would not fit into 64 bits."""
    rows = np.random.default_rng(1).uniform(-1, 1, (100, 2))
    for rho in ("1e-4", "1e-8", "1e-12"):
        found = logistic(rho=rho).fit(rows, np.where(rows[:, 0] > 0, "yes", "no"))
        assert np.isfinite(found.coef_).all()


def test_more_rows_than_can_be_summed_exactly_are_refused():
    with pytest.raises(InvalidParameter, match="summed"):
        descent(size=1 << 40).noisy  # noqa: B018


@pytest.mark.parametrize("bits", [(14, 14, 33), (20, 17, 32)])
@pytest.mark.parametrize("columns", [1, 10**6])
def test_the_least_rho_is_one_whose_noise_can_be_drawn(bits, columns):
    gradients = IntegerGradients(descent(columns=columns).problem, *bits)
    noise = NoisySum(gradients, LEAST_RHO).noise
    assert noise.draw(Seeded(1), 3).dtype == np.int64
    assert noise.event().rho == LEAST_RHO
    with pytest.raises(InvalidParameter, match="too small for these steps"):
        NoisySum(gradients, LEAST_RHO * Fraction(99, 100))


@pytest.mark.parametrize("columns", [2, 3, 50])
def test_rounding_down_moves_sums_further_apart_than_they_were(columns):
    """Sums just below a multiple of 2^k, and gradients of opposite directions: most of the root of d is needed."""
    noisy = NoisySum(descent(columns=columns).noisy.gradients, Fraction(1, 10**13))
    longest, step, generator = noisy.gradients.longest, 1 << noisy.shift, np.random.default_rng(2)
    below, furthest = np.full(columns, step - 1), 0
    for _ in range(20_000):
        direction = generator.normal(1, 0.1, columns)
        moved = (direction * (2 * longest / np.linalg.norm(direction))).astype(np.int64)
        furthest = max(furthest, int((((below + moved) >> noisy.shift) ** 2).sum()))
    assert (below >> noisy.shift == 0).all()
    assert furthest <= noisy.noise.l2_squared
    assert math.sqrt(furthest) > (2 * longest >> noisy.shift) + 0.6 * math.sqrt(columns)


@pytest.mark.parametrize("made", [descent(rho=1, size=50), NoisyDescent(descent(size=50).problem, Fraction(1), 17)])
def test_as_many_noisy_sums_are_published_as_are_paid(made, monkeypatch):
    drawn, apply = [], Gaussian.apply
    monkeypatch.setattr(Gaussian, "apply", lambda noise, *given: drawn.append(noise) or apply(noise, *given))
    made.weights(*unit_rows(50, 3, 1), Seeded(1))
    assert len(drawn) == made.steps
    assert sum(noise.event().rho for noise in drawn) == made.rho


def test_rows_of_another_width_are_refused():
    with pytest.raises(InvalidParameter, match="3 columns"):
        descent().weights(*unit_rows(400, 4, 1), Seeded(1))
