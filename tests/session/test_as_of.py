"""Sessions as of earlier versions: what they read in every source, what they name, what they are charged and refuse."""

import shutil

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary import count, mean
from chary import sum as total
from chary.calls import Alert, ContinualCount, DistinctSketch, Rerun
from chary.data import NeighborRelation, RowTable, public_size
from chary.data.queries.ordered import Elements, Ordered
from chary.data.rows import Rooms
from chary.data.table import living
from chary.errors import EngineError, InvalidParameter, InvalidQuery
from chary.growth import CountsBox
from tests.session.kit import NO_NOISE, PLENTY, PUBLIC, sessions

ZONES = ["north", "south", "east"]
SIZES = [50, 7, 0, 31]


def batches(seed=3):
    """What comes with each version: homes that come again, and later in other zones."""
    rng, made = np.random.default_rng(seed), []
    for size in SIZES:
        homes, zones = rng.integers(0, 30, size), rng.integers(0, 3, size)
        kwh = rng.integers(0, 400, size) / 2
        made.append(
            pa.table({"home": homes, "zone": pa.array([ZONES[zone] for zone in zones], pa.string()), "kwh": kwh})
        )
    return made


def until(version):
    return pa.concat_tables(batches()[: version + 1])


def stored(path, table):
    with duckdb.connect(path) as file:
        file.register("first", table)
        file.execute("CREATE TABLE readings AS FROM first")


class Sources:
    """Opens the first batch from a source, and says how a batch is appended to it."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind

    def first(self):
        rows, place = batches()[0], self.folder / "first"
        match self.kind:
            case "frame":
                return {"data": rows}
            case "csv":
                path = place.with_suffix(".csv")
                path.write_text(
                    "home,zone,kwh\n" + "".join("{home},{zone},{kwh}\n".format(**row) for row in rows.to_pylist())
                )
                return {"data": path, "columns": {"home": "BIGINT", "kwh": "DOUBLE"}}
            case "parquet":
                pq.write_table(rows, place.with_suffix(".parquet"))
                return {"data": place.with_suffix(".parquet")}
            case "folder" | "mixed folder":
                place.mkdir()
                pq.write_table(rows, place / "0.parquet")
                return {"data": place}
            case _:
                stored(place.with_suffix(".duckdb"), rows)
                return {"data": place.with_suffix(".duckdb"), "table": "readings"}

    def batch(self, number):
        """A batch; in a folder each is a file there, or every other one."""
        rows = batches()[number]
        if self.kind == "folder" or (self.kind == "mixed folder" and number % 2):
            # Names that are not in the order in which they come.
            path = self.folder / "first" / f"{9 - number}.parquet"
            pq.write_table(rows, path)
            return path
        return rows


KINDS = ["frame", "csv", "parquet", "folder", "mixed folder", "duckdb"]


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    return Sources(tmp_path, request.param)


@pytest.fixture
def opened():
    with sessions(budget=NO_NOISE) as make:
        yield lambda data, **options: make(data, **options)


@pytest.fixture
def grown(opened, source):
    """A session that was appended to, and the numbers of its versions."""

    def make(**options):
        session = opened(**(source.first() | options))
        before = session.versions[-1].number if session.versions else 0
        return session, [before, *(session.append(source.batch(number)) for number in range(1, len(SIZES)))]

    return make


def readings(rows):
    """All ways in which rows are read: queries, values in order, elements, living units, snapshots, parts."""
    unit = rows.neighbor_relation.unit
    limits = {} if unit is None else {"max_groups_per_unit": 1}
    once = {} if unit is None else {"max_rows_per_unit": 1}
    for query in (
        count(),
        count("kwh > 99"),
        count().by("zone", ZONES, **limits),
        total("kwh", bounds=(0, 100), **once),
        *mean("kwh", bounds=(0, 100), **once).parts(rows.neighbor_relation),
    ):
        found = rows.prepare(query).run()
        yield found if isinstance(found, int) else found.tolist()
    ordered = rows.ordered(Ordered(total("kwh", bounds=(0, 200), grid=1, **once), **once)).run()
    yield ordered.places.tolist(), ordered.counts.tolist()
    words, _ = rows.elements(Elements("zone")).run().words("key")
    yield sorted(words.tolist())
    if rows.part is None or rows.part.first is None:
        yield sorted(map(str, rows.snapshot(["zone", "home", "kwh"]).run().to_pylist()))
    if unit is not None:
        left = Rooms(pa.table({"unit": [1, 2], "room": [0, 1]}), hits=2)
        with living(rows, count().by("zone", ZONES, max_groups_per_unit=2)).at(left) as units:
            yield units.answers().tolist()


@pytest.mark.parametrize(
    ("source", "unit"),
    [*((kind, "home") for kind in KINDS), ("frame", None), ("mixed folder", None), ("duckdb", None)],
    indirect=["source"],
)
def test_whatever_is_asked_reads_the_rows_of_then(grown, unit):
    """Beside the same rows opened by themselves, in any order of asking."""
    neighbors = "replace" if unit is None else "add_remove"
    session, numbers = grown(privacy_unit=unit, neighbors=neighbors)
    for version in (2, 0, 1):
        then = session.as_of(numbers[version]).spine.rows
        alone = RowTable.open(until(version), neighbor_relation=NeighborRelation(neighbors, unit))
        assert list(readings(then)) == list(readings(alone)), version
        if unit is None:
            assert public_size(then) == session.versions[version].size == sum(SIZES[: version + 1])
    whole = RowTable.open(until(3), neighbor_relation=NeighborRelation(neighbors, unit))
    assert list(readings(session.spine.rows)) == list(readings(whole))


def test_parts_are_those_of_then(opened, tmp_path):
    """The first parts of a home, in the order in which rows came, of parts named before and after the version."""
    source = Sources(tmp_path, "duckdb")
    session = opened(**source.first(), privacy_unit="home")
    for number in range(1, len(SIZES)):
        session.append(source.batch(number))
    parts = {"by": "zone", "parts": ZONES, "max_parts_per_unit": 1}
    alone = opened(until(1), privacy_unit="home").partition(**parts)
    after, before = session.as_of(1).partition(**parts), session.partition(**parts)
    expected = {zone: list(readings(alone[zone].spine.rows)) for zone in ZONES}
    assert expected["north"] == list(readings(after["north"].spine.rows))
    assert expected["south"] == list(readings(before["south"].as_of(1).spine.rows))
    counted = [session.as_of(3).partition(**parts)[zone].spine.rows.prepare(count()).run() for zone in ZONES]
    assert sum(counted) == len(set(until(3)["home"].to_pylist()))


def test_a_file_tells_it_in_later_sessions_too(opened, tmp_path):
    source, place = Sources(tmp_path, "duckdb"), tmp_path / "ledger.db"
    options = {"privacy_unit": "home", "ledger": place, **source.first()}
    with opened(**options) as session:
        session.append(source.batch(1))
        session.release(count(), epsilon=1)
    with opened(**options) as session:
        session.append(source.batch(2))
        session.append(source.batch(3))
    again = opened(**options)
    for version in (3, 1, 0):
        alone = RowTable.open(until(version), neighbor_relation=NeighborRelation("add_remove", "home"))
        assert list(readings(again.as_of(version).spine.rows)) == list(readings(alone))
    # It goes on after the file was written, which takes a new connection.
    then = again.as_of(1)
    again.append(batches()[3])
    assert then.spine.rows.prepare(count()).run() == again.as_of(1).spine.rows.prepare(count()).run() == 26


def test_a_file_of_old_tells_what_it_holds(opened, tmp_path):
    """Its table of batches says nothing of the rows before the first, and takes what is added now."""
    source, place = Sources(tmp_path, "duckdb"), tmp_path / "ledger.db"
    options = {"privacy_unit": "home", "ledger": place, **source.first()}
    with opened(**options) as session:
        session.append(source.batch(1))
        session.release(count(), epsilon=1)
    with duckdb.connect(tmp_path / "first.duckdb") as file:
        assert file.execute("SELECT number, rows FROM chary_batches ORDER BY number").fetchall() == [(0, 50), (1, 57)]
        file.execute("DELETE FROM chary_batches WHERE number = 0")
    again = opened(**options)
    again.append(source.batch(3))
    assert again.as_of(1).spine.rows.snapshot(["kwh"]).run().num_rows == 57
    assert again.as_of(2).spine.rows.snapshot(["kwh"]).run().num_rows == 88
    with pytest.raises(InvalidQuery, match="does not tell how many rows there were before its first batch"):
        again.as_of(0)


def test_rows_that_were_taken_out_before_leave_the_order_of_the_rest(opened, tmp_path):
    path = tmp_path / "readings.duckdb"
    stored(path, until(0))
    with duckdb.connect(path) as file:
        file.execute("DELETE FROM readings WHERE home % 3 = 0")
        kept = file.execute("SELECT count(*) FROM readings").fetchone()[0]
    session = opened(path, table="readings", privacy_unit="home")
    session.append(batches()[3])
    assert session.as_of(0).spine.rows.snapshot(["kwh"]).run().num_rows == kept
    shorter = tmp_path / "shorter.duckdb"
    session.close()
    shutil.copy(path, shorter)
    with duckdb.connect(shorter) as file:
        file.execute("DELETE FROM readings")
    with pytest.raises(EngineError, match="changed from outside"):
        opened(shorter, table="readings", privacy_unit="home").spine.rows.as_of(1)


def test_what_is_asked_there_is_charged_as_ever_and_names_the_version(grown):
    session, numbers = grown(**PUBLIC)
    then = session.as_of(numbers[1])
    assert [each.number for each in then.versions] == numbers[:2]
    assert then.size == 57
    before = session.spent.share
    answer = then.release(count(), epsilon=PLENTY)
    assert answer.value == 57
    assert session.spent.share == before + answer.charged.share == then.spent.share
    counting = then.start(ContinualCount("kwh >= 0", steps=5, epsilon=PLENTY))
    assert (counting.ask().version, counting.state.latest.value) == (numbers[1], 57)
    told = then.start(Alert(count(), above=40, epsilon=PLENTY, below_margin=True)).ask()
    assert (told.version, told.state) == (numbers[1], "active")
    box = CountsBox(count().by("zone", ZONES))
    schedule = then.start(Rerun(box, epsilon=PLENTY, beta="0.05"), follow=True)
    assert [run.size for run in schedule.state.results] == [57]
    assert session.resume(schedule.call, bring=box).ask().size == 88
    assert then.as_of(numbers[0]).size == 50


def test_runs_go_on_and_never_back(grown):
    session, numbers = grown(privacy_unit=None)
    counting = session.as_of(numbers[1]).start(ContinualCount("kwh >= 0", steps=5, epsilon=PLENTY))
    sketch = session.as_of(numbers[1]).start(DistinctSketch(of="home", epsilon=1))
    watched = session.as_of(numbers[1]).start(Alert(count(), above=80, epsilon=PLENTY, below_margin=True))
    for number in numbers[1:]:
        told = session.as_of(number).resume(counting.call).ask()
        assert (told.version, told.value) == (number, {numbers[1]: 57, numbers[2]: 57, numbers[3]: 88}[number])
        session.as_of(number).resume(sketch.call).ask()
        told = session.as_of(number).resume(watched.call).ask()
        assert (told.version, told.changed) == (number, number == numbers[3])
    charged = session.spent
    for run in (counting, sketch, watched):
        with pytest.raises(InvalidQuery, match="seen the rows as of version"):
            session.as_of(numbers[2]).resume(run.call).ask()
    assert session.spent == charged


def test_what_cannot_be_read_is_refused(opened, tmp_path):
    source, place = Sources(tmp_path, "frame"), tmp_path / "ledger.db"
    options = {**PUBLIC, "ledger": place}
    session = opened(**source.first(), **options)
    session.append(source.batch(1))
    session.release(count(), epsilon=1)
    then = session.as_of(2)
    for version in (0, 3):
        with pytest.raises(InvalidQuery, match="there is no version"):
            session.as_of(version)
    with pytest.raises(InvalidQuery, match="there is no version"):
        session.as_of(1).as_of(2)
    with pytest.raises(InvalidParameter, match="an integer"):
        session.as_of("latest")
    for refused in (then, session.as_of(1)):
        with pytest.raises(InvalidParameter, match="append to the session of now"):
            refused.append(source.batch(3))
    then.close()
    assert session.size == 57
    later = opened(until(1), **options)
    assert later.as_of(2).size == 57
    with pytest.raises(InvalidQuery, match="not known apart"):
        later.as_of(1)
    hidden = opened(pa.table({"rowid": [1, 2]}), privacy_unit=None, neighbors="replace")
    with pytest.raises(InvalidQuery, match="named rowid"):
        hidden.as_of(1)
    with pytest.raises(InvalidQuery, match="series and votes"):
        chary.open_counts(pa.table({"n": [1, 2]}), column="n", sensitivity=1, budget=NO_NOISE, ledger=":memory:").as_of(
            1
        )


def test_batches_of_another_session_in_memory_are_not_ours(opened, tmp_path):
    options = {"privacy_unit": None, "ledger": tmp_path / "ledger.db"}
    first, second = (opened(until(0), **options) for _ in range(2))
    first.release(count(), epsilon=1)
    second.release(count(), epsilon=1)
    assert [session.append(batches()[3]) for session in (first, second, first)] == [1, 2, 3]
    sizes = [first.as_of(version).spine.rows.prepare(count()).run() for version in (0, 1, 3)]
    assert sizes == [50, 81, 112]
    with pytest.raises(InvalidQuery, match="not known apart"):
        first.as_of(2)
    assert second.as_of(2).spine.rows.prepare(count()).run() == 81
