"""Streaming estimators on streams that were fixed beforehand."""

import math

import numpy as np
import pytest
from scipy import stats

from chary.errors import InvalidParameter
from chary.mechanisms import CountSketch, Estimator, FlajoletMartin, SecondMoment, new_key, words
from chary.mechanisms.sketches import place
from chary.noise import Seeded
from tests.noise.helpers import ALPHA


def fed(estimator, items):
    for item in items:
        estimator.update(item)
    return estimator


@pytest.mark.parametrize("make", [lambda key: FlajoletMartin(key, 256), SecondMoment])
def test_estimators_answer_for_the_stream_so_far(make):
    key = new_key(Seeded(1))
    estimator = make(key)
    assert isinstance(estimator, Estimator)
    assert estimator.estimate() == 0
    assert fed(make(key), [3, "a", 5]).estimate() == fed(make(key), ["a", 5, 3]).estimate() > 0
    with pytest.raises(InvalidParameter):
        make("secret")


def test_repeated_items_count_once():
    key = new_key(Seeded(2))
    once, often = (fed(FlajoletMartin(key, 64), list(range(50)) * times) for times in (1, 4))
    assert once.estimate() == often.estimate()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_elements_are_counted_nearly_exactly(n):
    values = [fed(FlajoletMartin(new_key(Seeded(seed)), 4096), range(n)).estimate() for seed in range(20)]
    assert np.median(values) == pytest.approx(n, rel=0.01)


@pytest.mark.statistical
def test_distinct_counts_err_by_the_error_of_the_literature():
    deviation = 1.04 / math.sqrt(64)
    scaled = []
    for seed in range(150):
        scaled.append((fed(FlajoletMartin(new_key(Seeded(seed)), 64), range(400)).estimate() / 400 - 1) / deviation)
    assert ALPHA < stats.chi2.cdf(np.sum(np.square(scaled)), 150) < 1 - ALPHA
    for wrong in (2 / 3, 3 / 2):
        found = stats.chi2.cdf(np.sum(np.square(scaled)) * wrong**2, 150)
        assert min(found, 1 - found) < ALPHA


@pytest.mark.statistical
def test_second_moments_err_by_the_root_of_two_over_256():
    scaled = []
    for seed in range(200):
        sketch = fed(SecondMoment(new_key(Seeded(seed))), list(range(100)) * 2)
        scaled.append((sketch.estimate() / 400 - 1) / math.sqrt(2 / 256))
    squares = stats.chi2.cdf(np.sum(np.square(scaled)), 200)
    assert ALPHA < squares < 1 - ALPHA
    assert abs(np.mean(scaled)) * math.sqrt(200) < stats.norm.isf(ALPHA)
    for wrong in (2 / 3, 3 / 2):
        found = stats.chi2.cdf(np.sum(np.square(scaled)) * wrong**2, 200)
        assert min(found, 1 - found) < ALPHA


@pytest.mark.statistical
def test_frequencies_are_right_within_the_promise():
    """Ten frequent items over two thousand rare ones, under many keys."""
    frequencies = {f"often {k}": 100 * (k + 1) for k in range(10)}
    norm = math.sqrt(2000 + sum(f * f for f in frequencies.values()))
    wrong = 0
    for seed in range(20):
        sketch = fed(CountSketch(new_key(Seeded(seed)), width=512, depth=7), range(2000))
        for item, amount in frequencies.items():
            sketch.update(item, amount)
        errors = [abs(sketch.estimate(item) - amount) for item, amount in frequencies.items()]
        wrong += sum(error > 3 * norm / math.sqrt(512) for error in errors)
    assert stats.binom.sf(wrong - 1, 200, 0.02) > ALPHA


@pytest.mark.statistical
def test_a_row_errs_without_bias_by_the_norm_over_the_root_of_the_width():
    scaled = []
    for seed in range(200):
        sketch = fed(CountSketch(new_key(Seeded(seed)), width=16, depth=1), range(400))
        scaled.append(sketch.estimate("never seen") / math.sqrt(400 / 16))
    assert abs(np.mean(scaled)) * math.sqrt(200) < stats.norm.isf(ALPHA)
    squares = stats.chi2.cdf(np.sum(np.square(scaled)), 200)
    assert ALPHA < squares < 1 - ALPHA


def test_a_count_sketch_is_linear_and_exact_without_collisions():
    sketch = CountSketch(new_key(Seeded(3)), width=2**16, depth=7)
    for amount in (5, -2, 0.5):
        sketch.update("a", amount)
    sketch.update("b", 7)
    assert sketch.estimate("a") == 3.5
    assert sketch.estimate("b") == 7
    assert sketch.estimate("c") == 0


@pytest.mark.parametrize(("width", "depth"), [(0, 3), (48, 3), (2**17, 3), (64, 2), (64, 9), (64, 0)])
def test_a_count_sketch_has_a_width_and_a_depth(width, depth):
    with pytest.raises(InvalidParameter):
        CountSketch(new_key(Seeded(4)), width=width, depth=depth)


def test_one_item_at_a_time_is_all_at_once():
    key = new_key(Seeded(5))
    sketch = fed(FlajoletMartin(key, 16), range(300))
    registers = np.zeros(16, dtype=np.uint8)
    np.maximum.at(registers, *place(words(key, range(300)), 16))
    assert list(sketch._registers) == registers.tolist()
