"""JSON read strictly: what two readers could take for two different things is refused."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from chary.errors import InvalidParameter

_DEEP: Final = 64


def parsed_body(raw: bytes) -> dict[str, Any]:
    """The object that a body holds.

    Errors: `InvalidParameter`, which never repeats the body, for what is no JSON object in UTF-8, names a field twice,
    holds NaN, an infinity, a number with thousands of digits, NUL or half a character, or nests deeper than 64 levels.

    >>> parsed_body(b'{"kind": "test", "above": "500"}')
    {'kind': 'test', 'above': '500'}
    >>> parsed_body(b'{"kind": "test", "kind": "release_if"}')
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: the body names a field twice
    """
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite)
    except InvalidParameter:
        raise
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidParameter("the body is a JSON object in UTF-8")
    _check(found, _DEEP)
    return found


def check_fields(body: Mapping[str, Any], known: Collection[str], told: str) -> None:
    """`InvalidParameter` that names the first field of a body which is not known, and tells what may be said.

    >>> check_fields({"state": "paused", "until": "May"}, ["state"], 'write {"state": "paused"}')
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: there is no field 'until' here: write {"state": "paused"}
    """
    unknown = [name for name in body if name not in known]
    if unknown:
        error = InvalidParameter(f"there is no field {unknown[0]!r} here: {told}")
        error.field = unknown[0]
        raise error


def finite(value: Any) -> Any:
    """A value without what JSON has no word for: infinite figures are told as nothing.

    >>> finite({"reached": float("inf"), "left": 0.5})
    {'reached': None, 'left': 0.5}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidParameter("the body names a field twice")
    return found


def _refused(_: str) -> Any:
    raise InvalidParameter("the body holds a number that is not finite")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _check(value: Any, deep: int) -> None:
    if deep == 0:
        raise InvalidParameter(f"the body nests deeper than {_DEEP} levels")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, (dict, list)):
        for inner in value:
            _check(inner, deep - 1)
        for inner in value.values() if isinstance(value, dict) else ():
            _check(inner, deep - 1)


def _check_text(text: str) -> None:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InvalidParameter("the body holds a text with NUL or half a character")
