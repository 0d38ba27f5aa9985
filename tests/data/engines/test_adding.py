"""Answers that are added up batch by batch, against those of rows that were opened together."""

import os

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, histogram, mean, ordered, second_moments
from chary.data.engines.duckdb import engine as adding
from chary.data.engines.duckdb.append import GROWN
from chary.data.engines.duckdb.engine import DuckRows
from chary.data.engines.sql import ROWS, EnginePlan
from chary.data.queries.ordered import Elements
from chary.errors import EngineError

EACH_ROW, UNITS = NeighborRelation("replace", None), NeighborRelation("add_remove", "u")
EDGE = 2**53
QUERIES = [
    count(),
    count("x > 0", without="k = 'a'"),
    count().by("k", ["c", "a", "b"]),
    chary.sum("x", bounds=(-EDGE, EDGE)),
    chary.sum("x", bounds=(-3, 9)).by("k", ["a", "z"]),
    *mean("y", bounds=(0, 1), grid="0.25", missing="0.5").parts(EACH_ROW),
    histogram("y", bins=[0, "0.5", 1], outside="edges"),
    second_moments({"x": (-5, 5), "y": (0, 1)}, steps=10, longest=1),
]


def drawn(random, size):
    numbers = [None, 0, 1, -1, 5, EDGE, -EDGE, 2**63 - 1]
    columns = {"u": range(4), "k": [*"abc", None], "x": numbers, "y": [None, 0.0, 0.3, 0.5, 1.0, 2.0]}
    kinds = {"u": pa.int64(), "k": pa.string(), "x": pa.int64(), "y": pa.float64()}
    return pa.table(
        {
            name: pa.array([some[k] for k in random.integers(0, len(some), size)], kinds[name])
            for name, some in columns.items()
        }
    )


ORDERED = [ordered("x", bounds=(-5, 9)), ordered("y", bounds=(0, 1), step="0.25", where="k = 'a'")]


def answers(table):
    counted = [np.atleast_1d(table.prepare(query).run()).tolist() for query in QUERIES]
    found = [table.ordered(asked).run() for asked in ORDERED]
    return counted + [dict(zip(each.places.tolist(), each.counts.tolist(), strict=True)) for each in found]


def whole(parts):
    table = RowTable.open(pa.concat_tables(parts), neighbor_relation=EACH_ROW)
    found = answers(table)
    table.close()
    return found


@pytest.fixture
def scans(monkeypatch):
    """How often everything was read, and how often only what came."""
    seen, original = {ROWS: 0, GROWN: 0}, EnginePlan.read

    def counting(plan, rows):
        seen[rows] += 1
        return original(plan, rows)

    monkeypatch.setattr(EnginePlan, "read", counting)
    return seen


@pytest.mark.parametrize("kind", ["frame", "folder", "file"])
def test_batches_add_up_to_what_the_whole_is(tmp_path, kind, scans):
    random = np.random.default_rng(7)
    parts = [drawn(random, 50)]
    pq.write_table(parts[0], tmp_path / "0.parquet")
    source = {"frame": parts[0], "folder": tmp_path, "file": tmp_path / "0.parquet"}[kind]
    table = RowTable.open(source, neighbor_relation=EACH_ROW)
    first = answers(table)
    for number, size in enumerate([1, 0, 20], start=1):
        parts.append(drawn(random, size))
        pq.write_table(parts[-1], tmp_path / f"{number}.parquet")
        table.append(parts[-1] if kind == "frame" or number == 2 else tmp_path / f"{number}.parquet")
        assert answers(table) == answers(table) == whole(parts)
    table.close()
    assert first == whole(parts[:1])
    others = 4 * len(QUERIES)
    assert scans[ROWS] == len(QUERIES) + others
    assert 2 * len(QUERIES) <= scans[GROWN] <= 3 * len(QUERIES)


def test_sums_beyond_64_bits_add_up(scans):
    size = 2**10
    big = pa.table({"k": ["a"] * size, "x": [EDGE] * size})
    table = RowTable.open(big, neighbor_relation=EACH_ROW)
    asked = [chary.sum("x", bounds=(-EDGE, EDGE)), chary.sum("x", bounds=(-EDGE, EDGE)).by("k", ["b", "a"])]
    for times in (1, 2, 3):
        assert [np.sum(table.prepare(query).run()) for query in asked] == [times * size * EDGE] * 2
        table.append(big)
    assert scans == {ROWS: 2, GROWN: 4}


def test_what_came_and_was_rolled_back_was_never_there():
    table = RowTable.open(pa.table({"x": [1, 2]}), neighbor_relation=EACH_ROW)
    plan = table.prepare(count())

    def refuse(batch):
        raise KeyboardInterrupt

    for size in (2, 3, 4):
        assert plan.run() == size
        with pytest.raises(KeyboardInterrupt):
            table.append(pa.table({"x": [8, 9]}), arrive=refuse)
        assert plan.run() == size
        table.append(pa.table({"x": [7]}))


def test_rows_that_are_being_added_are_in_no_answer():
    table = RowTable.open(pa.table({"x": [1, 2]}), neighbor_relation=EACH_ROW)
    plan, keyed = table.prepare(count("x > 5")), table.prepare(count().by("x", [1, 9]))
    words, told = table.elements(Elements("x")), []

    def ask(batch):
        for work in (plan.run, keyed.run, lambda: words.words("key")):
            with pytest.raises(EngineError, match="rows are being added") as refused:
                work()
            told.append(refused.value)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.append(pa.table({"x": [8, 9]}), arrive=ask)
    assert (plan.run(), keyed.run().tolist(), len(words.words("key")[0])) == (0, [1, 0], 2)
    table.append(pa.table({"x": [3, 4]}), arrive=ask)
    assert (len(told), plan.run(), keyed.run().tolist()) == (6, 0, [1, 0])


def test_an_answer_that_is_changed_by_who_got_it_is_not_the_one_that_is_kept():
    table = RowTable.open(pa.table({"k": ["a", "b"]}), neighbor_relation=EACH_ROW)
    plan = table.prepare(count().by("k", ["a", "b"]))
    for _ in range(3):
        found = plan.run()
        assert found.tolist() == [1, 1]
        found += 5


def test_a_parquet_file_that_is_written_again_is_read_again(tmp_path):
    place = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), place)
    table = RowTable.open(tmp_path, neighbor_relation=EACH_ROW)
    plan = table.prepare(chary.sum("x", bounds=(0, 9)))
    assert plan.run() == 3
    pq.write_table(pa.table({"x": [3, 4]}), place)
    assert plan.run() == 7
    pq.write_table(pa.table({"x": [5, 6]}), tmp_path / "new")
    os.replace(tmp_path / "new", place)
    assert plan.run() == 11


def test_a_file_that_is_written_while_it_is_read_is_not_remembered(tmp_path, monkeypatch):
    place = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), place)
    plan = RowTable.open(place, neighbor_relation=EACH_ROW).prepare(chary.sum("x", bounds=(0, 9)))
    original = EnginePlan.read

    def slow(self, rows):
        found = original(self, rows)
        pq.write_table(pa.table({"x": [8]}), place)
        return found

    monkeypatch.setattr(EnginePlan, "read", slow)
    assert plan.run() == 1
    monkeypatch.undo()
    assert plan.run() == 8


def test_a_duckdb_file_which_others_may_write_to_is_read_again(tmp_path, scans):
    place = tmp_path / "a.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x UNION ALL SELECT 2")
    table = RowTable.open(place, table="t", neighbor_relation=EACH_ROW)
    plan = table.prepare(chary.sum("x", bounds=(0, 9)))
    assert (plan.run(), plan.run()) == (3, 3)
    assert scans == {ROWS: 2, GROWN: 0}
    table.append(pa.table({"x": [4]}))
    assert plan.run() == 7


def test_values_of_what_came_are_all_that_is_read(monkeypatch):
    table, sqls = RowTable.open(pa.table({"x": [1, 2, 1]}), neighbor_relation=EACH_ROW), []
    original = DuckRows.numbers

    def noting(rows, sql, *asked):
        sqls.append(GROWN in sql)
        return original(rows, sql, *asked)

    monkeypatch.setattr(DuckRows, "numbers", noting)
    for times in ([2, 1], [2, 2], [2, 3]):
        found = table.ordered(ordered("x", bounds=(1, 3))).run()
        assert (found.places.tolist(), found.counts.tolist()) == ([0, 1], times)
        found.counts[:] = 99
        assert table.ordered(ordered("x", bounds=(1, 3))).run().counts.tolist() == times
        table.append(pa.table({"x": [2]}))
    assert sqls == [False, True, True]


def test_units_do_not_add_up(scans):
    rows = pa.table({"u": [1, 1, 2], "x": [1, 5, 3]})
    table = RowTable.open(rows, neighbor_relation=UNITS)
    asked = [
        count(),
        chary.sum("x", bounds=(0, 9), max_rows_per_unit=1),
        chary.sum("x", bounds=(0, 9), unit_total=(0, 7)),
    ]
    assert [table.prepare(query).run() for query in asked] == [2, 8, 9]
    table.append(rows)
    assert [table.prepare(query).run() for query in asked] == [2, 8, 13]
    assert scans == {ROWS: 6, GROWN: 0}


def test_a_column_named_rowid_is_no_count_of_rows(scans):
    table = RowTable.open(pa.table({"rowid": [7, 7]}), neighbor_relation=EACH_ROW)
    for size in (2, 3, 4):
        assert table.prepare(count()).run() == size
        table.append(pa.table({"rowid": [7]}))
    assert scans == {ROWS: 3, GROWN: 0}


def test_long_answers_are_not_kept(scans, monkeypatch):
    monkeypatch.setattr(adding, "MOST", 2)
    table = RowTable.open(pa.table({"k": ["a", "b"]}), neighbor_relation=EACH_ROW)
    for keys in (["a", "b"], ["a", "b", "c"]):
        for _ in range(2):
            assert table.prepare(count().by("k", keys)).run().sum() == 2
    assert scans == {ROWS: 3, GROWN: 0}


def test_what_is_remembered_is_told_by_nothing():
    table = RowTable.open(pa.table({"x": [987654321]}), neighbor_relation=EACH_ROW)
    plan = table.prepare(chary.sum("x", bounds=(0, EDGE)))
    assert plan.run() == 987654321
    added = plan._answer.__self__
    assert "98765" not in f"{plan!r} {added!r} {added._last!r} {added._last.state!r} {table!r}"
    assert "secret" in repr(added._last)
