"""The suite notices an engine that reads or computes a little otherwise: each break makes some answer differ."""

import math
import random
from functools import lru_cache

import ibis
import pyarrow as pa
import pytest

from chary.data import NeighborRelation, RowTable
from chary.data.engines import sql
from chary.data.engines.duckdb.engine import DuckDialect
from tests.engines import meanings
from tests.engines.asked import ANSWERED, Picker
from tests.engines.cells import ROWS, frame, world

BY_UNIT, BY_ROW = NeighborRelation("replace", "u"), NeighborRelation("replace", None)


def changed(column, change):
    """Opens rows of which this column is read otherwise."""
    return frame([row | {column: None if row[column] is None else change(row[column])} for row in ROWS])


def through_doubles(number):
    return min(int(float(number)), 2**63 - 1)


READ = {
    "units are folded": (changed("u", str.lower), "count", BY_UNIT),
    "units are trimmed": (changed("u", str.strip), "count", BY_UNIT),
    "accents are composed": (changed("u", lambda text: text.replace("e\u0301", "é")), "count", BY_UNIT),
    "keys are trimmed": (changed("k", str.strip), "count by keys of rows", BY_ROW),
    "empty texts are NULL": (changed("k", lambda text: text or None), "count by keys of rows", BY_ROW),
    "integers go through doubles": (
        changed("i", through_doubles),
        "count by keys of rows",
        BY_ROW,
    ),
    "NaN is a number": (changed("x", lambda x: 9.0 if math.isnan(x) else x), "count", BY_ROW),
    "infinities are NULL": (changed("x", lambda x: None if math.isinf(x) else x), "total of rows", BY_ROW),
    "moments are of milliseconds": (
        changed("t", lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
        "count by keys of rows",
        BY_ROW,
    ),
    "a row is lost": (frame(ROWS[:-1]), "count", BY_ROW),
    "a row is twice": (pa.concat_tables([frame(ROWS), frame(ROWS[9:10])]), "count", BY_ROW),
}


def to_even(dialect, value):
    above = (value + 0.5).floor().cast("float64")
    return ibis.ifelse((above - value == 0.5) & (above % 2 != 0), above - 1, above)


COMPUTED = {
    "halves go to even numbers": to_even,
    "halves go upwards": lambda self, value: (value + 0.5).floor().cast("float64"),
    "rounded down": lambda self, value: value.floor().cast("float64"),
}


def differs(table, form, neighbor_relation, tries=40):
    """Whether some answer of this form is not what it means."""
    drawn = random.Random(form)
    for number in range(tries):
        pick = Picker(drawn, None if number % 2 else drawn.choice(range(24)), neighbor_relation)
        pick.grid = lambda: drawn.choice(
            [("x", (-2, 3), 1), ("x", ("-0.5", "1.5"), "0.5"), ("i", (-(2**53), 2**53), 1)]
        )
        pick.by = lambda query, limits: query.by(*drawn.choice(KEYS), **limits)
        for query in ANSWERED[form][2](pick, {}):
            found = table.prepare(query).run()
            listed = found if isinstance(found, int) else found.tolist()
            if listed != meanings.answer(query, world(pick.world), neighbor_relation.unit):
                return True
    return False


KEYS = [
    ("i", [2**53 + 1, 2**63 - 1]),
    ("k", ["a", "a ", "", "b"]),
    ("t", [row["t"] for row in ROWS if row["t"] and row["t"].microsecond == 1][:1]),
]


@pytest.mark.parametrize("what", READ)
def test_rows_that_are_read_otherwise(what):
    rows, form, neighbor_relation = READ[what]
    table = RowTable.open(rows, neighbor_relation=neighbor_relation)
    assert differs(table, form, neighbor_relation)
    table.close()


@pytest.mark.parametrize("what", COMPUTED)
def test_numbers_that_are_rounded_otherwise(monkeypatch, what):
    # What is compiled here is of no other test.
    monkeypatch.setattr(sql, "_compiled", lru_cache(sql._compiled.__wrapped__))
    monkeypatch.setattr(DuckDialect, "nearest", COMPUTED[what])
    table = RowTable.open(frame(ROWS), neighbor_relation=BY_ROW)
    assert differs(table, "total of rows", BY_ROW)
    table.close()


def test_an_engine_that_is_as_it_should_be_does_not_differ():
    table = RowTable.open(frame(ROWS), neighbor_relation=BY_ROW)
    assert not any(
        differs(table, form, BY_ROW, tries=4) for form in ("count", "total of rows", "count by keys of rows")
    )
    table.close()
