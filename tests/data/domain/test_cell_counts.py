"""Counts by cells: against the engine's counts, row for row; shares of weights against flags over all cells."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from chary import Bins, InvalidQuery, NeighborRelation, Universe
from chary.data import Predicate, RowTable
from chary.data.universe import counts as cell_counts
from chary.data.universe.counts import CellQueries, CellReader
from chary.data.universe.regions import located
from chary.errors import EngineError
from tests.data.domain.test_regions import ATOMS, SCHEMA, SEXES, UNIVERSE, conditions

TEXTS = sorted({Predicate.parse(text).text for text in [*ATOMS, *conditions(60, seed=8)]})
QUERIES = [Predicate.parse(text) for text in TEXTS]
AXES = dict(UNIVERSE.columns)
WITHOUT = Universe(AXES, missing=False)
AGES = [0, 19, 20, None, 9, 10, 49, -1, 50, 99, 2**53 + 1, -(2**62)]
COSTS = [0.25, 0.5, None, -3.0, 7.0, 0.499, float("inf"), float("-inf"), float("nan"), -0.0]
GENDERS = ["f", "m", "x", None, "y", ""]
SMOKERS = [True, None, False]


def frame(rows, seed=0):
    random = np.random.default_rng(seed)
    columns = {"age": (AGES, "Int64"), "cost": (COSTS, "Float64"), "sex": (GENDERS, "string")}
    columns["smoker"] = (SMOKERS, "boolean")
    return pd.DataFrame(
        {
            name: pd.array([values[place] for place in random.integers(len(values), size=rows)], dtype=kind)
            for name, (values, kind) in columns.items()
        }
    )


def opened(rows):
    return RowTable.open(rows, neighbor_relation=NeighborRelation("replace", None))


@pytest.mark.parametrize("universe", [UNIVERSE, WITHOUT], ids=["missing", "without"])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_counts_are_those_of_the_engine(universe, rows):
    table = opened(frame(rows))
    found = CellReader(table, CellQueries(universe, table.schema, QUERIES)).run()
    texts = range(len(TEXTS)) if rows == 400 and universe is UNIVERSE else range(0, len(TEXTS), 7)
    expected = {k: table.prepare(located(universe, table.schema, QUERIES[k])[1]).run() for k in texts}
    assert found.size == rows
    assert {k: int(found.counts[k]) for k in texts} == expected
    assert found.counts.max() <= rows


def hostile(place):
    """A file with values that engines and arrays may read differently; texts that ignore case."""
    values = {
        "whole": ("BIGINT", [None, -(2**63), 2**63 - 1, 2**53 + 1, 2**53, 0, 5]),
        "wide": ("UBIGINT", [None, 2**64 - 1, 2**53 + 1, 5, 10]),
        "huge": ("HUGEINT", [None, -(2**126), 2**126, 5]),
        "real": ("FLOAT", [None, float("nan"), float("inf"), float("-inf"), -0.0, 0.1, 0.3]),
        "money": ("DECIMAL(38,10)", [None, "0.1", "0.2999999999", "0.3", "12345678901234567890.5"]),
        "text": ("VARCHAR COLLATE NOCASE", [None, "", "a", "A", "a\0", "a ", "\u00e4", "a\u0308"]),
        "kind": ("ENUM('a', 'b', 'c')", [None, "a", "b", "c"]),
    }
    random = np.random.default_rng(6)
    rows = zip(
        *([cells[k] for k in random.integers(len(cells), size=300)] for _, cells in values.values()), strict=True
    )
    with duckdb.connect(place) as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name, (kind, _) in values.items())})")
        connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(values))})", list(rows))


HOSTILE = {
    "whole": [-(2**63), 2**63 - 1, 2**53 + 1, 2**53],
    "wide": Bins([0, 10, 2**53]),
    "huge": Bins([0, 10], outside="edges"),
    "real": Bins(["0", "0.1", "0.3", "1"]),
    "money": Bins(["0.1", "0.3", "1"], outside="edges"),
    "text": ["a", "A", "", "\u00e4"],
    "kind": ["a", "b", "z"],
}


@pytest.mark.parametrize("missing", [True, False])
def test_hostile_values_are_counted_as_by_the_engine(tmp_path, missing):
    hostile(tmp_path / "rows.duckdb")
    table = RowTable.open(tmp_path / "rows.duckdb", table="rows", neighbor_relation=NeighborRelation("replace", None))
    universe = Universe(HOSTILE, missing=missing)
    texts = [f"{name} IS NULL" for name in HOSTILE] + [
        "whole > 9007199254740992 AND whole < 9223372036854775807",
        "whole = 9007199254740992.0 OR NOT kind <> 'a'",
        "wide >= 10 OR huge IS NULL",
        "NOT (real < 0.1) AND NOT money >= 0.3",
        "real >= 0 AND real < 0.3 OR kind = 'z'",
        "text = 'a' OR text = ''",
        "text > 'A' AND NOT text IN ('a', '')",
    ]
    queries = [Predicate.parse(text) for text in texts]
    found = CellReader(table, CellQueries(universe, table.schema, queries)).run().counts
    expected = [table.prepare(located(universe, table.schema, query)[1]).run() for query in queries]
    assert found.tolist() == expected
    assert min(expected[len(HOSTILE) :]) > 0


def test_a_change_of_one_row_changes_every_count_by_at_most_one():
    rows, queries = frame(50, seed=1), CellQueries(UNIVERSE, SCHEMA, QUERIES)
    before = CellReader(opened(rows), queries).run().counts
    for place, other in enumerate(frame(20, seed=2).to_dict("records")):
        changed = rows.copy()
        changed.loc[place] = other
        assert np.abs(CellReader(opened(changed), queries).run().counts - before).max() <= 1


@pytest.mark.parametrize("block", [1, 50, 2**21])
@pytest.mark.parametrize("universe", [UNIVERSE, WITHOUT], ids=["missing", "without"])
def test_shares_are_sums_over_flags(universe, block, monkeypatch):
    monkeypatch.setattr(cell_counts, "_BLOCK", block)
    weights = np.random.default_rng(3).random(universe.cells).astype(np.float32)
    shares = CellQueries(universe, SCHEMA, QUERIES).shares(weights.reshape(2, -1))
    plain = weights.astype(np.float64)
    expected = [plain[located(universe, SCHEMA, query)[0].flags()].sum() / plain.sum() for query in QUERIES]
    assert shares == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_many_columns_and_queries_of_all_of_them():
    names = "abcdefg"
    declared = {name: range(2 + place % 3) for place, name in enumerate(names)}
    universe = Universe(declared)
    random = np.random.default_rng(4)
    rows = pd.DataFrame({name: random.integers(-1, 5, 300) for name in names})
    texts = [" AND ".join(f"{name} <> {k % len(declared[name])}" for name in names[k % 4 :]) for k in range(12)]
    table = opened(rows)
    queries = [Predicate.parse(text) for text in dict.fromkeys(texts)]
    found = CellReader(table, CellQueries(universe, table.schema, queries)).run().counts
    assert found.tolist() == [table.prepare(located(universe, table.schema, query)[1]).run() for query in queries]
    weights = random.random(universe.cells).astype(np.float32)
    shares = CellQueries(universe, table.schema, queries).shares(weights)
    flags = [located(universe, table.schema, query)[0].flags() for query in queries]
    assert shares == pytest.approx([weights[flag].sum() / weights.sum() for flag in flags], rel=1e-5)


def test_whole_numbers_between_edges_that_are_not_whole():
    universe = Universe({"age": Bins(["-0.5", "0.2", "1.5", "3"])})
    table = opened(pd.DataFrame({"age": [-1, 0, 0, 1, 2, 3]}))
    queries = [Predicate.parse(text) for text in ("age < 1", "age >= 1", "age IS NULL")]
    assert CellReader(table, CellQueries(universe, table.schema, queries)).run().counts.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (SCHEMA, []),
        (SCHEMA, ["age >= 15"]),
        (SCHEMA, ["sex LIKE 'f%'"]),
        (SCHEMA, ["age > cost"]),
        (SCHEMA, ["height > 3"]),
        (SCHEMA, ["sex = 'f'", "age > height"]),
        (SCHEMA | {"sex": "int64"}, ["age >= 10"]),
        ({"age": "int64"}, ["age >= 10"]),
    ],
)
def test_what_cannot_be_counted_is_refused(schema, texts):
    with pytest.raises(InvalidQuery):
        CellQueries(UNIVERSE, schema, [Predicate.parse(text) for text in texts])


def test_too_many_are_refused(monkeypatch):
    monkeypatch.setattr(cell_counts, "MOST_QUERIES", 3)
    with pytest.raises(InvalidQuery, match="1 to 3"):
        CellQueries(UNIVERSE, SCHEMA, QUERIES[:4])
    monkeypatch.setattr(cell_counts, "MOST_FLAGS", 10)
    with pytest.raises(InvalidQuery, match="too many queries on too many columns"):
        CellQueries(UNIVERSE, SCHEMA, QUERIES[:3])


def test_nothing_shows_a_row():
    table = opened(pd.DataFrame({"sex": ["SECRETNAME"] * 3}))
    reader = CellReader(table, CellQueries(Universe({"sex": SEXES}), table.schema, [Predicate.parse("sex = 'f'")]))
    assert "SECRET" not in repr(reader.run()).replace("<secret>", "")
    reader._rows = type("Broken", (), {"run": lambda self: pd.DataFrame({"sex": ["SECRETNAME"]})})()
    with pytest.raises(EngineError) as caught:
        reader.run()
    assert "SECRETNAME" not in str(caught.value)
    assert caught.value.__context__ is None
    table.close()
    with pytest.raises(EngineError):
        CellReader(table, CellQueries(Universe({"sex": SEXES}), table.schema, [Predicate.parse("sex = 'f'")])).run()
