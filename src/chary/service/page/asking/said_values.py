"""Values as people write them in a form: numbers, lists, columns with their values; and the same the other way.

Lists are written as on a command line (see `parse_keys`). What begins with a bracket is JSON.
"""

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Final

from chary.data import parse_keys
from chary.data.columns import TypeClass
from chary.data.queries.keys import Written, key_text, split
from chary.errors import InvalidParameter
from chary.service.wire.strict_json import parsed_body

Types = Mapping[str, str]
_KEYED: Final = frozenset(TypeClass) - {TypeClass.FLOAT, TypeClass.OTHER}
_RANGE: Final = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_NUMERIC: Final = ("int", "uint", "float", "decimal")
_LONGEST: Final = 100_000


def in_json(text: str) -> Any:
    """What a text of JSON says; `InvalidParameter` for any other."""
    try:
        found = parsed_body(f'{{"value": {text}}}'.encode())
    except InvalidParameter:
        found = {}
    if found.keys() == {"value"}:
        return found["value"]
    raise InvalidParameter("this is not JSON: texts in it stand in double quotes, names too")


def parts_of(text: str) -> list[str]:
    """The parts of a list as texts.

    >>> parts_of('north, "south, east"')
    ['north', 'south, east']
    """
    return [part.text for line in split(text) for part in line]


def value_of(part: Written) -> Any:
    """One value of whatever type: what JSON has, else a text; in double quotes always a text.

    >>> value_of(Written("3", False)), value_of(Written("3", True)), value_of(Written("north", False))
    (3, '3', 'north')
    """
    try:
        found = part.text if part.quoted else in_json(part.text)
    except InvalidParameter:
        return part.text
    return part.text if isinstance(found, (dict, list)) else found


def key_said(key: Any) -> Any:
    """A key as JSON has it: days and times by name.

    >>> key_said(date(2026, 3, 1)), key_said("north")
    ({'date': '2026-03-01'}, 'north')
    """
    if not isinstance(key, date):
        return key
    return {"timestamp" if isinstance(key, datetime) else "date": key.isoformat()}


def list_of(text: str, kind: str = "", column: str | None = None) -> Any:
    """A list: of keys of a column of that type, of anything where none is known, or JSON.

    >>> list_of("1..3, 7", "int64")
    [1, 2, 3, 7]
    """
    if text.startswith("["):
        return in_json(text)
    if kind in _KEYED:
        return [key_said(key) for key in parse_keys(text, kind, column, most=_LONGEST)]
    found: list[Any] = []
    for part in (part for line in split(text) for part in line):
        span = None if part.quoted else _RANGE.fullmatch(part.text)
        found.extend([value_of(part)] if span is None else _range(int(span[1]), int(span[2])))
        if len(found) > _LONGEST:
            raise InvalidParameter(f"a list has at most {_LONGEST} values")
    return found


def list_told(values: list[Any], kind: str = "") -> str:
    """A list as `list_of` reads it; JSON where a field of one line could not hold it.

    >>> list_told(["north", "3", 3])
    'north, "3", 3'
    """
    if any("\n" in value for value in values if isinstance(value, str)):
        return json.dumps(values, ensure_ascii=False)
    return ", ".join(_told(value, kind) for value in values)


def columns_of(text: str, types: Types) -> Any:
    """Columns with their values, a line each: `clinic: north, south`; or JSON.

    >>> columns_of("clinic: north, south", {})
    {'clinic': ['north', 'south']}
    """
    if text.startswith("{"):
        return in_json(text)
    found, known = {}, 0
    for line in filter(None, map(str.strip, text.split("\n"))):
        name, colon, values = line.partition(":")
        if not colon or name.strip() in found:
            raise InvalidParameter("write a line for each column, such as clinic: north, south")
        found[name.strip()] = list_of(values.strip(), types.get(name.strip(), ""), name.strip())
        known += len(found[name.strip()])
        if known > _LONGEST:
            raise InvalidParameter(f"columns have at most {_LONGEST} values together")
    return found


def columns_told(columns: Mapping[str, list[Any]], types: Types) -> str:
    """Columns as `columns_of` reads them."""
    return "\n".join(f"{name}: {list_told(list(values), types.get(name, ''))}" for name, values in columns.items())


def number_told(value: Any) -> str:
    """A number of a call's body, as a decimal where it is a short one.

    >>> number_told("1/100"), number_told("1/3"), number_told(5)
    ('0.01', '1/3', '5')
    """
    if not isinstance(value, str) or "/" not in value:
        return str(value)
    decimal = f"{float(Fraction(value)):.12g}"
    return decimal if Fraction(decimal) == Fraction(value) else value


def _range(low: int, high: int) -> range:
    return range(low, min(high, low + _LONGEST) + 1)


def _told(value: Any, kind: str) -> str:
    """A value as `list_of` reads it."""
    plain = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if kind in _KEYED:
        return key_text(plain)
    if kind.startswith(_NUMERIC) and isinstance(value, str):
        return number_told(value)
    if not isinstance(plain, str):
        return json.dumps(plain)
    text = key_text(plain)
    return text if value_of(Written(text, False)) == plain or text[:1] == '"' else f'"{plain}"'
