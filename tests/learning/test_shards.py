"""A unit lies in one shard, dealt out by a law that does not look at the other units."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.errors import InvalidParameter
from chary.learning import draw_shards, equal_shards
from chary.learning.pate import number_units
from chary.noise import Seeded

ALPHA = 1e-6
DRAWS = 6000


def frequencies(deal, units, shards, seed):
    source = Seeded(seed)
    return Counter(tuple(deal(np.arange(units), shards, source).tolist()) for _ in range(DRAWS))


def p_value(counted, outcomes):
    return stats.chisquare([counted[outcome] for outcome in outcomes]).pvalue


def test_rows_of_a_unit_stay_together():
    units = number_units(np.random.default_rng(1).choice(["a", "b", "c", "d", "e"], 200), 200)
    for deal in (draw_shards, equal_shards):
        shards = deal(units, 3, Seeded(2))
        assert all(len(set(shards[units == unit])) == 1 for unit in range(5))


@pytest.mark.statistical
def test_drawn_shards_are_independent_and_uniform():
    counted = frequencies(draw_shards, 3, 2, seed=3)
    assert p_value(counted, list(product(range(2), repeat=3))) > ALPHA


@pytest.mark.statistical
def test_equal_shards_are_a_uniform_arrangement_and_so_not_independent():
    counted = frequencies(equal_shards, 4, 2, seed=4)
    balanced = [outcome for outcome in product(range(2), repeat=4) if sum(outcome) == 2]
    assert set(counted) == set(balanced)
    assert p_value(counted, balanced) > ALPHA
    assert p_value(counted, list(product(range(2), repeat=4))) < ALPHA


@pytest.mark.parametrize(("units", "shards"), [(7, 3), (9, 3), (2, 5), (0, 4)])
def test_equal_shards_differ_by_one_unit_at_most(units, shards):
    sizes = np.bincount(equal_shards(np.arange(units), shards), minlength=shards)
    assert sizes.sum() == units
    assert sizes.max() - sizes.min() <= 1


def test_units_without_names_are_the_rows():
    assert number_units(None, 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "names",
    [
        [1, 2],
        [1.0, 2.0, float("nan")],
        ["ann", None, "bob"],
        [["a"], ["b"], ["c"]],
        [True, False, True],
        np.array("abc"),
    ],
)
def test_names_that_could_hide_a_unit_are_refused(names):
    with pytest.raises(InvalidParameter) as refused:
        number_units(names, 3)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert "ann" not in str(refused.value)


def test_strings_of_a_frame_are_names():
    assert number_units(np.array(["x", "y", "x"], dtype=object), 3).tolist() == [0, 1, 0]


def test_no_shards_are_refused():
    for deal in (draw_shards, equal_shards):
        with pytest.raises(InvalidParameter):
            deal(np.arange(3), 0)
