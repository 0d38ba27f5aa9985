"""A folder of Parquet files as rows: one state at the opening, and files that join later where they are."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import EntryLimit, NeighborRelation, RowTable, count
from chary.data.queries.ordered import Elements
from chary.errors import CharyError, InvalidParameter, SchemaMismatch

ROWS = NeighborRelation("replace", None)
PUBLIC = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=100)}


def rows(*units):
    return pa.table({"unit": pa.array(units, pa.int64()), "s": ["é"] * len(units)})


@pytest.fixture
def visits(tmp_path):
    folder = tmp_path / "visits"
    folder.mkdir()
    for name, units in (("1", (1, 2)), ("2", (2, 3, 4))):
        pq.write_table(rows(*units), folder / f"{name}.parquet")
    return folder


def size(table):
    return table.prepare(count()).run()


def test_the_files_of_the_opening_are_one_state(visits):
    for named in (visits, f"{visits}/", visits / "*.parquet"):
        table = RowTable.open(named, neighbor_relation=ROWS)
        assert size(table) == 5
    pq.write_table(rows(5), visits / "3.parquet")
    assert size(table) == 5
    table.append(visits / "3.parquet")
    assert size(table) == 6
    assert size(RowTable.open(visits, neighbor_relation=ROWS)) == 6


def test_files_rows_and_frames_come_in_any_order(visits):
    table = RowTable.open(visits, neighbor_relation=NeighborRelation("add_remove", "unit"))
    elements, asked = table.elements(Elements()), chary.sum("unit", bounds=(0, 99), max_rows_per_unit=1)
    words, mark = elements.words("key")
    seen = set(words.tolist())
    for number, batch in enumerate([rows(10), "3", rows(11), "4", rows(4)], start=5):
        if isinstance(batch, str):
            pq.write_table(rows(number), visits / f"{batch}.parquet")
            batch = visits / f"{batch}.parquet"
        table.append(batch)
        words, mark = elements.words("key", mark)
        seen |= set(words.tolist())
    units = {1, 2, 3, 4, 10, 6, 11, 8}
    assert (size(table), table.prepare(asked).run(), len(seen)) == (len(units), sum(units), len(units))
    assert [batch.number for batch in table.batches()] == [1, 2, 3, 4, 5]


def test_a_file_is_not_read_twice(visits):
    table = RowTable.open(visits, neighbor_relation=ROWS)
    with pytest.raises(InvalidParameter, match="among the rows already"):
        table.append(visits / "1.parquet")
    pq.write_table(rows(5), visits / "3.parquet")
    with pytest.raises(InvalidParameter, match="append the others"):
        table.append([visits / "3.parquet", visits / ".." / "visits" / "1.parquet"])
    with pytest.raises(InvalidParameter, match="named twice"):
        table.append([visits / "3.parquet", visits / ".." / "visits" / "3.parquet"])
    assert (size(table), table.batches()) == (5, [])
    for _ in range(2):
        assert table.append(visits / "3.parquet", request="three").number == 1
    assert table.append(visits / "2.parquet", request="two").found
    assert (size(table), len(table.batches())) == (6, 2)


def test_a_file_elsewhere_is_copied_as_ever(visits, tmp_path):
    table = RowTable.open(visits / "[12].parquet", neighbor_relation=ROWS)
    for place in (tmp_path / "far.parquet", visits / "3.parquet"):
        pq.write_table(rows(9), place)
        table.append(place)
        place.unlink()
    assert size(table) == 7


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (pa.table({"unit": [7]}), "same columns of the same types"),
        (pa.table({"unit": ["SECRET"], "s": ["a"]}), "same columns of the same types"),
        (pa.table({"unit": pa.array([7], pa.int32()), "s": ["a"]}), "same columns of the same types"),
        (rows(1, 1, 1), "more than 3 entries"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_whole(visits, batch, told):
    table = RowTable.open(visits, neighbor_relation=ROWS, limit=EntryLimit("unit", 3))
    pq.write_table(batch, visits / "3.parquet")
    with pytest.raises(SchemaMismatch, match=told) as caught:
        table.append(visits / "3.parquet")
    assert "SECRET" not in str(caught.value)
    assert (size(table), table.batches()) == (5, [])
    pq.write_table(rows(1), visits / "3.parquet")
    table.append(visits / "3.parquet")
    assert size(table) == 6


def test_text_that_is_no_text_is_found_before_it_joins(visits):
    table = RowTable.open(visits, neighbor_relation=ROWS)
    cells = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"unit": [1], "s": cells}), visits / "3.parquet")
    with pytest.raises(SchemaMismatch) as caught:
        table.append(visits / "3.parquet")
    assert caught.value.__context__ is None
    assert size(table) == 5


def test_a_file_of_which_nobody_may_be_told_does_not_join(visits):
    table = RowTable.open(visits, neighbor_relation=ROWS)
    pq.write_table(rows(5), visits / "3.parquet")

    def refuse(batch):
        raise CharyError("the ledger is closed")

    for _ in range(2):
        with pytest.raises(CharyError, match="closed"):
            table.append(visits / "3.parquet", arrive=refuse)
        assert size(table) == 5
    table.append(visits / "3.parquet")
    assert size(table) == 6


def test_versions_of_a_folder_go_on_in_the_next_session(visits, tmp_path):
    def opened():
        return chary.open(visits, ledger=tmp_path / "a.ledger", **PUBLIC)

    with opened() as session:
        pq.write_table(rows(5), visits / "3.parquet")
        assert session.append(visits / "3.parquet", request="March") == 2
    pq.write_table(rows(6, 7), visits / "4.parquet")
    with opened() as session:
        assert session.append(visits / "3.parquet", request="March") == 2
        assert session.append(visits / "4.parquet", request="April") == 4
        assert session.append(visits / "4.parquet", request="April") == 4
        told = [(version.kind, version.size, version.request) for version in session.versions]
        assert session.size == 8
    assert told == [("found", 5, None), ("append", 6, "March"), ("found", 8, None), ("append", 8, "April")]
