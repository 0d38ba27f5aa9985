"""Drawn weights: exact laws on fine grids, privacy by brute force, rates; published shapes by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from chary import InvalidParameter
from chary.learning import Assumptions
from chary.learning.risk_bounds import TIGHT
from chary_research.training_bounds import published_shape, sampled_law

BETAS = (0.5, 0.05, 0.001)
SIDE = np.linspace(-0.5, 0.5, 801)
X, Y = np.meshgrid(SIDE, SIDE)
BALL = X**2 + Y**2 <= 0.25
CONVEX = {
    "cone": np.hypot(X, Y),
    "cone at the side": np.hypot(X - 0.4, Y),
    "plane": X + 0.5,
    "parabola": (X**2 + Y**2) / 2,
    "corner": np.maximum(np.abs(X), np.abs(Y)),
    "flat": np.maximum(0, np.hypot(X, Y) - 0.1),
    "edge": np.abs(X),
}


def exceeded(excess, density, told):
    return density[excess > told].sum() / density.sum()


@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize("loss", CONVEX.values(), ids=CONVEX)
def test_the_excess_of_every_convex_loss_in_the_plane_is_within_the_law(loss, size):
    excess = loss[BALL] - loss[BALL].min()
    density = np.exp(-size * excess / 2)
    for beta in BETAS:
        told = sampled_law(dimension=2).error(size=size, epsilon=1, beta=str(beta))
        assert exceeded(excess, density, told) <= beta
        gamma = 2 / size * stats.gamma.isf(beta, 2)
        assert exceeded(excess, density, gamma) <= beta * 1.1 + 1e-3


def test_a_cone_comes_up_to_the_law_so_half_of_it_would_be_too_little():
    """Radii of a cone: `r^(d-1) e^(-n r/2)`."""
    radii = np.linspace(1e-6, 0.5, 200_001)
    for dimension in (1, 2, 10):
        size = 100 * dimension
        density = radii ** (dimension - 1) * np.exp(-size * radii / 2)
        for beta in BETAS:
            told = sampled_law(dimension=dimension).error(size=size, epsilon=1, beta=str(beta))
            assert exceeded(radii, density, told) <= beta
        told = sampled_law(dimension=dimension).error(size=size, epsilon=1, beta="1e-9")
        assert exceeded(radii, density, told / 2) > float(TIGHT) * 10


def test_drawn_weights_are_private_by_brute_force():
    """Five rows of slopes that oppose each other, on a fine line: the worst ratio of densities comes near epsilon."""
    line, worst = np.linspace(-0.5, 0.5, 2001), 0.0
    for epsilon in (0.5, 2):
        found = []
        for last in (np.abs(line - 0.5), np.abs(line + 0.5), np.abs(line), 0 * line):
            total = 4 * np.abs(line - 0.1) + last
            density = np.exp(-epsilon * total / 2)
            found.append(np.log(density / density.sum()))
        apart = max(np.abs(one - other).max() for one in found for other in found)
        assert apart <= epsilon
        worst = max(worst, apart / epsilon)
    assert worst > 0.4


@pytest.mark.statistical
def test_narrowing_down_first_keeps_the_law_of_strongly_convex_losses():
    """One column, a parabola with a corner: noise on the optimum, then a draw in the ball around it; alpha 1e-6."""
    generator, lam, size, beta = np.random.default_rng(2), 0.5, 3000, 0.05
    law = sampled_law(dimension=1, lam=str(lam))
    near = 4 / (lam * size) * stats.gamma.isf(beta / 2, 1)
    centers = generator.laplace(scale=4 / (lam * size), size=4000)
    line, excess = np.linspace(-near, near, 801), []
    for center in centers:
        value = lam / 2 * (line + center) ** 2 + (1 - lam) * np.abs(line + center)
        weights = np.exp(-size / 2 * (value - value.min()) / (4 * near))
        excess.append(value[np.searchsorted(np.cumsum(weights), generator.random() * weights.sum())])
    told = law.error(size=size, epsilon=1, beta=str(beta))
    assert stats.binomtest(int((np.array(excess) > told).sum()), 4000, beta, "greater").pvalue > 1e-6
    assert stats.binomtest(int((np.array(excess) > told / 40).sum()), 4000, beta, "greater").pvalue < 1e-6


def test_the_rates_are_those_of_the_theorem():
    """`d/(epsilon n)`, and `d^2/(lam (epsilon n)^2)`, up to what beta adds."""
    given = {"size": 10**6, "epsilon": 1, "beta": "0.05"}
    for lam, power in ((None, 1), ("0.1", 2)):
        small, large = (sampled_law(dimension=d, lam=lam).error(**given) for d in (10**2, 10**4))
        assert math.log(large / small) / math.log(100) == pytest.approx(power, abs=0.15 * power)
        law = sampled_law(dimension=5, lam=lam)
        assert law.error(**given) == pytest.approx(10**power * law.error(**given | {"size": 10**7}))
    scaled = sampled_law(dimension=5, lipschitz=3, diameter=2).error(**given)
    assert scaled == pytest.approx(6 * sampled_law(dimension=5).error(**given))


@pytest.mark.parametrize("wrong", [{"dimension": 0}, {"lipschitz": 0}, {"diameter": -1}, {"lam": 0}])
def test_bad_input_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        sampled_law(**{"dimension": 1} | wrong)


FLAT = Assumptions(dimension=20, smoothness=1)
CURVED = replace(FLAT, lam="0.1")


def test_published_shapes_by_hand():
    terms = {"size": 400, "epsilon": "0.5"}
    root = math.sqrt(math.log(10**6))
    assert published_shape(FLAT, **terms) == 20 / 200
    assert published_shape(FLAT, **terms, delta="1e-6") == pytest.approx(math.sqrt(20) * root / 200)
    growing = terms | {"delta": "1e-6", "exponent": "0.25"}
    assert published_shape(FLAT, **growing) == pytest.approx(20 * root / (0.5 * 400**0.25))
    for shape in (terms, terms | {"delta": "1e-6"}, growing):
        flat = published_shape(FLAT, **shape)
        assert published_shape(CURVED, **shape) == pytest.approx(flat**2 / 0.1)
        scaled = replace(FLAT, lipschitz=3, diameter=2)
        assert published_shape(scaled, **shape) == pytest.approx(6 * flat)


@pytest.mark.parametrize("wrong", [{"exponent": "0.1"}, {"delta": "0.1", "exponent": "0.6"}])
def test_shapes_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        published_shape(FLAT, size=9, epsilon=1, **wrong)
