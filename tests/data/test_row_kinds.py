"""Which conditions can hold of one row together: never fewer than real rows show."""

import itertools
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from chary import InvalidQuery, count
from chary.data import NeighborRelation, Predicate, RowTable
from chary.data.queries.overlap import row_kinds

DAYS = [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1), None]
TIMES = [datetime(2026, 1, 1), datetime(2026, 1, 1, 12), datetime(2026, 2, 1), None]
ROWS = [
    {"n": n, "x": x, "sex": sex, "ok": ok, "day": day, "at": at, "id": 0}
    for n, (x, sex), ok, (day, at) in itertools.product(
        [-5, 0, 1, 2**53 + 3, 2**60, None],
        [(0.1, "f"), (0.30000000000000004, "m"), (0.3, "x"), (1e300, None), (None, "F"), (float("inf"), "")],
        [True, False, None],
        zip(DAYS, TIMES, strict=True),
    )
]
CONDITIONS = [
    "n < 1",
    "n = 1",
    "n >= 0.5",
    "NOT (n < 1)",
    "n IS NULL",
    "n IN (0, 1)",
    "NOT (n IN (0, 1.5))",
    "x = 0.3",
    "x > 0.3",
    "x <= 0.30000000000000004",
    "x <> 0.1",
    "sex = 'f'",
    "sex <> 'f'",
    "sex IN ('f', 'm')",
    "sex < 'g'",
    "sex LIKE 'f%'",
    "ok",
    "NOT ok",
    "ok = FALSE",
    "day >= '2026-02-01'",
    "day < DATE '2026-02-01'",
    "at > '2026-01-01'",
    "at = '2026-01-01 00:00'",
    "at = DATE '2026-01-01'",
    "n < x",
    "n >= 1152921504606846976",
    # As integers and as doubles: two questions, whose literals are equal in Python.
    "n < 9007199254740996",
    "n < 9007199254740996.0",
    "n IN (9007199254740996, 1)",
    "n IN (9007199254740996.0, 1)",
    "CASE WHEN n < 9007199254740996 THEN 1 ELSE 0 END = 1",
    "CASE WHEN n < 9007199254740996.0 THEN 1 ELSE 0 END = 1",
    "n < 1 OR sex = 'f'",
    "NOT (n < 1 AND sex = 'f')",
    "month(day) = 1",
    "NOT (month(day) IN (1, 3))",
    "date_trunc('month', at) > DATE '2026-01-15'",
    "weekday(day) < day(at)",
    "n % 3 = 1",
    "clip(x, 0, 1) * 2 <= 0.5",
    "COALESCE(sex, 'f') = 'f'",
    "COALESCE(ok, FALSE)",
    "CASE WHEN ok THEN n ELSE x END IS NULL",
]


@pytest.fixture(scope="module")
def table():
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    types = {"n": pa.int64(), "x": pa.float64(), "sex": pa.string(), "ok": pa.bool_(), "day": pa.date32()}
    types |= {"at": pa.timestamp("us"), "id": pa.int64()}
    given = columns | {"id": range(len(ROWS))}
    rows = pa.table({name: pa.array(values, types[name]) for name, values in given.items()})
    return RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", None))


def held(table, text):
    """For each row whether the engine says that the condition holds of it."""
    return np.asarray(table.prepare(count(text).by("id", range(len(ROWS)))).run()).astype(bool)


@pytest.fixture(scope="module")
def flags(table):
    return {text: held(table, text) for text in CONDITIONS}


def test_every_row_is_of_a_kind_that_is_found(table, flags):
    """All pairs and many triples of conditions, of every type of column, on rows at and between all values."""
    generator = np.random.default_rng(5)
    asked = [list(pair) for pair in itertools.combinations(CONDITIONS, 2)]
    asked += [list(generator.choice(CONDITIONS, size=4, replace=False)) for _ in range(150)]
    for texts in asked:
        kinds = row_kinds([Predicate.parse(text) for text in texts], table.schema)
        seen = np.unique(np.stack([flags[text] for text in texts], axis=1), axis=0)
        missing = set(map(tuple, seen.tolist())) - set(map(tuple, kinds.tolist()))
        assert not missing, texts


@pytest.mark.parametrize(
    ("texts", "most"),
    [
        (["n < 1", "n >= 1", "n IS NULL"], 1),
        (["n < 1", "n < 2", "n = 3"], 2),
        (["sex = 'f'", "sex = 'm'", "NOT (sex = 'f')"], 2),
        (["ok", "NOT ok", "ok IS NULL"], 1),
        (["day < '2026-02-01'", "day >= DATE '2026-02-01'"], 1),
        (["at < '2026-02-01'", "at = '2026-02-01 00:00:00'", "at = DATE '2026-02-01'"], 2),
        (["sex = 'f' AND n < 5", "sex = 'f' AND n >= 5", "sex = 'm'"], 1),
        (["sex LIKE 'a%'", "sex LIKE 'b%'"], 2),
        (["n >= 1152921504606846976", "n < 1152921504606846976"], 2),
        (["n < 0 AND n > 5", None], 1),
        (["month(day) = 1", "month(day) = 2", "month(day) IS NULL"], 1),
        (["n % 10 = 3", "n % 10 = 4", "n % 5 = 4"], 2),
        (["clip(n, 0, 9) * 1 = 3", "clip(n, 0, 9) * 1.0 <> 3"], 2),
        (["month(day) = 1", '"month(day)" = 2'], 2),
    ],
)
def test_how_many_can_hold_together(table, texts, most):
    kinds = row_kinds([None if text is None else Predicate.parse(text) for text in texts], table.schema)
    assert kinds.sum(axis=1).max() == most


def test_too_many_kinds_are_not_gone_through(table):
    asked = [Predicate.parse(f"{name} {sign} {value}") for name in ("n", "x") for sign in "<=" for value in range(300)]
    assert row_kinds(asked, table.schema) is None
    with pytest.raises(InvalidQuery, match="unknown column"):
        row_kinds([Predicate.parse("height > 5")], table.schema)
