"""Sparse vector: splits of epsilon add up and are the best ones, published formulas, and the exact error."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import SparseNoise, error_up, optimal_total, published_error, sparse_noise, tuned_shares
from chary.accounting.sparse_vector import root_down
from chary.errors import InvalidParameter
from chary.mechanisms import SparseVectorMachine
from chary.noise import Seeded
from tests.mechanisms.sparse_laws import pmf

HITS = [1, 2, 7, 30, 200]


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("hits", HITS)
def test_the_tuned_parts_add_up_to_epsilon_exactly(hits, monotone, values):
    noise = sparse_noise(epsilon="0.3", hits=hits, monotone=monotone, values=values)
    crossings = hits * (1 if monotone else 2)
    answers = hits / noise.answer if noise.answer else 0
    assert 1 / noise.threshold + crossings / noise.test + answers == Fraction(3, 10)
    assert (noise.answer is not None) == values


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("hits", HITS)
def test_no_other_split_has_a_smaller_deviation(hits, monotone):
    def deviation(share):
        return math.hypot(1 / share, hits * (1 if monotone else 2) / (1 - share))

    share = float(tuned_shares(hits, monotone=monotone, values=False)[0])
    assert deviation(share) == pytest.approx(
        min(deviation(other) for other in np.linspace(0.001, 0.999, 999)), rel=1e-3
    )
    assert deviation(share) <= deviation(share * 1.01)
    assert deviation(share) <= deviation(share * 0.99)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("hits", HITS)
def test_values_and_tests_deviate_equally(hits, monotone):
    noise = sparse_noise(epsilon=1, hits=hits, monotone=monotone, values=True)
    assert math.hypot(noise.threshold, noise.test) == pytest.approx(float(noise.answer), rel=1e-5)


@pytest.mark.parametrize(
    ("value", "degree"), [(Fraction(64), 3), (Fraction(2), 2), (Fraction(10**12), 3), (Fraction(1, 7), 2)]
)
def test_roots_are_the_largest_that_fit(value, degree):
    root = root_down(value, degree)
    assert root**degree <= value < (root + Fraction(1, 10**6)) ** degree


def test_the_published_form_is_the_published_formula():
    assert sparse_noise(epsilon=2, hits=1, form="published") == SparseNoise(1, Fraction(1), Fraction(2), None, True)
    noise = sparse_noise(epsilon=1, hits=5, form="published", values=True)
    assert (noise.threshold, noise.test, noise.answer) == (
        10 * Fraction(9, 8),
        20 * Fraction(9, 8),
        10 * Fraction(9, 2),
    )
    noise = sparse_noise(epsilon=1, hits=200, delta=1e-6, form="published", values=True)
    sigma = math.sqrt(32 * 200 * math.log(2e6))
    assert float(noise.threshold) == pytest.approx(sigma * 9 / 8)
    assert float(noise.test) == pytest.approx(2 * sigma * 9 / 8)
    assert float(noise.answer) == pytest.approx(sigma * 9 / 2)
    assert float(noise.threshold) >= sigma * 9 / 8 * (1 - 1e-15)


@pytest.mark.parametrize(
    ("epsilon", "delta", "hits"), list(itertools.product(["0.1", "1", "3"], ["1e-9", "1e-3", "0.4"], [1, 20, 500]))
)
def test_the_published_form_with_a_delta_keeps_it_by_the_best_composition(epsilon, delta, hits):
    try:
        noise = sparse_noise(epsilon=epsilon, hits=hits, delta=delta, form="published", values=True)
    except InvalidParameter:
        assert float(epsilon) > 1
        return
    half = float(delta) / 2
    rounds = optimal_total(2 / float(noise.threshold), hits, half)
    answers = optimal_total(1 / float(noise.answer), hits, half)
    assert rounds <= 8 / 9 * float(epsilon)
    assert answers <= 1 / 9 * float(epsilon)


def test_an_epsilon_that_the_corollary_does_not_cover_is_refused():
    for epsilon, hits in ((200, 1), (10**5, 3)):
        with pytest.raises(InvalidParameter, match="not proved"):
            sparse_noise(epsilon=epsilon, hits=hits, delta=1e-6, form="published")


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"hits": 0},
        {"hits": 1.5},
        {"delta": -1},
        {"delta": 1},
        {"delta": 1e-6},
        {"form": "broken"},
        {"form": "published", "monotone": True},
    ],
)
def test_bad_sizes_are_refused(given):
    with pytest.raises(InvalidParameter):
        sparse_noise(**({"epsilon": 1, "hits": 3} | given))


def failure(noise, tests, error):
    """By definition, for a threshold drawn once: the chance that one of the tests, or of the values, is off by more."""
    shifts = np.arange(-3000, 3001)
    near = np.array([pmf(noise.test, np.arange(shift - error, shift + error + 1)).sum() for shift in shifts])
    kept = (pmf(noise.threshold, shifts) * near**tests).sum()
    if noise.answer is not None:
        kept *= pmf(noise.answer, np.arange(-error, error + 1)).sum() ** noise.hits
    return 1 - kept


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(("epsilon", "hits", "tests"), [(2, 1, 1), (1, 1, 100), (1, 3, 10), (5, 2, 10**6)])
def test_the_error_is_the_least_that_is_kept(epsilon, hits, tests, values):
    noise = sparse_noise(epsilon=epsilon, hits=hits, monotone=True, values=values)
    for confidence in ("0.5", "0.95", "0.999"):
        error = error_up(noise, tests=tests, confidence=confidence)
        assert failure(noise, tests, error) <= 1 - float(confidence) < failure(noise, tests, error - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(10**7)])
def test_small_and_large_scales_follow_the_same_law(scale):
    noise = SparseNoise(1, scale, scale, None, False)
    error = error_up(noise, tests=100, confidence="0.95")
    usual = error_up(SparseNoise(1, Fraction(1000), Fraction(1000), None, False), tests=100, confidence="0.95")
    assert error <= 1.01 * usual * float(scale) / 1000 + 2
    assert error >= 0.99 * usual * float(scale) / 1000 - 2


@pytest.mark.parametrize("redrawn", [False, True])
@pytest.mark.parametrize(("hits", "tests"), [(1, 1), (30, 1), (30, 40), (200, 500)])
def test_thresholds_drawn_anew_count_as_often_as_they_are_drawn(redrawn, hits, tests):
    """By enumeration of the farthest of all thresholds: law of |noise|, its power, and what tests make of it."""
    noise = SparseNoise(hits, Fraction(20), Fraction(30), None, redrawn)
    far = np.arange(0, 2000)
    within = np.cumsum(np.where(far == 0, 1, 2) * np.exp(-far / 20)) * np.tanh(1 / 40)
    chances = np.diff(within ** (hits if redrawn else 1), prepend=0.0)

    def failing(error):
        spread = np.arange(-9000, 9001)
        law = np.cumsum(np.exp(-np.abs(spread) / 30) * np.tanh(1 / 60))
        inside = law[9000 + far + error] - law[9000 + far - error - 1]
        return float(chances @ (1 - np.minimum(1, inside) ** tests))

    error = error_up(noise, tests=tests, confidence="0.95")
    assert failing(error) <= 0.05 * (1 + 1e-9)
    assert failing(error - 2) > 0.05


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(("hits", "delta"), [(1, 0), (5, 0), (5, 1e-6), (200, 1e-6)])
@pytest.mark.parametrize("tests", [1, 1000])
def test_it_is_below_the_published_bound(hits, delta, tests, values):
    sizes = {"epsilon": 1, "hits": hits, "delta": delta, "values": values}
    error = error_up(sparse_noise(**sizes, form="published"), tests=tests, confidence="0.95")
    assert error < published_error(**sizes, tests=tests, confidence="0.95") < 20 * error


def test_published_bounds_are_the_published_formulas():
    sizes = {"epsilon": 2, "tests": 50, "confidence": 0.9}
    assert published_error(**sizes, hits=1) == pytest.approx(8 * (math.log(50) + math.log(20)) / 2)
    assert published_error(**sizes, hits=3, values=True) == pytest.approx(27 * (math.log(50) + math.log(120)) / 2)
    spread = math.sqrt(8 * 3 * math.log(2e6))
    with_delta = published_error(**sizes, hits=3, delta=1e-6, values=True)
    assert with_delta == pytest.approx(9 * (math.log(50) + math.log(120)) * spread / 2)


@pytest.mark.parametrize(("name", "bad"), [("tests", 0), ("tests", 2.5), ("confidence", 1), ("confidence", 0)])
def test_bad_questions_are_refused(name, bad):
    noise = sparse_noise(epsilon=1, hits=2)
    given = {"tests": 10, "confidence": "0.9"} | {name: bad}
    with pytest.raises(InvalidParameter):
        error_up(noise, **given)
    with pytest.raises(InvalidParameter):
        published_error(epsilon=1, hits=2, **given)


def test_a_confidence_beyond_the_precision_is_refused():
    with pytest.raises(InvalidParameter, match="too close to 1"):
        error_up(sparse_noise(epsilon=1, hits=2), tests=10, confidence=1 - Fraction(1, 10**17))


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["tuned", "published"])
def test_runs_are_as_accurate_as_told(form):
    """Values just beyond the error are called wrongly in at most a tenth of the runs; at a third of it, in more."""
    noise = sparse_noise(epsilon=1, hits=3, form=form, values=True)
    error = error_up(noise, tests=60, confidence="0.9")
    machine, source, runs = SparseVectorMachine(noise, 1), Seeded(11), 1500

    def wrong(distance):
        values = np.full(60, -distance)
        values[[20, 40, 59]] = distance
        failures = 0
        for _ in range(runs):
            _, crossed = machine.step(machine.start(source), values, 0, source)
            right = crossed.positions == [20, 40, 59]
            failures += not (right and np.abs(np.array(crossed.values) - distance).max() <= distance)
        return failures / runs

    assert wrong(error + 1) <= 0.1 + 5 * math.sqrt(0.09 / runs)
    assert wrong(error // 3) > 0.2
