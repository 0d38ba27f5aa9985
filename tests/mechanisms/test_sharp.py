"""Sharp tests: the exact law by enumeration, ties, both tails, many values at once against the law."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import SharpTest, sharp_table
from chary.accounting.sharp_tests import BITS, ONE, SharpTable
from chary.errors import InvalidParameter
from chary.mechanisms.threshold_tests import SharpSampler
from chary.noise import OperatingSystem, Seeded
from tests.noise.helpers import ALPHA, Scripted, split

TEST = SharpTest(5, "0.38428")
QUARTERS = SharpTable(TEST, 4, (ONE // 4, ONE // 2, ONE // 4 * 3), 1)
DRAWS = 100_000


@pytest.mark.parametrize("value", range(-9, 10))
def test_the_law_by_all_words_that_matter(value):
    """A byte says which of two places counts, the two leading bits of a word whether it hits."""
    sampler = SharpSampler(QUARTERS)
    hits = [sampler.step(value, Scripted([byte, lead << 62])) for byte, lead in product(range(256), range(4))]
    assert Fraction(sum(hits), len(hits)) == QUARTERS.hit_chance(value)


@pytest.mark.parametrize("place", [3, 40, -3, -40])
@pytest.mark.parametrize(("more", "hit"), [(-1, True), (0, False), (1, False)])
def test_all_bits_decide_where_the_leading_ones_are_equal(place, more, hit):
    made = sharp_table(order=5, price="0.38428")
    number = made.chances[made.place(place)] + more
    assert SharpSampler(made).step(place, Scripted(split(number, BITS // 64))) is hit


def test_a_difference_in_the_first_word_needs_no_more():
    made = sharp_table(order=5, price="0.38428")
    leading = made.chances[made.centre + 3] >> (BITS - 64)
    for word, hit in ((leading - 1, True), (leading + 1, False)):
        source = Scripted([word])
        assert SharpSampler(made).step(3, source) is hit
        assert source.asked == [64]


def statistic(values, hits, table):
    """Chi-square of the hits of each value."""
    chances = np.array([float(table.hit_chance(int(value))) for value in values])
    expected = chances * DRAWS
    return float((((hits - expected) ** 2) / (expected * (1 - chances))).sum())


@pytest.mark.statistical
@pytest.mark.parametrize(("prices", "steps"), [(("18", "0.19295", "0"), 1), (("18", "0.19295", "0.0001"), 10)])
def test_many_values_follow_the_law_and_not_one_a_tenth_steeper(prices, steps):
    order, price, miss_price = prices
    made = sharp_table(order=order, price=price, miss_price=miss_price, steps=steps)
    steeper = sharp_table(order=order, price=Fraction(price) * Fraction(121, 100), miss_price=miss_price, steps=steps)
    values = np.arange(-90 * steps, 30 * steps, 13)
    drawn = SharpSampler(made).hits(np.repeat(values, DRAWS), Seeded(9)).reshape(values.size, DRAWS).sum(axis=1)
    assert stats.chi2.sf(statistic(values, drawn, made), values.size) > ALPHA
    assert stats.chi2.sf(statistic(values, drawn, steeper), values.size) < ALPHA


@pytest.mark.parametrize("steps", [1, 3, 10**15])
def test_values_of_any_size_are_far_out(steps):
    sampler = SharpSampler(sharp_table(order=5, price="0.38428", steps=steps))
    far = np.array([-(10**30), 10**30, -(2**63), 2**63], dtype=object)
    assert sampler.hits(far, OperatingSystem()).tolist() == [False, True, False, True]
    near = np.array([-(2**63), 2**63 - 1])
    assert sampler.hits(near, OperatingSystem()).tolist() == [False, True]
    assert sampler.hits(np.array([], dtype=np.int64), OperatingSystem()).shape == (0,)


def test_places_too_far_apart_to_draw_between_are_refused_before_there_are_values():
    assert SharpSampler(sharp_table(order=5, price="0.38428", steps=2**62)).step(-(10**30), OperatingSystem()) is False
    for steps in (2**62 + 1, 2**63, 2**70):
        with pytest.raises(InvalidParameter, match="coarser grid"):
            SharpSampler(sharp_table(order=5, price="0.38428", steps=steps))


def test_what_is_no_vector_of_integers_is_refused_without_being_shown():
    sampler = SharpSampler(sharp_table(order=5, price="0.38428"))
    for values in (np.array([0.5]), np.array([True]), np.array(["7654"])):
        with pytest.raises(InvalidParameter) as refused:
            sampler.hits(values, OperatingSystem())
        assert "7654" not in str(refused.value)


def test_it_is_told_as_the_event_of_its_table():
    assert SharpSampler(QUARTERS).event() == TEST
