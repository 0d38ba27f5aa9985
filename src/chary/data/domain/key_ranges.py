"""Lists of keys as one writes them on a command line."""

import csv
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from chary.data.columns import TypeClass
from chary.data.domain.keys import Key
from chary.data.predicates.literals import no_such, read_date, read_timestamp
from chary.errors import InvalidQuery

# A slip such as 1..1000000000 must not fill the memory.
_MOST = 1_000_000
_BOOLEANS = {"true": True, "false": False}


def parse_keys(text: str, type: str) -> list[Key]:
    """The keys a text means for a column of type `type`, as `Table.schema` names it.

    `a,b,c` lists keys (a key with a comma in it is written in double quotes); `1..6` and `2013-01-01..2013-01-31` are
    ranges that hold both ends. For a string column a range of dates gives ISO strings. Ranges and single keys mix.
    `InvalidQuery` for an empty text, an unreadable key, a range that runs backwards or has over a million keys.

    >>> parse_keys("1..3,7", "int64"), parse_keys('a,"b,c"', "string")
    ([1, 2, 3, 7], ['a', 'b,c'])
    >>> parse_keys("2013-01-31..2013-02-01", "string")
    ['2013-01-31', '2013-02-01']
    """
    if type not in _READERS:
        raise InvalidQuery(f"columns of type {type} have no keys; use a string, integer, boolean, date or timestamp")
    parts = _split(text)
    if not parts:
        raise InvalidQuery("no keys given: write them as a,b,c or 1..6 or 2013-01-01..2013-01-31")
    keys = [key for part in parts for key in _keys(part, type)]
    if len(keys) > _MOST:
        raise InvalidQuery(f"a list may hold at most {_MOST} keys")
    return keys


def _split(text: str) -> list[str]:
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error:
        lines = [[]]
    return [part.strip() for line in lines for part in line]


def _keys(part: str, kind: str) -> list[Any]:
    first, dots, last = part.partition("..")
    if not dots:
        return [_read(part, kind)]
    if kind == TypeClass.STRING:
        days = read_date(first.strip()), read_date(last.strip())
        return [part] if None in days else [day.isoformat() for day in _range(part, *days)]
    if kind not in (TypeClass.INTEGER, TypeClass.DATE):
        raise InvalidQuery(f"{part!r}: ranges are for integers and dates")
    return _range(part, _read(first.strip(), kind), _read(last.strip(), kind))


def _range(part: str, first: Any, last: Any) -> list[Any]:
    span = last - first
    length = (span.days if isinstance(span, timedelta) else span) + 1
    if not 1 <= length <= _MOST:
        raise InvalidQuery(f"{part!r} must run upwards and hold at most {_MOST} keys")
    step: Any = timedelta(days=1) if isinstance(span, timedelta) else 1
    return [first + index * step for index in range(length)]


def _read(part: str, kind: str) -> Key:
    key = _READERS[kind](part)
    if key is None:
        missing = no_such(part) if kind in (TypeClass.DATE, TypeClass.TIMESTAMP) else None
        raise InvalidQuery(missing or f"{part!r} is not a key for a column of type {kind}")
    return key


def _integer(part: str) -> int | None:
    digits = part.removeprefix("-")
    return int(part) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


_READERS: dict[str, Callable[[str], Key | None]] = {
    TypeClass.STRING: str,
    TypeClass.INTEGER: _integer,
    TypeClass.BOOLEAN: lambda part: _BOOLEANS.get(part.lower()),
    TypeClass.DATE: read_date,
    TypeClass.TIMESTAMP: read_timestamp,
}
