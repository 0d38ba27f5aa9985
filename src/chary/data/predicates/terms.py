"""Derived columns: functions, arithmetic, COALESCE and CASE of columns, which no row can make fail.

Whether one fits is known from the schema alone. Each says where its numbers can be, and what may leave 64 bits, or what
doubles hold, is refused: engines differ in what they do then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from itertools import product
from typing import Any, Final

import ibis

from chary.data.columns import Schema, TypeClass, declare
from chary.data.predicates import conditions
from chary.data.predicates.conditions import Condition, Name, Said, Scalar, Scope, Term, Typed, double, literal_of, show
from chary.errors import InvalidQuery

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1
# Doubles go on to 1.7e308: what is rounded on the way to a bound below this one does not leave them.
_FINITE: Final = 1e300
# A product of two doubles that are 0, or at least so far from it, is 0 or at least 1e-300: some engines fail below.
_TINY: Final = 1e-150
# A remainder and its divisor add up within 64 bits.
_DIVISOR: Final = 2**62
_NUMBERS: Final = frozenset({TypeClass.INTEGER, TypeClass.FLOAT})


# Literals within a derived column.


@dataclass(frozen=True, eq=False)
class Constant(Said):
    """A literal."""

    value: Scalar

    def text(self) -> str:
        return show(self.value)

    def typed(self, schema: Schema) -> Typed:
        kind = conditions.CLASSES[type(self.value)]
        return Typed(kind, self.value, self.value) if kind in _NUMBERS else Typed(kind)  # type: ignore[arg-type]

    def compile(self, scope: Scope) -> Any:
        return _constant(self.value, conditions.CLASSES[type(self.value)])


def _constant(value: Scalar, kind: TypeClass) -> Any:
    """As an Ibis expression; None where the literal is none of that class."""
    if kind is TypeClass.INTEGER:
        return _whole(value) if type(value) is int else None
    return literal_of(kind, value)


def _whole(value: int) -> Any:
    # Some engines read a bare number as one of 32 bits, and would compute with that many.
    return ibis.literal(str(value)).cast("int64")


# Parts of days and times.


@dataclass(frozen=True)
class TimePart:
    """`year`, `month`, `day`, `weekday` (Monday is 1, Sunday 7) or `hour`, integers; NULL beyond the years 1 to
    9999, and of infinite moments."""

    part: str
    of: Term

    def text(self) -> str:
        return f"{self.part}({self.of.text()})"

    def typed(self, schema: Schema) -> Typed:
        _moment(self.of, schema, self.part, self.part == "hour")
        return Typed(TypeClass.INTEGER, *PARTS[self.part])

    def compile(self, scope: Scope) -> Any:
        moment = _in_calendar(self.of, scope)
        if self.part == "hour":
            return moment.hour().cast("int64")
        # Not all engines have functions of a day for moments.
        day = moment.cast("date")
        if self.part == "weekday":
            return day.day_of_week.index().cast("int64") + _whole(1)
        return getattr(day, self.part)().cast("int64")


PARTS: Final[Mapping[str, tuple[int, int]]] = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "weekday": (1, 7),
    "hour": (0, 23),
}


@dataclass(frozen=True)
class Truncated:
    """`date_trunc(unit, moment)`: when the year, quarter, month, week (from Monday), day or hour began.

    A date of a date, a timestamp of a timestamp; NULL beyond the years 1 to 9999. The first of January of the year 1
    was a Monday, so no week begins before it.
    """

    unit: str
    of: Term

    def text(self) -> str:
        return f"date_trunc('{self.unit}', {self.of.text()})"

    def typed(self, schema: Schema) -> Typed:
        return _moment(self.of, schema, self.text(), self.unit == "hour")

    def compile(self, scope: Scope) -> Any:
        moment, kind = _in_calendar(self.of, scope), self.of.typed(scope.schema).kind
        # Of dates some engines make timestamps of a zone, others not.
        began = (moment.cast("timestamp") if kind is TypeClass.DATE else moment).truncate(UNITS[self.unit])
        return began.cast("date") if kind is TypeClass.DATE else began


UNITS: Final[Mapping[str, str]] = {"year": "Y", "quarter": "Q", "month": "M", "week": "W", "day": "D", "hour": "h"}
_ENDS: Final = {TypeClass.DATE: (date.min, date.max), TypeClass.TIMESTAMP: (datetime.min, datetime.max)}


def _moment(of: Term, schema: Schema, told: str, timed: bool) -> Typed:
    found = of.typed(schema)
    if found.kind is TypeClass.TIMESTAMP or (found.kind is TypeClass.DATE and not timed):
        return found
    wanted, example = ("a timestamp", "TIMESTAMP") if timed else ("a date or a timestamp", "DATE")
    hint = declare(of.name, found.kind, example) if isinstance(of, Name) else ""
    raise InvalidQuery(f"{told} needs {wanted}; {of.text()} is {found.kind.words}{hint}")


def _in_calendar(of: Term, scope: Scope) -> Any:
    """The moment, NULL for those whose parts engines do not agree on: infinite ones, and those before the year 1."""
    value, kind = of.compile(scope), of.typed(scope.schema).kind
    if isinstance(of, Truncated):
        return value
    low, high = (literal_of(kind, end) for end in _ENDS[kind])
    return ibis.cases((value.between(low, high), value))


# Numbers that stay where they can be computed with.


@dataclass(frozen=True)
class Clipped:
    """`clip(number, low, high)`: the number, or the bound that is nearest to it."""

    of: Term
    low: int | float
    high: int | float

    def text(self) -> str:
        return f"clip({self.of.text()}, {show(self.low)}, {show(self.high)})"

    def typed(self, schema: Schema) -> Typed:
        found = _number(self.of, schema, "clip")
        if found.kind is TypeClass.INTEGER and not (type(self.low) is type(self.high) is int):
            raise InvalidQuery(f"{self.of.text()} is an integer, and so are its bounds: clip({self.of.text()}, 0, 100)")
        low, high = (min(max(end, self.low), self.high) for end in (found.low, found.high))
        return Typed(found.kind, low, high)

    def compile(self, scope: Scope) -> Any:
        value, kind = self.of.compile(scope), self.of.typed(scope.schema).kind
        low, high = _constant(self.low, kind), _constant(self.high, kind)
        # The least and the greatest of engines pass over NULL, which has to stay what it is.
        return ibis.cases((value < low, low), (value > high, high), else_=value)


@dataclass(frozen=True)
class Operation:
    """`left + right`, `-`, `*`, and `integer % whole number`, the rest from 0 on, as of a division rounded down.

    *Proof that it cannot fail.* The numbers of both sides lie in the ranges that `typed` gives them, by induction: a
    column's is that of its type, a clipped one's is within its bounds. The result's range follows from its corners, as
    all three are monotone in each side. Integers are refused unless it is within 64 bits. Doubles are refused unless
    both sides and the result are within 1e300, so there are no infinities and no NaN. In a product what is nearer to 0
    than 1e-150 counts as 0, so that none comes out too small. A rest of integers is from 0 to the divisor, which
    is at most 2**62: the engine's own rest, which may be negative, and the divisor add up.
    """

    sign: str
    left: Term
    right: Term

    def text(self) -> str:
        return f"{self._side(self.left, 0)} {self.sign} {self._side(self.right, 1)}"

    def _side(self, side: Term, above: int) -> str:
        bare = not isinstance(side, Operation) or _BINDING[side.sign] >= _BINDING[self.sign] + above
        return side.text() if bare else f"({side.text()})"

    def typed(self, schema: Schema) -> Typed:
        left = _number(self.left, schema, self.sign)
        if self.sign == "%":
            return self._rest(left)
        right = _number(self.right, schema, self.sign)
        whole = left.kind is right.kind is TypeClass.INTEGER
        kind = TypeClass.INTEGER if whole else TypeClass.FLOAT
        least, most = (_SMALLEST, _LARGEST) if whole else (-_FINITE, _FINITE)
        sides = ((left.low, left.high), (right.low, right.high))
        if all(-_FINITE <= end <= _FINITE for side in sides for end in side):
            corners = [_SIGNS[self.sign](one, other) for one, other in product(*sides)]
            if least <= min(corners) and max(corners) <= most:
                return Typed(kind, min(corners), max(corners))
        what = "fit into 64 bits" if whole else "be a finite number"
        name = next(iter(names(self)))
        bound = f"clip({Name(name).text()}, 0, 1000)"
        raise InvalidQuery(f"{self.text()} may not {what}: put bounds on what it computes with, such as {bound}")

    def _rest(self, left: Typed) -> Typed:
        divisor = self.right.value if isinstance(self.right, Constant) else None
        if left.kind is not TypeClass.INTEGER or type(divisor) is not int or not 1 <= divisor <= _DIVISOR:
            raise InvalidQuery(
                f"% is for an integer and a whole number from 1 to 2**62, such as age % 10, not {self.text()}"
            )
        return Typed(TypeClass.INTEGER, 0, divisor - 1)

    def compile(self, scope: Scope) -> Any:
        kind = self.typed(scope.schema).kind
        left, right = (_as(side, kind, scope) for side in (self.left, self.right))
        if self.sign == "%":
            return ((left % right) + right) % right
        if self.sign == "*" and kind is TypeClass.FLOAT:
            left, right = _apart(left), _apart(right)
        return _SIGNS[self.sign](left, right)


_SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}
# Which binds more; of those that bind alike the first comes first.
_BINDING: Final = {"+": 1, "-": 1, "*": 2, "%": 2}


def _apart(factor: Any) -> Any:
    return ibis.cases((factor.abs() < double(_TINY), double(0)), else_=factor)


def _number(of: Term, schema: Schema, told: str) -> Typed:
    found = of.typed(schema)
    if found.kind not in _NUMBERS:
        hint = declare(of.name, found.kind, "DOUBLE") if isinstance(of, Name) else ""
        raise InvalidQuery(f"{told} needs numbers; {of.text()} is {found.kind.words}{hint}")
    return found


# One of several values.


@dataclass(frozen=True)
class Coalesced:
    """`COALESCE(first, second)`: the first, where it is not NULL."""

    first: Term
    second: Term

    def text(self) -> str:
        return f"COALESCE({self.first.text()}, {self.second.text()})"

    def typed(self, schema: Schema) -> Typed:
        return _together((self.first, self.second), schema, "COALESCE")

    def compile(self, scope: Scope) -> Any:
        kind = self.typed(scope.schema).kind
        return ibis.coalesce(*(_as(each, kind, scope) for each in (self.first, self.second)))


@dataclass(frozen=True)
class Case:
    """`CASE WHEN condition THEN value ... ELSE value END`: that of the first condition that is true; NULL without."""

    cases: tuple[tuple[Condition, Term], ...]
    otherwise: Term | None = None

    def text(self) -> str:
        cases = "".join(f" WHEN {condition.text()} THEN {value.text()}" for condition, value in self.cases)
        return f"CASE{cases}{'' if self.otherwise is None else f' ELSE {self.otherwise.text()}'} END"

    def typed(self, schema: Schema) -> Typed:
        return _together(self._values, schema, "CASE")

    def compile(self, scope: Scope) -> Any:
        kind = self.typed(scope.schema).kind
        cases = [(condition.compile(scope), _as(value, kind, scope)) for condition, value in self.cases]
        otherwise = ibis.null(str(kind)) if self.otherwise is None else _as(self.otherwise, kind, scope)
        return ibis.cases(*cases, else_=otherwise)

    @property
    def _values(self) -> tuple[Term, ...]:
        values = tuple(value for _, value in self.cases)
        return values if self.otherwise is None else (*values, self.otherwise)


def _together(values: Sequence[Term], schema: Schema, told: str) -> Typed:
    """What one of several values is: all of one class, where integers meet floats as doubles, and strings days."""
    found = [value.typed(schema) for value in values]
    # Literals fit themselves to columns, if there are any.
    given = [place for place, value in enumerate(values) if not isinstance(value, Constant)] or range(len(values))
    first = given[0]
    kind = found[first].kind
    if kind in _NUMBERS and any(each.kind is TypeClass.FLOAT for each in found):
        kind = TypeClass.FLOAT
    for value, each in zip(values, found, strict=True):
        fits = each.kind is kind or (kind is TypeClass.FLOAT and each.kind is TypeClass.INTEGER)
        if isinstance(value, Constant):
            fits = _constant(value.value, kind) is not None
        if not fits or kind is TypeClass.OTHER:
            one, other = (
                f"{some.text()} is {of.kind.words}" for some, of in ((values[first], found[first]), (value, each))
            )
            raise InvalidQuery(f"{told} needs values of one type: {one}, {other}")
    return Typed(kind, min(each.low for each in found), max(each.high for each in found))


def _as(term: Term, kind: TypeClass, scope: Scope) -> Any:
    """The value brought to the class that it is computed with."""
    if isinstance(term, Constant):
        return _constant(term.value, kind)
    value = term.compile(scope)
    return value.cast("float64") if kind is TypeClass.FLOAT else value


# What is in a condition or a derived column.


def names(node: Any) -> Iterator[str]:
    """The columns that are named, in order; of comparisons too."""
    for part in _parts(node):
        if isinstance(part, Name):
            yield part.name
        else:
            yield from names(part)


def weight(node: Any) -> int:
    """How many columns and literals the compiled expression has, in which some parts are repeated."""
    times = 2 if isinstance(node, Operation) and node.sign == "*" else 3 if isinstance(node, _THRICE) else 1
    inner = sum(1 if isinstance(part, Name) else weight(part) for part in _parts(node))
    return times * max(inner, 1)


_THRICE: Final = (TimePart, Truncated, Clipped)


def _parts(node: Any) -> Iterator[Any]:
    """The terms and conditions that a node is made of; a column that it names is a `Name`."""
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "column" and isinstance(value, str):
            yield Name(value)
        elif field.name == "values":
            yield from map(Constant, value)
        elif field.name == "cases":
            yield from (part for case in value for part in case)
        elif isinstance(value, tuple):
            yield from value
        elif is_dataclass(value):
            yield value
