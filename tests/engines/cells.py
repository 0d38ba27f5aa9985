"""Rows that engines are most likely to read differently, in many small worlds of one table.

A world is a database of a few rows: whoever asks `where w = 7` asks the database of that world, so that one opened
table holds as many databases as a test needs. A unit may have rows in several worlds.
"""

import math
import random
from datetime import date, datetime

import pyarrow as pa

WORLDS = 24
SCHEMA = pa.schema(
    {
        "w": pa.int64(),
        "n": pa.int64(),
        "u": pa.string(),
        "v": pa.int64(),
        "k": pa.string(),
        "i": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
    }
)
# Case, accents in two spellings, trailing blanks, text above the BMP, which is after the last of the BMP by bytes and
# before it by pairs of 16 bits.
UNITS = ["a", "A", "a ", "é", "e\u0301", "\U0001f642", "\uffee", "", None]
NUMBERS = [0, -1, 7, 2**63 - 1, -(2**63), None]
TEXTS = [*UNITS, "É", "ß", "日本", "%", "_", "a\\b", "a\nb", "it's", " ", "b"]
KEYS = ["a", "A", "a ", "\U0001f642", "\uffee", "", "b", None]
INTEGERS = [None, 0, 1, -1, 2, 7, -7, 2**63 - 1, -(2**63), 2**53 + 1]
# Halves, a number just below one, an odd number where halves are lost, and the edges of doubles.
DOUBLES = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.26, -0.24, 0.5, -0.5, 1.5, -1.5, 2.5, 100.0]
DOUBLES += [0.49999999999999994, 2.0**52 + 1, 1e300, -1e300, 5e-324]
DATES = [None, date.min, date.max, date(1970, 1, 1), date(1969, 12, 31), date(2000, 2, 29), date(2013, 1, 1)]
MOMENTS = [None, datetime.min, datetime.max, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)]
MOMENTS += [datetime(2013, 1, 1), datetime(2013, 1, 1, 0, 0, 0, 1), datetime(2000, 2, 29, 12, 30)]
BOOLEANS = [None, True, False]
VALUES = {
    "u": UNITS,
    "v": NUMBERS,
    "k": KEYS,
    "i": INTEGERS,
    "x": DOUBLES,
    "s": TEXTS,
    "b": BOOLEANS,
    "d": DATES,
    "t": MOMENTS,
}


def cells(seed=1):
    """The rows of all worlds: world 0 has none, world 1 one without a unit, world 2 one of nothing but NULL."""
    drawn, rows = random.Random(seed), []
    for world in range(1, WORLDS):
        size = 1 if world < 4 else drawn.randint(2, 12)
        units, numbers = drawn.sample(UNITS, 4), drawn.sample(NUMBERS, 4)
        for _ in range(size):
            row = {name: drawn.choice(values) for name, values in VALUES.items()}
            row |= {"u": drawn.choice(units), "v": drawn.choice(numbers)}
            if world == 1:
                row |= {"u": None, "v": None}
            if world == 2:
                row |= dict.fromkeys(set(VALUES) - {"u", "v"}) | {"u": "a", "v": 7}
            rows.append({"w": world, "n": len(rows)} | row)
    return rows


def frame(rows, schema=SCHEMA):
    """An Arrow table, in which NaN is a number."""
    columns = {name: pa.array([row[name] for row in rows], schema.field(name).type) for name in schema.names}
    return pa.table(columns, schema=schema)


ROWS = cells()


def world(number):
    """The rows of one world, or of all for None."""
    return [row for row in ROWS if number in (None, row["w"])]


# Sums beyond 64 bits, and means whose sums are beyond what doubles hold.
HEAVY = [{"u": number % 3, "n": number, "k": "ab"[number % 7 == 0], "i": 2**53 - number % 2} for number in range(5000)]
HEAVY_SCHEMA = pa.schema({"u": pa.int64(), "n": pa.int64(), "k": pa.string(), "i": pa.int64()})
