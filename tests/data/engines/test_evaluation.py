"""The engine against the pure-Python oracle, for every kind of query."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chary
from chary.data import NeighborRelation, RowTable, count, mean
from chary.errors import InvalidQuery
from tests.data.oracle import answer

SCHEMA = pa.schema({"u": pa.string(), "k": pa.string(), "j": pa.int64(), "x": pa.float64(), "n": pa.int64()})
KEYS = ["b", "a", "d"]
PAIRS = [("a", 1), ("b", 1), ("a", 2)]
ROW = st.fixed_dictionaries(
    {
        "u": st.sampled_from(["p", "q", "r", None]),
        "k": st.sampled_from(["a", "b", "c", None]),
        "j": st.sampled_from([1, 2, None]),
        "x": st.sampled_from([None, math.nan, math.inf, -math.inf, 0.26, -0.24, 1.5, -1.5, 2.5, 100.0, -0.0, 1e300]),
        "n": st.sampled_from([None, 0, 1, -1, 2, 7, -7, 2**63 - 1, -(2**63)]),
    }
)
COLUMNS = st.sampled_from(
    [
        ("x", (-2, 3), 1),
        ("x", ("-0.5", "1.5"), "0.5"),
        ("x", (0, 3), "1.5"),
        ("x", (1, 2), "1/3"),
        ("x", (-3, -1), 1),
        ("n", (-2, 5), 1),
        ("n", (0, 6), 2),
        ("n", (-2, 2), "0.1"),
    ]
)
WHERE = st.sampled_from([None, "x > 0", "NOT (n > 0) OR k = 'a'"])
KEYING = st.sampled_from(
    [
        None,
        ("k", KEYS, {}),
        ("k", KEYS, {"max_groups_per_unit": 1}),
        ("k", KEYS, {"max_groups_per_unit": 2}),
        ("k", KEYS, {"assumed_groups_per_unit": 2}),
        (["k", "j"], PAIRS, {"max_groups_per_unit": 2}),
    ]
)


@st.composite
def queries(draw, unit):
    column, bounds, grid = draw(COLUMNS)
    where, keying, kind = draw(WHERE), draw(KEYING), draw(st.sampled_from(["count", "total", "mean", "shifted"]))
    k = draw(st.sampled_from([1, 2, 3]))
    limit = (
        {} if unit is None else draw(st.sampled_from([{"max_rows_per_unit": k}, {"unit_total": (-2, 3), "grid": 1}]))
    )
    if kind == "count":
        built = count(where)
    elif kind == "total" and (limit.get("grid") is None or grid == 1):
        built = chary.sum(column, bounds=bounds, where=where, **({"grid": grid} | limit))
    else:
        built = mean(column, bounds=bounds, grid=grid, where=where, max_rows_per_unit=None if unit is None else k)
    built = built if keying is None else built.by(keying[0], keying[1], **keying[2])
    if not hasattr(built, "parts"):
        return [built]
    return [*built.parts(NeighborRelation("replace", unit)), built.shifted(draw(st.sampled_from([0, 6])))]


@pytest.mark.parametrize("unit", ["u", "j", None])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_engine_agrees_with_the_oracle(unit, data):
    rows = data.draw(st.lists(ROW, max_size=7))
    table = RowTable.open(pa.Table.from_pylist(rows, SCHEMA), neighbor_relation=NeighborRelation("replace", unit))
    for _ in range(3):
        for query in data.draw(queries(unit)):
            found = table.prepare(query).run()
            assert (found if isinstance(found, int) else found.tolist()) == answer(query, rows, unit)
    table.close()


def open_rows(columns, unit=None):
    return RowTable.open(pa.table(columns), neighbor_relation=NeighborRelation("add_remove", unit))


def test_columns_may_have_any_name():
    awkward = {"unit": [1, 1, 2], "value": [1, 2, 3], "position": [0, 1, 1], "k0": [5, 5, 6], "answer": [1, 1, 1]}
    table = open_rows(awkward | {"rank": [1, 2, 3], 'say "hi"; --': [1, 2, 3], "high": [0, 0, 0]}, "unit")
    by = chary.sum("value", bounds=(0, 9), max_rows_per_unit=1).by(
        ["k0", "position"], [(5, 1), (6, 1)], max_groups_per_unit=1
    )
    assert table.prepare(by).run().tolist() == [2, 3]
    odd = chary.sum('say "hi"; --', bounds=(0, 9), unit_total=(0, 2)).by("position", [1, 0])
    assert table.prepare(odd).run().tolist() == [4, 1]
    assert table.prepare(count('"say ""hi""; --" = 3').by("rank", [3])).run().tolist() == [1]


def test_sums_beyond_64_bits_stay_exact():
    big = 2**53
    table = open_rows({"k": ["a"] * 3 + ["b"], "x": [2**62] * 3 + [-(2**62)]})
    query = chary.sum("x", bounds=(-big * 2**20, big * 2**20), grid=2**20)
    assert table.prepare(query).run() == 2 * 2**42
    fine = open_rows({"k": ["a"] * 1100 + ["b"], "x": [2**53 - 1] * 1100 + [-(2**53)]})
    found = fine.prepare(chary.sum("x", bounds=(-big, big)).by("k", ["b", "a", "c"])).run()
    assert found.tolist() == [-(2**53), 1100 * (2**53 - 1), 0]
    assert found.dtype == object
    assert fine.prepare(chary.sum("x", bounds=(-big, big))).run() == 1099 * (2**53 - 1) - 1
    small = fine.prepare(chary.sum("x", bounds=(-5, 5)).by("k", ["b", "a", "c"])).run()
    assert small.tolist() == [-5, 5500, 0]
    assert small.dtype == np.int64


def test_empty_tables_answer_zero():
    table = open_rows({"u": pa.array([], pa.int64()), "x": pa.array([], pa.float64())}, "u")
    assert table.prepare(count()).run() == 0
    assert table.prepare(chary.sum("x", bounds=(1, 2), unit_total=(1, 2))).run() == 0
    assert table.prepare(count().by("u", [1, 2])).run().tolist() == [0, 0]


def test_iso_strings_are_keys_of_a_date_column():
    table = open_rows({"d": pa.array([15706, 15707, None], pa.date32())})
    assert table.prepare(count().by("d", ["2013-01-01", "2013-01-03"])).run().tolist() == [1, 0]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (count().by("k", [1]), "cannot be of type integer"),
        (count().by("n", ["a"]), "cannot be of type string"),
        (count().by("n", [True]), "cannot be of type boolean"),
        (count().by("x", [1]), "is a float"),
        (count().by("d", ["2013-1-1"]), "cannot be of type string"),
        (count().by("t", [datetime.date(2013, 1, 1)]), "give each as a datetime"),
        (count("k >= 5"), "or DOUBLE if it has decimals"),
        (count().by("nobody", [1]), "unknown column"),
        (count("nobody = 1"), "unknown column"),
        (chary.sum("nobody", bounds=(0, 1)), "unknown column"),
        (chary.sum("k", bounds=(0, 1)), "column of numbers"),
        (chary.sum("b", bounds=(0, 1)), "column of numbers"),
        (chary.sum("d", bounds=(0, 1)), "column of numbers"),
        (mean("n", bounds=(0, 1)), "parts"),
        ("count", "str is not a query"),
        (chary.sum("n", bounds=(0, 1), max_rows_per_unit=1), "each row is one"),
    ],
)
def test_queries_that_do_not_fit(query, says):
    columns = {"k": ["a"], "n": [1], "x": [1.5], "b": [True], "d": pa.array([1], pa.date32())}
    columns["t"] = pa.array([1], pa.timestamp("us"))
    with pytest.raises(InvalidQuery, match=says):
        open_rows(columns).prepare(query)


def test_a_hundred_thousand_keys_in_one_scan():
    table = open_rows({"k": list(range(0, 200_000, 2))})
    found = table.prepare(count().by("k", range(100_000))).run()
    assert found.sum() == 50_000
    assert found[::2].all()


def test_what_was_compiled_serves_tables_of_the_same_columns_only():
    """One query on tables that differ in one thing each, in both orders: every one has its own answer or refusal."""
    asked = count("a >= 1").by("k", [1, 2])
    tables = {
        "plain": lambda: open_rows({"a": [1, 0, 2], "k": [1, 1, 2]}),
        "units": lambda: open_rows({"a": [1, 1, 2], "k": [1, 1, 2]}, "a"),
        "other rows": lambda: open_rows({"a": [1, 1, 1], "k": [2, 2, 2]}),
        "floats": lambda: open_rows({"a": [0.5, 1.5, 2.5], "k": [1, 1, 2]}),
    }
    answers = {"plain": [1, 1], "units": [1, 1], "other rows": [0, 3], "floats": [1, 1]}
    for names in (list(tables), list(tables)[::-1]):
        for name in names:
            table = tables[name]()
            assert table.prepare(asked).run().tolist() == answers[name], name
            table.close()
        for columns in ({"a": ["x"], "k": [1]}, {"a": [1], "k": ["x"]}, {"k": [1]}):
            with pytest.raises(InvalidQuery):
                open_rows(columns).prepare(asked)


def test_two_tables_at_once_have_their_own_keys():
    one, other = (open_rows({"k": rows}) for rows in ([1, 1, 2], [2, 2, 9]))
    for _ in range(2):
        for keys in ([1, 2], [2, 1], list(range(1001))):
            asked = count().by("k", keys)
            for table, rows in ((one, [1, 1, 2]), (other, [2, 2, 9])):
                assert table.prepare(asked).run().tolist() == [rows.count(key) for key in keys]
    one.close()
    assert other.prepare(count().by("k", [2])).run().tolist() == [2]
    other.close()
