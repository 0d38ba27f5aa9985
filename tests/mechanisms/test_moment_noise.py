"""Noise on moments: its sensitivity by brute force on tiny domains, its law, and bounds in every direction."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import Pure, ZeroConcentrated
from chary.accounting.accuracy import angle_up, gaussian_norm_up, laplace_norm_up, length_up, spectrum
from chary.data import NeighborRelation, second_moments
from chary.data.queries.bodies import body_of, query_of
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Gaussian, Laplace
from chary.mechanisms.workloads import MomentNoise
from chary.noise import Seeded


def moments(row):
    """What one row adds to all answers."""
    d = len(row)
    return np.array([1, *row, *(row[i] * row[j] for i in range(d) for j in range(i, d))])


def domain(columns, steps, squared):
    box = product(range(-steps, steps + 1), repeat=columns)
    return [row for row in box if sum(s * s for s in row) <= squared]


def made(columns, steps, squared, *, rows=1, replace=False, **size):
    most = min(columns * steps, math.isqrt(columns * squared))
    return MomentNoise(columns, squared, most, rows, replace, **size)


def each_noise(noise):
    """The noise of every entry, in order."""
    d, (count, sums, squares, products) = noise.columns, noise.noises
    pairs = [squares if i == j else products for i in range(d) for j in range(i, d)]
    return [count, *[sums] * d, *pairs]


def changes(rows, replace):
    """What neighbours differ by: a row or none in place of another."""
    added = [moments(row) for row in rows]
    nothing = np.zeros_like(added[0])
    return [a - b for a in [*added, nothing] for b in [*added, nothing]] if replace else added


TINY = [(1, 3, 9), (2, 2, 8), (2, 3, 9), (2, 3, 5), (3, 2, 12), (3, 2, 4)]


@pytest.mark.parametrize(("columns", "steps", "squared"), TINY)
@pytest.mark.parametrize("replace", [False, True])
def test_no_row_costs_more_than_rho_and_one_does(columns, steps, squared, replace):
    noise = made(columns, steps, squared, replace=replace, rho="0.01")
    variances = [float(each.sigma_squared) for each in each_noise(noise)]
    rows = domain(columns, steps, squared)
    rho = max(sum(d * d / (2 * v) for d, v in zip(change, variances, strict=True)) for change in changes(rows, replace))
    assert rho <= 0.01 * (1 + 1e-12)
    longest = max(sum(s * s for s in row) for row in rows)
    if not replace and longest == squared:
        assert rho == pytest.approx(0.01)
    if replace and (columns, steps, squared) == (2, 2, 8):
        assert rho >= 0.0095  # the constant is a whole number, so two rows are not quite at the worst angle


def test_replacing_attains_the_bound_where_rows_can_stand_at_the_worst_angle():
    """Two rows of full length whose product is -c^2."""
    noise = MomentNoise(2, 100, 14, 1, True, rho=1)
    assert noise.constant == 5
    variances = [float(each.sigma_squared) for each in each_noise(noise)]
    first, second = (10.0, 0.0), (-2.5, math.sqrt(100 - 2.5**2))
    change = moments(first) - moments(second)
    assert sum(d * d / (2 * v) for d, v in zip(change, variances, strict=True)) == pytest.approx(1)


@pytest.mark.parametrize(("columns", "steps", "squared"), TINY)
@pytest.mark.parametrize("replace", [False, True])
def test_no_row_costs_more_than_epsilon(columns, steps, squared, replace):
    noise = made(columns, steps, squared, replace=replace, epsilon="0.5")
    scales = [float(each.scale) for each in each_noise(noise)]
    rows = domain(columns, steps, squared)
    epsilon = max(sum(abs(d) / b for d, b in zip(change, scales, strict=True)) for change in changes(rows, replace))
    assert epsilon <= 0.5 * (1 + 1e-12)
    if not replace and squared == columns * steps**2 and (steps**2 * columns + (columns * steps) ** 2) % 2 == 0:
        assert epsilon == pytest.approx(0.5)


def test_several_rows_of_a_unit_cost_no_more():
    noise = made(2, 2, 8, rows=2, replace=True, rho="0.01")
    variances = [float(each.sigma_squared) for each in each_noise(noise)]
    rows = domain(2, 2, 8)
    sums = {tuple(moments(one) + moments(other)) for one in rows for other in rows} | {(0,) * 6}
    table = np.array(sorted(sums))
    weighted = table / np.sqrt(2 * np.array(variances))
    apart = np.abs(weighted[:, None] - weighted[None]) ** 2
    assert apart.sum(axis=2).max() <= 0.01 * (1 + 1e-12)
    assert made(2, 2, 8, rows=2, rho=1).size == 4 * made(2, 2, 8, rho=1).size
    assert made(2, 2, 8, rows=2, epsilon=1).size == 2 * made(2, 2, 8, epsilon=1).size


def test_the_event_is_the_size_that_was_said():
    assert made(2, 2, 8, rho="0.01").event() == ZeroConcentrated(Fraction(1, 100))
    assert made(2, 2, 8, epsilon="0.1").event() == Pure("0.1")
    kinds = {type(each) for each in made(2, 2, 8, rho=1).noises}
    assert kinds == {Gaussian}
    assert {type(each) for each in made(2, 2, 8, epsilon=1).noises} == {Laplace}
    for wrong in (0, -1, "x"):
        with pytest.raises(InvalidParameter):
            made(2, 2, 8, rho=wrong)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [{"rho": "0.02"}, {"epsilon": "0.7"}])
def test_every_entry_has_its_own_noise(size):
    noise, times, source = made(2, 10, 200, **size), 3000, Seeded(4)
    truth = np.arange(6) * 1000
    found = np.array([noise.apply(truth, source) - truth for _ in range(times)], dtype=float)
    for place, each in enumerate(each_noise(noise)):
        for factor in (1, 2 / 3, 1.5):
            if isinstance(each, Gaussian):
                ratio = (found[:, place] ** 2).sum() / float(each.sigma_squared) / factor**2
                fits = 1e-6 < stats.chi2.cdf(ratio, times) < 1 - 1e-6
            else:
                ratio = 2 * np.abs(found[:, place]).sum() / float(each.scale) / factor
                fits = 1e-6 < stats.chi2.cdf(ratio, 2 * times) < 1 - 1e-6
            assert fits == (factor == 1)
    correlations = np.corrcoef(found.T)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < stats.norm.isf(5e-7 / 15) / math.sqrt(times)


@pytest.mark.statistical
@pytest.mark.parametrize("lines", [1, 3, 8])
@pytest.mark.parametrize("scale", [1, 40])
def test_norms_are_within_their_bounds(lines, scale):
    source, times = Seeded(9), 300
    size = lines * (lines + 1) // 2
    first, second = np.triu_indices(lines)
    gaussian = Gaussian(Fraction(scale**2), 1), Gaussian(Fraction(scale**2, 2), 1)
    laplace = Laplace(Fraction(scale), 1), Laplace(Fraction(scale), 1)
    bounds = (
        (gaussian, gaussian_norm_up(lines, variance=scale**2, beta="0.05")),
        (laplace, laplace_norm_up(lines, scale=scale, beta="0.05")),
    )
    for (on, off), bound in bounds:
        beyond = 0
        for _ in range(times):
            entries = np.where(first == second, on.draw(source, size), off.draw(source, size)).astype(float)
            matrix = np.zeros((lines, lines))
            matrix[first, second] = entries
            beyond += np.linalg.norm(matrix + np.triu(matrix, 1).T, 2) > bound
        assert stats.binomtest(beyond, times, 0.05, alternative="greater").pvalue > 1e-6
        assert bound < 60 * scale


def test_the_length_of_noise_is_beyond_that_of_gaussians():
    for entries in (1, 3, 15, 100):
        for beta in (0.5, 0.05, 1e-6):
            bound = length_up(entries, beta=beta)
            assert math.sqrt(stats.chi2.isf(beta, entries)) <= bound
    assert length_up(100, beta="0.05") < 1.2 * math.sqrt(stats.chi2.isf(0.05, 100))


def test_eigenvalues_and_spaces_are_off_by_no_more_than_the_matrix():
    draw = np.random.default_rng(5)
    for _ in range(200):
        truth = draw.normal(size=(4, 4))
        truth = truth @ truth.T
        error = draw.normal(size=(4, 4)) * draw.choice([0.02, 0.2])
        error = error + error.T
        noisy, exact, within = spectrum(truth + error), spectrum(truth), float(np.linalg.norm(error, 2))
        assert np.abs(noisy.values - exact.values).max() <= within * (1 + 1e-9)
        for leading in (1, 2):
            bound = angle_up(noisy.values, leading, within)
            overlap = np.linalg.svd(noisy.vectors[:leading] @ exact.vectors[:leading].T, compute_uv=False).min()
            angle = math.degrees(math.acos(min(1.0, overlap)))
            assert bound is None or angle <= bound + 1e-5
    assert angle_up(np.array([2.0, 1.0]), 1, 0.6) is None
    assert angle_up(np.array([2.0, 1.0]), 2, 0.6) == 0


def test_contributions_need_a_limit_and_know_their_range():
    asked = second_moments({"a": (0, 1), "b": (0, 1)}, steps=10)
    assert asked.contribution(NeighborRelation("add_remove", None)).high == 100
    with pytest.raises(InvalidQuery, match="max_rows_per_unit=1"):
        asked.contribution(NeighborRelation("add_remove", "u"))
    limited = second_moments({"a": (0, 1)}, steps=10, max_rows_per_unit=3)
    assert limited.contribution(NeighborRelation("add_remove", "u")).high == 300
    with pytest.raises(InvalidQuery):
        limited.contribution(NeighborRelation("add_remove", None))
    assert second_moments({"a": (0, 1), "b": (0, 1)}, steps=10, longest=1).squared == 100
    for wrong in (
        {},
        {"a": (1, 1)},
        {"a": (2, 1)},
        {"a": 3},
        [("a", 0, 1)],
        {"a": (0, 1e300)},
        {"a": (0, 1e-300)},
        {str(k): (0, 1) for k in range(33)},
    ):
        with pytest.raises(InvalidQuery):
            second_moments(wrong)
    for wrong in ({"steps": 0}, {"steps": 5000}, {"steps": 10, "longest": "0.01"}, {"longest": 0}):
        with pytest.raises((InvalidQuery, InvalidParameter)):
            second_moments({"a": (0, 1)}, **wrong)


def test_they_are_read_from_their_own_body():
    for asked in (
        second_moments({"a": (0, 1), "b": ("-0.5", 7)}, steps=10, longest="0.3", where="a > 1"),
        second_moments({"a": (0, 1)}, max_rows_per_unit=3),
    ):
        assert query_of(body_of(asked)) == asked
    assert "in [0, 1]" in second_moments({"a": (0, 1)}, where="b > 2").describe()
