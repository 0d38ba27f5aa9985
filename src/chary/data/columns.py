"""The few column types chary computes with, and how every type of the engine is brought to one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chary.errors import InvalidQuery

Schema = Mapping[str, str]
_SHOWN: Final = 5


class TypeClass(StrEnum):
    """What can be compared with what. `OTHER` columns can be privacy units and can be tested for NULL, no more."""

    BOOLEAN = "boolean"
    INTEGER = "int64"
    FLOAT = "float64"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"

    @property
    def words(self) -> str:
        """The class in a sentence, such as 'an integer'."""
        return _WORDS[self]


_WORDS = {
    TypeClass.BOOLEAN: "a boolean",
    TypeClass.INTEGER: "an integer",
    TypeClass.FLOAT: "a float",
    TypeClass.STRING: "a string",
    TypeClass.DATE: "a date",
    TypeClass.TIMESTAMP: "a timestamp",
    TypeClass.OTHER: "of a type without comparisons",
}
_LOSSLESS = {
    "BOOLEAN": TypeClass.BOOLEAN,
    "BIGINT": TypeClass.INTEGER,
    "DATE": TypeClass.DATE,
    "TIMESTAMP": TypeClass.TIMESTAMP,
}
_NARROW = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
_LOSSY = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_CLOCKS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}


@dataclass(frozen=True)
class Column:
    """One column of a source: its name, the name of its type for people, and the SQL that yields the class's type."""

    name: str
    type: str
    sql: str

    @classmethod
    def of(cls, name: str, engine_type: str, *, is_unit: bool) -> "Column":
        """Choose the class of an engine type; no value of the column can make the SQL fail.

        NaN becomes NULL. Decimals, unsigned 64-bit and 128-bit integers become floats and fine or coarse timestamps
        microseconds, except in the unit column: two units must never be merged, so there they stay as they are.

        >>> Column.of("age", "INTEGER", is_unit=False)
        Column(name='age', type='int64', sql='CAST("age" AS BIGINT)')
        """
        quoted = quote(name)
        kind, sql = _exact(engine_type, quoted)
        if kind is None and not is_unit:
            kind, sql = _rounded(engine_type, quoted)
        return cls(name, engine_type.lower() if kind is None else str(kind), sql)


def quote(name: str) -> str:
    """A column name as a quoted SQL identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, five at most.

    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e, ... (7 in all)')
    """
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def classify(schema: Schema, name: str) -> TypeClass:
    """The class of a column; `InvalidQuery` when there is no such column.

    >>> classify({"age": "int64"}, "age").words
    'an integer'
    """
    if name not in schema:
        raise InvalidQuery(f"unknown column {name!r}; the columns are {', '.join(schema)}")
    return TypeClass(schema[name]) if schema[name] in set(TypeClass) else TypeClass.OTHER


def _exact(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type == "VARCHAR":
        return TypeClass.STRING, f'{quoted} COLLATE "C"'
    if engine_type in _LOSSLESS:
        return _LOSSLESS[engine_type], quoted
    if engine_type in _NARROW:
        return TypeClass.INTEGER, f"CAST({quoted} AS BIGINT)"
    if engine_type.startswith("ENUM"):
        return TypeClass.STRING, f"CAST({quoted} AS VARCHAR)"
    if engine_type in ("FLOAT", "DOUBLE"):
        return TypeClass.FLOAT, f"CASE WHEN isnan({quoted}) THEN NULL ELSE CAST({quoted} AS DOUBLE) END"
    return None, quoted


def _rounded(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type in _LOSSY or engine_type.startswith("DECIMAL"):
        return TypeClass.FLOAT, f"CAST({quoted} AS DOUBLE)"
    if engine_type in _CLOCKS:
        return TypeClass.TIMESTAMP, f"TRY_CAST({quoted} AS TIMESTAMP)"
    return None, quoted
