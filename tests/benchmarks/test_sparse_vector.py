"""The peer of the threshold benchmark: its noise fits its budget, no less would do, and it stops where it must."""

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.sparse_vector import SparseVector, exponential, textbook, tuned
from scipy.special import logsumexp
from scipy.stats import expon, laplace

from chary.accounting import joint_delta
from chary.accounting.sparse_vector import unit_deviation

DELTA = 1e-6


def transcript(threshold_scale: float, test_scale: float, misses: float, hits: float, tested: Any = laplace) -> float:
    """The log-probability of 40 misses at one value, then two hits at another, threshold 0, by quadrature."""
    noise = np.arange(-200, 400, 0.005)
    return float(
        logsumexp(
            laplace.logpdf(noise, scale=threshold_scale)
            + 40 * tested.logcdf(noise - misses, scale=test_scale)
            + 2 * tested.logsf(noise - hits, scale=test_scale)
        )
    )


def loss(test_noise: float, tested: Any = laplace) -> float:
    """The privacy loss of a tuned round of two hits, epsilon 1, at its worst: one unit lifts the misses only."""
    first = 1 / (1 + 2 ** (2 / 3))
    scales = 1 / first, test_noise * 2 / (1 - first)
    return transcript(*scales, 60, -20, tested) - transcript(*scales, 61, -20, tested)


def test_a_tuned_round_loses_its_epsilon_and_no_more():
    assert 0.95 < loss(1) <= 1 + 1e-4


def test_exponential_tests_lose_no_more_at_the_same_scales():
    assert loss(1, expon) <= 1 + 1e-4


def test_exponential_noise_is_less_its_correction():
    for form in exponential(1.0, DELTA, 10, 1000):
        generator = np.random.default_rng(1)
        noisy = form._test_noise(4000, generator)
        assert noisy.min() >= -form.correction
        assert abs(noisy.mean() - form.test_scale + form.correction) < 5 * form.test_scale / math.sqrt(len(noisy))


def test_less_test_noise_loses_more_than_epsilon():
    assert loss(2 / 3) > 1.05


def test_unit_deviation_is_that_of_the_form():
    form = tuned(1.0, DELTA, 30)[0]
    assert form.rounds == 1
    assert not form.gaussian
    pure = unit_deviation(30) / form.test_deviation + 30 * math.sqrt(2) / form.answer_deviation
    assert pure == pytest.approx(1)


@pytest.mark.parametrize(("epsilon", "hits"), [(1.0, 10), (0.5, 50), (1.0, 200)])
def test_forms_fit_and_a_percent_less_noise_does_not(epsilon: float, hits: int):
    for form in tuned(epsilon, DELTA, hits)[1:]:
        unit = unit_deviation(-(-hits // form.rounds))

        def delta(shrink: float, form: SparseVector = form, unit: float = unit) -> float:
            ratio = math.sqrt(hits) / (shrink * form.answer_deviation)
            return joint_delta(epsilon, form.rounds, unit / (shrink * form.test_deviation), ratio)

        assert form.test_deviation == pytest.approx(form.answer_deviation)
        assert delta(1) <= DELTA < delta(0.99)


def test_textbook_takes_the_quieter_version():
    few, many = textbook(1.0, DELTA, 10), textbook(1.0, DELTA, 200)
    assert few.threshold_scale == pytest.approx(20 * 9 / 8)
    assert many.threshold_scale == pytest.approx(math.sqrt(32 * 200 * math.log(2 / DELTA)) * 9 / 8)
    assert many.test_scale == pytest.approx(2 * many.threshold_scale)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_a_run_reports_the_first_hits_in_order(rounds: int):
    values = np.array([0, 9, 0, 9, 9, 0, 9, 9, 9])
    quiet = SparseVector("quiet", 5, rounds, 1e-9, 1e-9, 1e-9)
    reports = quiet.run(values, 5, np.random.default_rng(1))
    assert reports.tests.tolist() == [1, 3, 4, 6, 7]
    assert reports.values == pytest.approx(9)


def test_a_run_that_meets_too_few_hits_reports_them():
    reports = SparseVector("quiet", 5, 5, 1e-9, 1e-9, 1e-9).run(np.array([9, 0, 9]), 5, np.random.default_rng(1))
    assert reports.tests.tolist() == [0, 2]
