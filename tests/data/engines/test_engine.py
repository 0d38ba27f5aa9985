"""What the protocol promises, asked of every engine by the protocol's own members."""

import hashlib

import pyarrow as pa
import pytest

import chary
from chary.data import EntryLimit, NeighborRelation, Neighbors, count, ordered
from chary.data.engines.duckdb.engine import DuckDB
from chary.data.engines.protocol import Engine, EngineRows
from chary.data.queries.ordered import Elements
from chary.data.rows import Rooms, StepColumns
from chary.data.source import RowSource
from chary.errors import CharyError, EngineError, SchemaMismatch

ENGINES = [DuckDB()]
FRAME = pa.table({"unit": [1, 1, 2, 3], "key": ["a", "b", "a", "b"], "cost": [5, 7, 2**53, -3]})
PLANS = {
    "count": lambda held: held.compile(count("cost > 2").by("key", ["b", "a", "c"])),
    "total": lambda held: held.compile(chary.sum("cost", bounds=(0, 9), max_rows_per_unit=1)),
    "snapshot": lambda held: held.snapshot(["cost", "key"]),
    "ordered": lambda held: held.ordered(ordered("cost", bounds=(0, 9), max_rows_per_unit=1)),
}
ROOMS = Rooms(pa.table({"unit": pa.array([1], pa.int64()), "room": pa.array([0], pa.int64())}), 2)


@pytest.fixture(params=ENGINES, ids=lambda engine: type(engine).__name__)
def engine(request):
    return request.param


@pytest.fixture
def opened(engine):
    held = []

    def opening(source=FRAME, *, unit="unit", limit=None, **said):
        held.append(engine.open(RowSource.of(source, **said), unit, None, limit))
        return held[-1]

    yield opening
    for rows in held:
        rows.close()


def unheard(batch):
    """Nobody waits for it."""


def more(**columns):
    return RowSource.of(pa.table({"unit": [4], "key": ["a"], "cost": [9]} | columns))


def test_every_member_is_there_and_says_what_it_promises(engine, opened):
    for protocol, made in ((Engine, engine), (EngineRows, opened())):
        members = [name for name in vars(protocol) if not name.startswith("_")]
        assert len(members) >= 3
        for name in members:
            assert hasattr(made, name), name
            assert vars(protocol)[name].__doc__, name


def test_sums_are_exact_beyond_what_doubles_and_64_bits_hold(opened):
    many = pa.table({"unit": list(range(4099)), "key": ["a"] * 4099, "cost": [2**53 - 1] * 4099})
    asked = chary.sum("cost", bounds=(0, 2**53 - 1), max_rows_per_unit=1)
    exact = 4099 * (2**53 - 1)
    assert exact > 2**64
    assert opened(many).compile(asked).run() == exact
    assert opened(many).compile(asked.by("key", ["b", "a"])).run().tolist() == [0, exact]


def test_each_reading_is_of_the_rows_there_are_when_it_runs(opened):
    held = opened()
    plans = {name: plan(held) for name, plan in PLANS.items()}
    assert plans["count"].run().tolist() == [1, 2, 0]
    held.append(more(), None, unheard)
    assert plans["count"].run().tolist() == [1, 3, 0]
    assert plans["total"].run() == 7 + 9 + 0 + 9
    assert sorted(plans["snapshot"].run()["cost"].to_pylist()) == [-3, 5, 7, 9, 2**53]
    found = plans["ordered"].run()
    assert (found.places.tolist(), found.counts.tolist()) == ([0, 5, 9], [1, 1, 2])


def test_plans_are_made_without_a_row_and_fail_without_one_when_they_run(opened):
    held = opened()
    held.close()
    for plan in PLANS.values():
        made = plan(held)
        with pytest.raises(EngineError) as caught:
            made.run()
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    held.elements(Elements()).run()
    held.living(count()).run()


def test_the_columns_of_a_file_do_not_follow_from_its_cells(opened, tmp_path):
    schemas = []
    for name, cells in (("whole", "1,a,5"), ("text", "1,a,SECRET"), ("none", ",,")):
        (tmp_path / f"{name}.csv").write_text(f"unit,key,cost\n{cells}\n")
        held = opened(tmp_path / f"{name}.csv", types={"cost": "BIGINT"})
        schemas.append((held.schema, held.reading))
    assert schemas[0] == schemas[1] == schemas[2]
    assert schemas[0][0]["cost"] == "int64"


@pytest.mark.parametrize("columns", [{"cost": ["SECRET"]}, {"other": ["SECRET"]}, {"unit": ["SECRET"]}])
def test_rows_that_do_not_fit_are_refused_whole_and_their_values_are_not_told(opened, columns):
    held = opened()
    with pytest.raises(SchemaMismatch) as caught:
        held.append(more(**columns), None, unheard)
    assert "SECRET" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert held.compile(count()).run() == 3
    assert held.batches(0) == []


def test_a_batch_that_nobody_takes_in_is_not_there(opened):
    held = opened()

    def refuse(batch):
        raise CharyError("the ledger is closed")

    with pytest.raises(CharyError, match="closed"):
        held.append(more(), "monday", refuse)
    assert (held.compile(count()).run(), held.batches(0)) == (3, [])
    first = held.append(more(), "monday", unheard)
    assert held.append(more(), "monday", unheard) == first
    assert (held.compile(count()).run(), held.batches(0), held.batches(1)) == (4, [first], [])


def test_what_is_stored_can_be_opened_and_keeps_what_is_added(engine, opened, tmp_path):
    engine.store(tmp_path / "rows.db", 'the "rows"', FRAME)
    for size in (4, 5):
        held = opened(tmp_path / "rows.db", table='the "rows"', unit=None)
        assert held.keeps_batches
        assert held.compile(count()).run() == size
        held.append(more(), str(size), unheard)
        held.close()


def test_a_limit_holds_at_the_opening_and_for_what_is_added(opened):
    with pytest.raises(SchemaMismatch, match="more than 1 entries"):
        opened(unit=None, limit=EntryLimit("unit", 1))
    held = opened(unit=None, limit=EntryLimit("unit", 2))
    with pytest.raises(SchemaMismatch, match="more than 2 entries"):
        held.append(more(unit=[1]), None, unheard)
    assert held.compile(count()).run() == 4


@pytest.mark.parametrize("without", [None, "cost = 7", "cost < 0"])
def test_living_units_are_those_that_are_counted_and_have_room(opened, without):
    held, asked = opened(), count("cost <> 2", without=without)
    excluded = {None: set(), "cost = 7": {1}, "cost < 0": {3}}[without]
    everybody = Rooms(pa.table({"unit": pa.array([], pa.int64()), "room": pa.array([], pa.int64())}), 2)
    for rooms, spent in ((everybody, set()), (ROOMS, {1})):
        with held.living(asked).at(rooms) as units:
            there = {1, 2, 3} - excluded - spent
            assert units.answers().tolist() == [len(there)]
            assert set(units.of([0])["unit"].to_pylist()) == there
    assert held.compile(asked).run() == 3 - len(excluded)


def test_words_are_the_same_in_every_engine(opened):
    """The first 64 bits of SHA-256 of key, kind and text."""
    words, mark = opened().elements(Elements()).words("key")
    assert sorted(words.tolist()) == sorted(
        int(hashlib.sha256(f"keyi{unit}".encode()).hexdigest()[:16], 16) for unit in (1, 2, 3)
    )
    assert "secret" in repr(mark)


def test_steps_are_read_in_order(engine):
    frame = RowSource.of(pa.table({"day": [3, 1, 2], "n": [30, 10, 20], "name": ["c", "a", "b"]}))
    steps = engine.steps(frame, StepColumns("n", "day", "name"), None)
    assert (steps.counts.tolist(), steps.orders, steps.labels) == ([10, 20, 30], (1, 2, 3), ("a", "b", "c"))
    with pytest.raises(SchemaMismatch):
        engine.steps(frame, StepColumns("name", None, None), None)


def test_units_that_cannot_be_met_again_are_refused(opened):
    opened().check_units()
    with pytest.raises(CharyError, match="cannot be recognised"):
        opened(pa.table({"unit": pa.array([b"x"], pa.binary()), "key": ["a"]})).check_units()


def test_queries_that_no_unit_bounds_are_the_tables_business_and_not_the_engines(opened):
    """An engine computes what it is asked; whether that may be asked is said by queries."""
    neighbours = NeighborRelation(Neighbors.ADD_REMOVE, "unit")
    with pytest.raises(CharyError):
        chary.sum("cost", bounds=(0, 9)).contribution(neighbours)
    assert opened().compile(chary.sum("cost", bounds=(0, 9))).run() == 5 + 7 + 9 + 0
