"""Keys of grouped queries: public lists of values, written out or as ranges of numbers and dates."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple

from chary.data.columns import TypeClass
from chary.data.predicates.conditions import no_such, read_date, read_timestamp
from chary.errors import InvalidQuery
from chary.numbers import set_fields

# A public list of keys: the only groups a keyed query ever answers for.

Key = bool | int | str | date | datetime
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", datetime: "timestamp", date: "date"}


@dataclass(frozen=True, eq=False)
class Domain:
    """Columns and the keys they may hold, in the order in which answers come back.

    The keys are public: they must not be read off the data. Equal domains hash equally; the hash is kept,
    so that a query over 100,000 keys is looked up fast.

    >>> Domain.of("clinic", ["north", "south"]).rows
    (('north',), ('south',))
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Key, ...], ...]
    kinds: tuple[str, ...]
    _hash: int

    @classmethod
    def of(cls, columns: str | Sequence[str], keys: Iterable[Any]) -> "Domain":
        """Read scalars (one column) or tuples (several); everything but int, str, bool, date and datetime is refused.

        Duplicates, NULLs, an empty list, keys of mixed types and keys of the wrong length raise `InvalidQuery`.
        """
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        rows = _rows(tuple(_listed(keys)), len(names), isinstance(columns, str))
        if not rows:
            raise InvalidQuery("keys must not be empty: list the public groups, such as keys=['north', 'south']")
        return cls(
            names, rows, tuple(_kind(name, column) for name, column in zip(names, zip(*rows, strict=True), strict=True))
        )

    def __init__(self, columns: tuple[str, ...], rows: tuple[tuple[Key, ...], ...], kinds: tuple[str, ...]) -> None:
        _check_names(columns)
        if len(set(rows)) != len(rows):
            raise InvalidQuery("keys must not hold duplicates")
        set_fields(self, columns=columns, rows=rows, kinds=kinds, _hash=hash((columns, kinds, rows)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain) or self._hash != other._hash:
            return NotImplemented if not isinstance(other, Domain) else False
        return self is other or (self.columns, self.kinds, self.rows) == (other.columns, other.kinds, other.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Domain({', '.join(self.columns)}: {len(self)} keys)"

    def body(self) -> dict[str, Any]:
        """A JSON-able description; dates are ISO text and told apart from strings by `types`."""
        return self._body

    @cached_property
    def _body(self) -> dict[str, Any]:
        keys = [list(row) for row in self.rows]
        if not {*self.kinds} <= {"integer", "string", "boolean"}:
            keys = [[key.isoformat() if isinstance(key, date) else key for key in row] for row in keys]
        return {"columns": list(self.columns), "types": list(self.kinds), "keys": keys}


def _check_names(names: tuple[str, ...]) -> None:
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidQuery("by needs one column name or a list of different column names")


def _listed(keys: Iterable[Any]) -> Iterable[Any]:
    if isinstance(keys, (str, bytes, Set)) or not isinstance(keys, Iterable):
        raise InvalidQuery("keys must be a list in a fixed order, such as keys=['north', 'south']")
    return keys


def _rows(keys: tuple[Any, ...], width: int, scalar: bool) -> tuple[tuple[Key, ...], ...]:
    if scalar and {*map(type, keys)} in ({int}, {str}):
        # Many keys of one plain type are checked together.
        for edge in (min(keys), max(keys)) if isinstance(keys[0], int) else ("".join(keys),):
            _scalar(edge)
        return tuple(zip(keys, strict=True))
    return tuple(tuple(map(_scalar, _row(key, width, scalar))) for key in keys)


def _row(key: Any, width: int, scalar: bool) -> tuple[Any, ...]:
    if scalar:
        return key if isinstance(key, tuple) and len(key) == 1 else (key,)
    if not isinstance(key, (tuple, list)) or len(key) != width:
        raise InvalidQuery(f"each key must be a tuple of {width} values, one for each column")
    return tuple(key)


def _scalar(key: Any) -> Key:
    if hasattr(key, "to_pydatetime"):
        key = key.to_pydatetime(warn=False) if not getattr(key, "nanosecond", 0) else key.nanosecond / 1000
    elif hasattr(key, "item"):
        key = key.item()
    if key is None or (isinstance(key, float) and math.isnan(key)):
        raise InvalidQuery("keys must not hold NULL or NaN: rows without a value belong to no key")
    if type(key) not in _KINDS and not isinstance(key, str):
        raise InvalidQuery(f"keys must be int, str, bool, date or datetime, not {type(key).__name__}")
    return _encodable(str(key)) if isinstance(key, str) else _representable(key)


def _encodable(key: str) -> str:
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in key):
        raise InvalidQuery("keys must be valid Unicode text without NUL characters")
    return key


def _representable(key: Key) -> Key:
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        raise InvalidQuery("integer keys must fit into 64 bits")
    if isinstance(key, datetime) and key.tzinfo is not None:
        raise InvalidQuery("datetime keys must not carry a time zone")
    return key


def _kind(name: str, keys: tuple[Key, ...]) -> str:
    kinds = {_KINDS[type(key)] for key in keys}
    if len(kinds) > 1:
        raise InvalidQuery(f"keys of {name!r} must all have one type, got {' and '.join(sorted(kinds))}")
    return kinds.pop()


# Lists of keys as people write them, on a command line and in a form.

# A slip such as 1..1000000000 must not fill the memory.
MOST: Final = 1_000_000
_BOOLEANS: Final = {"true": True, "false": False}
_PART: Final = re.compile(r'[^\S\n]*(?:"((?:[^"]|"")*)"|([^,\n"][^,\n]*|))[^\S\n]*(,|\n|$)')
_NEEDS_QUOTES: Final = re.compile(r'[,\n"]|^\[|^\s|\s$|^$|\.\.')


class Written(NamedTuple):
    """One part of a list: its text, and whether it stood in double quotes, which make a text of anything."""

    text: str
    quoted: bool


def parse_keys(text: str, type: str, column: str | None = None, *, most: int = MOST) -> list[Key]:
    """The keys a text means for a column of type `type`, as `Table.schema` names it.

    `a,b,c` lists keys, on one line or several. A key with a comma, a line break or two dots in it is written in double
    quotes, and a double quote in there twice. `1..6` and `2013-01-01..2013-01-31` are ranges that hold both ends, of
    integers and of days; for a string column a range of days gives ISO strings, and any other is refused. Ranges
    and single keys mix. `InvalidQuery` for an empty text, an unreadable key, a range that runs backwards or has over
    `most` keys.

    >>> parse_keys("1..3,7", "int64"), parse_keys('a,"b,c"', "string")
    ([1, 2, 3, 7], ['a', 'b,c'])
    >>> parse_keys("2013-01-31..2013-02-01", "string")
    ['2013-01-31', '2013-02-01']
    """
    parts = [part for line in split(text) for part in line]
    if not parts:
        raise InvalidQuery("no keys given: write them as a,b,c or 1..6 or 2013-01-01..2013-01-31")
    keys = list[Key]()
    for part in parts:
        keys += _keys(part, type, column, most)
        if len(keys) > most:
            raise InvalidQuery(f"a list may hold at most {most} keys")
    return keys


def parse_key(part: Written, type: str) -> Key:
    """The one key that a part of a list means; never a range."""
    if type not in _READERS:
        raise InvalidQuery(f"columns of type {type} have no keys; use a string, integer, boolean, date or timestamp")
    if ".." in part.text and not part.quoted:
        raise InvalidQuery(f"{part.text!r} is no one key: if it is, write it in double quotes")
    if (key := _READERS[type](part.text)) is None:
        missing = no_such(part.text) if type in (TypeClass.DATE, TypeClass.TIMESTAMP) else None
        raise InvalidQuery(missing or f"{part.text!r} is not a key for a column of type {type}")
    return key


def split(text: str) -> Iterator[list[Written]]:
    """The parts of each line of a list; empty ones, unless quoted, and empty lines are none.

    >>> list(split('a, "b, ""c"" d"'))
    [[Written(text='a', quoted=False), Written(text='b, "c" d', quoted=True)]]
    """
    line, place = list[Written](), 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None:
            told = "a part in double quotes ends with one, and a comma follows; a quote within is written twice"
            raise InvalidQuery(told)
        quoted, bare, end = found.groups()
        if quoted is not None or bare.strip():
            line.append(Written(bare.strip(), False) if quoted is None else Written(quoted.replace('""', '"'), True))
        if end != "," and line:
            yield line
            line = []
        place = found.end()
    if line:
        yield line


def columns_in(text: str) -> list[str]:
    """Names of columns with commas between; those within round brackets are of a derived column.

    >>> columns_in("clinic,date_trunc('month', day)")
    ['clinic', "date_trunc('month', day)"]
    """
    names, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += sign
    return names


def key_text(key: Any) -> str:
    """A key as `parse_keys` reads it.

    >>> key_text("a,b"), key_text(3), key_text(date(2013, 1, 31)), key_text("1..3")
    ('"a,b"', '3', '2013-01-31', '"1..3"')
    """
    if isinstance(key, str):
        return '"' + key.replace('"', '""') + '"' if _NEEDS_QUOTES.search(key) else key
    return str(key).lower() if isinstance(key, bool) else key.isoformat() if isinstance(key, date) else str(key)


def _keys(part: Written, kind: str, column: str | None, most: int) -> list[Any]:
    first, dots, last = (end.strip() for end in part.text.partition(".."))
    if not dots or part.quoted:
        return [parse_key(part, kind)]
    if kind == TypeClass.STRING:
        days = read_date(first), read_date(last)
        if None in days:
            raise InvalidQuery(_no_ranges(part.text, column or "day"))
        return [day.isoformat() for day in _range(part.text, *days, most)]
    if kind not in (TypeClass.INTEGER, TypeClass.DATE):
        raise InvalidQuery(f"{part.text!r}: ranges are for integers and dates; list the keys, or store days as dates")
    low, high = (parse_key(Written(end, False), kind) for end in (first, last))
    return _range(part.text, low, high, most)


def _no_ranges(text: str, column: str) -> str:
    whole = all(_integer(end.strip()) is not None for end in text.split(".."))
    typed = f", or declare columns={{{column!r}: 'BIGINT'}} if it holds integers" if whole else ""
    return (
        f"{text!r} is a range, and column {column!r} is text, which has none: list its keys, such as a,b,c{typed}; "
        "a key with two dots in it stands in double quotes"
    )


def _range(part: str, first: Any, last: Any, most: int) -> list[Any]:
    span = last - first
    length = (span.days if isinstance(span, timedelta) else span) + 1
    if not 1 <= length <= most:
        raise InvalidQuery(f"{part!r} must run upwards and hold at most {most} keys")
    step: Any = timedelta(days=1) if isinstance(span, timedelta) else 1
    return [first + index * step for index in range(length)]


def _integer(part: str) -> int | None:
    digits = part.removeprefix("-")
    return int(part) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


_READERS: Final[dict[str, Callable[[str], Key | None]]] = {
    TypeClass.STRING: str,
    TypeClass.INTEGER: _integer,
    TypeClass.BOOLEAN: lambda part: _BOOLEANS.get(part.lower()),
    TypeClass.DATE: read_date,
    TypeClass.TIMESTAMP: read_timestamp,
}
