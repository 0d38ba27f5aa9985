"""The fields of a form, made from JSON schemas: which control each has, what it was filled with, what it says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from chary.errors import CharyError
from chary.service.page.asking.query_fields import as_json, query_said, query_told
from chary.service.page.asking.said_values import (
    Types,
    columns_of,
    columns_told,
    in_json,
    list_of,
    list_told,
    number_told,
)

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
        return "number"
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
    return list_of(said[""], "float64") if said.get("") else None


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
    "numbers": _Control(_numbers, lambda value, field, types: {"": ", ".join(map(number_told, value))}),
    "columns": _Control(_columns, lambda value, field, types: {"": columns_told(_plain_columns(value), types)}),
    "query": _Control(
        lambda said, field, types: query_said(said, types), lambda value, field, types: query_told(value, types)
    ),
}
