"""Lists of keys as people write them, on a command line and in a form."""

import re
import shlex
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from chary.data.columns import TypeClass
from chary.data.domain.keys import Key
from chary.data.predicates.literals import no_such, read_date, read_timestamp
from chary.errors import InvalidQuery

# A slip such as 1..1000000000 must not fill the memory.
_MOST: Final = 1_000_000
_BOOLEANS: Final = {"true": True, "false": False}
_PART: Final = re.compile(r'[^\S\n]*(?:"((?:[^"]|"")*)"|([^,\n"][^,\n]*|))[^\S\n]*(,|\n|$)')
_NEEDS_QUOTES: Final = re.compile(r'[,\n"]|^\[|^\s|\s$|^$|\.\.')


class Written(NamedTuple):
    """One part of a list: its text, and whether it stood in double quotes, which make a text of anything."""

    text: str
    quoted: bool


def parse_keys(text: str, type: str, column: str | None = None, *, most: int = _MOST) -> list[Key]:
    """The keys a text means for a column of type `type`, as `Table.schema` names it.

    `a,b,c` lists keys, on one line or several. A key with a comma, a line break or two dots in it is written in double
    quotes, and a double quote in there twice. `1..6` and `2013-01-01..2013-01-31` are ranges that hold both ends, of
    whole numbers and of days; for a string column a range of days gives ISO strings, and any other is refused. Ranges
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
        raise InvalidQuery(f"{part.text!r}: ranges are for integers and dates")
    low, high = (parse_key(Written(end, False), kind) for end in (first, last))
    return _range(part.text, low, high, most)


def _no_ranges(text: str, column: str) -> str:
    whole = all(_integer(end.strip()) is not None for end in text.split(".."))
    way = f"open the rows with --columns {shlex.quote(f'{column}=BIGINT')}" if whole else "list its keys"
    return (
        f"{text!r} is a range, and column {column!r} is text, which has none: {way}; "
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
