"""One reading sees one state of the rows, whoever adds or takes rows meanwhile, and several threads may ask at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, ordered
from chary.data.queries.ordered import Elements
from chary.data.rows import Rooms
from chary.data.table import living
from chary.errors import CharyError, EngineError, InvalidParameter, InvalidQuery, SchemaMismatch
from tests.engines import meanings
from tests.engines.cells import ROWS
from tests.servers.stored import stored

NOBODY = Rooms(pa.table({"unit": pa.array([], pa.int64()), "room": pa.array([], pa.int64())}), 3)


def pairs(numbers):
    """Two rows of each unit, one of each key."""
    units = [unit for unit in numbers for _ in "ab"]
    return pa.table({"u": pa.array(units, pa.int64()), "k": ["a", "b"] * len(numbers), "x": [1] * len(units)})


def test_rows_of_a_batch_are_seen_together(engine, opened, tally):
    if not engine.grows:
        pytest.skip("rows of this engine do not grow through it")
    table, seen, times = opened(pairs([0]), "replace", "u"), [], engine.times(12)
    plan = table.prepare(count().by("k", ["a", "b"]))
    done = threading.Event()

    def grow():
        for number in range(1, times + 1):
            table.append(pairs([3 * number, 3 * number + 1, 3 * number + 2]))
        done.set()

    growing = threading.Thread(target=grow)
    growing.start()
    while not done.is_set():
        seen.append(plan.run().tolist())
    growing.join()
    assert all(one == other and one % 3 == 1 for one, other in seen)
    assert plan.run().tolist() == [3 * times + 1] * 2
    tally("states of growing rows", times)


def test_within_one_state_nobody_adds_rows(engine, opened, tally):
    if not engine.grows:
        pytest.skip("rows of this engine do not grow through it")
    table = opened(pairs([0]), "replace", "u")
    plan, growing = table.prepare(count()), threading.Thread(target=lambda: table.append(pairs([1])))
    with table.one_state():
        assert plan.run() == 1
        growing.start()
        assert len(table.snapshot(["u"]).run()) == 2
        assert plan.run() == 1
    growing.join()
    assert plan.run() == 2
    tally("states of growing rows", 3)


def test_several_threads_may_ask_at_once(shared, tally):
    table = shared("cells", "replace", "v")
    values = ordered("i", bounds=(-7, 7), max_rows_per_unit=2)
    plans = {
        "count": (table.prepare(count("x > 0")), lambda found: found),
        "total": (
            table.prepare(chary.sum("i", bounds=(-7, 7), max_rows_per_unit=2).by("k", ["a", "b"])),
            lambda found: found.tolist(),
        ),
        "order": (table.ordered(values), lambda found: found.counts.tolist()),
        "snapshot": (table.snapshot(["n"]), lambda found: sorted(found["n"].to_pylist())),
        "words": (table.elements(Elements()), lambda found: sorted(found.words("key")[0].tolist())),
    }
    usual = {name: read(plan.run()) for name, (plan, read) in plans.items()}
    assert usual["count"] == meanings.answer(count("x > 0"), ROWS, "v")
    asked = list(plans) * 3
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda name: plans[name][1](plans[name][0].run()), asked))
    assert found == [usual[name] for name in asked]
    tally("threads", len(asked))


def test_moments_of_a_zone_are_not_those_of_none(engine, opened, tally):
    """What day or hour it is would depend on who asks: such a column can be tested for NULL, no more."""
    if "zones" in engine.differs:
        pytest.skip("here they are moments of UTC, whoever asks")
    moments = pa.array(
        [datetime(2020, 5, 5, tzinfo=UTC), None, datetime(2020, 5, 6, tzinfo=UTC)], pa.timestamp("us", "UTC")
    )
    try:
        table = opened(pa.table({"t": moments, "n": [1, 2, 3]}), "add_remove")
    except (SchemaMismatch, InvalidParameter):
        return
    assert table.schema["t"] != "timestamp"
    assert table.prepare(count("t IS NULL")).run() == 1
    for refused in (count("t < '2020-05-06'"), count().by("t", [datetime(2020, 5, 5)])):
        with pytest.raises(InvalidQuery):
            table.prepare(refused)
    with pytest.raises(InvalidQuery):
        table.elements(Elements(of="t"))
    tally("types of columns", 4)


def nowhere(engine, place):
    """Sources that are not there, each opened."""
    said = {"neighbor_relation": NeighborRelation("add_remove", None)}
    (place / "empty").mkdir()
    yield lambda: RowTable.open(place / "none.parquet", **said)
    yield lambda: RowTable.open(place / "empty", **said)
    yield lambda: RowTable.open(place / "none.duckdb", table="rows", **said)
    if engine.name == "PostgreSQL":
        closed = "postgresql://reader:SECRETNAME@127.0.0.1:1/SECRETNAME?connect_timeout=3"
        yield lambda: RowTable.open(closed, table="rows", **said)
        yield lambda: RowTable.open("postgresql://reader:SECRETNAME@[", table="rows", **said)


def test_what_is_not_there_is_refused_without_a_word_of_it(engine, opened, tmp_path, tally):
    openings = list(nowhere(engine, tmp_path))
    for opening in openings:
        with pytest.raises(CharyError) as caught:
            opening()
        assert "SECRETNAME" not in str(caught.value)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    tally("refused sources", len(openings))


@pytest.fixture
def kept(engine, request):
    """A table of a server whose rows others take away: as it is opened, and how others execute a statement on it."""
    if engine.name != "PostgreSQL":
        pytest.skip("nobody else can write where the rows of this engine are while they are open")
    server = request.getfixturevalue("postgres")
    name = stored(server, pairs(range(10)))
    table = RowTable.open(server.url(), table=name, neighbor_relation=NeighborRelation("replace", "u"))
    yield table, lambda sql: server.execute(sql.format(name))
    table.close()


def test_a_table_that_shrinks_is_read_as_it_is(kept, tally):
    table, execute = kept
    plan, words = table.prepare(count().by("k", ["a", "b"])), table.elements(Elements()).run()
    first, mark = words.words("key")
    assert plan.run().tolist() == [10, 10]
    execute("DELETE FROM {} WHERE u > 3 OR k = 'b' AND u = 1")
    assert plan.run().tolist() == [4, 3]
    left = words.words("key", mark)[0]
    assert set(left.tolist()) <= set(first.tolist())
    assert len(words.words("key")[0]) == 4
    table.append(pairs([77]))
    assert plan.run().tolist() == [5, 4]
    execute("TRUNCATE {}")
    assert plan.run().tolist() == [0, 0]
    assert table.snapshot(["k"]).run()["k"].to_pylist() == []
    tally("tables that shrink", 6)


def test_who_is_alive_is_of_one_state_also_when_rows_go_meanwhile(kept, tally):
    table, execute = kept
    with living(table, count().by("k", ["a", "b"])).at(NOBODY) as units:
        assert units.answers().tolist() == [10, 10]
        execute("DELETE FROM {} WHERE u > 3")
        assert sorted(units.of([0])["unit"].to_pylist()) == list(range(10))
    with living(table, count().by("k", ["a", "b"])).at(NOBODY) as units:
        assert units.answers().tolist() == [4, 4]
    with table.one_state():
        assert table.prepare(count()).run() == 4
        execute("DELETE FROM {} WHERE u > 0")
        assert table.prepare(count()).run() == 4
    assert table.prepare(count()).run() == 1
    tally("tables that shrink", 4)


def test_a_table_that_goes_fails_the_reading_and_nothing_is_told(kept, tally):
    table, execute = kept
    plan = table.prepare(count("u < 98765"))
    execute("DROP TABLE {}")
    for ask in (plan.run, table.snapshot(["k"]).run, lambda: table.append(pairs([1]))):
        with pytest.raises(CharyError) as caught:
            ask()
        assert "98765" not in str(caught.value)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    with pytest.raises(EngineError):
        plan.run()
    tally("tables that shrink", 4)
