"""What a row of a CSV becomes follows from its own line, whatever bytes the others are."""

import gzip

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chary.data import CSVFormat, NeighborRelation, RowTable
from chary.data.csv_reader import _well_formed, read_texts, record
from chary.errors import InvalidParameter, SchemaMismatch

DIALECTS = [
    CSVFormat(),
    CSVFormat(delimiter=";", decimal=",", null="NA"),
    CSVFormat(delimiter="\t", quote=None),
    CSVFormat(quote="'", escape="\\"),
    CSVFormat(encoding="latin-1"),
    CSVFormat(encoding="cp1252", escape="\\"),
]
# What parts records, cells and characters, and what a reader might guess from: hostile to each dialect above.
SPLINTERS = [
    b'"',
    b'""',
    b"'",
    b"\\",
    b",",
    b";",
    b"\t",
    b"\r",
    b"\0",
    b"\xff",
    b"\xe2\x82",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
]
SPLINTERS += [
    b"1",
    b"98.7",
    b"1,5",
    b"NA",
    b"12/25/2020",
    b"2020-03-05",
    b"\x81",
    b"\x0b",
    b"\xe2\x80\xa8",
    b" ",
    b"#",
    b"x",
]
LINES = st.lists(st.sampled_from(SPLINTERS) | st.binary(max_size=3), max_size=9).map(b"".join)
LINES = LINES.map(lambda line: line.replace(b"\n", b""))
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def kept(lines):
    """An empty line is no record, nor is one that only ends in another way."""
    return [line for line in lines if line.removesuffix(b"\r")]


def alone(line, dialect):
    """The first three cells of a line that is read by itself: the reference."""
    text = line.removesuffix(b"\r").decode(dialect.encoding, "surrogateescape")
    cells = (record(text, dialect) + [None] * 3)[:3]
    return tuple(None if cell == dialect.null else cell for cell in cells)


def written(folder, lines, dialect, *, ends=b"\n", last=True, name="rows.csv"):
    header = dialect.delimiter.join("abc").encode()
    (folder / name).write_bytes(ends.join([header, *lines]) + (ends if last else b""))
    return folder / name


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@QUIET
@given(lines=st.lists(LINES, max_size=6), ends=st.sampled_from([b"\n", b"\r\n"]), last=st.booleans())
def test_each_line_is_read_by_itself(tmp_path, dialect, lines, ends, last):
    table = read_texts([str(written(tmp_path, lines, dialect, ends=ends, last=last))], dialect, [])
    # A line before CR LF that ends in CR itself keeps that one.
    ended = len(lines) - (not last)
    lines = [line + b"\r" * (ends == b"\r\n" and place < ended) for place, line in enumerate(lines)]
    assert [tuple(row.values()) for row in table.to_pylist()] == [alone(line, dialect) for line in kept(lines)]


@pytest.mark.parametrize("block", [1, 7, 64])
@QUIET
@given(lines=st.lists(LINES, max_size=6))
def test_where_blocks_end_changes_nothing(tmp_path, monkeypatch, block, lines):
    path = [str(written(tmp_path, lines, CSVFormat()))]
    whole = read_texts(path, CSVFormat(), [])
    with monkeypatch.context() as patched:
        patched.setattr("chary.data.csv_reader._BLOCK", block)
        assert read_texts(path, CSVFormat(), []).equals(whole)


@QUIET
@given(lines=st.lists(LINES.map(lambda line: line.decode("latin-1")).filter(bool), min_size=1, max_size=4))
def test_the_quick_reader_of_quotes_reads_as_the_careful_one(lines):
    quick = _well_formed(lines, CSVFormat())
    assert quick is None or quick == [record(line, CSVFormat()) for line in lines]


def test_the_quick_reader_is_used():
    assert _well_formed(['1,"a, b"', '"",x'], CSVFormat()) == [["1", "a, b"], ["", "x"]]
    for unsure in (['1,"a', 'b"'], ['"a"\r'], ['"a"b'], ['"a\udcff"']):
        assert _well_formed(unsure, CSVFormat()) is None


@settings(QUIET, max_examples=20)
@given(
    lines=st.lists(LINES, min_size=1, max_size=4),
    more=LINES.filter(lambda line: bool(line.removesuffix(b"\r"))),
    place=st.integers(0, 4),
    dialect=st.sampled_from(DIALECTS),
)
def test_one_more_row_changes_no_other_at_the_opening_and_in_a_batch(tmp_path, lines, more, place, dialect):
    """The difference of neighbours: all other rows, all types, and whether it works at all are the same."""
    types = {"a": "BIGINT", "b": "TIMESTAMP", "c": "DOUBLE"}
    place = min(place, len(lines))
    files = [
        written(tmp_path, some, dialect, name=name)
        for name, some in (("less.csv", lines), ("more.csv", [*lines[:place], more, *lines[place:]]))
    ]
    less, after = ([reader(file, dialect, types) for reader in (opened, appended)] for file in files)
    for (schema, rows), (other, all_rows) in zip(less, after, strict=True):
        assert schema == other == {"a": "int64", "b": "timestamp", "c": "float64"}
        at = len(kept(lines[:place]))
        assert all_rows[:at] + all_rows[at + 1 :] == rows


def opened(file, dialect, types):
    return read(RowTable.open(file, neighbor_relation=NeighborRelation("replace", None), columns=types, csv=dialect))


def appended(file, dialect, types):
    empty = pa.table({"a": pa.array([], "int64"), "b": pa.array([], pa.timestamp("us")), "c": pa.array([], "double")})
    table = RowTable.open(empty, neighbor_relation=NeighborRelation("replace", None), csv=dialect)
    table.append(file)
    return read(table)


def read(table):
    found = table.snapshot().run().to_pylist()
    table.close()
    return table.schema, found


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('1,"a, b",3', ["1", "a, b", "3"]),
        ('1,"a ""b""",3', ["1", 'a "b"', "3"]),
        ('1,"a,3', ["1", '"a', "3"]),
        ('1,5" tall,"', ["1", '5" tall', '"']),
        ('"a"b,"c",""', ['"a"b', "c", ""]),
        ('"a\0b\r",,', ["a\0b\r", "", ""]),
        (",", ["", ""]),
        ("x" * 200_000 + ',"y"', ["x" * 200_000, "y"]),
        ("a\udcff,b", [None, "b"]),
    ],
)
def test_records(line, cells):
    assert record(line, CSVFormat()) == cells


def test_headers(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,,a,A,a,\r\n1,2,3,4,5,6\r\n")
    with gzip.open(tmp_path / "a.csv.gz", "wb") as first, gzip.open(tmp_path / "b.csv.gz", "wb") as second:
        first.write(b"id,x\n1,2\n")
        second.write(b"id,y\n1,2\n")
    names = ["id", "column1", "a", "A_1", "a_2", "column5"]
    assert read_texts([str(tmp_path / "a.csv")], CSVFormat(), []).to_pydict() == dict(
        zip(names, map(list, "123456"), strict=True)
    )
    assert read_texts([str(tmp_path / "a.csv.gz")], CSVFormat(), []).to_pydict() == {"id": ["1"], "x": ["2"]}
    with pytest.raises(SchemaMismatch, match="same columns"):
        read_texts([str(tmp_path / "a.csv.gz"), str(tmp_path / "b.csv.gz")], CSVFormat(), [])
    bare = read_texts([str(tmp_path / "a.csv")], CSVFormat(header=False), ["p", "q"])
    assert (bare.column_names, bare.num_rows) == (["p", "q"], 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": ""},
        {"delimiter": ",,"},
        {"delimiter": '"'},
        {"delimiter": "\n"},
        {"delimiter": "1"},
        {"quote": "\r"},
        {"escape": ","},
        {"decimal": ";"},
        {"encoding": "utf-16"},
        {"null": None},
        {"header": "no"},
        {"date_format": "DD.MM.YYYY"},
    ],
)
def test_dialects_that_could_be_taken_in_two_ways(wrong):
    with pytest.raises(InvalidParameter):
        CSVFormat(**wrong)
