"""Two-sided sharp tests: the exact law by enumeration, values of any size, many values at once."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import sharp_table
from chary.accounting.sharp_tests import TwoSidedTable
from chary.errors import InvalidParameter
from chary.mechanisms.threshold_tests import TwoSidedSampler
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.test_sharp import DRAWS, QUARTERS, statistic
from tests.noise.helpers import ALPHA, Scripted


@pytest.mark.parametrize("value", range(-15, 16))
def test_the_law_by_all_words_that_matter(value):
    made = TwoSidedTable(QUARTERS, 6)
    hits = [
        TwoSidedSampler(made).step(value, Scripted([byte, lead << 62])) for byte, lead in product(range(256), range(4))
    ]
    assert Fraction(sum(hits), len(hits)) == made.hit_chance(value)


@pytest.mark.statistical
def test_many_values_follow_the_law_and_not_one_a_tenth_steeper():
    made, steeper = (
        TwoSidedTable(sharp_table(order="18", price=Fraction("0.19295") * Fraction(more), steps=3), 120)
        for more in ("1", "1.21")
    )
    values = np.arange(-250, 250, 13)
    drawn = TwoSidedSampler(made).hits(np.repeat(values, DRAWS), Seeded(9)).reshape(values.size, DRAWS).sum(axis=1)
    assert stats.chi2.sf(statistic(values, drawn, made), values.size) > ALPHA
    assert stats.chi2.sf(statistic(values, drawn, steeper), values.size) < ALPHA


def test_values_of_any_size_are_far_out():
    sampler = TwoSidedSampler(TwoSidedTable(sharp_table(order=5, price="0.38428"), 300))
    for dtype in (np.int64, object):
        far = np.array([-(2**63), 2**63 - 1, 0], dtype=dtype)
        assert sampler.hits(far, OperatingSystem()).tolist() == [True, True, False]
    assert sampler.hits(np.array([2**64 - 1], dtype=np.uint64), OperatingSystem()).tolist() == [True]
    assert sampler.step(-(10**30), OperatingSystem())
    assert sampler.hits(np.array([], dtype=np.int64), OperatingSystem()).shape == (0,)


def test_what_is_no_vector_of_integers_is_refused_without_being_shown():
    sampler = TwoSidedSampler(TwoSidedTable(QUARTERS, 3))
    for values in (np.array([0.5]), np.array([True]), np.array(["7654"])):
        with pytest.raises(InvalidParameter) as refused:
            sampler.hits(values, OperatingSystem())
        assert "7654" not in str(refused.value)
    assert sampler.event() == QUARTERS.test
