"""Random predicates over random tables, beside an evaluator of their own that never sees how chary reads them."""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random

import pyarrow as pa

from chary.data import NeighborRelation, RowTable, count
from chary.errors import CharyError
from tests.data.oracle import compare, like, missing
from tests.soak.figures import Figures, Until

PREDICATES_OF_A_TABLE = 60
ROWS = 40
Row = dict[str, object]
Truth = bool | None
Meaning = Callable[[Row], Truth]

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "j": pa.int16(),
        "x": pa.float64(),
        "y": pa.float32(),
        "s": pa.string(),
        "odd name": pa.string(),
        "b": pa.bool_(),
        "c": pa.bool_(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
    }
)
NUMBERS, TEXTS, TRUTHS = ("i", "j", "x", "y"), ("s", "odd name"), ("b", "c")
WORDS = ["", "a", "A", "ab", "Ab", "a%", "%", "_", "a_b", "it's", '"', "\\", "a\\b", "é", "e\u0301", "É", "ß", "ſ",
         "İ", "🙂", "日本", "a\nb", "\t", " ", "\u00a0", "\u200b", "NULL", "null", "1", "TRUE", "--", ";", "/*",
         "\x01"]  # fmt: skip
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(2013, 1, 1), date(2013, 1, 2), date(2024, 2, 29), date(9999, 12, 31)]
WHOLE = [0, 1, -1, 2, 3, 255, 2**31, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
REAL = [0.0, -0.0, 0.1, 0.5, -1.5, 1e-300, 5e-324, 1e300, 2.0**53, 9.2e18, math.pi]
ODD = [math.nan, math.inf, -math.inf]


@dataclass(frozen=True)
class Said:
    """A predicate: its text and what it means for a row."""

    text: str
    means: Meaning


def predicates(until: Until, random: Random, counted: Callable[[RowTable, str], int] | None = None) -> Figures:
    """The attack; `counted` is what is asked of chary, to see that a wrong answer is caught."""
    figures, table, rows = Figures(), None, []
    for number in until:
        if number % PREDICATES_OF_A_TABLE == 0:
            if table is not None:
                table.close()
            table, rows = _table(random)
            figures.count("tables")
        said = predicate(random, random.randint(0, 4))
        truths = [said.means(row) for row in rows]
        for text, right in ((said.text, truths.count(True)), (f"NOT ({said.text})", truths.count(False))):
            figures.count("cases")
            found = _found(counted or counts, table, text)
            figures.expect(found == right, f"{text!r} counts {found}, not {right}")
    table.close()
    return figures


def counts(table: RowTable, text: str) -> int:
    """How many rows chary counts."""
    return table.prepare(count(text)).run()


def _found(counted: Callable[[RowTable, str], int], table: RowTable, text: str) -> int | str:
    """No predicate of this grammar is refused, and none fails, whatever the rows."""
    try:
        return counted(table, text)
    except CharyError as error:
        return f"{type(error).__name__}: {error}"


def _table(random: Random) -> tuple[RowTable, list[Row]]:
    rows = [{name: _value(name, random) for name in SCHEMA.names} for _ in range(random.choice([0, 1, ROWS]))]
    frame = pa.Table.from_pylist(rows, SCHEMA)
    return RowTable.open(frame, neighbor_relation=NeighborRelation("add_remove", None)), frame.to_pylist()


def _value(name: str, random: Random) -> object:
    if random.random() < 0.2:
        return None
    return VALUES[name](random)


def _single(value: float) -> float:
    """The nearest number of 32 bits, as far as there is one."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return 0.5


def whole(random: Random) -> int:
    return random.choice([random.choice(WHOLE), random.randint(-3, 3), random.randint(-(2**63), 2**63 - 1)])


def real(random: Random) -> float:
    return random.choice([random.choice(REAL), random.randint(-3, 3) / 2, random.uniform(-1e3, 1e3)])


def word(random: Random) -> str:
    return random.choice(WORDS) + random.choice(["", "", random.choice(WORDS)])


def day(random: Random) -> date:
    return random.choice(DAYS) if random.random() < 0.7 else date(2013, 1, 1) + timedelta(random.randint(-400, 400))


def moment(random: Random) -> datetime:
    midnight = datetime.combine(day(random), datetime.min.time())
    return midnight + timedelta(microseconds=random.choice([0, 0, 1, 43_200_000_000, 86_399_999_999]))


VALUES: dict[str, Callable[[Random], object]] = {
    "i": whole,
    "j": lambda random: random.choice([0, 1, -1, 2, 3, 255, 32767, -32768]),
    "x": lambda random: random.choice(ODD) if random.random() < 0.2 else real(random),
    "y": lambda random: random.choice(ODD) if random.random() < 0.2 else _single(real(random)),
    "s": word,
    "odd name": word,
    "b": lambda random: random.random() < 0.5,
    "c": lambda random: random.random() < 0.5,
    "d": day,
    "t": moment,
}


def predicate(random: Random, depth: int) -> Said:
    """A predicate of so many layers at most."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(ATOMS)(random)
    if random.random() < 0.3:
        inner = predicate(random, depth - 1)
        return Said(f"{_cased('NOT', random)} ({inner.text})", lambda row: _not(inner.means(row)))
    parts = [predicate(random, depth - 1) for _ in range(random.randint(2, 4))]
    return _joined(parts, random.random() < 0.5, random)


def _joined(parts: list[Said], every: bool, random: Random) -> Said:
    text = f" {_cased('AND' if every else 'OR', random)} ".join(f"({part.text})" for part in parts)

    def means(row: Row) -> Truth:
        truths = [part.means(row) for part in parts]
        if (not every) in truths:
            return not every
        return None if None in truths else every

    return Said(text, means)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _cased(word: str, random: Random) -> str:
    return random.choice([word, word.lower(), word.title()])


def _name(column: str, random: Random) -> str:
    return f'"{column}"' if " " in column or random.random() < 0.3 else column


def _sides(random: Random) -> tuple[str, str, Callable[[Row], object]]:
    """A column, and what it is compared with: a literal or another column, as text and as a value of the row."""
    column = random.choice(SCHEMA.names)
    peers = next((group for group in (NUMBERS, TEXTS, TRUTHS) if column in group), (column,))
    if random.random() < 0.25:
        other = random.choice(peers)
        return column, _name(other, random), lambda row: row[other]
    text, value = _literal(column, random)
    return column, text, lambda row: value


def _literal(column: str, random: Random) -> tuple[str, object]:
    if column in NUMBERS:
        value = whole(random) if random.random() < 0.5 else real(random)
        return repr(value), value
    if column in TEXTS:
        value = word(random)
        return _quoted(value), value
    if column in TRUTHS:
        value = random.random() < 0.5
        return _cased(str(value).upper(), random), value
    return _time_literal(column, random)


def _time_literal(column: str, random: Random) -> tuple[str, object]:
    if column == "d" or random.random() < 0.3:
        value = day(random)
        return random.choice(["", "DATE "]) + _quoted(value.isoformat()), value
    value = moment(random)
    return random.choice(["", "TIMESTAMP "]) + _quoted(value.isoformat(sep=" ")), value


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def _compared(random: Random) -> Said:
    column, text, other = _sides(random)
    sign = random.choice([sign for sign in SIGNS if column not in TRUTHS or SIGNS[sign] in ("=", "<>")])
    return Said(f"{_name(column, random)} {sign} {text}", lambda row: _compare(row[column], SIGNS[sign], other(row)))


def _compare(left: object, sign: str, right: object) -> Truth:
    return None if missing(left) or missing(right) else compare(left, sign, right)


def _between(random: Random) -> Said:
    column = random.choice([name for name in SCHEMA.names if name not in TRUTHS])
    (low, least), (high, most) = _literal(column, random), _literal(column, random)
    negated = random.random() < 0.4

    def means(row: Row) -> Truth:
        if missing(row[column]):
            return None
        inside = compare(row[column], ">=", least) and compare(row[column], "<=", most)
        return inside != negated

    word = _cased("NOT BETWEEN" if negated else "BETWEEN", random)
    return Said(f"{_name(column, random)} {word} {low} {_cased('AND', random)} {high}", means)


def _one_of(random: Random) -> Said:
    column = random.choice(SCHEMA.names)
    literals = [_literal(column, random) for _ in range(random.randint(1, 4))]
    if column in ("d", "t"):
        # Literals of one list are of one kind.
        literals = [(text.removeprefix("DATE ").removeprefix("TIMESTAMP "), value) for text, value in literals]
    negated = random.random() < 0.4
    values = _alike(column, [value for _, value in literals])

    def means(row: Row) -> Truth:
        if missing(row[column]):
            return None
        return any(compare(row[column], "=", value) for value in values) != negated

    word = _cased("NOT IN" if negated else "IN", random)
    return Said(f"{_name(column, random)} {word} ({', '.join(text for text, _ in literals)})", means)


def _alike(column: str, values: list[object]) -> list[object]:
    """Whole numbers beside a float are floats, as in SQL."""
    mixed = column in NUMBERS and any(isinstance(value, float) for value in values)
    return [float(value) for value in values] if mixed else values


def _null(random: Random) -> Said:
    column, negated = random.choice(SCHEMA.names), random.random() < 0.5
    text = f"{_name(column, random)} {_cased('IS NOT NULL' if negated else 'IS NULL', random)}"
    return Said(text, lambda row: missing(row[column]) != negated)


def _alone(random: Random) -> Said:
    column = random.choice(TRUTHS)
    return Said(_name(column, random), lambda row: row[column])


def _liked(random: Random) -> Said:
    column, negated = random.choice(TEXTS), random.random() < 0.4
    pattern = "".join(_letters(random))

    def means(row: Row) -> Truth:
        return None if row[column] is None else like(row[column], pattern, False) != negated

    word = _cased("NOT LIKE" if negated else "LIKE", random)
    return Said(f"{_name(column, random)} {word} {_quoted(pattern)}", means)


def _letters(random: Random) -> Iterator[str]:
    for _ in range(random.randint(0, 4)):
        yield random.choice(["%", "_", random.choice(WORDS)])


ATOMS = [_compared, _compared, _between, _one_of, _null, _alone, _liked]
