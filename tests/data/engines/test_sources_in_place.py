"""Sources that could fail on a row, merge units or read other files: refused, or read so that they cannot."""

from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count
from chary.errors import InvalidQuery, SchemaMismatch

UNIT = NeighborRelation("add_remove", "unit")


def test_text_in_parquet_that_is_no_text_fails_at_open_and_not_in_a_query(tmp_path):
    cells = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00"), pa.py_buffer(b"a\xff\xfe")],
    )
    pq.write_table(pa.table({"unit": [1, 2], "s": cells}), tmp_path / "rows.parquet")
    with pytest.raises(SchemaMismatch) as refusal:
        RowTable.open(tmp_path / "rows.parquet", neighbor_relation=UNIT)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_in_parquet_is_null_whatever_the_file_says_of_its_values(tmp_path, kind, statistics):
    values = pa.array([0.5, float("nan"), 1.0, None], kind)
    pq.write_table(
        pa.table({"unit": [1, 2, 3, 4], "x": values}), tmp_path / "rows.parquet", write_statistics=statistics
    )
    table = RowTable.open(tmp_path / "rows.parquet", neighbor_relation=UNIT)
    assert table.prepare(count("x IS NULL")).run() == 2
    assert table.prepare(count("x > 0.1")).run() == 2
    assert table.prepare(count("NOT (x > 0.7)")).run() == 1
    assert table.snapshot(["x"]).run()["x"].null_count == 2
    answer = table.prepare(chary.sum("x", bounds=(0, 4), grid="0.5", max_rows_per_unit=1)).run()
    assert answer == 3


@pytest.mark.parametrize("name", ["v", "V"])
@pytest.mark.parametrize("unpivot", [None, ("name", "value")])
def test_a_view_of_a_duckdb_file_is_refused(tmp_path, unpivot, name):
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("create table t as select 1 as unit, '7' as s union all select 2, 'seven'")
        connection.execute("create view v as select unit, cast(s as int) as s from t")
    with pytest.raises(SchemaMismatch, match="is a view"):
        RowTable.open(tmp_path / "rows.duckdb", table=name, neighbor_relation=UNIT, unpivot=unpivot)
    assert RowTable.open(tmp_path / "rows.duckdb", table="t", neighbor_relation=UNIT).prepare(count()).run() == 2


@pytest.mark.parametrize("unpivot", [None, ("name", "value")])
def test_a_misspelt_table_is_told_from_those_there_are(tmp_path, unpivot):
    path, asked = tmp_path / "rows.duckdb", {"neighbor_relation": UNIT, "unpivot": unpivot}
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema other; create table other.elsewhere as select 1 as unit, 2 as a")
    with pytest.raises(SchemaMismatch, match=r"^no table 'adlt' in this file; there are: none$"):
        RowTable.open(path, table="adlt", **asked)
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table Adult as select 1 as unit, 2 as a")
    if unpivot is None:
        table = RowTable.open(path, table="Adult", **asked)
        table.append(pa.table({"unit": [2], "a": [3]}))
        table.close()
    with pytest.raises(SchemaMismatch, match=r"^no table 'adlt' in this file; there are: Adult$"):
        RowTable.open(path, table="adlt", **asked)
    RowTable.open(path, table="aDULT", **asked).close()
    with duckdb.connect(str(path)) as connection:
        for name in "bcdef":
            connection.execute(f"create table {name} as select 1 as unit, 2 as a")
    with pytest.raises(SchemaMismatch, match=r"there are: Adult, b, c, d, e, \.\.\. \(6 in all\)$"):
        RowTable.open(path, table="adlt", **asked)


def test_a_collation_of_the_file_merges_no_units_and_no_values(tmp_path):
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("create table t (unit varchar collate nocase, s varchar collate nocase)")
        connection.execute("insert into t values ('a', 'x'), ('A', 'X'), ('b', 'X')")
    table = RowTable.open(tmp_path / "rows.duckdb", table="t", neighbor_relation=UNIT)
    assert table.prepare(count()).run() == 3
    assert table.prepare(count("s = 'x'")).run() == 1
    assert table.prepare(count().by("s", ["x", "X"])).run().tolist() == [1, 2]


@pytest.mark.parametrize("name", ["v[1].csv", "v*.csv", "v?.csv"])
def test_a_path_is_no_pattern(tmp_path, name):
    (tmp_path / "v1.csv").write_text("unit\n1\n2\n3\n")
    (tmp_path / name).write_text("unit\n1\n2\n")
    assert RowTable.open(tmp_path / name, neighbor_relation=UNIT).prepare(count()).run() == 2


def test_a_folder_is_no_column(tmp_path):
    (tmp_path / "year=2020").mkdir()
    pq.write_table(pa.table({"unit": [1, 2]}), tmp_path / "year=2020" / "v.parquet")
    assert list(RowTable.open(tmp_path / "year=2020" / "v.parquet", neighbor_relation=UNIT).schema) == ["unit"]


@pytest.mark.parametrize("units", [("1", "1.0", "2.5"), ("2020-01-01", "2020-1-1"), ("1000", "1e3", "0.5")])
def test_units_of_a_csv_are_told_apart_as_they_are_written(tmp_path, units):
    (tmp_path / "v.csv").write_text("unit,x\n" + "".join(f"{unit},1\n" for unit in units))
    assert RowTable.open(tmp_path / "v.csv", neighbor_relation=UNIT).prepare(count()).run() == len(units)


def test_literals_that_python_takes_for_equal_are_different_questions():
    rows = pa.table({"unit": [1, 2], "i": [9007199254740993, 1], "b": [True, False]})
    table = RowTable.open(rows, neighbor_relation=UNIT)
    assert table.prepare(count("i = 9007199254740992.0")).run() == 1
    assert table.prepare(count("i = 9007199254740992")).run() == 0
    assert table.prepare(count("b = TRUE")).run() == 1
    with pytest.raises(InvalidQuery):
        table.prepare(count("b = 1"))
    assert count("i = 1") != count("i = 1.0")


@pytest.mark.parametrize("bad", [0.001, 1.5, 0, -1, True])
def test_a_query_made_by_hand_is_checked_like_any_other(bad):
    with pytest.raises(ValueError, match="max_rows_per_unit"):
        replace(chary.sum("x", bounds=(0, 100), max_rows_per_unit=1), max_rows_per_unit=bad)
