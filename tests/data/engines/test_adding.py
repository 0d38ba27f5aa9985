"""Answers that are added up batch by batch, against those of rows that were opened together."""

import os
from collections import defaultdict
from contextlib import suppress

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, histogram, mean, ordered, second_moments
from chary.data.engines.duckdb import connection, remembered
from chary.data.engines.duckdb.append import GROWN, THEN
from chary.data.engines.duckdb.engine import DuckRows
from chary.data.engines.sql import ROWS, EnginePlan
from chary.data.partition import Partition
from chary.data.queries.ordered import Elements
from chary.errors import EngineError, SchemaMismatch

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
    seen, original = defaultdict(int, {ROWS: 0, GROWN: 0}), EnginePlan.read

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


def file_of(place, rows):
    with duckdb.connect(place) as file:
        file.register("first", rows)
        file.execute("CREATE TABLE t AS FROM first")
    return place


def test_batches_of_a_duckdb_file_add_up(tmp_path, scans):
    random = np.random.default_rng(7)
    parts = [drawn(random, 50)]
    table = RowTable.open(file_of(tmp_path / "a.duckdb", parts[0]), table="t", neighbor_relation=EACH_ROW)
    assert answers(table) == whole(parts)
    for size in (1, 0, 20):
        parts.append(drawn(random, size))
        table.append(parts[-1])
        assert answers(table) == answers(table) == whole(parts)
    # Batches that are empty or refused change nothing, and nothing is read for them.
    with pytest.raises(SchemaMismatch):
        table.append(pa.table({"z": [1]}))
    assert answers(table) == whole(parts)
    others = 5 * len(QUERIES)
    assert scans == {ROWS: len(QUERIES) + others, GROWN: 2 * len(QUERIES)}


@pytest.mark.parametrize("near", [EACH_ROW, UNITS])
def test_a_duckdb_file_from_which_rows_were_taken_out_is_read_whole(tmp_path, near):
    """The engine numbers the rows behind them anew when it tidies up, here at the append."""
    place = file_of(tmp_path / "a.duckdb", pa.table({"u": range(1000)}))
    with duckdb.connect(place) as file:
        file.execute("DELETE FROM t WHERE u % 10 < 9")
    table = RowTable.open(place, table="t", neighbor_relation=near)
    plan = table.prepare(count())
    assert (plan.run(), plan.run()) == (100, 100)
    for batch in range(1, 4):
        table.append(pa.table({"u": range(3000 * batch, 3000 * batch + 3000)}))
        assert plan.run() == plan.run() == 100 + 3000 * batch


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_duckdb_file_that_others_wrote_is_read_again(tmp_path, scans, monkeypatch, when):
    """Whoever writes it while it is not open here, before an append takes it or after; the rows of old are others."""
    place = file_of(tmp_path / "a.duckdb", pa.table({"u": [1, 2], "x": [1, 2]}))
    table = RowTable.open(place, table="t", neighbor_relation=EACH_ROW)
    plan, original = table.prepare(chary.sum("x", bounds=(0, 9))), connection._write_file
    assert (plan.run(), plan.run()) == (3, 3)
    table.append(pa.table({"u": [3], "x": [4]}))
    assert plan.run() == 7
    assert scans == {ROWS: 1, GROWN: 1}

    def change():
        with duckdb.connect(place) as file:
            file.execute("UPDATE t SET x = x + 1")

    def writing(*given):
        if when == "before":
            change()
        found = original(*given)
        if when == "after":
            change()
        return found

    monkeypatch.setattr(connection, "_write_file", writing)
    table.append(pa.table({"u": [4], "x": [1]}))
    monkeypatch.undo()
    assert plan.run() == (11 if when == "before" else 12)
    table.append(pa.table({"u": [5], "x": [1]}))
    assert plan.run() == (12 if when == "before" else 13)


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


def test_sums_of_units_do_not_add_up(scans):
    rows = pa.table({"u": [1, 1, 2], "x": [1, 5, 3]})
    table = RowTable.open(rows, neighbor_relation=UNITS)
    asked = [
        chary.sum("x", bounds=(0, 9), max_rows_per_unit=1),
        chary.sum("x", bounds=(0, 9), unit_total=(0, 7)),
        count("x > 3", without="x = 3"),
    ]
    assert [table.prepare(query).run() for query in asked] == [8, 9, 1]
    table.append(rows)
    assert [table.prepare(query).run() for query in asked] == [8, 13, 1]
    assert scans == {ROWS: 6, GROWN: 0}


KEYS = {"columns": "k", "keys": ["c", "a", "b"]}
COUNTS = [
    count(),
    count("x > 0"),
    count().by(**KEYS),
    count("x >= 0").by(**KEYS, assumed_groups_per_unit=2),
    count().by(**KEYS, max_groups_per_unit=1),
    count("x < 9").by(**KEYS, max_groups_per_unit=2),
]


def with_units(random, size, texts):
    units = [None if unit == 9 else f"home {unit}" if texts else int(unit) for unit in random.integers(0, 40, size)]
    return drawn(random, size).set_column(0, "u", pa.array(units, pa.string() if texts else pa.int64()))


def by_hand(rows, query):
    """How many units count, one row after another."""
    keys, keep = query.keys, None if query.keying is None else query.keying.max_groups_per_unit
    holds = {None: lambda x: True, "x > 0": lambda x: x > 0, "x >= 0": lambda x: x >= 0, "x < 9": lambda x: x < 9}
    where, found = None if query.where is None else query.where.text, {}
    for row in rows.to_pylist():
        inside = row["x"] is not None and holds[where](row["x"]) if where else True
        place = 0 if keys is None else next((k for k, key in enumerate(keys) if key == (row["k"],)), None)
        if row["u"] is not None and inside and place is not None:
            found.setdefault(row["u"], set()).add(place)
    counted = [place for places in found.values() for place in sorted(places)[:keep]]
    return [counted.count(place) for place in range(len(keys or (0,)))]


@pytest.mark.parametrize("kind", ["frame", "folder", "texts in a file"])
def test_counts_of_units_go_on_from_those_that_are_known(tmp_path, kind, scans, monkeypatch):
    """In any order of appends, looks at now and at earlier versions, interruptions and failures."""
    random, texts = np.random.default_rng(11), kind.startswith("texts")
    parts, options = [with_units(random, 60, texts)], {"neighbor_relation": UNITS}
    pq.write_table(parts[0], tmp_path / "0.parquet")
    source = {"frame": parts[0], "folder": tmp_path}.get(kind) or file_of(tmp_path / "a.duckdb", parts[0])
    table = RowTable.open(source, **options, **({"table": "t"} if "file" in kind else {}))
    taken, original = [], remembered._taken_up

    def torn(*given):
        """Fails sometimes, before or after what is known has changed."""
        taken.append(0)
        fails, late = random.random() < 0.1, random.random() < 0.5
        if fails and not late:
            raise KeyboardInterrupt
        found = original(*given)
        if fails:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(remembered, "_taken_up", torn)
    for number in range(1, 11):
        parts.append(with_units(random, int(random.integers(0, 25)), texts))
        pq.write_table(parts[-1], tmp_path / f"{number}.parquet")
        table.append(parts[-1] if kind != "folder" or number % 3 else tmp_path / f"{number}.parquet")
        version = number if random.random() < 0.8 else int(random.integers(0, number + 1))
        then = table if version == number and random.random() < 0.5 else table.as_of(version)
        for query in COUNTS:
            plan = then.prepare(query)
            with suppress(KeyboardInterrupt):
                assert np.atleast_1d(plan.run()).tolist() == by_hand(pa.concat_tables(parts[: version + 1]), query)
    assert len(taken) > 3 * len(COUNTS)
    assert scans[ROWS] + scans[THEN] < 6 * len(COUNTS)


def test_a_set_that_fails_or_grows_too_large_is_given_up(scans, monkeypatch):
    rows = pa.table({"u": [1, 2, 3], "x": [1, 5, 3]})
    for broken in ("_put_together", "_taken_up", "MOST_KNOWN"):
        table = RowTable.open(rows, neighbor_relation=UNITS)
        plan = table.prepare(count("x > 0"))
        with monkeypatch.context() as patched:
            patched.setattr(remembered, broken, 4 if broken == "MOST_KNOWN" else None)
            for size in (3, 4, 5, 6):
                assert plan.run() == size
                table.append(pa.table({"u": [size + 1], "x": [1]}))
        before = scans[ROWS]
        assert plan.run() == 7
        assert scans[ROWS] == before + 1


def test_only_the_last_few_sets_are_kept(monkeypatch):
    monkeypatch.setattr(remembered, "_SETS", 2)
    table = RowTable.open(pa.table({"u": [1, 2], "x": [1, 5]}), neighbor_relation=UNITS)
    plans = [table.prepare(count(f"x > {edge}")) for edge in range(4)]
    for size in (1, 2, 3):
        assert [plan.run() for plan in plans] == [1 + size, size, size, size]
        table.append(pa.table({"u": [size + 2], "x": [9]}))
    memories = table.held.database.memories._kept.values()
    assert sum(memory.knows for memory in memories) <= 3


def test_limits_within_blocks_and_first_parts_are_read_from_all_rows(scans):
    rows = pa.table({"u": [1, 1, 2], "k": ["a", "b", "a"], "x": [1, 5, 3]})
    table = RowTable.open(rows, neighbor_relation=UNITS)
    first = Partition.of("k", ["a", "b"], table.schema, UNITS, max_parts_per_unit=1).parts["a"]
    plain = Partition.of("k", ["a", "b"], table.schema, UNITS, assumed_parts_per_unit=2).parts["b"]
    plans = [table.of_part(part).prepare(count()) for part in (first, plain)]
    for size in (2, 3, 4):
        assert [plan.run() for plan in plans] == [size, 1]
        table.append(pa.table({"u": [size + 1, 1], "k": ["a", "b"], "x": [1, 1]}))
    assert scans == {ROWS: 3 + 1, GROWN: 0}


def test_a_column_named_rowid_is_no_count_of_rows(scans):
    table = RowTable.open(pa.table({"rowid": [7, 7]}), neighbor_relation=EACH_ROW)
    for size in (2, 3, 4):
        assert table.prepare(count()).run() == size
        table.append(pa.table({"rowid": [7]}))
    assert scans == {ROWS: 3, GROWN: 0}


def test_long_answers_are_not_kept(scans, monkeypatch):
    monkeypatch.setattr(remembered, "MOST", 2)
    table = RowTable.open(pa.table({"k": ["a", "b"]}), neighbor_relation=EACH_ROW)
    for keys in (["a", "b"], ["a", "b", "c"]):
        for _ in range(2):
            assert table.prepare(count().by("k", keys)).run().sum() == 2
    assert scans == {ROWS: 3, GROWN: 0}


def test_what_is_remembered_is_told_by_nothing():
    table = RowTable.open(pa.table({"x": [987654321]}), neighbor_relation=EACH_ROW)
    plan = table.prepare(chary.sum("x", bounds=(0, EDGE)))
    assert plan.run() == 987654321
    [added] = table.held.database.memories._kept.values()
    assert "98765" not in f"{plan!r} {added!r} {added.last!r} {added.last.state!r} {table!r}"
    assert "secret" in repr(added.last)
