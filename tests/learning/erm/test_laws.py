"""Laws of an optimum that gets noise: against exact quantiles, and against rows of the worst and of other kinds."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.learning.risk_bounds import gaussian_law, linear_gaussian_law, linear_pure_law, linear_slope_law, pure_law

from .growing_kit import BETAS


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dimension", [1, 5, 75])
@pytest.mark.parametrize("slack", [0, 0.01])
def test_the_laws_of_a_perturbed_optimum_cover_the_exact_quantiles(dimension, beta, slack):
    """Tight where they are said to be, never exceeded, and two thirds of the constant would be."""
    chance, given = float(beta), {"moved": 3, "smoothness": 2, "dimension": dimension, "slack": slack}
    unit = 3 / (100 * 0.5)
    lengths = {
        pure_law: stats.gamma.isf(chance, dimension) + slack,
        gaussian_law: stats.chi.isf(chance, dimension) + slack,
    }
    for law, length in lengths.items():
        exact = (unit * length) ** 2
        told = law(**given).error(size=100, epsilon="0.5", beta=beta)
        there = law(**given, tight=Fraction(beta)).error(size=100, epsilon="0.5", beta=beta)
        assert exact <= there <= told * (1 + 1e-4)
        assert (told if beta == "1e-9" else exact) * 2 / 3 < exact * (1 if dimension > 1 or chance < 1e-5 else 2)


ROWS = 20_000
CHANCES = ("0.5", "0.05", "0.001")


def spectra(dimension, lam):
    """Curvatures whose trace is as large as it may be: in one direction, in all, in between."""
    falling = 1 / np.arange(1, dimension + 1) ** 2
    return [
        lam + part * (1 - lam)
        for part in (np.eye(dimension)[0], np.full(dimension, 1 / dimension), falling / falling.sum())
    ]


@pytest.mark.statistical
@pytest.mark.parametrize("lam", [0.001, 0.1])
@pytest.mark.parametrize("dimension", [3, 75])
@pytest.mark.parametrize("pure", [False, True])
def test_a_linear_model_rises_no_further_than_its_law_in_whatever_directions(pure, dimension, lam):
    """Alpha 1e-6. A constant of a fifth (pure: a fiftieth) would be exceeded by equal rows."""
    generator = np.random.default_rng(3)
    noise = generator.normal(size=(ROWS, dimension))
    if pure:
        noise *= np.sqrt(generator.chisquare(dimension + 1, (ROWS, 1)))
    law = (linear_pure_law if pure else linear_gaussian_law)(moved=1, steepest=1, lam=lam, dimension=dimension)
    told = {beta: law.error(size=1, epsilon=1, beta=beta) for beta in CHANCES}
    for curvatures in spectra(dimension, lam):
        excess = (noise**2) @ curvatures / 2
        for beta in CHANCES:
            assert stats.binomtest(int((excess > told[beta]).sum()), ROWS, float(beta), "greater").pvalue > 1e-6
    excess = (noise**2) @ spectra(dimension, lam)[0] / 2
    exceeded = int((excess > told["0.05"] / (50 if pure else 5)).sum())
    assert stats.binomtest(exceeded, ROWS, 0.05, "greater").pvalue < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("dimension", [1, 20])
def test_a_mean_of_corners_rises_no_further_than_its_law(pure, dimension):
    """The mean of `|x.b|` over rows that are equal, and over rows of all directions."""
    generator = np.random.default_rng(4)
    noise = generator.normal(size=(ROWS, dimension))
    if pure:
        noise *= np.sqrt(generator.chisquare(dimension + 1, (ROWS, 1)))
    law = linear_slope_law(moved=1, slope=1, pure=pure, dimension=dimension)
    several = generator.normal(size=(30, dimension))
    several /= np.linalg.norm(several, axis=1)[:, None]
    for rows in (several[:1], several):
        rise = np.abs(noise @ rows.T).mean(axis=1)
        for beta in CHANCES:
            told = law.error(size=1, epsilon=1, beta=beta)
            assert stats.binomtest(int((rise > told).sum()), ROWS, float(beta), "greater").pvalue > 1e-6
    assert stats.binomtest(int((rise > told / 8).sum()), ROWS, 0.001, "greater").pvalue < 1e-6


@pytest.mark.parametrize("beta", BETAS)
def test_where_one_direction_is_as_curved_as_all_the_law_is_the_general_one(beta):
    known = {"size": 9, "epsilon": 1, "beta": beta}
    told = linear_gaussian_law(moved=2, steepest=3, lam=3, dimension=40).error(**known)
    assert told == pytest.approx(gaussian_law(moved=2, smoothness=3, dimension=40).error(**known), rel=0.02)
