"""Counters against a dictionary, their way through bytes, and the guard against units that pay more than they have."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from chary.errors import InvalidParameter
from chary.mechanisms.sketches import Counters

INTEGERS = [0, -1, 2**63 - 1, -(2**63), *range(1, 40)]
TEXTS = ["", "ß", "a b", "\u0001", *map(str, range(40))]


def took(units, used):
    kind = pa.string() if isinstance(units[0], str) else pa.int64()
    return pa.table({"unit": pa.array(units, kind), "used": pa.array(used, pa.int64())})


@pytest.mark.parametrize("units", [INTEGERS, TEXTS])
def test_counters_are_the_sums_in_whatever_order_units_come(units):
    picked = random.Random(5)
    counters, expected = Counters(10**6), Counter()
    for step in range(30):
        some = picked.sample(units, picked.randint(1, len(units)))
        used = [picked.randint(1, 3) for _ in some]
        counters = Counters.load(counters.raised(took(some, used)).dump())
        expected.update(dict(zip(some, used, strict=True)))
        assert dict(zip(*counters.used.to_pydict().values(), strict=True)) == expected
        assert counters.used["unit"].to_pylist() == sorted(expected)
        assert (counters.hits, counters.published) == (10**6, step + 1)
    rooms = dict(zip(*counters.rooms().to_pydict().values(), strict=True))
    assert rooms == {unit: 10**6 - used for unit, used in expected.items()}


def test_a_published_answer_without_units_moves_the_state():
    counters = Counters(3)
    again = counters.raised(took([1], [1]).slice(0, 0))
    assert again.published == 1
    assert again.dump() != counters.dump()
    assert Counters.load(again.dump()).used.num_rows == 0


def test_a_unit_that_would_pay_more_than_it_has_is_refused():
    counters = Counters(5, 1, took([0, 1], [2, 2])).raised(took([1], [3]))
    assert counters.rooms().to_pydict() == {"unit": [0, 1], "room": [3, 0]}
    for unit, used in ((0, 4), (1, 1)):
        with pytest.raises(InvalidParameter, match="at most"):
            counters.raised(took([unit], [used]))
    for used in (0, -1, 6):
        with pytest.raises(InvalidParameter, match="at least one"):
            Counters(5, 1, took([0], [used]))


@pytest.mark.parametrize("hits", [0, -1, 1.5, True, "3", None])
def test_hits_are_a_positive_whole_number(hits):
    with pytest.raises(InvalidParameter):
        Counters(hits)


def test_nothing_of_the_counters_is_shown():
    counters = Counters(7).raised(took([987654321], [5]))
    assert repr(counters) == str(counters) == "Counters(hits=7, <secret>)"


def test_close_ids_take_little_room():
    ids = np.cumsum(np.random.default_rng(1).integers(1, 20, 100_000))
    counters = Counters(10, 1, pa.table({"unit": ids, "used": np.ones(len(ids), np.int64)}))
    assert len(counters.dump()) < 2 * len(ids)
    assert Counters.load(counters.dump()).used.equals(counters.used)
