"""Columns of rows: classes of types, their names in SQL, and cells that could not be read as declared."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, NamedTuple

from chary.errors import InvalidQuery

Schema = Mapping[str, str]
BLOCK: Final = "chary_block"
"""The column next to all others that says which block a row is in, where rows of several are read together."""
# How a day and a time are written, in cells and in literals: ISO 8601, a fraction of a second of nine digits at most.
DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME: Final = r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
OFFSET: Final = "[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?"
# A table may have thousands of columns, and a message is one sentence.
_SHOWN: Final = 5
# Who mistook a name wants to see those that there are.
_LISTED: Final = 20


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


SQL_TYPES: Final[Mapping[str, str]] = {
    TypeClass.BOOLEAN: "BOOLEAN",
    TypeClass.INTEGER: "BIGINT",
    TypeClass.FLOAT: "DOUBLE",
    TypeClass.STRING: "VARCHAR",
    TypeClass.DATE: "DATE",
    TypeClass.TIMESTAMP: "TIMESTAMP",
}


class Unparsed(NamedTuple):
    """How many `cells`, of those that are neither NULL nor blank, are not of the type that was declared. Secret."""

    type: str
    cells: int
    of: int

    def told(self, name: str) -> str:
        """It of the column of that name, in words.

        >>> Unparsed("DATE", 2, 1000).told("day")
        'column day: 2 of 1,000 cells are not DATE, and are NULL'
        """
        return f"column {name}: {self.cells:,} of {self.of:,} cells are not {self.type}, and are NULL"


def quote(name: str) -> str:
    """A column name as a quoted SQL identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str], most: int = _SHOWN) -> str:
    """Names in a sentence, five at most unless it says otherwise.

    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e, ... (7 in all)')
    """
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def beside(name: str, columns: Iterable[str]) -> str:
    """The end of the message that there is no column of a name: the nearest one, and which there are.

    >>> beside("Agee", ["sex", "age"]), beside("height", ["sex", "age"])
    ("; the nearest is 'age'; the columns are sex, age", '; the columns are sex, age')
    """
    known = list(columns)
    return f"{nearest(name, known)}; the columns are {listed(known, _LISTED)}"


def nearest(name: str, columns: Iterable[str]) -> str:
    """The part of that message that names the nearest column, whatever its case; empty where none is near."""
    folded = {column.casefold(): column for column in columns}
    found = get_close_matches(name.casefold(), folded, 1)
    return f"; the nearest is {folded[found[0]]!r}" if found else ""


def known_columns(columns: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The columns asked for, or all of them; `InvalidQuery` for one that is not there or for none at all."""
    if isinstance(columns, str):
        raise InvalidQuery(f'give a list of columns, such as ["{columns}"]')
    names = tuple(schema) if columns is None else tuple(dict.fromkeys(columns))
    missing = [name for name in names if name not in schema]
    if missing or not names:
        told = f"unknown column {missing[0]!r}" if missing else "name at least one column"
        raise InvalidQuery(told + beside(missing[0] if missing else "", schema))
    return names


def classify(schema: Schema, name: str) -> TypeClass:
    """The class of a column; `InvalidQuery` when there is no such column.

    >>> classify({"age": "int64"}, "age").words
    'an integer'
    """
    if name not in schema:
        raise InvalidQuery(f"unknown column {name!r}{beside(name, schema)}")
    return TypeClass(schema[name]) if schema[name] in set(TypeClass) else TypeClass.OTHER


def declare(name: str, kind: TypeClass, engine_type: str) -> str:
    """What to do about a text that was meant to be of another type: the end of a message; empty for other columns."""
    if kind is not TypeClass.STRING:
        return ""
    # Cells with decimals are no BIGINT, and would be NULL.
    also = ", or DOUBLE if it has decimals" if engine_type == "BIGINT" else ""
    way = f"a new ledger takes columns={{{name!r}: {engine_type!r}}}{also}"
    return f"; if it is text because no type was declared for it, {way}, and one that is there keeps its types"
