"""Literals of the predicate language: how they print, and how they meet a column without an implicit cast."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import ibis

from chary.data.columns import DAY, OFFSET, TIME, TypeClass, declare
from chary.errors import InvalidQuery

Scalar = bool | int | float | str | date | datetime
_ISO_DATE = re.compile(DAY)
_ISO_TIMESTAMP = re.compile(f"{DAY}({TIME}(Z|{OFFSET})?)?")


@dataclass(frozen=True)
class Operand:
    """A column inside a compilation: its name, its class and its Ibis expression."""

    name: str
    kind: TypeClass
    value: Any


def meet(operand: Operand, values: Sequence[Scalar]) -> tuple[Any, list[Any]]:
    """The column and the literals as Ibis expressions of one type.

    An integer column meets a decimal literal as doubles; a date or timestamp column reads ISO strings; anything
    else must be of the column's own class, or `InvalidQuery` is raised.
    """
    if operand.kind is TypeClass.INTEGER and any(type(value) is float for value in values):
        operand = Operand(operand.name, TypeClass.FLOAT, operand.value.cast("float64"))
    return operand.value, [_fit(operand, value) for value in values]


def double(value: float) -> Any:
    """A double as an Ibis expression; written as text because engines read bare decimals as decimals."""
    return ibis.literal(repr(float(value))).cast("float64")


def _fit(operand: Operand, value: Scalar) -> Any:
    reader = _READERS.get(operand.kind)
    fitted = None if reader is None else reader(value)
    if fitted is None:
        if operand.kind in (TypeClass.DATE, TypeClass.TIMESTAMP) and (missing := no_such(str(value))):
            raise InvalidQuery(missing)
        raise InvalidQuery(
            f"column {operand.name!r} is {operand.kind.words} and cannot be compared with {show(value)}"
            + _EXAMPLES.get(operand.kind, "; it can only be tested with IS NULL").format(name=operand.name)
            + declare(operand.name, operand.kind, _TYPES[type(value)])
        )
    return fitted


def _boolean(value: Scalar) -> Any:
    return ibis.literal(value) if isinstance(value, bool) else None


def _integer(value: Scalar) -> Any:
    return ibis.literal(value, "int64") if type(value) is int else None


def _float(value: Scalar) -> Any:
    return double(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _string(value: Scalar) -> Any:
    return ibis.literal(value, "string") if isinstance(value, str) else None


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
    TypeClass.BOOLEAN: _boolean,
    TypeClass.INTEGER: _integer,
    TypeClass.FLOAT: _float,
    TypeClass.STRING: _string,
    TypeClass.DATE: _date,
    TypeClass.TIMESTAMP: _timestamp,
}
_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR", date: "DATE", datetime: "TIMESTAMP"}
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
