"""Rows that nobody expects, and files of every kind that hold them."""

import math
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from random import Random

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

ODD = "px"
UNITS = ("u1", "u2", "u3", "u4")
SCHEMA = pa.schema(
    {
        "unit": pa.string(),
        "note": pa.string(),
        "age": pa.int64(),
        "cost": pa.float64(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "flag": pa.bool_(),
    }
)
TYPES = {"unit": "VARCHAR", "note": "VARCHAR", "age": "BIGINT", "cost": "DOUBLE", "day": "DATE", "at": "TIMESTAMP",
         "flag": "BOOLEAN"}  # fmt: skip
NOTES = ["a", "b", "it's", "03/05/2020", "1", "x;y", "é", "NaN", "true", "", None]
NASTY = ['"', '""', '"a', 'a"', "'", ",", ";", "\t", "|", "\\", '\\"', "\r", "\0", "12/25/2020", "NULL", "nan", "inf",
         "-", "#", "//", "\ufeff", "\u2028", "\x85", "\x1a", "日本", "🙂", "0x1F", "1e400", "9" * 40, " " * 9,
         "x" * 5000, "=1+1", "$$", "${x}", "%s", "chary_rows", "", None]  # fmt: skip
# What a line may hold where a number, a day, a moment or a truth should be.
CELLS = ["", "abc", "98.7", "1,5", "12/25/2020", "25.12.2020", "2020-13-45", "9" * 40, "1e400", "nan", "0x10", "yes",
         "NULL", '"', '"5', '5"', '""', "'", " 5 ", "+5", "1_000", "é", "2020-01-01T00:00:00Z",
         "2020-01-01 25:00", "-0", "\\N"]  # fmt: skip
Row = dict[str, object]


def usual(random: Random, unit: str) -> Row:
    """A row like any other."""
    return {
        "unit": unit,
        "note": random.choice(NOTES),
        "age": random.choice([0, 1, 17, 65, 80, None]),
        "cost": random.choice([0.0, 0.5, 12.25, -3.0, None]),
        "day": random.choice([date(2020, 3, 5), date(2020, 5, 3), date(1999, 12, 31), None]),
        "at": random.choice([datetime(2020, 3, 5), datetime(2020, 5, 3, 12, 30, 1), None]),
        "flag": random.choice([True, False, None]),
    }


def odd(random: Random) -> Row:
    """A row of the odd unit, with extreme values of the right types."""
    return {
        "unit": ODD,
        "note": random.choice(NASTY),
        "age": random.choice([2**63 - 1, -(2**63), -1, 0, 10**15, None]),
        "cost": random.choice([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, None]),
        "day": random.choice([date.min, date.max, date(1582, 10, 10), date(2020, 12, 25), None]),
        "at": random.choice([datetime.min, datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2020, 2, 29), None]),
        "flag": random.choice([True, False, None]),
    }


def line(row: Row, end: bytes = b"\n") -> bytes:
    """A row as RFC 4180 and ISO 8601 have it, in a line; a line break in a cell becomes a blank."""
    cells = []
    for value in row.values():
        text = "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)
        text = text.lower() if isinstance(value, bool) else text.replace("\n", " ")
        plain = not any(sign in text for sign in ',"\r') and text == text.strip()
        cells.append(text if plain else '"' + text.replace('"', '""') + '"')
    return ",".join(cells).encode() + end


def odd_lines(random: Random, *, alone: bool) -> list[bytes]:
    """What one unit may bring into a CSV: rows written well, lines with wrong cells, or one line of whatever bytes.

    Whatever bytes may begin with the name of any unit: they are one unit's only if nothing else is brought (`alone`).
    """
    form, end = random.random() * (1 if alone else 0.75), random.choice([b"\n", b"\r\n"])
    if form < 0.35:
        return [line(odd(random), end) for _ in range(random.randint(1, 4))]
    if form < 0.75:
        return [_cells(random) + end for _ in range(random.randint(1, 3))]
    return [_bytes(random) + end]


def _cells(random: Random) -> bytes:
    """The odd unit's line with cells of any kind, too few or too many."""
    cells = [
        random.choice(CELLS + [text for text in NASTY if text]) for _ in range(random.choice([0, 3, 6, 6, 6, 6, 9]))
    ]
    return ",".join([ODD, *cells]).encode().replace(b"\n", b" ")


def _bytes(random: Random) -> bytes:
    """A line of anything: it may be nobody's."""
    parts = [
        b'"',
        b",",
        b"\0",
        b"\xff\xfe",
        b"\xc3",
        b"\r",
        b";",
        b"\t",
        b"px",
        b"2020",
        b"\xef\xbb\xbf",
        b"\\",
        b"'",
        b" ",
    ]
    return b"".join(random.choice(parts) for _ in range(random.randint(1, 25)))


def frame(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def as_parquet(rows: list[Row], path: Path) -> Path:
    pq.write_table(frame(rows), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_duckdb(rows: list[Row], path: Path) -> Path:
    place = path.with_suffix(".duckdb")
    place.unlink(missing_ok=True)
    with duckdb.connect(str(place)) as connection:
        connection.register("given", frame(rows))
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return place


def as_pandas(rows: list[Row], path: Path) -> pd.DataFrame:
    # A frame has types of its own; those of NumPy cannot hold what is missing and would change with the rows.
    return frame(rows).to_pandas(types_mapper=pd.ArrowDtype)


def as_objects(rows: list[Row], path: Path) -> pd.DataFrame:
    return frame(rows).to_pandas(types_mapper=lambda kind: None if kind == pa.string() else pd.ArrowDtype(kind))


def as_polars(rows: list[Row], path: Path) -> pl.DataFrame:
    return pl.from_arrow(frame(rows))


def as_arrow(rows: list[Row], path: Path) -> pa.Table:
    return frame(rows)


def csv(lines: list[bytes], path: Path) -> Path:
    path.with_suffix(".csv").write_bytes(",".join(SCHEMA.names).encode() + b"\n" + b"".join(lines))
    return path.with_suffix(".csv")


FORMS: dict[str, Callable[[list[Row], Path], object]] = {
    "parquet": as_parquet,
    "duckdb": as_duckdb,
    "pandas": as_pandas,
    "pandas objects": as_objects,
    "polars": as_polars,
    "arrow": as_arrow,
}
