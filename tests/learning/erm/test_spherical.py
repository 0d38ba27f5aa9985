"""The law of the noise of density exp(-|b|/scale), in one and more dimensions, and that the grid never decides."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from chary.learning import optimum as spherical
from chary.learning.optimum import cells, grid_for
from chary.noise import Deviate, Seeded

ALPHA = 1e-6
WRONG = (Fraction(2, 3), Fraction(3, 2))


def drawn(dimension, number, scale=Fraction(1), grid=None, seed=1):
    source = Seeded(seed)
    return np.array([cells([Fraction(0)] * dimension, scale, grid or grid_for(scale), source) for _ in range(number)])


def length_fits(found, scale, shape):
    return stats.kstest(np.linalg.norm(found, axis=1), stats.gamma(shape, scale=float(scale)).cdf).pvalue


@pytest.mark.statistical
def test_in_one_dimension_cells_follow_the_laplace_law():
    """Cells of half a scale around a center that is no grid point, chi-squared."""
    center, grid, source = Fraction(1, 5), Fraction(1, 2), Seeded(3)
    found = np.array([cells([center], Fraction(1), grid, source)[0] for _ in range(3000)])
    edges = np.arange(-6, 8)
    counts = np.bincount(np.searchsorted(edges, found, side="right"), minlength=len(edges) + 1)

    def fits(scale):
        below = stats.laplace.cdf(edges * 0.5, loc=0.2, scale=float(scale))
        expected = np.diff(np.concatenate([[0], below, [1]])) * len(found)
        return stats.chisquare(counts, expected).pvalue

    assert fits(1) > ALPHA
    assert max(map(fits, WRONG)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [2, 3, 20])
def test_the_length_is_gamma_and_the_direction_uniform(dimension):
    """A Gamma law of another shape, as fewer or more radial deviates would give, is told apart."""
    number = 3000 if dimension < 20 else 1000
    found = drawn(dimension, number) * float(grid_for(Fraction(1)))
    assert length_fits(found, 1, dimension) > ALPHA
    assert max(length_fits(found, scale, dimension) for scale in WRONG) < ALPHA
    if dimension < 20:
        assert max(length_fits(found, 1, shape) for shape in (dimension - 0.5, dimension + 0.5)) < ALPHA
    share = (found[:, 0] / np.linalg.norm(found, axis=1)) ** 2
    assert stats.kstest(share, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > ALPHA
    assert stats.binomtest(int((found[:, 0] > 0).sum()), number, 0.5).pvalue > ALPHA


@pytest.mark.statistical
def test_the_law_is_the_same_where_every_cell_needs_more_bits(monkeypatch):
    """A grid of a scale / 2**50, and lengths first known to two bits."""
    monkeypatch.setattr(spherical, "ROOT_BITS", 2)
    grid = Fraction(1, 2**50)
    found = drawn(2, 250, grid=grid).astype(float) * float(grid)
    assert length_fits(found, 1, 2) > ALPHA
    assert max(length_fits(found, scale, 2) for scale in WRONG) < ALPHA


def test_the_same_words_on_a_finer_grid_lie_in_the_same_cells():
    """Where no cell needs more bits, the words are the same, and a cell holds its finer cell."""
    center, scale = [Fraction(1, 3), Fraction(-2, 7), Fraction(5)], Fraction(3, 4)
    for seed in range(200):
        coarse, fine = (cells(center, scale, Fraction(1, bins), Seeded(seed)) for bins in (4, 64))
        assert coarse == [cell // 16 for cell in fine]


def test_bits_that_a_coordinate_has_drawn_of_the_length_stay_for_the_next(monkeypatch):
    """On so fine a grid every cell needs more bits; the deviates only ever become longer."""
    met, measured = [], spherical._length
    monkeypatch.setattr(spherical, "_length", lambda radial, bits: met.append(radial) or measured(radial, bits))
    cells([Fraction(0)] * 3, Fraction(1), Fraction(1, 2**80), Seeded(1))
    assert len(met) > 3
    for before, after in pairwise(met):
        assert all(v.floor >> v.bits - u.bits == u.floor for u, v in zip(before, after, strict=True))
    assert met[-1][0].bits > met[1][0].bits


def test_a_cell_is_told_only_where_all_numbers_that_begin_so_lie_in_it():
    lengths, told = (Fraction(1, 2), Fraction(3, 4)), 0
    for floor, start, unit in product(range(-8, 8), range(5), range(1, 4)):
        corners = [Fraction(start, 3) + Fraction(unit, 2) * length * z for length in lengths for z in _ends(floor)]
        found = spherical._cell(Fraction(start, 3), Fraction(unit, 2), lengths, Deviate(floor, 2))
        inside = math.floor(min(corners)) + 1 > max(corners)
        assert found == (math.floor(min(corners)) if inside else None)
        told += inside
    assert 0 < told < 16 * 5 * 3


def _ends(floor):
    return Fraction(floor, 4), Fraction(floor + 1, 4)


def test_the_center_moves_the_cells():
    shift = 7
    for seed in range(50):
        here = cells([Fraction(1, 3)], Fraction(1), Fraction(1, 8), Seeded(seed))
        there = cells([Fraction(1, 3) + Fraction(shift, 8)], Fraction(1), Fraction(1, 8), Seeded(seed))
        assert there == [here[0] + shift]


@pytest.mark.parametrize("scale", [Fraction(1, 3**50), Fraction(1), Fraction(1023, 1024), Fraction(3**50), Fraction(4)])
def test_the_grid_is_a_power_of_two_below_a_thousandth(scale):
    grid = grid_for(scale)
    assert scale / 2048 < grid <= scale / 1024
    assert min(grid.numerator, grid.denominator) == 1
    assert max(grid.numerator, grid.denominator).bit_count() == 1
