"""Enclosures of noise: against exact sums by ball arithmetic, and against each other where formulas change over."""

import math
from decimal import Decimal
from fractions import Fraction

import flint
import pytest

from chary.accounting import GaussianLaw, LaplaceLaw
from chary.accounting.noise_laws import GUARD, ONE, Mass, level_down, share_up
from chary.accounting.numerics import precise, scaled_tail
from chary.errors import InvalidParameter
from chary.mechanisms import Gaussian, Laplace
from chary.noise import SMALLEST_SCALE, SMALLEST_VARIANCE
from chary.noise.source import LARGEST_SCALE, LARGEST_VARIANCE
from tests.accounting.enclosures import many_digits, number
from tests.accounting.inference.laws import gaussian_sum, gaussian_table, laplace_table


def ball(value):
    return number(Fraction(value))


def side(noise, first, last):
    with precise():
        return noise.side(first, last)


@pytest.mark.parametrize("place", ["0", "0.001", "1", "5.99", "6", "6.01", "12", "40", "1000"])
def test_the_scaled_normal_tail(place):
    with precise():
        low, high = scaled_tail(Decimal(place))
    with many_digits():
        u = number(place)
        root = flint.arb(2).sqrt()
        true = (u * u / 2).exp() * (u / root).erfc() * (flint.arb.pi() / 2).sqrt()
        slack = number("1e-35")
        assert ball(low) * (1 - slack) <= true <= ball(high) * (1 + slack)
        assert ball(high) - ball(low) <= true * slack


GAUSSIAN = [
    (1, 0, 30),
    ("0.01", 0, 3),
    ("0.01", 5, 9),
    (200, 0, 12),
    (200, 0, 400),
    (200, 190, 500),
    (300, 0, 700),
    (300, 17, 400),
    (300, 60, 900),
    (2500, 0, 251),
    (2500, 30, 3000),
    (2500, 300, 3000),
    (40_000, 0, 5000),
    (40_000, 100, 360),
    (40_000, 1600, 1900),
    (40_000, 4000, 9000),
]


@pytest.mark.parametrize(("variance", "first", "last"), GAUSSIAN)
def test_gaussian_sums_are_enclosed(variance, first, last):
    found = side(GaussianLaw(variance), first, last)
    assert found.exponent == Fraction(first * first) / (2 * Fraction(variance))
    with many_digits():
        true = gaussian_sum(variance, first, last)
        slack = number("1e-25")
        assert ball(found.low) * (1 - slack) <= true <= ball(found.high) * (1 + slack)
        assert ball(found.high) - ball(found.low) <= true * number("2e-6")


@pytest.mark.parametrize(
    ("variance", "first"), [(1, 0), (300, 0), (300, 100), (40_000, 0), (40_000, 3000), (40_000, 20_000)]
)
def test_gaussian_tails_are_enclosed(variance, first):
    found = side(GaussianLaw(variance), first, None)
    with many_digits():
        true = gaussian_sum(variance, first, first + 16 * (math.isqrt(variance) + 1))
        # What is left out is about 1e-40 and has to be added; 60 digits round to less.
        slack = number("1e-50")
        assert ball(found.low) * (1 - slack) <= true <= ball(found.high) * (1 + slack)
        assert ball(found.high) - ball(found.low) <= true * number("2e-6")


@pytest.mark.parametrize("noise", [LaplaceLaw(2**40), GaussianLaw(2**80), LaplaceLaw("1/1024"), GaussianLaw("1e-6")])
def test_parts_add_up_at_the_ends_of_the_domain(noise):
    """The share of a part and of the rest are 1 together, wherever the law is cut."""
    cuts = [-(2**70), -(2**40), -5, 0, 1, 2, 2**20, 2**41, 2**43]
    for cut in cuts:
        with precise():
            part, rest = noise.masses(cut, None), noise.masses(None, cut - 1)
            together = share_up(part, rest) + share_up(rest, part)
        assert 1 <= together <= 1 + Decimal("1e-20")


def test_comparisons_keep_a_distance():
    with precise():
        third = share_up([Mass(Fraction(5), ONE, ONE)], [Mass(Fraction(5), Decimal(2), Decimal(2))])
        assert Fraction(1, 3) < Fraction(third) < Fraction(1, 3) * (1 + 2 * Fraction(GUARD))
        assert Fraction(1, 40) * (1 - 2 * Fraction(GUARD)) < Fraction(level_down(Fraction(1, 40))) < Fraction(1, 40)


def test_a_mass_beyond_all_powers_lowers_no_share():
    """`exp(-10^7)` is told as `exp(-10^6)`, which is an upper bound only."""
    far, near = Mass(Fraction(10**7), ONE, Decimal("1e500000")), Mass(Fraction(0), ONE, ONE)
    with precise():
        assert share_up([near], [Mass(far.exponent, far.high, far.high)]) == 1
        assert share_up([far], [near]) > 0


@pytest.mark.parametrize("width", [1, 100, 1000, 2**30])
def test_a_narrow_piece_of_wide_noise(width):
    """Against the density: it hardly changes over the piece."""
    sigma = 2**40
    with precise():
        noise = GaussianLaw(sigma**2)
        part = noise.masses(sigma, sigma + width - 1)
        found = float(share_up(part, [*noise.masses(None, sigma - 1), *noise.masses(sigma + width, None)]))
    assert found == pytest.approx(width * math.exp(-0.5) / (sigma * math.sqrt(2 * math.pi)), rel=2e-3)


@pytest.mark.parametrize(
    ("noise", "table"),
    [(LaplaceLaw(3), laplace_table(3, 150)), (GaussianLaw(9), gaussian_table(9, 150))],
    ids=["Laplace", "Gaussian"],
)
def test_tails_and_reaches(noise, table):
    for distance in range(-12, 13):
        true = table[distance + 150 :].sum()
        assert true * (1 - 1e-12) <= float(noise.at_least_up(distance)) <= true * (1 + 1e-12)
    for chance in ("0.7", "0.5", "0.3", "0.01", "1e-9"):
        reach = noise.reach_up(chance)
        assert table[150 + reach :].sum() <= float(Fraction(chance))
        assert reach == 0 or table[149 + reach :].sum() > float(Fraction(chance))


def test_chances_too_small_for_floats():
    assert 0 < LaplaceLaw(1).at_least_up(10**9) <= Fraction(1, 10**330)
    assert LaplaceLaw(10).reach_up("1e-300") == math.ceil(10 * (300 * math.log(10) - math.log(1 + math.exp(-0.1))))


def test_mechanisms_tell_their_law():
    assert Laplace.for_epsilon("0.05", sensitivity=1).law() == LaplaceLaw(20)
    assert Gaussian.for_rho("0.005", l2_squared=1).law() == GaussianLaw(100)


def test_the_domain_is_that_of_the_samplers():
    for scale in (SMALLEST_SCALE, LARGEST_SCALE):
        assert LaplaceLaw(scale).scale == scale
    for variance in (SMALLEST_VARIANCE, LARGEST_VARIANCE):
        assert GaussianLaw(variance).sigma_squared == variance
    for wrong in (0, -1, SMALLEST_SCALE / 2, 2 * LARGEST_SCALE, "x"):
        with pytest.raises(InvalidParameter):
            LaplaceLaw(wrong)
    for wrong in (0, -1, SMALLEST_VARIANCE / 2, 2 * LARGEST_VARIANCE, "x"):
        with pytest.raises(InvalidParameter):
            GaussianLaw(wrong)
