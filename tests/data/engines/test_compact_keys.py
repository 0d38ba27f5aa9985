"""Keys that fill their range are counted before they are joined: the same answers, other values left out early."""

import itertools
from datetime import date, timedelta
from functools import lru_cache

import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, mean
from chary.data.engines import compiler as evaluation
from chary.data.engines import sql
from chary.data.engines.compiler import edges_of

NEIGHBOURS = NeighborRelation("replace", None)
FIRST = date(2024, 2, 28)
DAYS = [FIRST + timedelta(days=number) for number in range(4)]
SCHEMA = pa.schema({"i": pa.int64(), "j": pa.int32(), "d": pa.date32(), "x": pa.float64()})
ROWS = [
    {"i": i, "j": j, "d": day, "x": x}
    for (i, j, day), x in zip(
        itertools.product([None, -(2**63), -1, 0, 2, 3, 2**63 - 1], [None, 0, 1, 7], [None, *DAYS[:3], date.max]),
        itertools.cycle([1.0, None, 2.6, -9.0, 99.0, float("nan")]),
    )
]
KEYED = [
    ("i", [3, 0, 1, -1]),
    ("i", [2**63 - 1, 2**63 - 2]),
    ("i", [5]),
    ("d", DAYS[::-1]),
    (["j", "i"], [(0, 2), (1, 2), (0, 3), (1, -1)]),
    (["i", "d"], [(2, day) for day in DAYS]),
]


def expected(columns, keys, adds):
    names = [columns] if isinstance(columns, str) else columns
    wanted = [key if isinstance(key, tuple) else (key,) for key in keys]
    found = dict.fromkeys(wanted, 0)
    for row in ROWS:
        key = tuple(row[name] for name in names)
        if key in found:
            found[key] += adds(row["x"])
    return [found[key] for key in wanted]


def known(value):
    return value is not None and value == value


@pytest.fixture(scope="module")
def table():
    held = RowTable.open(pa.Table.from_pylist(ROWS, SCHEMA), neighbor_relation=NEIGHBOURS)
    yield held
    held.close()


@pytest.mark.parametrize(("columns", "keys"), KEYED)
def test_the_answers_are_those_of_each_key(table, columns, keys):
    def ask(query):
        return table.prepare(query).run().tolist()

    def clipped(value):
        return min(max(round(value), 0), 5) if known(value) else 0

    assert ask(count().by(columns, keys)) == expected(columns, keys, lambda _: 1)
    assert ask(count("x > 2").by(columns, keys)) == expected(columns, keys, lambda x: known(x) and x > 2)
    assert ask(chary.sum("x", bounds=(0, 5)).by(columns, keys)) == expected(columns, keys, clipped)
    centred, rows = (ask(part) for part in mean("x", bounds=(0, 4)).by(columns, keys).parts(NEIGHBOURS))
    assert rows == expected(columns, keys, known)
    assert centred == expected(columns, keys, lambda x: min(max(round(x), 0), 4) - 2 if known(x) else 0)


def test_answers_add_up_after_a_batch():
    held = RowTable.open(pa.Table.from_pylist(ROWS, SCHEMA), neighbor_relation=NEIGHBOURS)
    asked = held.prepare(count().by("i", [3, 2, 0]))
    before = asked.run()
    held.append(pa.Table.from_pylist([{"i": 2}, {"i": 2}, {"i": 7}], SCHEMA))
    assert (asked.run() - before).tolist() == [0, 2, 0]
    held.close()


def test_both_ways_answer_alike_and_which_is_taken_follows_from_the_keys(table, monkeypatch):
    query = count("x > 0").by("i", [3, 2, -1, 0])
    first = table.held.compile(query)
    monkeypatch.setattr(evaluation, "edges_of", lambda _: None)
    monkeypatch.setattr(sql, "_compiled", lru_cache(sql._compiled.__wrapped__))
    joined = table.held.compile(query)
    assert "BETWEEN" in first.sql
    assert "BETWEEN" not in joined.sql
    assert first.run().tolist() == joined.run().tolist()


def test_keys_far_apart_or_of_other_types_are_joined_first():
    assert edges_of([("int64", [0, 3]), ("date", [FIRST, FIRST])]) == [(0, 3), (FIRST, FIRST)]
    assert edges_of([("int64", [0, 8])]) is None
    assert edges_of([("int64", [0, 1]), ("int64", [0, 5])]) is None
    assert edges_of([("date", [date.min, date.max])]) is None
    for kind, values in (("string", ["a"]), ("boolean", [True]), ("timestamp", [None]), ("float64", [1.0])):
        assert edges_of([("int64", [0]), (kind, values)]) is None
