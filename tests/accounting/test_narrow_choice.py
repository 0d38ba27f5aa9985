"""The price of a hit of a narrow choice: no pair of laws exceeds it, and some come near."""

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest

from chary.accounting import NarrowChoice, Targeted, ZeroConcentrated, narrow_price_up
from chary.errors import InvalidParameter

SIZES = ["0.01", "0.05", "0.2"]
ORDERS = [Fraction(3, 2), Fraction(3), Fraction(9, 2)]


def pairs(epsilon, generator, count=4000):
    """Laws on three outcomes whose log-ratios lie in an interval of length epsilon around 0, the last one the prior."""
    low = -generator.random(count) * epsilon
    ratios = np.exp(low[:, None] + epsilon * generator.choice([0.0, 1.0, 0.5, 0.01, 0.99], (count, 3)))
    theirs = generator.dirichlet([0.3, 0.3, 1.0], count)
    ours = theirs * ratios
    logs = np.log(ratios) - np.log(ours.sum(axis=1, keepdims=True))
    kept = (theirs > 1e-9).all(axis=1)
    return np.exp(logs[kept]), theirs[kept]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES)
def test_no_pair_exceeds_the_price(size, order):
    psi, a = float(narrow_price_up(size, order)), float(order)
    ratios, theirs = pairs(float(size), np.random.default_rng(1))
    moments = theirs * ratios**a
    assert np.ptp(np.log(ratios), axis=1).max() <= float(size) * (1 + 1e-9)
    assert (moments[:, 2] + exp(-psi) * moments[:, :2].sum(axis=1)).max() <= 1 + 1e-12


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES)
def test_a_prior_that_is_nearly_certain_comes_near(size, order):
    rare, a, epsilon = 1e-7, float(order), float(size)
    usual = 1 / (1 - rare + rare * exp(-epsilon))
    other = usual * exp(-epsilon)
    needed = log(rare * other**a / (1 - (1 - rare) * usual**a))
    assert needed == pytest.approx(float(narrow_price_up(size, order)), rel=1e-4)


@pytest.mark.parametrize("size", SIZES[:2])
def test_it_costs_less_than_half_of_any_call_and_no_more_than_a_quarter_of_a_release(size):
    choice = NarrowChoice(size)
    for order in ORDERS:
        assert choice.hit_price_up(order) < Targeted(size).hit_price_up(order) / 2
        assert choice.log_moment_up(order) == ZeroConcentrated(Fraction(size) ** 2 / 8).log_moment_up(order)
        assert choice.log_moment_up(order) < choice.hit_price_up(order)


def test_where_there_is_no_price():
    assert narrow_price_up("0.5", Fraction(3)) is None
    assert narrow_price_up(10**5, Fraction(100)) is None
    for order in (Fraction(1), Fraction(1, 2)):
        with pytest.raises(InvalidParameter):
            narrow_price_up("0.1", order)
    with pytest.raises(InvalidParameter):
        NarrowChoice(-1)
