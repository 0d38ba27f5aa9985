"""A query as the parts of a form, and back: what is counted, of which rows, for which keys."""

import json
from collections.abc import Mapping
from typing import Any, Final

from chary.data.queries.keys import Written, parse_key, split
from chary.errors import InvalidParameter
from chary.service.page.asking.said_values import (
    Types,
    in_json,
    key_said,
    list_of,
    list_told,
    number_told,
    parts_of,
    value_of,
)

CONDITIONS: Final = "conditions"
JSON: Final = "json"
# What people are asked for; all other kinds are written as JSON.
SHOWN: Final[Mapping[str, str]] = {
    "count": "Count of units",
    "total": "Total of a column",
    "mean": "Mean of a column",
    "histogram": "Histogram of a column",
}
_LIMITS: Final = ("keep_per_unit", "stated_per_unit")
_NUMBERS: Final = ("rows_per_unit", *_LIMITS)


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


def _whole(said: Mapping[str, str], name: str) -> dict[str, int]:
    text = said.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidParameter(f"{name.replace('_', ' ')} is a whole number")
    return {name: int(text)} if text else {}


def _count(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    return _keyed(said, types)


def _bounded(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    bounds = [said.get("low", ""), said.get("high", "")]
    if not said.get("column") or not all(bounds):
        raise InvalidParameter("a total or a mean is of a column, with the bounds to which its values are clipped")
    body: dict[str, Any] = {"column": said["column"], "bounds": bounds}
    grid = {"grid": said["grid"]} if said.get("grid") else {}
    return body | grid | _whole(said, "rows_per_unit") | _keyed(said, types)


def _binned(said: Mapping[str, str], types: Types) -> dict[str, Any]:
    if not said.get("column") or not said.get("bins"):
        raise InvalidParameter("a histogram is of a column, with the edges of its bins")
    limits = {name: value for each in _LIMITS for name, value in _whole(said, each).items()}
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
    return {"by": by | {name: value for each in _LIMITS for name, value in _whole(said, each).items()}}


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


_PARTS: Final = {"count": _count, "total": _bounded, "mean": _bounded, "histogram": _binned}
