"""One row of each unit by an aggregate, against the ranking of all rows that it stands for."""

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, mean, second_moments
from chary.data.engines import compiler as evaluation
from chary.data.engines import compiler as moments
from chary.data.engines.compiler import Preference, is_packed
from chary.data.queries.moments import SecondMoments

NEIGHBOURS = NeighborRelation("replace", "u")
KEYS = {"max_groups_per_unit": 1}, {"max_groups_per_unit": 2}, {"assumed_groups_per_unit": 2}
EDGE = 2**53
SCHEMA = pa.schema({"u": pa.int64(), "k": pa.string(), "x": pa.int64(), "y": pa.int64()})


def asked():
    totals = [
        chary.sum("x", bounds=edges, max_rows_per_unit=1)
        for edges in ((-3, 4), (0, 9), (-9, -1), (2, 3), (-EDGE, EDGE))
    ]
    totals += [*mean("x", bounds=(-3, 4), max_rows_per_unit=1).parts(NEIGHBOURS)]
    keyed = [(count(), keep) for keep in KEYS]
    keyed += [(each, keep) for each in totals[:5:2] for keep in KEYS]
    keyed += [(chary.sum("x", bounds=(-3, 4), max_rows_per_unit=2), KEYS[0])]
    by = [query.by("k", ["c", "a", "b"], **keep) for query, keep in keyed]
    products = [second_moments({"x": (-3, 4), "y": (0, 3)}, steps=steps, max_rows_per_unit=1) for steps in (2, 4096)]
    long = [second_moments({"x": (-3, 4), "y": (0, 3)}, steps=9, longest=1, max_rows_per_unit=1)]
    return [*totals, *by, *products, *long]


def answers(rows):
    table = RowTable.open(rows, neighbor_relation=NEIGHBOURS)
    found = [table.prepare(query).run() for query in asked()]
    table.close()
    return [each if isinstance(each, int) else each.tolist() for each in found]


def drawn(seed, size):
    """Units with about as many rows as there are keys, so that each limit leaves some of their rows out."""
    random = np.random.default_rng(seed)
    numbers = [None, 0, 1, -1, 2, -2, 3, 4, 5, -5, EDGE, -EDGE, EDGE - 1, 2**63 - 1]
    choices = {"u": [*range(size // 4), None], "k": [*"abcd", None], "x": numbers, "y": [None, 0, 1, -1, 2, 7]}
    columns = {name: [some[k] for k in random.integers(0, len(some), size)] for name, some in choices.items()}
    return pa.table(columns, SCHEMA)


@pytest.mark.parametrize(("seed", "size"), [(1, 120), (2, 40), (3, 8), (4, 0)])
def test_the_aggregate_keeps_what_the_ranking_keeps(seed, size):
    table = drawn(seed, size) if size else SCHEMA.empty_table()
    with pytest.MonkeyPatch.context() as patch:
        packed = answers(table)
        patch.setattr(evaluation, "is_packed", lambda order: False)
        patch.setattr(moments, "is_packed", lambda order: False)
        assert packed == answers(table)
    assert size < 40 or all(map(np.any, packed))


def sql_of(query, rows=None):
    rows = pa.Table.from_pylist([], SCHEMA) if rows is None else rows
    table = RowTable.open(rows, neighbor_relation=NEIGHBOURS)
    sql = table.prepare(query).sql
    table.close()
    return sql


def test_one_row_of_a_unit_needs_no_window_and_more_do():
    for query in asked():
        # An even choice ranks the rows of a unit, also for one of them.
        even = isinstance(query, SecondMoments) or "even=True" in repr(query)
        more = even or "max_rows_per_unit=2" in repr(query) or "max_groups_per_unit=2" in repr(query)
        assert (" OVER " in sql_of(query)) == more, query.describe()


def test_what_does_not_fit_into_one_integer_is_ranked():
    keys = list(range(2**9))
    wide = chary.sum("x", bounds=(-EDGE, EDGE), max_rows_per_unit=1).by("x", keys)
    assert " OVER " in sql_of(wide)
    assert " OVER " not in sql_of(chary.sum("x", bounds=(-EDGE, EDGE), max_rows_per_unit=1).by("x", keys[:100]))
    assert " OVER " in sql_of(
        second_moments(dict.fromkeys("xyu", (0, 1)) | {"x": (0, 2)}, steps=4096 * 1, max_rows_per_unit=2)
    )


@pytest.mark.parametrize("low", [-7, 0, 3])
@pytest.mark.parametrize("high", [4, 7, 8])
@pytest.mark.parametrize("farthest", [False, True])
def test_places_rise_as_preference_falls(low, high, farthest):
    """By Python's integers, which the same methods take, but for the one that chooses between two."""
    each = Preference("value", low, high, farthest)
    values = range(low, high + 1)
    preferred = sorted(values, key=lambda value: (-abs(value), -value) if farthest else value)
    largest = max(abs(low), abs(high))
    places = [2 * (largest - abs(value)) + (value < 0) if farthest else value - low for value in preferred]
    assert places == sorted(set(places))
    assert max(places) < 2**each.bits


def test_the_sign_is_never_used():
    assert is_packed([Preference("value", 0, 2**62 - 1)])
    assert not is_packed([Preference("value", 0, 2**62)])
    assert not is_packed([Preference("value", 0, 2**40), Preference("position", 0, 2**22)])
