"""What who opens rows is told and no analyst: cells that are not read, and another ledger of the same dataset."""

import gzip
import json
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary import Budget, count
from chary.errors import InvalidParameter, InvalidQuery, OwnerWarning
from chary.ledger import open_ledger
from chary.ledger.locations import move
from chary.noise import Seeded
from chary.report import report
from chary.session.opening import usual_ledger

TYPES = {"day": "TIMESTAMP", "age": "BIGINT", "note": "VARCHAR"}
BUDGET = Budget(epsilon=1, delta=1e-6)
ROWS = [
    ("1", "2017-01-01T06:00:42Z", "70", "ok"),
    ("2", "1/2/2017", "80", ""),
    ("3", "", "old", "x"),
    ("4", " ", "", "'"),
    ("5", "2017-02-30", "9.5", "y"),
]
TEXT = "patient,day,age,note\n" + "".join(",".join(row) + "\n" for row in ROWS)
FOUND = {
    "rows": 5,
    "columns": {
        "patient": {"type": "VARCHAR", "unparsed": 0},
        "day": {"type": "TIMESTAMP", "unparsed": 2},
        "age": {"type": "BIGINT", "unparsed": 2},
        "note": {"type": "VARCHAR", "unparsed": 0},
    },
}
CELLS = [
    "column day: 2 of 3 cells are not TIMESTAMP, and are NULL.",
    "column age: 2 of 4 cells are not BIGINT, and are NULL.",
]


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(TEXT)
    return path


def opened(source, **more):
    usual = {"privacy_unit": "patient", "columns": TYPES, "budget": BUDGET, "unsafe_noise": Seeded(1)}
    return chary.open(source, **(usual | more))


def told(work):
    """What is warned of while something is done, in sentences; what was done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = work()
    assert {each.category for each in caught} <= {OwnerWarning}
    return [str(each.message).partition(" This is not private")[0] for each in caught], done


@pytest.mark.parametrize("kind", ["csv", "gz", "files", "objects"])
def test_a_check_counts_what_is_not_of_its_type(visits, kind):
    source = {"csv": visits, "gz": visits.with_name("v.csv.gz"), "files": [visits], "objects": None}[kind]
    visits.with_name("v.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    if kind == "objects":
        source = pd.DataFrame(ROWS, columns=["patient", "day", "age", "note"], dtype=object)
    found = chary.check(source, columns=TYPES)
    assert found.as_dict() == FOUND
    assert found.lengths["day"][1] == len("2017-01-01T06:00:42Z")
    assert json.loads(json.dumps(found.as_dict())) == FOUND


def test_types_are_told_as_they_were_declared(visits):
    found = chary.check(visits, columns={"age": "int8", "day": "timestamp_s"}).as_dict()["columns"]
    assert [found[name]["type"] for name in ("age", "day")] == ["int8", "timestamp_s"]
    assert [found[name]["unparsed"] for name in ("age", "day")] == [2, 2]


def test_an_empty_cell_is_of_every_type_whatever_is_written_for_null(visits):
    visits.write_text("age,day\nNA,\n,NA\n7,2017-01-01\n-,-\n")
    found = chary.check(visits, csv=chary.CSVFormat(null="NA"), columns={"age": "BIGINT", "day": "DATE"})
    assert [each["unparsed"] for each in found.as_dict()["columns"].values()] == [1, 1]


def test_columns_with_types_of_their_own_are_of_them(tmp_path):
    rows = pa.table({"patient": pa.array([1, 2], "int32"), "cost": [1.5, None], "name": ["ä", None]})
    pq.write_table(rows, tmp_path / "visits.parquet")
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.register("rows_", rows)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows_")
    (tmp_path / "folder").mkdir()
    pq.write_table(rows, tmp_path / "folder" / "a.parquet")
    sources = [(rows, {}), (tmp_path / "visits.parquet", {}), (tmp_path / "folder", {})]
    sources.append((tmp_path / "visits.duckdb", {"table": "visits"}))
    for source, more in sources:
        found = chary.check(source, **more)
        kinds = {"patient": "BIGINT", "cost": "DOUBLE", "name": "VARCHAR"}
        assert found.as_dict() == {"rows": 2, "columns": {k: {"type": v, "unparsed": 0} for k, v in kinds.items()}}
        assert found.lengths == {"name": (1, 1)}


def test_units_are_counted_with_their_rows(tmp_path):
    rows = pa.table({"patient": ["a", "b", None, "a", "a", "c", "b", "d"], "nobody": pa.nulls(8, "string")})
    wanted = {"patient": (4, 1, 3, 1), "nobody": (0, 0, 0, 8)}
    for unit, counted in wanted.items():
        found = chary.check(rows, unit=unit)
        assert tuple(found.as_dict()["units"].values()) == counted
    assert chary.check(rows).units is None
    with pytest.raises(InvalidQuery, match="nearest is 'patient'"):
        chary.check(rows, unit="patent")
    (tmp_path / "wide.csv").write_text("home,mo,tu\n1,2,3\n2,,1\n,5,5\n")
    found = chary.check(tmp_path / "wide.csv", unit="home", unpivot=("day", "kwh"))
    assert (found.units.units, found.units.largest, found.units.rows_without) == (2, 2, 2)


def test_who_opens_new_rows_is_warned_of_cells_once_they_are_new_no_more_is_said(visits):
    first, session = told(lambda: opened(visits))
    assert first == CELLS
    with session:
        session.release(count("age >= 65"), epsilon="0.1")
    again, session = told(lambda: opened(visits))
    session.close()
    assert again == []


BATCH = [
    "version 1, column day: 2 of 3 cells are not TIMESTAMP, and are NULL.",
    "version 1, column age: 2 of 4 cells are not BIGINT, and are NULL.",
]


@pytest.mark.parametrize("kind", ["csv", "objects", "parquet folder"])
def test_who_appends_is_warned_of_cells_that_became_null(visits, tmp_path, kind):
    first = pa.table({"patient": ["9"], "day": pa.array([0], pa.timestamp("us")), "age": [3], "note": ["x"]})
    rows, source = visits, first
    if kind == "objects":
        rows = pd.DataFrame(ROWS, columns=["patient", "day", "age", "note"], dtype=object)
    if kind == "parquet folder":
        source = tmp_path / "visits"
        source.mkdir()
        pq.write_table(first, source / "a.parquet")
    session = opened(source, columns=None, ledger=tmp_path / "of.ledger", dataset="visits")
    with session:
        session.release(count(), epsilon="0.1")
        found, version = told(lambda: session.append(rows, request="monday"))
        assert (found, version) == (BATCH, 1)
        found, version = told(lambda: session.append(rows, request="monday"))
        assert (found, version) == ([], 1)
        found, _ = told(lambda: session.append(first))
        assert found == []
        others = [session.statement(), repr(session), str(session.versions), report(session).html()]
        others += [str(list(session.spine.ledger.export("visits"))), repr(session.spine.rows.batches())]
    assert not [text for text in others if "unparsed" in text.lower() or "not BIGINT" in text]


def test_cells_that_do_not_fit_the_narrow_column_of_a_file_are_counted(tmp_path):
    with duckdb.connect(str(tmp_path / "v.duckdb")) as made:
        made.execute("CREATE TABLE v (patient BIGINT, age TINYINT, ward ENUM('north', 'south'), note VARCHAR)")
    (tmp_path / "b.csv").write_text("patient,age,ward,note\n1,300,north, \n2,7,west,\n3,,  ,x\n,8,south,\n")
    with opened(tmp_path / "v.duckdb", table="v", columns=None) as session:
        found, _ = told(lambda: session.append(tmp_path / "b.csv"))
    assert found == [
        "version 1, column age: 1 of 3 cells are not TINYINT, and are NULL.",
        "version 1, column ward: 1 of 3 cells are not ENUM('north', 'south'), and are NULL.",
    ]


def test_who_follows_is_asked_before_a_warning_stops_anything(visits, tmp_path):
    with opened(visits, ledger=":memory:") as session, warnings.catch_warnings():
        asked = []
        session._followers.append(lambda: asked.append(1))
        warnings.simplefilter("error", OwnerWarning)
        with pytest.raises(OwnerWarning, match="2 of 3 cells"):
            session.append(visits)
        assert (asked, len(session.versions)) == ([1], 1)


def test_wide_rows_are_counted_as_they_are_read(tmp_path):
    (tmp_path / "wide.csv").write_text("patient,mo,tu\n1,2.5,x\n2,,1\n3,-,4\n")
    wide = {"unpivot": ("day", "kwh"), "columns": {"kwh": "DOUBLE"}}
    found, session = told(lambda: opened(tmp_path / "wide.csv", **wide))
    session.close()
    assert found == ["column kwh: 2 of 5 cells are not DOUBLE, and are NULL."]


def test_nothing_of_it_is_in_what_is_told_to_others(visits):
    with opened(visits) as session:
        session.release(count("age >= 65"), epsilon="0.1")
        others = [session.statement(), repr(session), repr(session.spine.rows), report(session).html()]
    with closing(open_ledger(usual_ledger(visits))) as ledger:
        others += [str(ledger.datasets()), str(list(ledger.export("visits")))]
    for text in others:
        assert "unparsed" not in text.lower()
        assert "not BIGINT" not in text


def test_the_ledger_of_a_file_is_beside_it(visits):
    with opened(visits) as session:
        session.release(count(), epsilon="0.1")
    assert visits.with_name("visits.csv.ledger").exists()
    for rows in (pd.DataFrame({"patient": [1]}), [visits, visits]):
        with pytest.raises(InvalidParameter, match="say where it is"):
            opened(rows, columns=None)


def test_the_ledger_of_a_folder_is_beside_it_however_it_is_written(tmp_path):
    folder = tmp_path / "visits"
    folder.mkdir()
    pq.write_table(pa.table({"patient": [1]}), folder / "1.parquet")
    named = [usual_ledger(each) for each in (folder, f"{folder}/", f"{folder}/*.parquet", tmp_path / "." / "visits")]
    assert set(named) == {f"{folder}.ledger"}


def test_another_ledger_of_the_same_dataset_is_warned_of(visits, tmp_path):
    with opened(visits, ledger=tmp_path / "visits.ledger") as session:
        session.release(count(), epsilon="0.1")
    found, session = told(lambda: opened(visits, columns={}))
    session.close()
    assert len(found) == 1
    assert f"{tmp_path / 'visits.ledger'} keeps a budget of 'visits' too" in found[0]
    books = tmp_path / "books"
    books.mkdir()
    found, session = told(lambda: opened(visits, columns={}, ledger=books / "visits.ledger"))
    session.close()
    assert len(found) == 1


def test_no_other_ledger_is_warned_of(visits, tmp_path):
    with opened(visits, ledger=tmp_path / "own.ledger") as session:
        session.release(count(), epsilon="0.1")
    with opened(visits, ledger=tmp_path / "other.ledger", dataset="others") as session:
        session.release(count(), epsilon="0.1")
    (tmp_path / "broken.ledger").write_bytes(b"no ledger")
    (tmp_path / "empty.ledger").touch()
    (tmp_path / "folder.ledger").mkdir()
    for more in ({"ledger": tmp_path / "own.ledger"}, {"ledger": ":memory:", "columns": {}}):
        found, session = told(lambda more=more: opened(visits, **more))
        session.close()
        assert found == []


def test_a_ledger_that_moved_is_no_other(visits, tmp_path):
    with opened(visits, ledger=tmp_path / "old.ledger") as session:
        session.release(count(), epsilon="0.1")
    (tmp_path / "books").mkdir()
    move(tmp_path / "old.ledger", tmp_path / "books" / "new.ledger")
    found, session = told(lambda: opened(visits, ledger=tmp_path / "books" / "new.ledger"))
    session.close()
    assert found == []


def test_the_other_ledger_is_not_touched_and_its_lock_is_not_waited_for(visits, tmp_path):
    other = tmp_path / "visits.ledger"
    with opened(visits, ledger=other) as session:
        session.release(count(), epsilon="0.1")
    before = other.read_bytes(), other.stat().st_mtime_ns, sorted(each.name for each in tmp_path.iterdir())
    holding = sqlite3.connect(other, isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")
    found, session = told(lambda: opened(visits, columns={}))
    session.close()
    assert len(found) == 1
    assert holding.in_transaction
    holding.execute("ROLLBACK")
    holding.close()
    assert before == (other.read_bytes(), other.stat().st_mtime_ns, sorted(each.name for each in tmp_path.iterdir()))


def test_a_look_beside_takes_no_lock_of_this_process_away(visits, tmp_path):
    other = tmp_path / "visits.ledger"
    holding = opened(visits, ledger=other)
    holding.release(count(), epsilon="0.1")
    lock = sqlite3.connect(other, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    told(lambda: opened(visits, columns={}))[1].close()
    # POSIX drops the locks of a process that closes any descriptor of the file: SQLite must not have done so.
    code = f"import sqlite3; sqlite3.connect({str(other)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    assert "locked" in _run(code)
    lock.execute("ROLLBACK")
    lock.close()
    holding.close()


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def test_a_warning_that_is_an_error_leaves_nothing_open(visits):
    with warnings.catch_warnings():
        warnings.simplefilter("error", OwnerWarning)
        with pytest.raises(OwnerWarning):
            opened(visits)
    opened(visits).close()


def test_a_new_ledger_of_a_csv_needs_types_and_one_that_is_there_has_them(visits, tmp_path):
    for _ in range(2):
        with pytest.raises(InvalidParameter, match=r"the types of the columns of 'visits'.* or columns=\{\} if all"):
            opened(visits, columns=None)
    assert not visits.with_name("visits.csv.ledger").exists()
    for place in ({"columns": {}}, {"columns": {"note": "VARCHAR"}}, {"columns": None, "infer_types": True}):
        opened(visits, ledger=tmp_path / "of.ledger", **place).close()
    opened(visits, columns=None, ledger=":memory:").close()
    rows, frame, units = tmp_path / "rows.parquet", pa.table({"patient": ["1"], "age": ["2"]}), tmp_path / "units.csv"
    pq.write_table(frame, rows)
    units.write_text("patient\n1\n")
    for source in (rows, frame, units):
        opened(source, columns=None, ledger=tmp_path / "of.ledger", dataset="rows").close()
    with opened(visits, columns={}) as session:
        session.release(count(), epsilon="0.1")
    opened(visits, columns=None).close()


def test_batches_that_an_earlier_session_held_in_memory_are_missed(tmp_path):
    """Only where rows do not keep them: a file does, and a public number of rows is counted."""
    first, later = pa.table({"patient": [1, 2]}), pa.table({"patient": [3]})
    place = {"ledger": tmp_path / "visits.ledger", "dataset": "visits"}

    def reopened(source, **more):
        return told(lambda: opened(source, columns=None, **(place | more)))

    said, session = reopened(first)
    assert said == []
    with session:
        session.release(count(), epsilon="0.1")
        session.append(later)
    [said], session = reopened(first)
    session.close()
    assert said.startswith("1 batch was appended to 'visits' in an earlier session, and lived in its memory")
    path = tmp_path / "kept.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (patient BIGINT)")
    for _ in range(2):
        said, session = reopened(path, table="visits", ledger=tmp_path / "kept.ledger", dataset="kept")
        assert said == []
        with session:
            session.append(later)
    folder = pq_folder(tmp_path, first)
    for source in (folder, folder, folder / "*.parquet", folder / "*.parquet"):
        said, session = reopened(source, ledger=tmp_path / f"{source.name[0]}.ledger", dataset=source.name[0])
        assert said == []
        with session:
            session.append(later_file(tmp_path, later))


def test_a_new_ledger_of_a_file_with_batches_is_warned_of(tmp_path):
    """A ledger that is missing is a second budget. Rows that keep their batches know that there was one."""
    path, later = tmp_path / "kept.duckdb", pa.table({"patient": [3]})
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (patient BIGINT)")

    def reopened(ledger, **more):
        more = {"table": "visits", "columns": None, "dataset": "visits"} | more
        found, session = told(lambda: opened(path, ledger=ledger, **more))
        return found, session

    found, session = reopened(tmp_path / "first.books")
    with session:
        session.append(later)
        session.append(later)
        session.release(count(), epsilon="0.1")
    assert found == []
    moved = (tmp_path / "first.books").rename(tmp_path / "moved.books")
    warned = "'visits': 2 batches were appended under a ledger, and this one {}: if the old one exists, go on with it "
    for _ in range(2):  # until a charge makes the ledger
        [found], session = reopened(tmp_path / "first.books")
        assert found == warned.format("is new") + "(ledger=), since a second budget comes on top"
        session.close()
    for ledger, this in ((moved, None), (":memory:", None), (moved, "does not know this dataset")):
        found, session = reopened(ledger, **({} if this is None else {"dataset": "other"}))
        session.close()
        first = [] if this is None else [warned.format(this).replace("visits", "other")]
        assert [each.partition("(ledger=)")[0] for each in found[: len(first)]] == first
        also = ["go on under that name (dataset='visits')" in each for each in found[len(first) :]]
        assert also == [True] * len(first)


def test_a_large_delta_is_warned_of_once(visits, tmp_path):
    """With (0, delta)-DP the rows of each unit may be published with probability delta."""
    ledger = tmp_path / "visits.ledger"
    for delta, warned in (("0.01", True), ("0.0001", False), (0, False)):
        new = {"ledger": tmp_path / f"{delta}.ledger", "budget": Budget(1, delta)}
        found, session = told(lambda new=new: opened(visits, **new))
        session.close()
        assert any(f"a delta of {delta} is large" in each for each in found) is warned
    # Of a unit with many entries, the delta of each is a small part.
    entries = {
        "ledger": tmp_path / "entries.ledger",
        "neighbors": "replace",
        "budget": Budget(1, "0.01"),
        "entries_per_unit": 100,
    }
    found, session = told(lambda: opened(visits, **entries))
    session.close()
    assert any("is large: it is the probability" in each for each in found)
    assert told(lambda: opened(visits, ledger=":memory:", budget=Budget(1, "0.01")).close())[0] == CELLS
    for warned in (True, False):
        found, session = told(lambda: opened(visits, ledger=ledger, budget=Budget(1, "0.01")))
        with session:
            session.release(count(), epsilon="0.1")
        assert any("is large" in each for each in found) is warned


def pq_folder(folder, rows):
    place = folder / "parts"
    place.mkdir(exist_ok=True)
    if not any(place.iterdir()):
        pq.write_table(rows, place / "first.parquet")
    return place


def later_file(folder, rows):
    place = folder / "parts" / f"{len(list((folder / 'parts').iterdir()))}.parquet"
    pq.write_table(rows, place)
    return place


def test_another_name_for_the_same_rows_is_warned_of_until_it_is_charged(visits, tmp_path):
    place = {"ledger": tmp_path / "of.ledger"}
    with opened(visits, dataset="first", **place) as session:
        session.release(count(), epsilon="0.1")
    found, session = told(lambda: opened(visits, dataset="second", **place))
    with session:
        assert [each for each in found if "dataset='first'" in each]
        session.release(count(), epsilon="0.1")
    for name, types in (("first", TYPES), ("second", TYPES), ("third", {"age": "DOUBLE"})):
        found, session = told(lambda name=name, types=types: opened(visits, dataset=name, columns=types, **place))
        session.close()
        assert not any("dataset=" in each for each in found)
