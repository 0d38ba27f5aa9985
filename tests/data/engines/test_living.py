"""Counts of living units against a pure-Python meaning of them."""

from datetime import date
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.data import NeighborRelation, RowTable, Series, count, mean
from chary.data.engines.sql import SmallTable
from chary.data.rows import Rooms
from chary.data.table import living, table_of_units
from chary.errors import EngineError, InvalidQuery

KEYS = ["b", "a", "d", "c"]
UNITS = ["p", "q", "r", "s", "t"]
ROW = st.fixed_dictionaries(
    {
        "u": st.sampled_from([*UNITS, None]),
        "k": st.sampled_from([*KEYS, "other", None]),
        "x": st.sampled_from([0, 1, 2, None]),
    }
)
WHERE = {None: lambda row: True, "x >= 1": lambda row: row["x"] is not None and row["x"] >= 1}
SCHEMA = pa.schema({"u": pa.string(), "k": pa.string(), "x": pa.int64()})


def opened(rows, schema=SCHEMA, unit="u"):
    return RowTable.open(pa.Table.from_pylist(rows, schema), neighbor_relation=NeighborRelation("add_remove", unit))


def rooms_of(left, hits, kind=None):
    return Rooms(pa.table({"unit": pa.array(list(left), kind or pa.string()), "room": list(left.values())}), hits)


def parts(rows, where, keys, keep, left, hits):
    """The positions in which each living unit takes part."""
    found = {}
    for row in rows:
        place = 0 if keys is None else keys.index(row["k"]) if row["k"] in keys else None
        if row["u"] is not None and place is not None and WHERE[where](row):
            found.setdefault(row["u"], set()).add(place)
    kept = {unit: sorted(places)[:keep][: left.get(unit, hits)] for unit, places in found.items()}
    return {unit: places for unit, places in kept.items() if places}


@settings(max_examples=120)
@given(
    st.lists(ROW, max_size=25),
    st.sampled_from(list(WHERE)),
    st.sampled_from([None, KEYS, ["c", "a"]]),
    st.sampled_from([None, 1, 2]),
    st.integers(1, 4).flatmap(
        lambda hits: st.tuples(st.just(hits), st.dictionaries(st.sampled_from(UNITS), st.integers(0, hits)))
    ),
    st.sets(st.integers(0, 3)),
)
def test_counts_and_units_agree_with_python(rows, where, keys, keep, state, chosen):
    hits, left = state
    query = count(where) if keys is None else count(where).by("k", keys, max_groups_per_unit=keep)
    table = opened(rows)
    expected = parts(rows, where, keys, keep if keys else None, left, hits)
    size = len(keys or [0])
    positions = sorted(chosen & set(range(size))) if keys else [0]
    with living(table, query).run().at(rooms_of(left, hits)) as units:
        exact = units.answers()
        took = units.of(positions).to_pydict()
    table.close()
    assert exact.tolist() == [sum(place in places for places in expected.values()) for place in range(size)]
    paid = {unit: len(set(places) & set(positions)) for unit, places in expected.items()}
    assert dict(zip(took["unit"], took["used"], strict=True)) == {unit: used for unit, used in paid.items() if used}


KINDS = [
    (pa.int64(), [1, -5, 2**62]),
    (pa.string(), ["", "1", "ß"]),
    (pa.float64(), [0.1, 0.25, 1e300]),
    (pa.date32(), [date(2020, 1, 1), date(1, 1, 1), date(2020, 1, 2)]),
    (pa.decimal128(30, 3), [Decimal("1.000"), Decimal("123456789012345678.001"), Decimal("123456789012345678.002")]),
    (pa.uint64(), [2**64 - 1, 2**64 - 2, 0]),
    (pa.bool_(), [True, False]),
    (pa.timestamp("ns"), [1, 2, 10**18]),
]


@pytest.mark.parametrize(("kind", "ids"), KINDS, ids=lambda part: str(part) if isinstance(part, pa.DataType) else "")
def test_units_of_every_type_are_met_again(kind, ids):
    table = opened([{"u": unit} for unit in ids * 2], pa.schema({"u": kind}))
    plan = living(table, count())
    with plan.at(Rooms(pa.table({"unit": [], "room": []}), 3)) as units:
        assert units.answers().tolist() == [len(ids)]
        seen = units.of([0])["unit"].to_pylist()
    assert len(set(seen)) == len(ids)
    for gone in seen:
        with plan.at(rooms_of({gone: 0}, 3, pa.int64() if kind == pa.int64() else pa.string())) as units:
            assert units.answers().tolist() == [len(ids) - 1]
            assert sorted(units.of([0])["unit"].to_pylist()) == sorted(set(seen) - {gone})
    table.close()


def test_the_two_zeros_are_one_unit():
    table = opened([{"u": 0.0}, {"u": -0.0}], pa.schema({"u": pa.float64()}))
    with living(table, count()).at(Rooms(pa.table({"unit": [], "room": []}), 3)) as units:
        assert units.answers().tolist() == [1]
        assert units.of([0])["unit"].to_pylist() == ["0.0"]
    table.close()


def test_units_whose_ids_cannot_be_kept_are_refused():
    nested = pa.schema({"u": pa.list_(pa.int64()), "x": pa.int64()})
    table = opened([{"u": [1], "x": 1}], nested)
    with pytest.raises(InvalidQuery, match="recognised"):
        living(table, count())
    table.close()


def test_only_counts_and_totals_on_tables_of_units_are_compiled():
    table = opened([])
    with pytest.raises(InvalidQuery, match="count"):
        living(table, mean("x", bounds=(0, 1), max_rows_per_unit=1))
    with pytest.raises(InvalidQuery, match="unknown column"):
        living(table, count("y > 1"))
    table.close()
    each = RowTable.open(pa.table({"x": [1]}), neighbor_relation=NeighborRelation("add_remove", None))
    series = Series.open(pa.table({"x": [1]}), column="x", sensitivity=1)
    for rows in (each, series):
        with pytest.raises(InvalidQuery, match="recognises each unit"):
            table_of_units(rows)
        rows.close()


def test_a_file_that_grows_gets_its_temporary_tables_again(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows AS SELECT 'p' AS u, 'a' AS k, 1::BIGINT AS x")
    table = RowTable.open(path, table="rows", neighbor_relation=NeighborRelation("add_remove", "u"))
    plan, rooms = living(table, count().by("k", KEYS)), rooms_of({"p": 0, "q": 1}, 2)
    for more, expected in (([], [0, 0, 0, 0]), (["q", "p"], [1, 0, 0, 0]), (["r", "p"], [2, 1, 0, 0])):
        if more:
            keyed = [{"u": unit, "k": key, "x": 0} for unit in more for key in ("d", "b", "a")]
            table.append(pa.Table.from_pylist(keyed, SCHEMA))
        with plan.at(rooms) as units:
            assert units.answers().tolist() == expected
    table.close()


def test_rows_that_change_under_the_question_are_noticed():
    table = opened([{"u": "p", "k": "a", "x": 1}])
    with living(table, count()).at(rooms_of({}, 2)) as units:
        assert units.answers().tolist() == [1]
        with table.held.database.connection() as connection:
            connection.execute("INSERT INTO temp.main.chary_rows VALUES ('SECRETNAME', 'a', 1)")
        with pytest.raises(EngineError, match="changed from outside") as caught:
            units.of([0])
    assert "SECRETNAME" not in str(caught.value)
    table.close()


def test_nothing_is_shown_and_tables_go_when_nobody_needs_them():
    table = opened([{"u": unit, "k": "a", "x": 1} for unit in UNITS])
    for left in ({"p": 0}, {"q": 1}, {"SECRETNAME": 1}):
        rooms = rooms_of(left, 2)
        with living(table, count().by("k", KEYS)).at(rooms) as units:
            units.answers()
            units.of([1])
        assert "SECRETNAME" not in repr(rooms) + repr(units) + repr(living(table, count()))
        del units, rooms
    last = SmallTable("chary_last", {"k0": ("int64", [1])})
    table.held.database.offer([last])
    with table.held.database.connection() as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    assert sorted(name for (name,) in names) == ["chary_last", "chary_rows"]
    table.close()


def test_a_closed_table_is_an_engine_failure():
    table = opened([])
    plan = living(table, count())
    table.close()
    with pytest.raises(EngineError), plan.at(rooms_of({}, 1)) as units:
        units.answers()
