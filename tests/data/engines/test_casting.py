"""A text becomes a value of its column's type by itself, or NULL; no text makes it fail."""

from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.data import CSVFormat
from chary.data.engines.duckdb.connection import Access
from chary.data.engines.duckdb.reader import canonical, inferred, parsed
from chary.data.predicates.conditions import read_timestamp

KINDS = ["TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "BOOLEAN", "DATE", "TIMESTAMP"]
KINDS += ["TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIME", "INTERVAL", "UUID", "BLOB", "JSON", "BIT"]
GERMAN = CSVFormat(delimiter=";", decimal=",", date_format="%d.%m.%Y", timestamp_format="%d.%m.%Y %H:%M")
HOSTILE = [
    "98.7",
    "98.0",
    "9" * 400,
    "-1e999",
    "1_000",
    "0x10",
    "inf",
    "nan",
    "epoch",
    "infinity",
    "2020-02-30",
    "\0",
    "%",
    "é",
]
HOSTILE += [
    "290309-12-22 (BC)",
    "9999999-12-31 25:61:61",
    "31.02.2020",
    "99.99.9999 99:99",
    "2020-01-01T00:00:00Z",
    "0000-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999999-23:59",
    "'",
    "{",
]


@pytest.fixture(scope="module")
def connection():
    with Access().connect() as opened:
        yield opened


def values(connection, cells, kind, dialect):
    connection.register("cells", pa.table({"place": list(range(len(cells))), "c": pa.array(cells, pa.string())}))
    sql = f"SELECT CAST(({parsed('c', kind, dialect)}) AS VARCHAR) FROM cells ORDER BY place"
    return [value for (value,) in connection.execute(sql).fetchall()]


@settings(max_examples=8, deadline=None)
@given(
    cells=st.lists(
        st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=4
    ),
    dialect=st.sampled_from([CSVFormat(), GERMAN]),
)
def test_no_text_fails_and_none_changes_another(connection, cells, dialect):
    for kind in KINDS:
        alone = [values(connection, [cell], kind, dialect)[0] for cell in cells[:1]]
        assert values(connection, cells, kind, dialect)[:1] == alone
        assert values(connection, [*HOSTILE, *cells], kind, dialect)[len(HOSTILE) :][:1] == alone


READ = [
    ("BIGINT", CSVFormat(), {"98": 98, " 98 ": 98, "98.0": 98, "+7": 7, "007": 7, "98.": 98}),
    ("BIGINT", CSVFormat(), dict.fromkeys(["98.7", "1e3", "0x10", "1_000", "", "9223372036854775808", "1 000"])),
    ("BIGINT", GERMAN, {"98,0": 98, "98.0": None}),
    ("TINYINT", CSVFormat(), {"127": 127, "128": None}),
    ("DOUBLE", CSVFormat(), {"1.5": 1.5, "-.5": -0.5, "2e3": 2000.0, "5.": 5.0, "nan": None, "inf": None, "1,5": None}),
    ("DOUBLE", GERMAN, {"1,5": 1.5, "1.5": None, "1.000,5": None}),
    ("DECIMAL(5,2)", CSVFormat(), {"1.25": Decimal("1.25"), "1e9": None}),
    (
        "BOOLEAN",
        CSVFormat(),
        {"true": True, "F": False, "yes": True, "N": False, "1": True, "0": False, "on": None, "2": None},
    ),
    ("DATE", CSVFormat(), {"2020-03-05": date(2020, 3, 5), "03/05/2020": None, "2020-02-30": None, "2020-3-5": None}),
    ("DATE", GERMAN, {"05.03.2020": date(2020, 3, 5), "2020-03-05": None, "infinity": None}),
    ("TIMESTAMP", CSVFormat(), {"2020-03-05": datetime(2020, 3, 5), "2020-03-05T10:30": datetime(2020, 3, 5, 10, 30)}),
    (
        "TIMESTAMP",
        CSVFormat(),
        {
            "2020-03-05 10:30:01.25": datetime(2020, 3, 5, 10, 30, 1, 250000),
            "2020-03-05 10:30Z": datetime(2020, 3, 5, 10, 30),
        },
    ),
    (
        "TIMESTAMP",
        CSVFormat(),
        {
            "2017-01-01T06:00:42Z": datetime(2017, 1, 1, 6, 0, 42),
            " 2017-01-01 00:30:00+01:00 ": datetime(2016, 12, 31, 23, 30),
            "2017-01-01T00:30-0930": datetime(2017, 1, 1, 10, 0),
            "2017-01-01T06:00:42.123456789+01": datetime(2017, 1, 1, 5, 0, 42, 123456),
        },
    ),
    (
        "TIMESTAMP",
        CSVFormat(),
        dict.fromkeys(
            ["2017-01-01Z", "2017-01-01+01:00", "2017-01-01T06:00+24:00", "2017-01-01T06:00+01:60", "2017-02-30T06:00Z"]
        ),
    ),
    (
        "TIMESTAMP",
        CSVFormat(),
        dict.fromkeys(["2017-01-01T25:00Z", "2017-01-01T06:00 UTC", "2017-01-01T06:00+1", "20170101"]),
    ),
    (
        "DATE",
        CSVFormat(),
        {
            "2017-01-01T00:30:00+01:00": date(2017, 1, 1),
            "2017-01-01 06:00": date(2017, 1, 1),
            "2017-01-01T25:00Z": None,
            "2017-02-30T06:00Z": None,
            "2017-01-01T": None,
        },
    ),
    ("TIMESTAMP", GERMAN, {"05.03.2020 10:30": datetime(2020, 3, 5, 10, 30), "2020-03-05": None}),
    ("VARCHAR", CSVFormat(), {" a ": " a ", "1.0": "1.0"}),
]


@pytest.mark.parametrize(("kind", "dialect", "cells"), READ)
def test_what_parses(connection, kind, dialect, cells):
    connection.register("cells", pa.table({"place": list(range(len(cells))), "c": list(cells)}))
    found = connection.execute(f"SELECT {parsed('c', kind, dialect)} FROM cells ORDER BY place").fetchall()
    assert {cell: value for cell, (value,) in zip(cells, found, strict=True)} == cells


@settings(max_examples=30, deadline=None)
@given(
    moments=st.lists(
        st.tuples(
            st.datetimes(),
            st.sampled_from(" T"),
            st.sampled_from(["hours", "minutes", "seconds", "milliseconds", "microseconds"]),
            st.sampled_from(["", "Z", "+01:00", "-0930", "+14", "-23:59", "+24:00", "z", " +01:00", "+1"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_a_cell_is_the_time_that_a_literal_of_the_same_text_is(connection, moments):
    texts = [moment.isoformat(sep, parts) + offset for moment, sep, parts, offset in moments]
    within = [each for each in texts if (found := read_timestamp(each)) is None or 1 < found.year < 9999]
    connection.register("cells", pa.table({"place": range(len(within)), "c": pa.array(within, pa.string())}))
    sql = f"SELECT {parsed('c', 'TIMESTAMP', CSVFormat())} FROM cells ORDER BY place"
    assert [value for (value,) in connection.execute(sql).fetchall()] == [read_timestamp(each) for each in within]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_no_time_depends_on_the_zone_of_the_process(zone):
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        cells = ["2020-03-05T00:30:00+01:00", "2020-03-05T00:30:00Z", "2020-03-05T00:30:00"]
        expected = ["2020-03-04 23:30:00", "2020-03-05 00:30:00", "2020-03-05 00:30:00"]
        assert values(connection, cells, "TIMESTAMP", CSVFormat()) == expected
        assert values(connection, cells, "DATE", CSVFormat()) == ["2020-03-05"] * 3


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        # What was found once is in ledgers: forms that can be declared since then are not found.
        (["2020-03-05T10:30Z"], None),
        (["2020-03-05 10:30:00.1234567"], None),
        (["true", "F", None], "BOOLEAN"),
        (["1", "0"], "BIGINT"),
        (["y", "n"], None),
        (["1", "01"], None),
        (["1", "1.5"], "DOUBLE"),
        (["2020-03-05"], "DATE"),
        (["2020-03-05", "2020-03-05 10:30"], "TIMESTAMP"),
        ([None, None], None),
        (["1", "x"], None),
    ],
)
def test_types_that_are_found_in_values(connection, cells, kind):
    connection.register("cells", pa.table({"c": pa.array(cells, pa.string())}))
    assert inferred(connection, ["c"], "cells", None, CSVFormat()) == ({} if kind is None else {"c": kind})
    unit = {"c": kind} if kind == "BIGINT" else {}
    assert inferred(connection, ["c"], "cells", "c", CSVFormat()) == unit


def test_a_type_has_one_name(connection):
    assert [canonical(connection, name) for name in ("int8", "Numeric(5, 2)", "string")] == [
        "BIGINT",
        "DECIMAL(5,2)",
        "VARCHAR",
    ]
