"""The public number of rows, and batches that are kept with their rows."""

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from chary import EngineError, InvalidQuery, SchemaMismatch, Votes
from chary.data import NeighborRelation, RowTable, Series, public_size

ROWS = pd.DataFrame({"unit": [1, 1, None, 3], "x": [1.0, None, 2.0, 3.0]})


def in_file(folder):
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS unit, 2.0::DOUBLE AS x FROM range(4)")
    return folder / "rows.duckdb", {"table": "t"}


@pytest.fixture(params=["frame", "csv", "parquet", "duckdb"])
def table(request, tmp_path):
    source, options = ROWS.astype({"unit": "Int64"}), {}
    if request.param == "csv":
        source.to_csv(tmp_path / "rows.csv", index=False)
        source, options = tmp_path / "rows.csv", {"columns": {"unit": "BIGINT", "x": "DOUBLE"}}
    elif request.param == "parquet":
        source.to_parquet(tmp_path / "rows.parquet")
        source = tmp_path / "rows.parquet"
    elif request.param == "duckdb":
        source, options = in_file(tmp_path)
    opened = RowTable.open(source, neighbor_relation=NeighborRelation("replace", None), **options)
    yield opened
    opened.close()


def test_every_row_counts_and_later_ones_too(table):
    assert public_size(table) == 4
    batch = table.append(pa.table({"unit": [None, 9], "x": [None, 1.0]}))
    assert (public_size(table), batch.rows, batch.number) == (6, 6, 1)
    assert "6" not in repr(batch)


@pytest.mark.parametrize(("neighbors", "unit"), [("add_remove", None), ("add_remove", "unit"), ("replace", "unit")])
def test_a_size_in_which_neighbours_differ_is_not_told(neighbors, unit):
    with pytest.raises(InvalidQuery, match="privacy_unit=None"):
        public_size(RowTable.open(ROWS, neighbor_relation=NeighborRelation(neighbors, unit)))


def test_a_series_has_its_length_and_votes_have_none():
    assert public_size(Series.open(pa.table({"n": [5, 6]}), column="n", sensitivity=1)) == 2
    with pytest.raises(InvalidQuery):
        public_size(Votes(lambda question: [7, 3], ["cat", "dog"], voter="teacher"))


def test_batches_are_numbered_and_a_key_adds_its_rows_once(table):
    more = pa.table({"unit": [5], "x": [1.0]})
    numbers = [table.append(more, request=key).number for key in ("a", None, "b'; --", "a", None, "b'; --")]
    assert numbers == [1, 2, 3, 1, 4, 3]
    assert [(batch.number, batch.request, batch.rows) for batch in table.batches()] == [
        (1, "a", 5),
        (2, None, 6),
        (3, "b'; --", 7),
        (4, None, 8),
    ]
    assert [batch.number for batch in table.batches(after=2)] == [3, 4]
    assert public_size(table) == 8


def test_a_refused_batch_leaves_no_trace(table):
    for bad in (pa.table({"unit": [5]}), pa.table({"unit": [5], "x": ["secret"]})):
        with pytest.raises(SchemaMismatch):
            table.append(bad, request="a")
    assert (table.batches(), public_size(table)) == ([], 4)
    assert table.append(pa.table({"unit": [5], "x": [1.0]}), request="a").number == 1


def test_who_is_told_before_the_commit_can_stop_it(table):
    def refuse(batch):
        raise EngineError("no")

    with pytest.raises(EngineError, match="no"):
        table.append(pa.table({"unit": [5], "x": [1.0]}), arrive=refuse)
    kept = table.keeps_batches
    assert (len(table.batches()), public_size(table)) == ((1, 5) if kept else (0, 4))


def test_a_file_keeps_its_batches_by_table(tmp_path):
    path, _options = in_file(tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE other AS FROM t")
    for expected in (1, 2):
        for name in ("t", "other"):
            table = RowTable.open(path, neighbor_relation=NeighborRelation("replace", None), table=name)
            assert table.append(pa.table({"unit": [5], "x": [1.0]})).number == expected
            assert len(table.batches()) == expected
            table.close()
