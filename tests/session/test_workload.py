"""Conditions as callers write them: one, all rows, or a list; what is none is refused in the same words."""

import numpy as np
import pytest

from chary import InvalidQuery, Universe, count
from chary.calls.fields import condition, conditions, region
from chary.data import Predicate

UNIVERSE, SCHEMA = Universe({"sex": ["f", "m"]}), {"sex": "string"}
FEMALE = Predicate.parse("sex = 'f'")


@pytest.mark.parametrize("where", ["sex='f'", FEMALE, count("sex = 'f'")])
def test_one_condition_in_each_way(where):
    assert condition(where) == FEMALE
    assert conditions(where) == conditions([where]) == conditions((where,)) == (FEMALE,)
    assert np.flatnonzero(region(UNIVERSE, SCHEMA, where).flags()).tolist() == [0]


@pytest.mark.parametrize("where", [None, count()])
def test_every_row_is_a_region_and_no_query_of_a_list(where):
    assert condition(where) is None
    assert region(UNIVERSE, SCHEMA, where).count == 3
    with pytest.raises(InvalidQuery, match="each query is a condition"):
        conditions([FEMALE, where])


def test_keys_make_a_condition_each_in_their_order():
    listed = conditions(["sex IS NULL", count().by("sex", ["m", "f"])])
    assert [asked.text for asked in listed] == ["sex IS NULL", "sex = 'm'", "sex = 'f'"]
    assert conditions([]) == ()


@pytest.mark.parametrize(
    "where", [3, ["sex = 'f'"], {"sex = 'f'"}, count("sex = 'f'", without="sex = 'm'"), count().by("sex", ["f"])]
)
def test_what_is_no_condition_is_refused(where):
    with pytest.raises(InvalidQuery, match="each query is a condition"):
        condition(where)
    with pytest.raises(InvalidQuery, match="each query is a condition"):
        region(UNIVERSE, SCHEMA, where)
