"""Values as people write them in a form: numbers, lists, columns with their values; and the same the other way.

Parts are separated by commas or lines; one with a comma of its own stands in double quotes. What begins with a bracket
is JSON.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from chary.errors import InvalidParameter
from chary.service.wire.strict_json import parsed_body

Types = Mapping[str, str]
_PARTS: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,\n"][^,\n]*|)\s*(?:,|\n|$)')
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
    """The parts of a list, quoted ones with their quotes.

    >>> parts_of('north, "south, east"')
    ['north', '"south, east"']
    """
    found, place = [], 0
    while place < len(text):
        part = _PARTS.match(text, place)
        if part is None:
            raise InvalidParameter("a part in double quotes ends with one, and a comma follows")
        if part[1].strip():
            found.append(part[1].strip())
        place = part.end()
    return found


def value_of(part: str, kind: str) -> Any:
    """One value of a column of that type; of an unknown type what JSON has, else a text.

    >>> value_of("3", "int64"), value_of("3", "string"), value_of("3", ""), value_of("north", "")
    (3, '3', 3, 'north')
    """
    if part.startswith('"'):
        return in_json(part)
    if kind == "string":
        return part
    if kind.startswith(("date", "timestamp")):
        return {"date" if kind.startswith("date") else "timestamp": part}
    try:
        found = in_json(part)
    except InvalidParameter:
        return part
    return part if isinstance(found, (dict, list)) else found


def list_of(text: str, kind: str = "") -> Any:
    """A list: `north, south`, `0..9`, or JSON.

    >>> list_of("1..3, 7", "int64")
    [1, 2, 3, 7]
    """
    if text.startswith("["):
        return in_json(text)
    found: list[Any] = []
    for part in parts_of(text):
        span = None if kind == "string" else _RANGE.fullmatch(part)
        if span is None:
            found.append(value_of(part, kind))
        else:
            found.extend(_range(int(span[1]), int(span[2])))
        if len(found) > _LONGEST:
            raise InvalidParameter(f"a list has at most {_LONGEST} values")
    return found


def list_told(values: list[Any], kind: str = "") -> str:
    """A list as `list_of` reads it.

    >>> list_told(["north", "3", 3])
    'north, "3", 3'
    """
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
        found[name.strip()] = list_of(values.strip(), types.get(name.strip(), ""))
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
    """A value as `value_of` reads it."""
    plain = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if kind.startswith(_NUMERIC) and isinstance(value, str):
        return number_told(value)
    text = plain if isinstance(plain, str) else json.dumps(plain)
    whole = text.strip() == text and not re.search(r'[,\n"]', text) and text[:1] not in ("[", "{", "")
    spans = kind != "string" and _RANGE.fullmatch(text)
    return text if whole and not spans and value_of(text, kind) == value else json.dumps(plain)
