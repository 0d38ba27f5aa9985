"""Conditions drawn at random over columns of every class, and awkward rows to ask them of."""

import contextlib
import random
from datetime import date, datetime, timedelta

import pyarrow as pa

from chary.data import Predicate
from chary.data.predicates.conditions import Compare, Every, Holds, IsNull, Like, Name, Not, OneOf, Some
from chary.data.predicates.terms import PARTS, UNITS, Case, Clipped, Coalesced, Constant, Operation, TimePart, Truncated
from chary.errors import InvalidQuery
from tests.data.oracle import valued
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
    """So many predicates, the same for the same seed; those that are too large to be read are drawn again."""
    drawn, found = random.Random(seed), []
    while len(found) < size:
        made = Predicate(condition(drawn, 3))
        with contextlib.suppress(InvalidQuery):
            found.append(Predicate.parse(made.text) and made)
    return found


def condition(drawn, depth):
    if depth == 0 or drawn.random() < 0.35:
        return atom(drawn)
    kind = drawn.choice([Not, Every, Some, Every, Some])
    if kind is Not:
        return Not(condition(drawn, depth - 1))
    return kind(tuple(condition(drawn, depth - 1) for _ in range(drawn.choice([2, 2, 3]))))


def atom(drawn):
    return derived_atom(drawn) if drawn.random() < 0.4 else plain_atom(drawn)


def plain_atom(drawn):
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


# Derived columns: of each class, from columns and from one another.

TYPES = {"i": "int64", "j": "int64", "x": "float64", "y": "float64", "s": "string", 'odd "name': "string"}
TYPES |= {"b": "boolean", "c": "boolean", "d": "date", "t": "timestamp"}
LIKE = {"int64": "i", "float64": "x", "string": "s", "boolean": "b", "date": "d", "timestamp": "t"}


def derived_atom(drawn):
    kind = drawn.choice(["int64", "int64", "int64", "float64", "float64", "date", "timestamp", "string", "boolean"])
    made = term(drawn, kind, 3)
    signs = SIGNS if kind not in ("string", "boolean") else SIGNS[:2]
    match drawn.choice(["null", "compare", "compare", "compare", "one of", "peer", "other"]):
        case "null":
            return IsNull(made)
        case "one of" if kind == "boolean":
            return Holds(made)
        case "one of" if kind == "string":
            return Like(made, pattern(drawn), drawn.random() < 0.2)
        case "one of":
            return OneOf(made, tuple(met(drawn, made, kind) for _ in range(drawn.randint(1, 3))))
        case "peer":
            peers = next(group for group in PEERS if LIKE[kind] in group)
            return Compare(made, drawn.choice(signs), Name(drawn.choice(peers)))
        case "other":
            return Compare(LIKE[kind], drawn.choice(signs), made)
    return Compare(made, drawn.choice(signs), met(drawn, made, kind))


def met(drawn, made, kind):
    """A literal that a derived column is likely to be equal to."""
    value = valued(made, drawn.choice(ROWS))
    if value is None or value in (float("inf"), -float("inf")) or drawn.random() < 0.2:
        value = drawn.choice([each for each in VALUES[LIKE[kind]] if each is not None and each == each])
    return drawn.choice([0.5, 7.0]) if value in (float("inf"), -float("inf")) else value


def term(drawn, kind, depth):
    """A derived column of a class that fits the columns; most drawn at random fit, and others are drawn again."""
    while True:
        made = TERMS[kind](drawn, depth)
        try:
            made.typed(TYPES)
        except InvalidQuery:
            continue
        return made


def inner(drawn, kind, depth):
    own = [name for name, other in TYPES.items() if other == kind]
    return Name(drawn.choice(own)) if depth <= 1 or drawn.random() < 0.5 else term(drawn, kind, depth - 1)


def constant(drawn, kind):
    value = drawn.choice([each for each in VALUES[LIKE[kind]] if each is not None and each == each])
    return Constant(1e150 if value in (float("inf"), -float("inf")) else value)


def moment(drawn, depth, timed=False):
    return inner(drawn, "timestamp" if timed else drawn.choice(["date", "timestamp"]), depth)


def integer(drawn, depth):
    part = drawn.choice(list(PARTS))
    match drawn.randint(0, 6):
        case 0 | 1:
            return TimePart(part, moment(drawn, depth, part == "hour"))
        case 2:
            divisor = drawn.choice([1, 2, 3, 7, 10, 2**31, 2**53 + 1, 2**62])
            return Operation("%", inner(drawn, "int64", depth), Constant(divisor))
        case 3:
            low = drawn.choice([-(2**63), -(2**31), -3, 0, 1])
            return Clipped(inner(drawn, "int64", depth), low, low + drawn.choice([1, 5, 2**31, 2**62]))
        case 4 | 5:
            return operation(drawn, "int64", depth, Constant(drawn.choice([-(2**62), -7, -1, 0, 1, 3, 2**31])))
    return either(drawn, "int64", depth)


def number(drawn, depth):
    match drawn.randint(0, 4):
        case 0 | 1:
            low = drawn.choice([-1e150, -1e9, -1.5, 0, 1e-200])
            return Clipped(inner(drawn, "float64", depth), low, drawn.choice([0.25, 3, 1e12, 1e150, 5e299]))
        case 2 | 3:
            return operation(drawn, "float64", depth, Constant(drawn.choice([-1.5, 0.1, 0.0, 3, 1e-160, 1e140])))
    return either(drawn, "float64", depth)


def operation(drawn, kind, depth, literal):
    sides = [inner(drawn, kind, depth), drawn.choice([literal, inner(drawn, kind, depth)])]
    drawn.shuffle(sides)
    return Operation(drawn.choice(["+", "-", "*"]), *sides)


def either(drawn, kind, depth):
    second = drawn.choice([constant(drawn, kind), inner(drawn, kind, depth)])
    if drawn.random() < 0.4:
        return Coalesced(inner(drawn, kind, depth), second)
    cases = [(condition(drawn, 1) if depth > 1 else plain_atom(drawn), second) for _ in range(drawn.randint(1, 2))]
    return Case(tuple(cases), drawn.choice([None, inner(drawn, kind, depth)]))


def day(drawn, depth):
    if drawn.random() < 0.3:
        return either(drawn, "date", depth)
    return Truncated(drawn.choice([unit for unit in UNITS if unit != "hour"]), inner(drawn, "date", depth))


def time(drawn, depth):
    if drawn.random() < 0.3:
        return either(drawn, "timestamp", depth)
    return Truncated(drawn.choice(list(UNITS)), inner(drawn, "timestamp", depth))


TERMS = {"int64": integer, "float64": number, "date": day, "timestamp": time}
TERMS |= {kind: lambda drawn, depth, kind=kind: either(drawn, kind, depth) for kind in ("string", "boolean")}
ROWS = rows()
