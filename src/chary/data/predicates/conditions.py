"""The nodes of a predicate: each prints itself and compiles itself to Ibis with SQL's three-valued logic.

Compilation checks types against the schema alone, so that whether it fails never depends on a row. The columns it
meets hold no NaN (see `columns`).
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from chary.data.columns import Schema, TypeClass, classify, declare, quote
from chary.data.predicates.literals import Operand, Scalar, meet, show
from chary.errors import InvalidQuery

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Scope:
    """An Ibis table, the classes of its columns, and how its engine says LIKE of a text, a pattern, and folding."""

    table: Any
    schema: Schema
    like: Callable[[Any, str, bool], Any]

    def operand(self, name: str) -> Operand:
        """The column of that name; `InvalidQuery` when there is none."""
        return Operand(name, classify(self.schema, name), self.table[name] if name in self.schema else None)


class Condition(Protocol):
    """`Compare`, `OneOf`, `IsNull`, `Like`, `Holds`, `Not`, `Every`, `Some`: frozen, hashable, and total."""

    def text(self) -> str:
        """Canonical SQL."""
        ...

    def compile(self, scope: Scope) -> Any:
        """A Boolean Ibis expression; `InvalidQuery` when a column is unknown or of the wrong class."""
        ...


@dataclass(frozen=True)
class Name:
    """A column standing on the right of a comparison."""

    name: str


@dataclass(frozen=True)
class Compare:
    """`column op literal` or `column op column`."""

    column: str
    sign: str
    other: Scalar | Name

    def text(self) -> str:
        right = identifier(self.other.name) if isinstance(self.other, Name) else show(self.other)
        return f"{identifier(self.column)} {self.sign} {right}"

    def compile(self, scope: Scope) -> Any:
        left = scope.operand(self.column)
        if left.kind is TypeClass.BOOLEAN and self.sign not in ("=", "<>"):
            raise InvalidQuery(f"boolean column {self.column!r} has no order; write {self.column} = TRUE")
        value, other = self._sides(left, scope)
        return OPERATORS[self.sign](value, other)

    def _sides(self, left: Operand, scope: Scope) -> tuple[Any, Any]:
        if not isinstance(self.other, Name):
            value, others = meet(left, [self.other])
            return value, others[0]
        right = scope.operand(self.other.name)
        if {left.kind, right.kind} == {TypeClass.INTEGER, TypeClass.FLOAT}:
            return left.value.cast("float64"), right.value.cast("float64")
        if left.kind is not right.kind or left.kind is TypeClass.OTHER:
            raise InvalidQuery(
                f"columns {left.name!r} ({left.kind.words}) and {right.name!r} ({right.kind.words}) cannot be compared"
            )
        return left.value, right.value


@dataclass(frozen=True)
class OneOf:
    """`column IN (literals)`."""

    column: str
    values: tuple[Scalar, ...]

    def text(self) -> str:
        return f"{identifier(self.column)} IN ({', '.join(map(show, self.values))})"

    def compile(self, scope: Scope) -> Any:
        value, others = meet(scope.operand(self.column), self.values)
        return value.isin(others)


@dataclass(frozen=True)
class IsNull:
    """`column IS NULL`; true for NaN."""

    column: str

    def text(self) -> str:
        return f"{identifier(self.column)} IS NULL"

    def compile(self, scope: Scope) -> Any:
        return scope.operand(self.column).value.isnull()


@dataclass(frozen=True)
class Like:
    """`column LIKE pattern`, or ILIKE when `fold`."""

    column: str
    pattern: str
    fold: bool

    def text(self) -> str:
        return f"{identifier(self.column)} {'ILIKE' if self.fold else 'LIKE'} {show(self.pattern)}"

    def compile(self, scope: Scope) -> Any:
        operand = scope.operand(self.column)
        if operand.kind is not TypeClass.STRING:
            raise InvalidQuery(f"LIKE needs a string column; {self.column!r} is {operand.kind.words}")
        return scope.like(operand.value, self.pattern, self.fold)


@dataclass(frozen=True)
class Holds:
    """A Boolean column by itself."""

    column: str

    def text(self) -> str:
        return identifier(self.column)

    def compile(self, scope: Scope) -> Any:
        operand = scope.operand(self.column)
        if operand.kind is not TypeClass.BOOLEAN:
            hint = "1" if operand.kind in (TypeClass.INTEGER, TypeClass.FLOAT) else "'...'"
            raise InvalidQuery(
                f"column {self.column!r} is {operand.kind.words}, not a boolean; compare it: {self.column} = {hint}"
                + declare(self.column, operand.kind, "BOOLEAN")
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
