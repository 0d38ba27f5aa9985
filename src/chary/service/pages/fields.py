"""Fields of forms: a query as the parts of a form, and the fields of calls with their controls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chary.calls import fields
from chary.calls.fields import Beside, FieldType
from chary.data.columns import Schema
from chary.data.predicates.predicate import column_type
from chary.data.queries.keys import Written, columns_in, key_text, parse_key, split
from chary.errors import CharyError, InvalidParameter

# A form of a page fills no memory.
_LONGEST: Final = 100_000


def _beside(types: Schema, column: str | None = None) -> Beside:
    return Beside(types, column, _LONGEST)


def _listed(text: str, beside: Beside, read: Callable[[str, Beside], list[Any]] = fields.list_of) -> Any:
    return fields.in_json(text) if text.startswith("[") else read(text, beside)


def _in_one_line(text: str, value: Any) -> str:
    """What a field of one line can hold: JSON instead of a text of several."""
    return fields.as_json(value) if "\n" in text else text


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


def query_said(said: Mapping[str, str], types: Schema) -> Any:
    """The body of the query that the parts of a form say; nothing where they say nothing."""
    kind = said.get("kind", "")
    if kind == JSON:
        return fields.in_json(said["json"]) if said.get("json") else None
    if kind == CONDITIONS:
        return [line.strip() for line in said.get("conditions", "").split("\n") if line.strip()] or None
    if kind not in SHOWN:
        return None
    body: dict[str, Any] = {"kind": kind}
    if said.get("where"):
        body["where"] = said["where"]
    return body | _PARTS[kind](said, types)


def query_told(body: Any, types: Schema) -> dict[str, str]:
    """The parts of a form from which `query_said` makes an equal query."""
    if isinstance(body, list):
        return {"kind": CONDITIONS, "conditions": "\n".join(map(str, body))}
    if isinstance(body, str):
        return {"kind": "count", "where": body}
    if body.get("kind") not in SHOWN:
        return _whole_body(body)
    told = {"kind": body["kind"], "where": body.get("where") or "", "column": body.get("column") or ""}
    for name, value in zip(("low", "high"), body.get("bounds") or (), strict=False):
        told[name] = fields.number_told(value)
    told |= {name: fields.number_told(body[name]) for name in ("grid", *_NUMBERS) if body.get(name) is not None}
    if body.get("edges"):
        told["bins"] = fields.numbers_told(body["edges"])
    return told | _keys_told(body.get("by"), types)


def _whole_body(body: Any) -> dict[str, str]:
    """The same as JSON, which says everything."""
    return {"kind": JSON, "json": fields.as_json(body)}


def _whole_of(said: Mapping[str, str], name: str) -> dict[str, int]:
    text = said.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidParameter(f"{name.replace('_', ' ')} is an integer")
    return {name: int(text)} if text else {}


def _count(said: Mapping[str, str], types: Schema) -> dict[str, Any]:
    return _keyed(said, types)


def _bounded(said: Mapping[str, str], types: Schema) -> dict[str, Any]:
    bounds = [said.get("low", ""), said.get("high", "")]
    if not said.get("column") or not all(bounds):
        raise InvalidParameter("a sum or a mean is of a column, with the bounds to which its values are clipped")
    body: dict[str, Any] = {"column": said["column"], "bounds": bounds}
    grid = {"grid": said["grid"]} if said.get("grid") else {}
    return body | grid | _whole_of(said, "max_rows_per_unit") | _keyed(said, types)


def _binned(said: Mapping[str, str], types: Schema) -> dict[str, Any]:
    if not said.get("column") or not said.get("bins"):
        raise InvalidParameter("a histogram is of a column, with the edges of its bins")
    limits = {name: value for each in _LIMITS for name, value in _whole_of(said, each).items()}
    return {"column": said["column"], "edges": _listed(said["bins"], _beside(types), fields.numbers_of)} | limits


def _keyed(said: Mapping[str, str], types: Schema) -> dict[str, Any]:
    """The keys: one column's in a list, several columns' a line each."""
    names = _names(said.get("by", ""))
    keys = said.get("keys", "").strip()
    if not names and not keys:
        return {}
    if not names or not keys:
        raise InvalidParameter("keys are public values of the columns that are named for them: say both")
    kinds = [column_type(types, name) for name in names]
    rows = [[value] for value in _listed(keys, _beside(types, names[0]))] if len(names) == 1 else _rows(keys, kinds)
    by: dict[str, Any] = {"columns": names, "keys": [[_plain(value) for value in row] for row in rows]}
    by["types"] = [next((each for each in ("date", "timestamp") if kind.startswith(each)), "") for kind in kinds]
    return {"by": by | {name: value for each in _LIMITS for name, value in _whole_of(said, each).items()}}


def _names(text: str) -> list[str]:
    """Written as keys are; without double quotes a comma within round brackets is one of a derived column."""
    if '"' in text:
        return [part.text for line in split(text) for part in line]
    return [name.strip() for line in text.splitlines() for name in columns_in(line) if name.strip()]


def _rows(keys: str, kinds: list[str]) -> list[list[Any]]:
    if keys.startswith("["):
        found = fields.in_json(keys)
        return found if isinstance(found, list) and all(isinstance(row, list) for row in found) else [[]]
    lines = list(split(keys))
    if any(len(row) != len(kinds) for row in lines):
        raise InvalidParameter(f"each line of keys has {len(kinds)} parts, one for each column")
    return [[_value(part, kind) for part, kind in zip(row, kinds, strict=True)] for row in lines]


def _value(part: Written, kind: str) -> Any:
    return fields.key_said(parse_key(part, kind)) if kind else fields.value_of(part)


def _keys_told(by: Mapping[str, Any] | None, types: Schema) -> dict[str, str]:
    if by is None:
        return {}
    names = by["columns"]
    kinds = [column_type(types, name) for name in names]
    limits = {name: str(by[name]) for name in _LIMITS if by.get(name) is not None}
    dated = [[_dated(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in by["keys"]]
    if len(names) == 1:
        listed = [value for [value] in dated]
        keys = _in_one_line(fields.list_told(listed, _beside(types, names[0])), listed)
    elif any("\n" in value for row in by["keys"] for value in row if isinstance(value, str)):
        keys = fields.as_json(by["keys"])
    else:
        rows = (zip(row, map(_beside(types).of, names), strict=True) for row in dated)
        keys = "\n".join(", ".join(fields.list_told([value], beside) for value, beside in row) for row in rows)
    return {"by": ", ".join(map(key_text, names)), "keys": keys} | limits


def _dated(value: Any, kind: str) -> Any:
    return {kind.partition("(")[0]: value} if kind.startswith(("date", "timestamp")) else value


def _plain(value: Any) -> Any:
    """Dates of keys stand there as strings, with their types next to them."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


_PARTS: Final = {"count": _count, "sum": _bounded, "mean": _bounded, "histogram": _binned}

# The fields of a form, made from the types of fields: which control each has, what it was filled with, what it says.

PREFIX: Final = "ask."
Texts = dict[str, str]


@dataclass(frozen=True)
class FormField:
    """One field: its name in the call, its type, and what is known of it."""

    name: str
    type: FieldType
    meaning: str
    required: bool
    common: bool
    usual: Any = None

    @property
    def control(self) -> str:
        """What it is filled into: a flag that may be left open is a choice."""
        return "choice" if self.type.control == "flag" and not isinstance(self.usual, bool) else self.type.control

    @property
    def conditions(self) -> bool:
        """Whether it takes conditions instead of a query."""
        return self.control == "query" and "array" in self.type.schema["type"]

    @property
    def label(self) -> str:
        """Its name as people read it."""
        return self.name.replace("_", " ").capitalize()

    @property
    def hint(self) -> str:
        """What an empty control shows: the usual value, or how lines are written."""
        if self.type.lines:
            return self.type.told(self.type.example, fields.ALONE)
        return "" if self.usual is None else str(self.usual)

    @property
    def usual_text(self) -> str:
        """What a control shows where nothing is said."""
        if self.control == "flag":
            return "on" if self.usual else ""
        return "" if self.usual is None else fields.number_told(self.usual)

    def said(self, texts: Mapping[str, str], types: Schema) -> Any:
        """What a form says of it, as JSON; None at no cost. Errors name the field."""
        own = {
            name.removeprefix(self.name).lstrip("."): text.strip() for name, text in texts.items() if self._has(name)
        }
        text = own.get("", "")
        try:
            if self.control == "query":
                return query_said(own, types)
            if self.control == "flag":
                return "" in own
            beside = _beside(types, texts.get("column"))
            if not text or self.type.is_json(text):
                return fields.in_json(text) if text else None
            return self.type.read(text.split("\n") if self.type.lines else text, beside)
        except CharyError as error:
            error.field = self.name
            raise

    def told(self, value: Any, types: Schema, column: str | None = None) -> Texts:
        """The strings of the form that say this value."""
        if self.control == "query":
            return {f"{self.name}.{part}": text for part, text in query_told(value, types).items()}
        if self.control == "flag":
            return {self.name: "on"} if value else {}
        text = self.type.told(value, _beside(types, column))
        return {self.name: text if self.type.lines else _in_one_line(text, value)}

    def as_json(self, value: Any) -> Texts:
        """The same, for values for which the control has no words."""
        if self.control != "query":
            return {self.name: fields.as_json(value)}
        return {f"{self.name}.{part}": text for part, text in _whole_body(value).items()}

    def _has(self, name: str) -> bool:
        return name == self.name or name.startswith(f"{self.name}.")
