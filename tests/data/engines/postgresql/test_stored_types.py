"""What the types of a server become, at their edges; no value makes a reading fail."""

import math
import random
import struct
import unicodedata

import duckdb
import pytest

import chary
from chary.data import NeighborRelation, Predicate, RowTable, count, mean, ordered
from chary.data.engines.compiler import folded, lowered
from chary.data.engines.postgresql.catalog import UNITS
from chary.data.engines.postgresql.engine import of_double
from chary.data.queries.ordered import Elements
from chary.errors import InvalidParameter, InvalidQuery, SchemaMismatch

TYPES = {
    "smallint": "int64",
    "integer": "int64",
    "bigint": "int64",
    "real": "float64",
    "double precision": "float64",
    "numeric": "float64",
    "numeric(5, 2)": "float64",
    "text": "string",
    "varchar(3)": "string",
    "char(3)": "string",
    "mood": "string",
    "small": "int64",
    "smaller": "int64",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp(0)": "timestamp",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "interval": "interval",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "jsonb",
    "bytea": "bytea",
    "integer[]": "integer[]",
    "inet": "inet",
    "money": "money",
    "point": "point",
    "pair": "public.pair",
    '"char"': '"char"',
    "name": "name",
}
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'so')",
    "CREATE DOMAIN small AS integer CHECK (VALUE < 100)",
    "CREATE DOMAIN smaller AS small CHECK (VALUE < 10)",
    "CREATE TYPE pair AS (a int, b int)",
)


def test_every_type_has_its_class(clinic, opened):
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(TYPES))
    clinic.run(*MADE, f"CREATE TABLE visits ({columns})", "INSERT INTO visits VALUES (NULL)")
    clinic.grant("visits")
    table = opened()
    assert list(table.schema.values()) == list(TYPES.values())
    assert table.snapshot().run().num_rows == 1
    for name, kind in table.schema.items():
        assert table.prepare(count(f"{name} IS NULL")).run() == 1
        if kind not in ("int64", "float64"):
            with pytest.raises(InvalidQuery):
                table.prepare(count(f"{name} > 5"))


def test_units_are_of_types_that_tell_them_apart(clinic, opened):
    good = {"uuid": True, "numeric": True, "bytea": False, "timestamptz": False, "inet": False, "smaller": True}
    bad = ["json", "integer[]", "point", "pair", "interval", "money"]
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate([*good, *bad]))
    clinic.run(*MADE, f"CREATE TABLE visits ({columns})")
    clinic.grant("visits")
    for place, recognised in enumerate(good.values()):
        table = opened(unit=f"c{place}")
        assert table.prepare(count()).run() == 0
        if recognised:
            table.held.check_units()
        else:
            with pytest.raises(InvalidQuery, match="cannot be recognised"):
                table.held.check_units()
    for place in range(len(good), len(good) + len(bad)):
        with pytest.raises(SchemaMismatch, match="cannot be told apart"):
            opened(unit=f"c{place}")


def test_numerics_that_doubles_do_not_reach(clinic, opened):
    values = ["1e400", "-1e400", "1.7976931348623157e308", "1e-400", "-1e-308", "NaN", "Infinity", "-Infinity", "0.1"]
    listed = ", ".join(f"('{value}')" for value in values)
    clinic.run("CREATE TABLE visits (x numeric)", f"INSERT INTO visits VALUES {listed}")
    clinic.grant("visits")
    table = opened()
    found = table.snapshot().run()["x"].to_pylist()
    assert found == [math.inf, -math.inf, 1.7976931348623157e308, 0, 0, None, math.inf, -math.inf, 0.1]
    assert table.prepare(count("x > 1e300")).run() == 3
    assert table.prepare(chary.sum("x", bounds=(-1, 2), grid="0.1")).run() == 3 * 20 - 2 * 10 + 1


def test_the_ends_of_the_calendar(clinic, opened):
    clinic.run(
        "CREATE TABLE visits (n int, d date, t timestamp)",
        "INSERT INTO visits VALUES (1, 'infinity', 'infinity'), (2, '-infinity', '-infinity')",
        "INSERT INTO visits VALUES (3, '4713-01-01 BC', '4713-01-01 BC'), (4, '5874897-12-31', '294276-12-31')",
        "INSERT INTO visits VALUES (5, '2020-02-29', '2020-02-29 12:00:00.000001'), (6, NULL, NULL)",
    )
    clinic.grant("visits")
    table = opened()
    assert table.prepare(count("d > DATE '9999-12-31'")).run() == 2
    assert table.prepare(count("t < TIMESTAMP '0001-01-01 00:00:00'")).run() == 2
    found = table.snapshot().run()
    days = found["d"].cast("int32").to_pylist()
    assert days == [2**31 - 1, 1 - 2**31, -2440550, 2_145_042_905, 18321, None]
    assert found["t"].cast("int64").to_pylist() == [
        2**63 - 1,
        1 - 2**63,
        -2440550 * 86_400_000_000,
        2**63 - 1,
        18321 * 86_400_000_000 + 43_200_000_001,
        None,
    ]
    for column in ("d", "t"):
        assert len(table.elements(Elements(column, assumed_groups_per_unit=1)).words("key")[0]) == 5
        for made in ("year({})", "month({})", "weekday({})", "hour(t)", "date_trunc('week', {})"):
            assert table.prepare(count(f"{made.format(column)} IS NULL")).run() == 5, made
        assert table.prepare(count().by(f"day({column})", range(1, 32))).run().tolist() == [0] * 28 + [1, 0, 0]


def test_texts_are_compared_by_their_bytes_and_blanks_that_pad_are_none(clinic, opened):
    clinic.run(
        "CREATE TABLE visits (s text, c char(4), v varchar(4))",
        "INSERT INTO visits VALUES ('B', 'ab', 'ab  '), ('a', 'ab ', 'ab'), ('_', '', ''), ('é', 'b', 'b')",
    )
    clinic.grant("visits")
    table = opened(unit="c")
    assert table.prepare(count("s < '_'")).run() == 1
    assert table.prepare(count("s > 'a'")).run() == 1
    assert table.prepare(count()).run() == 3
    assert table.prepare(count("c = 'ab'")).run() == 1
    assert table.prepare(count("c LIKE 'ab '")).run() == 0
    assert [table.prepare(count(f"v = '{text}'")).run() for text in ("ab", "ab  ", "ab ")] == [1, 1, 0]


def test_databases_of_other_encodings_are_refused(postgres):
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = f"test_{encoding.lower()}"
        postgres.execute(f"CREATE DATABASE {name} ENCODING {encoding} TEMPLATE template0")
        with pytest.raises(InvalidParameter, match="UTF-8"):
            RowTable.open(postgres.url(name), table="visits", neighbor_relation=NeighborRelation("add_remove", None))
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_generated_columns_were_computed_when_they_were_written(clinic, opened):
    clinic.run("CREATE TABLE visits (n int, twice int GENERATED ALWAYS AS (n * 2) STORED)")
    clinic.run("INSERT INTO visits VALUES (4)")
    clinic.grant("visits")
    assert opened().prepare(count("twice = 8")).run() == 1


FLOATS = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, -0.49999999999999994, 2.0**52 + 0.5, 4503599627370497.5]
EDGES = [1.7e308, -1.7e308, 5e-324, -5e-324, 1e-300, 1e290, math.inf, -math.inf, 0.0, -0.0]


@pytest.mark.parametrize("grid", ["1", str(2**53), f"1/{2**50}"])
def test_halves_are_rounded_away_from_zero_and_no_product_fails(clinic, opened, grid):
    clinic.run("CREATE TABLE visits (n int, x float8)")
    with clinic.server.connect(clinic.name) as connection:
        for number, value in enumerate(FLOATS + EDGES):
            connection.execute("INSERT INTO visits VALUES (%s, %s)", [number, value])
    clinic.grant("visits")
    most = {"1": 2**53, str(2**53): 2**60, f"1/{2**50}": 2}[grid]
    asked = chary.sum("x", bounds=(-most, most), grid=grid)
    table, here = (
        opened(),
        RowTable.open(opened().snapshot().run(), neighbor_relation=NeighborRelation("add_remove", None)),
    )
    keys = list(range(len(FLOATS + EDGES)))
    found = table.prepare(asked.by("n", keys)).run().tolist()
    assert found == here.prepare(asked.by("n", keys)).run().tolist()
    if grid == "1":
        assert found[:8] == [1, 2, 3, -1, -2, -3, 0, 0]
        places = table.ordered(ordered("x", bounds=(-3, 3))).run().places
        assert places.tolist() == [0, 1, 2, 3, 4, 5, 6]
    here.close()


def test_doubles_are_written_as_python_writes_them(clinic):
    drawn = random.Random(4)
    values = [struct.unpack("d", struct.pack("Q", drawn.getrandbits(64)))[0] for _ in range(5000)]
    values += [2.0**power for power in range(-1074, 1024)] + [drawn.uniform(1e15, 1e16) for _ in range(500)]
    values += [float(10**power * digit) for power in range(14, 45) for digit in range(1, 40)] + EDGES + FLOATS
    values = [value for value in values if not math.isnan(value)]
    with clinic.server.connect(clinic.name) as connection:
        sql = f"SELECT v, {of_double('v')} FROM unnest(%s::float8[]) AS given(v)"
        found = connection.execute(sql, [values]).fetchall()
    assert len(found) == len(values)
    assert [pair for pair in found if repr(pair[0] + 0.0) != pair[1]] == []


def test_letters_are_folded_as_the_embedded_engine_does(clinic, opened):
    """For every letter, whatever the server's locale; engines may know alphabets that Python does not know yet."""
    letters = [chr(number) for number in range(1, 0x30000) if not 0xD800 <= number <= 0xDFFF]
    known = [letter for letter in letters if unicodedata.category(letter) != "Cn"]
    [(small,)] = duckdb.connect().execute("SELECT list_transform(?, lambda x: lower(x))", [known]).fetchall()
    differ = [pair for pair in zip(known, small, strict=True) if lowered(pair[0]) != pair[1]]
    assert differ == []
    clinic.run("CREATE TABLE visits (s text)")
    with clinic.server.connect(clinic.name) as connection:
        connection.execute("INSERT INTO visits SELECT unnest(%s::text[])", [known])
    clinic.grant("visits")
    table, there = (
        opened(),
        RowTable.open(opened().snapshot().run(), neighbor_relation=NeighborRelation("add_remove", None)),
    )
    for pattern in ("k", "K", "i", "İ", "ß", "ẞ", "σ", "Σ", "ς", "å", "µ", "_", "%A%", "Ǆ", "ſ"):
        asked = count(Predicate.parse(f"s ILIKE '{pattern}'"))
        assert table.prepare(asked).run() == there.prepare(asked).run(), pattern
    there.close()


def test_a_pattern_without_letters_needs_no_folding():
    value = object()
    assert folded(value, "5%_\\") == (value, "5%_\\")


# Ids of every type that tells units apart, two of each, as the server writes them.
IDS = {
    "bigint": ("1", "2"),
    "boolean": ("true", "false"),
    "bytea": (r"'\xff'", r"'\x00'"),
    "cidr": ("'10.0.0.0/8'", "'11.0.0.0/8'"),
    "date": ("'2020-01-01'", "'2020-01-02'"),
    "double precision": ("0.5", "'-inf'"),
    "inet": ("'10.0.0.1'", "'::1'"),
    "macaddr": ("'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"),
    "numeric": ("1.50", "1e300"),
    "oid": ("1", "2"),
    "text": ("'a'", "'ä'"),
    "time": ("'10:00'", "'11:00'"),
    "timestamp": ("'2020-01-01 10:00'", "'infinity'"),
    "timestamptz": ("'2020-01-01 10:00'", "'2020-01-01 11:00'"),
    "timetz": ("'10:00'", "'11:00'"),
    "uuid": ("'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'"),
}


@pytest.mark.parametrize("kind", IDS)
def test_a_mean_keeps_rows_of_units_of_every_type(kind, clinic, opened):
    assert set(UNITS) <= set(IDS)
    rows = ", ".join(f"({IDS[kind][bit // 3]}, {2**bit})" for bit in range(6))
    clinic.run(f"CREATE TABLE visits (u {kind}, x bigint)", f"INSERT INTO visits VALUES {rows}")
    clinic.grant("visits")
    table = opened(unit="u")
    query = mean("x", bounds=(0, 64), max_rows_per_unit=2)
    total, number = query.parts(NeighborRelation("add_remove", "u"))
    found = int(table.prepare(total).run()) + int(total.center) * 4
    assert int(table.prepare(number).run()) == 4
    assert [(found & bits).bit_count() for bits in (0b000111, 0b111000)] == [2, 2]
