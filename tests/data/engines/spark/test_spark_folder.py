"""Folders of Parquet files: what is read, what is added, and what others do to them meanwhile."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import count
from chary.errors import EngineError, InvalidParameter, SchemaMismatch

pytestmark = pytest.mark.engines
FIRST = pa.table({"unit": pa.array([1, 2], pa.int32()), "cost": pa.array([0.5, 2.0], pa.float32()), "k": ["a", "b"]})
MORE = pa.table({"unit": [3, 2**40], "cost": [1.0, 4.0], "k": ["a", "SECRET"]})
EVERYTHING = chary.sum("cost", bounds=(0, 9), grid="0.5", max_rows_per_unit=1)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "visits [1]"
    made.mkdir()
    pq.write_table(FIRST, made / "part-0.parquet")
    (made / "_SUCCESS").touch()
    return made


def unheard(batch):
    """Nobody waits for it."""


def test_what_is_added_is_there_for_whoever_opens_the_folder(opened, folder):
    table, other = opened(folder, "unit"), opened(str(folder), "unit")
    plan = table.prepare(EVERYTHING)
    assert (plan.run(), table.keeps_batches) == (5, True)
    first = table.append(MORE, request="monday")
    # 2**40 has no room in the 32 bits of the files: that row is nobody's.
    assert plan.run() == 7
    assert (first.number, first.rows) == (1, 4)
    assert other.batches(0) == [first]
    assert other.append(MORE, request="monday") == first
    assert other.prepare(EVERYTHING).run() == 7
    assert other.append(MORE).number == 2
    assert table.prepare(count()).run() == opened(folder, "unit").prepare(count()).run() == 3
    read = pq.read_table(sorted(folder.glob("chary-*.parquet")))
    assert read.schema.field("unit").type == pa.int32()


def test_within_one_state_nothing_is_seen_of_what_others_add(opened, folder):
    table, other = opened(folder, "unit"), opened(folder, "unit")
    plan = table.prepare(EVERYTHING)
    with table.one_state():
        assert plan.run() == 5
        other.append(MORE)
        assert plan.run() == 5
    assert plan.run() == 7


def test_a_file_without_a_note_is_nobodys(opened, folder):
    pq.write_table(FIRST, folder / "chary-0123.parquet")
    table = opened(folder)
    assert (table.prepare(count()).run(), table.batches(0)) == (2, [])
    table.append(MORE)
    [note] = (folder / "_chary_batches").iterdir()
    assert json.loads(note.read_text())["number"] == 1
    assert opened(folder).prepare(count()).run() == 4


def test_of_two_that_add_the_same_batch_one_wins(opened, folder):
    tables = [opened(folder) for _ in range(2)]

    def add(table):
        try:
            return table.append(MORE).number
        except EngineError as refused:
            return str(refused)

    with ThreadPoolExecutor(2) as both:
        told = list(both.map(add, tables))
    numbers = sorted(each for each in told if isinstance(each, int))
    assert numbers in ([1], [1, 2])
    assert all("nothing was added" in each for each in told if isinstance(each, str))
    for table in tables:
        assert table.prepare(count()).run() == 2 + 2 * len(numbers)
        assert [batch.number for batch in table.batches(0)] == numbers


@pytest.mark.parametrize("change", ["gone", "shorter", "other"])
def test_files_that_change_fail_the_reading_and_show_nothing(opened, folder, change):
    table, file = opened(folder, "unit"), folder / "part-0.parquet"
    plan = table.prepare(count("k = 'SECRET'"))
    assert plan.run() == 0
    if change == "gone":
        file.unlink()
    elif change == "shorter":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        pq.write_table(MORE, folder / "next.parquet")
        os.replace(folder / "next.parquet", file)
    for failing in (plan.run, table.snapshot().run, lambda: table.append(MORE)):
        with pytest.raises(EngineError, match="changed from outside") as caught:
            failing()
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert "visits" not in str(caught.value)


def test_files_that_come_later_are_seen_when_the_folder_is_opened_anew(opened, folder):
    table = opened(folder)
    pq.write_table(FIRST, folder / "part-1.parquet")
    assert table.prepare(count()).run() == 2
    assert opened(folder).prepare(count()).run() == 4


def test_folders_that_are_no_table_are_refused(opened, folder, tmp_path):
    (folder / "day=1").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "notes.txt").touch()
    for refused in (folder, tmp_path / "empty", tmp_path / "text"):
        with pytest.raises(SchemaMismatch, match="Parquet files and nothing else"):
            opened(refused)
    with pytest.raises(InvalidParameter):
        opened(tmp_path / "nowhere")


def test_rows_that_the_files_have_no_types_for_are_refused_whole(opened, tmp_path):
    pq.write_table(pa.table({"day": pa.array([b"x"])}), tmp_path / "one.parquet")
    pq.write_table(
        pa.table({"n": pa.array([1], pa.decimal128(5, 2))}), (made := tmp_path / "made") and tmp_path / "n.pq"
    )
    made.mkdir()
    os.replace(tmp_path / "n.pq", made / "n.parquet")
    table = opened(made)
    with pytest.raises(SchemaMismatch, match="rows cannot be appended"):
        table.append(pa.table({"n": [1.5]}))
    assert (table.prepare(count()).run(), table.batches(0)) == (1, [])
