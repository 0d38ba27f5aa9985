"""Fields of forms: controls of calls and queries, and the values that people type into them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Final, NamedTuple

from chary.data import parse_keys
from chary.data.columns import TypeClass
from chary.data.queries.keys import Written, key_text, parse_key, split
from chary.errors import CharyError, InvalidParameter
from chary.service.http.json import parsed_body

# Values as people write them in a form: numbers, lists, columns with their values; and the same the other way.
#
# Lists are written as on a command line (see `parse_keys`). What begins with a bracket is JSON.

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
    return ", ".join(_value_told(value, kind) for value in values)


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


def _value_told(value: Any, kind: str) -> str:
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


# A query as the parts of a form, and back: what is counted, of which rows, for which keys.

CONDITIONS: Final = "conditions"
JSON: Final = "json"
# What people are asked for; all other kinds are written as JSON.
SHOWN: Final[Mapping[str, str]] = {
    "count": "Count of units",
    "sum": "Sum of a column",
    "mean": "Mean of a column",
    "histogram": "Histogram of a column",
}
_LIMITS: Final = ("max_groups_per_unit", "assumed_groups_per_unit")
_NUMBERS: Final = ("max_rows_per_unit", *_LIMITS)


def query_said(said: Mapping[str, str], types: Types) -> Any:
    """The body of the query that the parts of a form say; nothing where they say nothing."""
    kind = said.get("kind", "")
    if kind == JSON:
        return in_json(said["json"]) if said.get("json") else None
    if kind == CONDITIONS:
        return [line.strip() for line in said.get("conditions", "").split("\n") if line.strip()] or None
    if kind not in SHOWN:
        return None
    body: dict[str, Any] = {"kind": kind}
    if said.get("where"):
        body["where"] = said["where"]
    return body | _PARTS[kind](said, types)


def query_told(body: Any, types: Types) -> dict[str, str]:
    """The parts of a form from which `query_said` makes an equal query."""
    if isinstance(body, list):
        return {"kind": CONDITIONS, "conditions": "\n".join(map(str, body))}
    if isinstance(body, str):
        return {"kind": "count", "where": body}
    if body.get("kind") not in SHOWN:
        return as_json(body)
    told = {"kind": body["kind"], "where": body.get("where") or "", "column": body.get("column") or ""}
    for name, value in zip(("low", "high"), body.get("bounds") or (), strict=False):
        told[name] = number_told(value)
    told |= {name: number_told(body[name]) for name in ("grid", *_NUMBERS) if body.get(name) is not None}
    if body.get("edges"):
        told["bins"] = ", ".join(map(number_told, body["edges"]))
    return told | _keys_told(body.get("by"), types)


def as_json(body: Any) -> dict[str, str]:
    """The same as JSON, which says everything."""
    return {"kind": JSON, "json": json.dumps(body, ensure_ascii=False)}


def _whole_of(said: Mapping[str, str], name: str) -> dict[str, int]:
    text = said.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidParameter(f"{name.replace('_', ' ')} is a whole number")
    return {name: int(text)} if text else {}


def _count(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    return _keyed(said, types)


def _bounded(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    bounds = [said.get("low", ""), said.get("high", "")]
    if not said.get("column") or not all(bounds):
        raise InvalidParameter("a sum or a mean is of a column, with the bounds to which its values are clipped")
    body: dict[str, Any] = {"column": said["column"], "bounds": bounds}
    grid = {"grid": said["grid"]} if said.get("grid") else {}
    return body | grid | _whole_of(said, "max_rows_per_unit") | _keyed(said, types)


def _binned(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    if not said.get("column") or not said.get("bins"):
        raise InvalidParameter("a histogram is of a column, with the edges of its bins")
    limits = {name: value for each in _LIMITS for name, value in _whole_of(said, each).items()}
    return {"column": said["column"], "edges": list_of(said["bins"], "float64")} | limits


def _keyed(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    """The keys: one column's in a list, several columns' a line each."""
    names, keys = parts_of(said.get("by", "")), said.get("keys", "").strip()
    if not names and not keys:
        return {}
    if not names or not keys:
        raise InvalidParameter("keys are public values of the columns that are named for them: say both")
    kinds = [types.get(name, "") for name in names]
    rows = [[value] for value in list_of(keys, kinds[0], names[0])] if len(names) == 1 else _rows(keys, kinds)
    by: dict[str, Any] = {"columns": names, "keys": [[_plain(value) for value in row] for row in rows]}
    by["types"] = [next((each for each in ("date", "timestamp") if kind.startswith(each)), "") for kind in kinds]
    return {"by": by | {name: value for each in _LIMITS for name, value in _whole_of(said, each).items()}}


def _rows(keys: str, kinds: list[str]) -> list[list[Any]]:
    if keys.startswith("["):
        found = in_json(keys)
        return found if isinstance(found, list) and all(isinstance(row, list) for row in found) else [[]]
    lines = list(split(keys))
    if any(len(row) != len(kinds) for row in lines):
        raise InvalidParameter(f"each line of keys has {len(kinds)} parts, one for each column")
    return [[_value(part, kind) for part, kind in zip(row, kinds, strict=True)] for row in lines]


def _value(part: Written, kind: str) -> Any:
    return key_said(parse_key(part, kind)) if kind else value_of(part)


def _keys_told(by: Mapping[str, Any] | None, types: Types) -> dict[str, str]:
    if by is None:
        return {}
    names = by["columns"]
    kinds = [types.get(name, "") for name in names]
    limits = {name: str(by[name]) for name in _LIMITS if by.get(name) is not None}
    dated = [[_dated(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in by["keys"]]
    if len(names) == 1:
        keys = list_told([value for [value] in dated], kinds[0])
    elif any("\n" in value for row in by["keys"] for value in row if isinstance(value, str)):
        keys = json.dumps(by["keys"], ensure_ascii=False)
    else:
        rows = (zip(row, kinds, strict=True) for row in dated)
        keys = "\n".join(", ".join(list_told([value], kind) for value, kind in row) for row in rows)
    return {"by": list_told(names, "string"), "keys": keys} | limits


def _dated(value: Any, kind: str) -> Any:
    return {kind.partition("(")[0]: value} if kind.startswith(("date", "timestamp")) else value


def _plain(value: Any) -> Any:
    """Dates of keys stand there as texts, with their types beside them."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


_PARTS: Final = {"count": _count, "sum": _bounded, "mean": _bounded, "histogram": _binned}

# The fields of a form, made from JSON schemas: which control each has, what it was filled with, what it says.

PREFIX: Final = "ask."
# What is a text in the schema, and more to people.
_BY_NAME: Final = {"column": "column", "condition": "predicate", "of": "column"}
Texts = dict[str, str]


@dataclass(frozen=True)
class FormField:
    """One field: its name in the call, its control, and what is known of it."""

    name: str
    control: str
    meaning: str
    required: bool
    common: bool
    usual: Any = None
    options: tuple[str, ...] = ()
    conditions: bool = False

    @property
    def label(self) -> str:
        """Its name as people read it."""
        return self.name.replace("_", " ").capitalize()

    @property
    def usual_text(self) -> str:
        """What a control shows where nothing is said."""
        if self.control == "flag":
            return "on" if self.usual else ""
        return "" if self.usual is None else number_told(self.usual)

    def said(self, texts: Mapping[str, str], types: Types) -> Any:
        """What a form says of it, as JSON; None for nothing. Errors name the field."""
        own = {
            name.removeprefix(self.name).lstrip("."): text.strip() for name, text in texts.items() if self._has(name)
        }
        try:
            return _CONTROLS[self.control].said(own, self, types)
        except CharyError as error:
            error.field = self.name
            raise

    def told(self, value: Any, types: Types) -> Texts:
        """The texts of the form that say this value."""
        told = _CONTROLS[self.control].told(value, self, types)
        return {f"{self.name}.{part}" if part else self.name: text for part, text in told.items()}

    def as_json(self, value: Any) -> Texts:
        """The same, for values for which the control has no words."""
        text = json.dumps(value, ensure_ascii=False)
        if self.control != "query":
            return {self.name: text}
        return {f"{self.name}.{part}": text for part, text in as_json(value).items()}

    def _has(self, name: str) -> bool:
        return name == self.name or name.startswith(f"{self.name}.")


def field_of(name: str, schema: Mapping[str, Any], *, meaning: str, required: bool, common: bool) -> FormField:
    """The field of a property of a JSON schema."""
    plain = _without_null(schema)
    control, options = _BY_NAME.get(name) or _control(plain), tuple(map(str, plain.get("enum", ())))
    conditions = control == "query" and "array" in plain.get("type", ())
    usual = schema.get("default")
    if control == "flag" and not isinstance(usual, bool):
        control, options = "choice", ("true", "false")
    return FormField(name, control, meaning, required, common, usual, options, conditions)


def writable(schema: Mapping[str, Any]) -> bool:
    """Whether JSON has any value for a property."""
    return "not" not in _without_null(schema)


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return found[0] if len(found) == 1 else schema


def _control(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if "kind" in schema.get("properties", {}):
        return "query"
    if "enum" in schema:
        return "choice"
    if kind == "object":
        return "columns"
    if kind == "array":
        return _of_list(schema.get("items", {}).get("type"))
    if isinstance(kind, list):
        return _of_several(set(kind))
    return {"boolean": "flag", "integer": "whole", "string": "text"}.get(str(kind), "json")


def _of_list(kind: Any) -> str:
    return {"string": "lines", "None": "list"}.get(str(kind), "numbers" if isinstance(kind, list) else "json")


def _of_several(kinds: set[str]) -> str:
    if "number" in kinds:
        return "numbers" if "array" in kinds else "number"
    if "object" in kinds:
        return "json"
    return "word" if "integer" in kinds else "predicate"


class _Control(NamedTuple):
    said: Callable[[Texts, FormField, Types], Any]
    told: Callable[[Any, FormField, Types], Texts]


def _word(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    number = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 16
    return int(text) if number else text or None


def _text(said: Texts, field: FormField, types: Types) -> Any:
    return said.get("") or None


def _told(value: Any, field: FormField, types: Types) -> Texts:
    return {"": str(value)}


def _whole(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    # What is no whole number is for the constructor to refuse, in its words.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text or None


def _flag(said: Texts, field: FormField, types: Types) -> Any:
    return "" in said


def _choice(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    return {"true": True, "false": False}.get(text, text) if text else None


def _choice_told(value: Any, field: FormField, types: Types) -> Texts:
    return {"": str(value).lower() if isinstance(value, bool) else str(value)}


def _json(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    return in_json(text) if text[:1] in ("[", "{", '"') else _word(said, field, types)


def _lines(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    if text.startswith("["):
        return in_json(text)
    return [line.strip() for line in text.split("\n") if line.strip()] or None


def _list(said: Texts, field: FormField, types: Types) -> Any:
    return list_of(said[""]) if said.get("") else None


def _numbers(said: Texts, field: FormField, types: Types) -> Any:
    text = said.get("", "")
    found = list_of(text, "float64") if text else None
    # One number is itself; a field that takes lists alone refuses it.
    return found[0] if isinstance(found, list) and len(found) == 1 and text[0] != "[" else found


def _numbers_told(value: Any, field: FormField, types: Types) -> Texts:
    return {"": ", ".join(map(number_told, value if isinstance(value, list) else [value]))}


def _columns(said: Texts, field: FormField, types: Types) -> Any:
    return columns_of(said[""], types) if said.get("") else None


def _plain_columns(value: Any) -> Any:
    """Columns and their values; those of a universe are written with more."""
    universe = isinstance(value.get("columns"), list) and "missing" in value
    return {name: axis["values"] for name, axis in value["columns"]} if universe else value


_CONTROLS: Final[Mapping[str, _Control]] = {
    "number": _Control(_text, lambda value, field, types: {"": number_told(value)}),
    "whole": _Control(_whole, _told),
    "text": _Control(_text, _told),
    "column": _Control(_text, _told),
    "word": _Control(_word, _told),
    "predicate": _Control(_text, _told),
    "flag": _Control(_flag, lambda value, field, types: {"": "on"} if value else {}),
    "choice": _Control(_choice, _choice_told),
    "json": _Control(
        _json, lambda value, field, types: {"": value if isinstance(value, str) else json.dumps(value, indent=1)}
    ),
    "lines": _Control(_lines, lambda value, field, types: {"": "\n".join(map(str, value))}),
    "list": _Control(_list, lambda value, field, types: {"": list_told(list(value))}),
    "numbers": _Control(_numbers, _numbers_told),
    "columns": _Control(_columns, lambda value, field, types: {"": columns_told(_plain_columns(value), types)}),
    "query": _Control(
        lambda said, field, types: query_said(said, types), lambda value, field, types: query_told(value, types)
    ),
}
