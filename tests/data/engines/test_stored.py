"""Tables of DuckDB files that a row could make fail are not read, or do not grow."""

import duckdb
import pyarrow as pa
import pytest

from chary.data import NeighborRelation, RowTable, count
from chary.errors import SchemaMismatch

ROWS = NeighborRelation("replace", None)
LIMITED = {
    "primary key": "CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)",
    "unique": "CREATE TABLE t (a BIGINT, b BIGINT UNIQUE)",
    "check": "CREATE TABLE t (a BIGINT, b BIGINT CHECK (b > 0))",
    "not null": "CREATE TABLE t (a BIGINT NOT NULL, b BIGINT)",
    "foreign key": "CREATE TABLE p (k BIGINT PRIMARY KEY); CREATE TABLE t (a BIGINT REFERENCES p (k), b BIGINT)",
    "index": "CREATE TABLE t (a BIGINT, b BIGINT); CREATE INDEX i ON t (a)",
    "trigger": "CREATE TABLE t (a BIGINT, b BIGINT); CREATE TABLE log (n BIGINT); "
    "CREATE TRIGGER g AFTER INSERT ON t FOR EACH STATEMENT INSERT INTO log VALUES (1)",
}


def made(path, sql):
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)
    return path


@pytest.mark.parametrize("limit", LIMITED)
def test_a_table_that_may_refuse_a_row_does_not_grow(tmp_path, limit):
    path = made(tmp_path / "a.duckdb", LIMITED[limit])
    table = RowTable.open(path, table="T", neighbor_relation=ROWS)
    with pytest.raises(SchemaMismatch, match=f"{limit}.*CREATE TABLE copied") as caught:
        table.append(pa.table({"a": [None], "b": [None]}))
    assert caught.value.__context__ is None
    assert table.prepare(count()).run() == 0
    table.close()
    made(path, "CREATE TABLE copied AS FROM t")
    table = RowTable.open(path, table="copied", neighbor_relation=ROWS)
    table.append(pa.table({"a": [None, 1], "b": [0, 0]}))
    assert table.prepare(count()).run() == 2


def test_a_default_is_in_nobodys_way(tmp_path):
    path = made(tmp_path / "a.duckdb", "CREATE TABLE t (a BIGINT DEFAULT (CAST('x' || random() AS INT)), b BIGINT)")
    table = RowTable.open(path, table="t", neighbor_relation=ROWS)
    table.append(pa.table({"a": [1], "b": [2]}))
    assert table.prepare(count("a = 1")).run() == 1


@pytest.mark.parametrize("unpivot", [None, ("name", "value")])
def test_a_generated_column_is_refused(tmp_path, unpivot):
    path = made(
        tmp_path / "a.duckdb", "CREATE TABLE t (a BIGINT, s VARCHAR, n INT GENERATED ALWAYS AS (CAST(s AS INT)))"
    )
    with pytest.raises(SchemaMismatch, match="generated columns"):
        RowTable.open(path, table="t", neighbor_relation=NeighborRelation("replace", "a"), unpivot=unpivot)


def test_narrow_columns_take_what_fits(tmp_path):
    kinds = {"a": "TINYINT", "b": "DECIMAL(3, 1)", "c": "ENUM('x', 'y')", "d": "TIMESTAMP_NS", "e": "FLOAT"}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    table = RowTable.open(made(tmp_path / "a.duckdb", f"CREATE TABLE t ({columns})"), table="t", neighbor_relation=ROWS)
    moments = pa.array([0, 2**62], pa.timestamp("us"))
    table.append(pa.table({"a": [1, 1000], "b": [1.5, 1e9], "c": ["x", "z"], "d": moments, "e": [1.5, 1e300]}))
    for name in kinds:
        assert table.prepare(count(f"{name} IS NOT NULL")).run() in ((1,) if name != "e" else (1, 2))
    assert table.prepare(count()).run() == 2


def test_a_request_is_known_in_whatever_case_the_table_is_named(tmp_path):
    path = made(tmp_path / "a.duckdb", "CREATE TABLE visits (a BIGINT)")
    made(path, "CREATE SCHEMA other; CREATE TABLE other.chary_batches (z INT)")
    for name in ("Visits", "visits", "VISITS"):
        table = RowTable.open(path, table=name, neighbor_relation=ROWS)
        batch = table.append(pa.table({"a": [1]}), request="once")
        assert (batch.number, batch.rows, table.prepare(count()).run()) == (1, 1, 1)
        assert [each.request for each in table.batches()] == ["once"]
        table.close()
