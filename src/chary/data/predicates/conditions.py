"""Conditions of a predicate as a tree: literals, comparisons and how they combine, each typed by the columns."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Final, Protocol

import ibis

from chary.data.columns import DAY, OFFSET, SQL_TYPES, TIME, Schema, TypeClass, classify, declare, nearest, quote
from chary.errors import InvalidQuery

# Literals of the predicate language: how they print, and how they meet a column without an implicit cast.

Scalar = bool | int | float | str | date | datetime
CLASSES: Final[Mapping[type, TypeClass]] = {
    bool: TypeClass.BOOLEAN,
    int: TypeClass.INTEGER,
    float: TypeClass.FLOAT,
    str: TypeClass.STRING,
    date: TypeClass.DATE,
    datetime: TypeClass.TIMESTAMP,
}
"""The class of a literal, by its exact type in Python."""
_ISO_DATE = re.compile(DAY)
_ISO_TIMESTAMP = re.compile(f"{DAY}({TIME}(Z|{OFFSET})?)?")


@dataclass(frozen=True)
class Operand:
    """A column inside a compilation: its name, its class and its Ibis expression; or a derived one, and its text."""

    name: str
    kind: TypeClass
    value: Any
    derived: bool = False

    def declared(self, engine_type: str) -> str:
        """What to do about a text that was meant to be of another type; see `declare`."""
        return "" if self.derived else declare(self.name, self.kind, engine_type)


def meet(operand: Operand, values: Sequence[Scalar]) -> tuple[Any, list[Any]]:
    """The column and the literals as Ibis expressions of one type.

    An integer column meets a decimal literal as doubles. A date or timestamp column reads ISO strings. Anything else
    must be of the column's own class, or `InvalidQuery` is raised.
    """
    if operand.kind is TypeClass.INTEGER and any(type(value) is float for value in values):
        operand = replace(operand, kind=TypeClass.FLOAT, value=operand.value.cast("float64"))
    return operand.value, [_fit(operand, value) for value in values]


def double(value: float) -> Any:
    """A double as an Ibis expression; written as text because engines read bare decimals as decimals."""
    return ibis.literal(repr(float(value))).cast("float64")


def literal_of(kind: TypeClass, value: Scalar) -> Any:
    """The literal as an Ibis expression of that class; None where it is none of it."""
    reader = _READERS.get(kind)
    return None if reader is None else reader(value)


def _fit(operand: Operand, value: Scalar) -> Any:
    fitted = literal_of(operand.kind, value)
    if fitted is None:
        if operand.kind in (TypeClass.DATE, TypeClass.TIMESTAMP) and (missing := no_such(str(value))):
            raise InvalidQuery(missing)
        raise InvalidQuery(
            f"column {operand.name!r} is {operand.kind.words} and cannot be compared with {show(value)}"
            + _EXAMPLES.get(operand.kind, "; it can only be tested with IS NULL").format(name=operand.name)
            + operand.declared(SQL_TYPES[CLASSES[type(value)]])
        )
    return fitted


def _date(value: Scalar) -> Any:
    if isinstance(value, str):
        return None if (day := read_date(value)) is None else ibis.literal(day, "date")
    return ibis.literal(value, "date") if type(value) is date else None


def _timestamp(value: Scalar) -> Any:
    if isinstance(value, str):
        return None if (moment := read_timestamp(value)) is None else ibis.literal(moment, "timestamp")
    if type(value) is date:
        value = datetime(value.year, value.month, value.day)
    return ibis.literal(value, "timestamp") if isinstance(value, datetime) else None


_READERS: dict[TypeClass, Callable[[Scalar], Any]] = {
    TypeClass.BOOLEAN: lambda value: ibis.literal(value) if isinstance(value, bool) else None,
    TypeClass.INTEGER: lambda value: ibis.literal(value, "int64") if type(value) is int else None,
    TypeClass.FLOAT: lambda value: double(value) if type(value) in (int, float) else None,  # type: ignore[arg-type]
    TypeClass.STRING: lambda value: ibis.literal(value, "string") if isinstance(value, str) else None,
    TypeClass.DATE: _date,
    TypeClass.TIMESTAMP: _timestamp,
}
_EXAMPLES = {
    TypeClass.BOOLEAN: "; write {name} or {name} = TRUE",
    TypeClass.INTEGER: "; write {name} = 1",
    TypeClass.FLOAT: "; write {name} > 1.5",
    TypeClass.STRING: "; write {name} = 'text'",
    TypeClass.DATE: "; write {name} >= DATE '2013-01-31'",
    TypeClass.TIMESTAMP: "; write {name} >= TIMESTAMP '2013-01-31 12:00:00'",
}


def read_date(text: str) -> date | None:
    """A date from `YYYY-MM-DD`, None for anything else.

    >>> read_date("2013-01-31"), read_date("2013-02-31")
    (datetime.date(2013, 1, 31), None)
    """
    try:
        return date.fromisoformat(text) if _ISO_DATE.fullmatch(text) else None
    except ValueError:
        return None


def read_timestamp(text: str) -> datetime | None:
    """A time from `YYYY-MM-DD[ HH:MM[:SS[.ffffff]][Z|+HH:MM]]`, in UTC where an offset is written; None for another.

    >>> read_timestamp("2013-01-31 12:30"), read_timestamp("2013-01-31T12:30+01:00")
    (datetime.datetime(2013, 1, 31, 12, 30), datetime.datetime(2013, 1, 31, 11, 30))
    """
    if not _ISO_TIMESTAMP.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def no_such(text: str) -> str | None:
    """What is wrong with a text that is written as a day or a time and names none; None for any other text.

    >>> no_such("2023-02-30"), no_such("2023-02-28 25:00"), no_such("30.2.2023")
    ("there is no day '2023-02-30'", "there is no time '2023-02-28 25:00'", None)
    """
    if not _ISO_TIMESTAMP.fullmatch(text) or read_timestamp(text) is not None:
        return None
    return f"there is no {'day' if read_date(text[:10]) is None else 'time'} {show(text)}"


def show(value: Scalar) -> str:
    """The literal as the predicate language writes it.

    >>> show("it's"), show(True), show(date(2013, 1, 31))
    ("'it''s'", 'TRUE', "DATE '2013-01-31'")
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def quoted(word: str, before: str = "") -> str:
    """What to do where a word was meant as text.

    >>> quoted("Male", "sex = ")
    "text stands in single quotes: sex = 'Male'"
    """
    return f"text stands in single quotes: {before}{show(word)}"


# The nodes of a predicate: each prints itself and compiles itself to Ibis with SQL's three-valued logic.
#
# Compilation checks types against the schema alone, so that whether it fails never depends on a row. The columns it
# meets hold no NaN (see `columns`).

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUAL = ("=", "<>")
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Term(Protocol):
    """A column, or one that is derived from columns (see `terms`): frozen, hashable, and total."""

    def text(self) -> str:
        """Canonical SQL."""

    def typed(self, schema: Schema) -> "Typed":
        """What follows for its values from the schema alone; `InvalidQuery` where it does not fit."""

    def compile(self, scope: "Scope") -> Any:
        """An Ibis expression of a term that `typed` accepts."""


@dataclass(frozen=True)
class Typed:
    """The class of a term and, of numbers, in which range they are."""

    kind: TypeClass
    low: int | float = 0
    high: int | float = 0


# A column stands as its name, a derived one as what it is derived from.
Column = str | Term


@dataclass(frozen=True)
class Scope:
    """An Ibis table, the classes of its columns, and how its engine says LIKE of a text, a pattern, and folding.

    `read` reads a name that is no column as a derived one.
    """

    table: Any
    schema: Schema
    like: Callable[[Any, str, bool], Any]
    read: Callable[[str, Schema], Term | None]

    def operand(self, column: Column) -> Operand:
        """The column of that name, or the derived one; `InvalidQuery` when there is none."""
        found = column
        if isinstance(found, str):
            read = None if found in self.schema else self.read(found, self.schema)
            if read is None:
                return Operand(found, classify(self.schema, found), self.table[found])
            found = read
        return Operand(found.text(), found.typed(self.schema).kind, found.compile(self), derived=True)


class Condition(Protocol):
    """`Compare`, `OneOf`, `IsNull`, `Like`, `Holds`, `Not`, `Every`, `Some`: frozen, hashable, and total."""

    def text(self) -> str:
        """Canonical SQL."""

    def compile(self, scope: Scope) -> Any:
        """A Boolean Ibis expression; `InvalidQuery` when a column is unknown or of the wrong class."""


@dataclass(frozen=True)
class Name:
    """A column standing on the right of a comparison, or in a derived one."""

    name: str

    def text(self) -> str:
        return identifier(self.name)

    def typed(self, schema: Schema) -> Typed:
        kind = classify(schema, self.name)
        return Typed(kind, *_RANGES.get(kind, (0, 0)))

    def compile(self, scope: Scope) -> Any:
        return scope.table[self.name]


_RANGES: dict[TypeClass, tuple[int | float, int | float]] = {
    TypeClass.INTEGER: (-(2**63), 2**63 - 1),
    TypeClass.FLOAT: (float("-inf"), float("inf")),
}


class Said:
    """Equal if and only if the canonical SQL is: 1, 1.0 and TRUE are three literals, unlike in Python."""

    def text(self) -> str:
        """Canonical SQL."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())


@dataclass(frozen=True, eq=False)
class Compare(Said):
    """`column op literal` or `column op column`."""

    column: Column
    sign: str
    other: Scalar | Term

    def text(self) -> str:
        right = show(self.other) if isinstance(self.other, Scalar) else self.other.text()
        return f"{text_of(self.column)} {self.sign} {right}"

    def compile(self, scope: Scope) -> Any:
        left = scope.operand(self.column)
        if left.kind is TypeClass.BOOLEAN and self.sign not in _EQUAL:
            raise InvalidQuery(f"boolean column {left.name!r} has no order; write {left.name} = TRUE")
        value, other = self._sides(left, scope)
        return OPERATORS[self.sign](value, other)

    def _sides(self, left: Operand, scope: Scope) -> tuple[Any, Any]:
        if isinstance(self.other, Scalar):
            self._check_order(left)
            value, others = meet(left, [self.other])
            return value, others[0]
        right = self._right(left, self.other, scope)
        if {left.kind, right.kind} == {TypeClass.INTEGER, TypeClass.FLOAT}:
            return left.value.cast("float64"), right.value.cast("float64")
        if left.kind is not right.kind or left.kind is TypeClass.OTHER:
            raise InvalidQuery(
                f"columns {left.name!r} ({left.kind.words}) and {right.name!r} ({right.kind.words}) cannot be compared"
            )
        self._check_order(left, right)
        return left.value, right.value

    def _right(self, left: Operand, other: Term, scope: Scope) -> Operand:
        if not isinstance(other, Name):
            return scope.operand(other)
        name, schema = other.name, scope.schema
        if left.kind is not TypeClass.OTHER and name not in schema and scope.read(name, schema) is None:
            text = f"; {quoted(name, f'{text_of(self.column)} {self.sign} ')}"
            meant = text if left.kind is TypeClass.STRING else _EXAMPLES[left.kind].format(name=left.name)
            raise InvalidQuery(f"unknown column {name!r}{nearest(name, schema)}{meant}")
        return scope.operand(name)

    def _check_order(self, *sides: Operand) -> None:
        # Engines put strings of their own in orders of their own.
        if self.sign not in _EQUAL and any(side.derived and side.kind is TypeClass.STRING for side in sides):
            raise InvalidQuery(f"strings of COALESCE and CASE have no order: write = or IN instead of {self.sign}")


@dataclass(frozen=True, eq=False)
class OneOf(Said):
    """`column IN (literals)`."""

    column: Column
    values: tuple[Scalar, ...]

    def text(self) -> str:
        return f"{text_of(self.column)} IN ({', '.join(map(show, self.values))})"

    def compile(self, scope: Scope) -> Any:
        value, others = meet(scope.operand(self.column), self.values)
        return value.isin(others)


@dataclass(frozen=True)
class IsNull:
    """`column IS NULL`; true for NaN."""

    column: Column

    def text(self) -> str:
        return f"{text_of(self.column)} IS NULL"

    def compile(self, scope: Scope) -> Any:
        return scope.operand(self.column).value.isnull()


@dataclass(frozen=True)
class Like:
    """`column LIKE pattern`, or ILIKE when `fold`."""

    column: Column
    pattern: str
    fold: bool

    def text(self) -> str:
        return f"{text_of(self.column)} {'ILIKE' if self.fold else 'LIKE'} {show(self.pattern)}"

    def compile(self, scope: Scope) -> Any:
        operand = scope.operand(self.column)
        if operand.kind is not TypeClass.STRING:
            raise InvalidQuery(f"LIKE needs a string column; {operand.name!r} is {operand.kind.words}")
        return scope.like(operand.value, self.pattern, self.fold)


@dataclass(frozen=True)
class Holds:
    """A Boolean column by itself."""

    column: Column

    def text(self) -> str:
        return text_of(self.column)

    def compile(self, scope: Scope) -> Any:
        operand = scope.operand(self.column)
        if operand.kind is not TypeClass.BOOLEAN:
            hint = "1" if operand.kind in (TypeClass.INTEGER, TypeClass.FLOAT) else "'...'"
            raise InvalidQuery(
                f"column {operand.name!r} is {operand.kind.words}, not a boolean; compare it: {operand.name} = {hint}"
                + operand.declared("BOOLEAN")
            )
        return operand.value


@dataclass(frozen=True)
class Not:
    """`NOT condition`; unknown stays unknown."""

    condition: Condition

    def text(self) -> str:
        return f"NOT ({self.condition.text()})"

    def compile(self, scope: Scope) -> Any:
        return ~self.condition.compile(scope)


@dataclass(frozen=True)
class _Several:
    conditions: tuple[Condition, ...]
    word: ClassVar[str]
    combine: ClassVar[Callable[[Any, Any], Any]]

    def text(self) -> str:
        return f" {self.word} ".join(_bracketed(part) for part in self.conditions)

    def compile(self, scope: Scope) -> Any:
        return _balanced(type(self).combine, [part.compile(scope) for part in self.conditions])


class Every(_Several):
    """`AND` of two or more conditions."""

    word, combine = "AND", operator.and_


class Some(_Several):
    """`OR` of two or more conditions."""

    word, combine = "OR", operator.or_


def text_of(column: Column) -> str:
    """A column as predicates write it."""
    return identifier(column) if isinstance(column, str) else column.text()


def identifier(name: str) -> str:
    """A column name, quoted only when it has to be.

    >>> identifier("age"), identifier("plan type")
    ('age', '"plan type"')
    """
    return name if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED else quote(name)


_RESERVED = {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "ILIKE", "TRUE", "FALSE", "DATE", "TIMESTAMP",
             "CASE", "SELECT", "EXISTS", "CAST"}  # fmt: skip


def _bracketed(part: Condition) -> str:
    return f"({part.text()})" if isinstance(part, _Several) else part.text()


def _balanced(combine: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    # A chain of a thousand terms would exceed the depth limits of compilers and engines; a balanced tree does not.
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combine(_balanced(combine, parts[:middle]), _balanced(combine, parts[middle:]))
