"""Coefficients from noisy squares: exact least squares without noise, shadows by brute force, intervals that hold."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from chary.accounting.least_squares import NoisySquares

TIMES = 300


def drawn(rows, spread=1.0, seed=1):
    """Rows (1, a, b, y) of a linear model, the columns of which are no orthogonal ones."""
    draw = np.random.default_rng(seed)
    a = draw.normal(0.2, 0.4, rows)
    b = 0.5 * a + draw.normal(0, 0.3, rows)
    return np.column_stack([np.ones(rows), a, b, 0.3 + 0.5 * a - 0.2 * b + draw.normal(0, spread, rows)])


def known(rows, scale, *, gaussian=True):
    return NoisySquares(rows.T @ rows, scale, gaussian, 1)


def noisy(exact, draw, times=1.0):
    """With noise of the law that is said, or of another scale."""
    lines, scale = len(exact.sums), exact.scale * times
    if exact.gaussian:
        noise = draw.normal(0, scale / math.sqrt(2), (lines, lines))
        np.fill_diagonal(noise, draw.normal(0, scale, lines))
    else:
        noise = draw.laplace(0, scale, (lines, lines))
    noise = np.triu(noise) + np.triu(noise, 1).T
    return replace(exact, sums=exact.sums + noise)


@pytest.mark.parametrize("gaussian", [True, False])
def test_without_noise_it_is_what_a_statistician_computes(gaussian):
    rows = drawn(400)
    x, y = rows[:, :-1], rows[:, -1]
    truth, left, *_ = np.linalg.lstsq(x, y, rcond=None)
    found = known(rows, 1e-9, gaussian=gaussian).estimates(np.eye(3), "0.9")
    deviations = np.sqrt(left[0] / (400 - 3) * np.diag(np.linalg.inv(x.T @ x)))
    assert [each.value for each in found] == pytest.approx(truth)
    assert [each.sampling_error for each in found] == pytest.approx(deviations)
    squares = known(rows, 1e-9, gaussian=gaussian)
    assert squares.explained == pytest.approx(1 - left[0] / ((y - y.mean()) ** 2).sum())
    assert squares.variance == pytest.approx(left[0] / 397)


@pytest.mark.parametrize("p", [0.0, 2.0])
def test_a_shadow_is_that_of_all_solutions_within_the_noise(p):
    draw = np.random.default_rng(3)
    for _ in range(20):
        root = draw.normal(size=(3, 3))
        matrix, right, row = root @ root.T + np.eye(3), draw.normal(size=3), draw.normal(size=3)
        r = 0.5 * np.linalg.eigvalsh(matrix)[0] ** 2
        found = NoisySquares(np.pad(matrix, ((0, 1), (0, 1))), 1.0, True, 1)._shadow(right, row, p, r)
        # The ellipsoid by its form, whose surface is met from its middle in every direction.
        form = matrix @ matrix - r * np.eye(3)
        middle = np.linalg.solve(form, matrix @ right)
        size = p - right @ right + middle @ form @ middle
        ways = draw.normal(size=(3000, 3))
        ways[0] = np.linalg.solve(form, row)
        surface = middle + ways * np.sqrt(size / np.einsum("ij,jk,ik->i", ways, form, ways))[:, None]
        apart = ((surface @ matrix - right) ** 2).sum(axis=1) - p - r * (surface**2).sum(axis=1)
        assert np.abs(apart).max() < 1e-8 * (1 + np.abs(surface).max() ** 2) * np.abs(matrix).max() ** 2
        told = surface @ row
        assert found.low <= told.min() + 1e-12
        assert told.max() == pytest.approx(found.high, abs=3e-6 * (found.high - found.low))
        assert np.linalg.norm(surface, axis=1).max() <= found.length
        assert np.linalg.norm(surface - np.linalg.solve(matrix, right), axis=1).max() <= found.far


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("scale", [20.0, 100.0, 400.0])
def test_intervals_cover_the_rows_coefficients(gaussian, scale):
    draw, exact = np.random.default_rng(5), known(drawn(20_000), scale, gaussian=gaussian)
    truth = np.linalg.solve(exact.sums[:-1, :-1], exact.sums[:-1, -1])
    missed, bounded, wide = np.zeros(3), 0, []
    for _ in range(TIMES):
        found = noisy(exact, draw).estimates(np.eye(3), "0.8")
        if found[0].value is None:
            continue
        bounded += 1
        missed += [not each.low <= true <= each.high for each, true in zip(found, truth, strict=True)]
        wide.append([(each.high - each.low) / 2 / each.noise_error for each in found])
    assert bounded > 0.9 * TIMES or scale == 400
    assert max(missed) <= stats.binom.isf(1e-6, TIMES, 0.2)
    # Where noise is small, they are hardly wider than those of one normal coefficient.
    assert scale != 20 or np.median(wide) < (2 if gaussian else 3) * stats.norm.isf(0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [True, False])
def test_more_noise_than_was_said_is_not_covered(gaussian):
    draw, exact = np.random.default_rng(9), known(drawn(20_000), 10.0, gaussian=gaussian)
    truth = np.linalg.solve(exact.sums[:-1, :-1], exact.sums[:-1, -1])
    found = [noisy(exact, draw, 8.0).estimates(np.eye(3), "0.8")[1] for _ in range(TIMES)]
    assert sum(not each.low <= truth[1] <= each.high for each in found) > stats.binom.isf(1e-6, TIMES, 0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [True, False])
def test_the_error_by_noise_is_its_standard_deviation(gaussian):
    draw, exact = np.random.default_rng(6), known(drawn(20_000), 20.0, gaussian=gaussian)
    truth = exact.estimates(np.eye(3), "0.95")
    for times in (1.0, 1.5):
        many = [[each.value for each in noisy(exact, draw, times).estimates(np.eye(3), "0.95")] for _ in range(TIMES)]
        ratios = np.var(many, axis=0) / [each.noise_error**2 for each in truth]
        fits = (np.abs(ratios - 1) < 0.45).all()
        assert fits == (times == 1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [True, False])
def test_intervals_of_the_population_cover_its_coefficients(gaussian):
    draw, missed, plain = np.random.default_rng(7), np.zeros(3), np.zeros(3)
    for seed in range(TIMES):
        sample = known(drawn(5000, 3.0, seed), 8.0, gaussian=gaussian)
        found = noisy(sample, draw).estimates(np.eye(3), "0.8")
        truth = (0.3, 0.5, -0.2)
        missed += [not e.population_low <= true <= e.population_high for e, true in zip(found, truth, strict=True)]
        plain += [not e.low <= true <= e.high for e, true in zip(found, truth, strict=True)]
    assert max(missed) <= stats.binom.isf(1e-6, TIMES, 0.2)
    # Those of the rows alone do not: the sample has to be reckoned with.
    assert max(plain) > stats.binom.isf(1e-6, TIMES, 0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("scale", [20.0, 400.0])
def test_columns_that_follow_from_each_other_have_no_bounds(gaussian, scale):
    rows = drawn(20_000)
    rows[:, 2] = 0.5 * rows[:, 1] - 0.1
    draw, exact = np.random.default_rng(8), known(rows, scale, gaussian=gaussian)
    told = sum(noisy(exact, draw).estimates(np.eye(3), "0.8")[1].value is not None for _ in range(TIMES))
    assert told <= stats.binom.isf(1e-6, TIMES, 0.2)


def test_no_rows_have_no_coefficients():
    empty = NoisySquares(np.zeros((3, 3)), 1.0, True, 1)
    assert (empty.estimates(np.eye(2), "0.95")[0].value, empty.variance, empty.explained) == (None, None, None)
