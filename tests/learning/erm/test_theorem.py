"""What is promised of training before there are data: by hand, by brute force, in its rates."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy import optimize, stats

from chary import InvalidParameter
from chary.accounting import zero_concentrated_rho_down
from chary.accounting.schedules import zeta_up
from chary.learning import Assumptions, growing_risk_up, static_risk_up
from chary.learning.risk_bounds import descent_law, gaussian_law

FLAT = Assumptions(dimension=20, smoothness=1)
CURVED = replace(FLAT, lam="0.1")
DELTA = {"epsilon": 1, "delta": "1e-6", "beta": "0.05"}
CHANCE = Fraction(1, 20)
GROWING = DELTA | {"start": 10**4, "exponent": "0.1"}


def test_pure_with_strong_convexity_is_noise_on_the_optimum():
    """`smoothness/2 (2 L/(lam n eps))^2` times the square of a quantile of Gamma(d), above it and near."""
    for beta in ("0.5", "0.05", "1e-9"):
        told = static_risk_up(CURVED, size=10**6, epsilon="0.5", beta=beta)
        exact = 1 / 2 * (2 / (0.1 * 10**6 * 0.5) * stats.gamma.isf(float(beta), 20)) ** 2
        assert exact < told < {"0.5": 1.8, "0.05": 1.45, "1e-9": 1.25}[beta] * exact


def test_pure_without_is_regularised_as_well_as_can_be():
    quantile = optimize.minimize_scalar(
        lambda a: a * (-math.log(0.05) + 20 * math.log(a / (a - 1))), bounds=(1.01, 50), method="bounded"
    ).fun

    def error(lam):
        return (1 + lam) / 2 * (2 / (lam * 10**6) * quantile) ** 2 + lam / 2 * 0.5**2

    best = min(error(10 ** (step / 500)) for step in range(-5000, 2000))
    assert static_risk_up(FLAT, size=10**6, epsilon=1, beta="0.05") == pytest.approx(best, rel=1e-3)


def test_with_a_delta_the_better_box_is_told():
    share = math.sqrt(2 * zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    told = {"size": 10**6, "epsilon": share, "beta": "0.05"}
    ball = descent_law(lipschitz=1, smoothness=1, norm=0.5, dimension=20, tight=CHANCE).error(**told)
    optimum = gaussian_law(moved=20, smoothness=1, dimension=20, tight=CHANCE).error(**told)
    assert static_risk_up(FLAT, size=10**6, **DELTA) == ball
    assert static_risk_up(CURVED, size=10**6, **DELTA) == min(ball, optimum) == optimum
    hardly = replace(FLAT, lam="1e-5")
    assert static_risk_up(hardly, size=10**6, **DELTA) == ball


@pytest.mark.parametrize("size", [10**7, 10**8])
def test_growing_is_the_law_at_the_share_and_the_failure_of_a_size(size):
    """`e0 t^-(1/2+c)` with `e0 = sqrt(2 rho/zeta(1+2c, n))`, and `beta/(2 t^2)`."""
    rho = zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    share = math.sqrt(2 * rho / zeta_up(Fraction("1.2"), 10**4)) * size**-0.6
    chance = CHANCE / (2 * size**2)
    law = descent_law(lipschitz=1, smoothness=1, norm=0.5, dimension=20, tight=chance)
    expected = law.error(size=size, epsilon=share, beta=chance)
    assert growing_risk_up(FLAT, size=size, **GROWING) == pytest.approx(expected, rel=1e-9)


def test_the_rates_are_those_of_the_theorem():
    """A size k times as large divides the excess by k^(p(1/2-c)), up to the logarithm; p = 1, and 2 with a lam."""
    for assumed, power in ((FLAT, 1), (CURVED, 2)):
        for exponent in (Fraction(1, 100), Fraction(1, 5)):
            given = GROWING | {"exponent": exponent}
            near, far = (growing_risk_up(assumed, size=size, **given) for size in (10**12, 10**16))
            slope = math.log(near / far) / math.log(10**4) / power
            assert float(1 / 2 - exponent) - 0.03 < slope < float(1 / 2 - exponent)
    for size in (10**6, 10**8):
        assert static_risk_up(FLAT, size=size, **DELTA) == pytest.approx(
            10 * static_risk_up(FLAT, size=10 * size, **DELTA)
        )
        assert static_risk_up(CURVED, size=size, **DELTA) == pytest.approx(
            100 * static_risk_up(CURVED, size=10 * size, **DELTA)
        )
    slope = [static_risk_up(FLAT, size=size, epsilon=1, beta="0.05") for size in (10**8, 10**11)]
    assert math.log(slope[0] / slope[1]) / math.log(1000) == pytest.approx(2 / 3, abs=0.01)


def test_growing_never_promises_more_than_static_at_the_same_size():
    for assumed in (FLAT, CURVED):
        for size in (10**4, 10**6, 10**9):
            assert static_risk_up(assumed, size=size, **DELTA) <= growing_risk_up(assumed, size=size, **GROWING)


def test_where_nothing_is_learnt_the_middle_of_the_ball_is_told():
    wide = Assumptions(dimension=5, smoothness=2, lipschitz=3, diameter=4)
    assert static_risk_up(wide, size=1, epsilon="0.01", beta="0.05") == 6
    assert static_risk_up(wide, size=1, **DELTA) == growing_risk_up(wide, size=10**4, **GROWING) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Assumptions(dimension=0, smoothness=1),
        lambda: Assumptions(dimension=1, smoothness=0),
        lambda: Assumptions(dimension=1, smoothness=1, lam=2),
        lambda: Assumptions(dimension=1, smoothness=1, lam=0),
        lambda: Assumptions(dimension=1, smoothness=1, diameter=-1),
        lambda: static_risk_up(FLAT, size=0, epsilon=1, beta="0.05"),
        lambda: static_risk_up(FLAT, size=9, epsilon=0, beta="0.05"),
        lambda: static_risk_up(FLAT, size=9, epsilon=1, beta=0),
        lambda: static_risk_up(FLAT, size=9, epsilon=1, beta="0.05", delta=-1),
        lambda: growing_risk_up(FLAT, size=9, **GROWING),
        lambda: growing_risk_up(FLAT, size=10**5, **GROWING | {"delta": 0}),
        lambda: growing_risk_up(FLAT, size=10**5, **GROWING | {"exponent": "0.5"}),
    ],
)
def test_bad_input_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        wrong()
