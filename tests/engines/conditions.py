"""Conditions drawn at random over columns of every class, and awkward rows to ask them of."""

import random
from datetime import date, datetime, timedelta

import pyarrow as pa

from chary.data import Predicate
from chary.data.predicates.conditions import Compare, Every, Holds, IsNull, Like, Name, Not, OneOf, Some
from tests.engines.cells import BOOLEANS, DATES, DOUBLES, INTEGERS, MOMENTS, TEXTS

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "i": pa.int64(),
        "j": pa.int32(),
        "x": pa.float64(),
        "y": pa.float32(),
        "s": pa.string(),
        'odd "name': pa.string(),
        "b": pa.bool_(),
        "c": pa.bool_(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
    }
)
SMALL = [None, -3, -1, 0, 1, 2, 3, 2**31 - 1, -(2**31)]
SINGLES = [None, 0.5, -0.0, 1.5, float("inf"), float("nan"), 0.10000000149011612, -3.0, 2.0**24]
VALUES = {
    "i": INTEGERS,
    "j": SMALL,
    "x": [*DOUBLES, 0.1, 3.0, 2.0**63],
    "y": SINGLES,
    "s": TEXTS,
    'odd "name': TEXTS,
    "b": BOOLEANS,
    "c": BOOLEANS,
    "d": DATES,
    "t": MOMENTS,
}
NUMBERS, TEXTUAL = ["i", "j", "x", "y"], ["s", 'odd "name']
PEERS = [NUMBERS, TEXTUAL, ["b", "c"], ["d"], ["t"]]
SIGNS = ["=", "<>", "<", "<=", ">", ">="]


def rows(seed=3, size=40):
    """So many rows, each cell drawn by itself."""
    drawn = random.Random(seed)
    return [{"n": number} | {name: drawn.choice(VALUES[name]) for name in VALUES} for number in range(size)]


def predicates(seed, size):
    """So many predicates, the same for the same seed."""
    drawn = random.Random(seed)
    return [Predicate(condition(drawn, 3)) for _ in range(size)]


def condition(drawn, depth):
    if depth == 0 or drawn.random() < 0.35:
        return atom(drawn)
    kind = drawn.choice([Not, Every, Some, Every, Some])
    if kind is Not:
        return Not(condition(drawn, depth - 1))
    return kind(tuple(condition(drawn, depth - 1) for _ in range(drawn.choice([2, 2, 3]))))


def atom(drawn):
    column = drawn.choice(list(VALUES))
    kinds = ["null", "compare", "compare", "compare", "one of", "peer"]
    kinds += ["holds"] if column in ("b", "c") else ["like", "like"] if column in TEXTUAL else []
    match drawn.choice(kinds):
        case "null":
            return IsNull(column)
        case "holds":
            return Holds(column)
        case "like":
            return Like(column, pattern(drawn), False) if drawn.random() < 0.7 else Like(column, folded(drawn), True)
        case "one of":
            values = [literal(drawn, column) for _ in range(drawn.randint(1, 4))]
            if column in ("i", "j") and any(isinstance(value, float) for value in values):
                values = [float(value) for value in values]
            return OneOf(column, tuple(values))
        case "peer":
            peers = next(group for group in PEERS if column in group)
            return Compare(column, sign(drawn, column), Name(drawn.choice(peers)))
    return Compare(column, sign(drawn, column), literal(drawn, column))


def sign(drawn, column):
    return drawn.choice(SIGNS[:2] if column in ("b", "c") else SIGNS)


def literal(drawn, column):
    """A value that such a column may be compared with: its own, near it, or of a class that meets it."""
    own = [value for value in VALUES[column] if value is not None and value == value]
    value = drawn.choice(own)
    if column in NUMBERS:
        value = drawn.choice([value, drawn.randint(-3, 3), drawn.choice([0.5, -1.5, 0.1, 1e300, 2.0**53])])
        return drawn.randint(-(2**63), 2**63 - 1) if value in (float("inf"), -float("inf")) else value
    if isinstance(value, datetime) and drawn.random() < 0.4:
        return drawn.choice([value.isoformat(sep=" "), value.date()])
    if isinstance(value, date) and not isinstance(value, datetime):
        near = value + timedelta(days=drawn.randint(-1, 1)) if 1 < value.year < 9999 else value
        return drawn.choice([near, near.isoformat()])
    return value


def pattern(drawn):
    return "".join(drawn.choice([*TEXTS, "%", "%", "_", "_", "\\", "["]) or "" for _ in range(drawn.randint(0, 3)))


def folded(drawn):
    return drawn.choice(["A%", "%B", "a_", "IT%", "a", "%\\%", "_", "%"])
