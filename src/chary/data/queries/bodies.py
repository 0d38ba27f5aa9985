"""JSON read strictly, and queries from their own JSON: the other direction of their bodies."""

import inspect
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final

from chary.data.queries import moments, sums
from chary.data.queries.histogram import Binned, histogram
from chary.data.queries.statistic import Statistic, recorded
from chary.data.queries.stored import current
from chary.data.series import ValueAt, Values
from chary.errors import CharyError, InvalidParameter, InvalidQuery
from chary.numbers import flag

_DATES = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}
_KEYED: Final = ("columns", "keys", "types")
_LIMITS: Final = ("max_groups_per_unit", "assumed_groups_per_unit")


Asked = sums.Count | sums.Sum | moments.Mean | Binned | moments.SecondMoments | Values | ValueAt | Statistic


def body_of(query: Any) -> dict[str, Any]:
    """The query as JSON in the words of today, from which `query_of` makes an equal one."""
    return current(query.body())


def query_of(body: Mapping[str, Any]) -> Asked:
    """The query that JSON describes; fields that are left out have their defaults. For a stored body pass
    `current(body)`.

    >>> from chary.data.queries.sums import count
    >>> query_of({"kind": "count", "where": "age >= 65"}).describe()
    'count where age >= 65'
    >>> query_of(body_of(count().by("clinic", ["north"]))) == count().by("clinic", ["north"])
    True

    Errors: `InvalidQuery` for what is the body of no query, naming a field that its kind does not have.
    """
    given = dict(body)
    kind = str(given.pop("kind", None))
    make, fields = _STATISTIC if kind == "statistic" else _KINDS.get(kind, (None, ()))
    if make is None:
        raise InvalidQuery(f"a query names its kind, one of {', '.join(_KINDS)}")
    _check(given, fields, f"a query of kind {kind!r}")
    try:
        found: Asked = make(given)
    except CharyError:
        raise
    except (TypeError, KeyError, AttributeError, ValueError):
        raise InvalidQuery("a query of this kind has other fields: see the reference") from None
    return found


def _keyed(query: sums.Count | sums.Sum | moments.Mean, by: Mapping[str, Any] | None) -> Any:
    if by is None:
        return query
    _check(by, (*_KEYED, *_LIMITS), "by")
    columns, limits = by["columns"], {name: by.get(name) for name in _LIMITS}
    read = [_DATES.get(kind, lambda key: key) for kind in by.get("types", [""] * len(columns))]
    keys = [tuple(of(key) for of, key in zip(read, row, strict=True)) for row in by["keys"]]
    return query.by(columns, keys, **limits)


def _count(given: dict[str, Any]) -> Any:
    by = given.pop("by", None)
    return _keyed(sums.count(given.pop("where", None), **given), by)


def _sum(given: dict[str, Any]) -> Any:
    by, center, even = given.pop("by", None), given.pop("center", "0"), flag(given.pop("even", False), "even")
    if center != "0":
        raise InvalidQuery("a sum has no center of its own")
    return _keyed(replace(sums.sum(given.pop("column"), **given), even=even), by)


def _mean(given: dict[str, Any]) -> Any:
    by = given.pop("by", None)
    for follows in ("center", "unit_total"):
        given.pop(follows, None)
    return _keyed(moments.mean(given.pop("column"), **given), by)


def _histogram(given: dict[str, Any]) -> Binned:
    return histogram(given.pop("column"), bins=given.pop("edges"), **given)


def _moments(given: dict[str, Any]) -> moments.SecondMoments:
    return moments.second_moments(given.pop("bounds"), **given)


def _of(make: Callable[..., Any], *more: str) -> tuple[str, ...]:
    names = ("edges" if name == "bins" else name for name in inspect.signature(make).parameters)
    return tuple(dict.fromkeys((*names, *more)))


def _check(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    if unknown := [name for name in given if name not in known]:
        raise InvalidQuery(f"{what} has no field {unknown[0]!r}; it has {', '.join(known)}")


# What makes a query of each kind, and the fields of its JSON.
_KINDS: Final[Mapping[str, tuple[Callable[[dict[str, Any]], Any], tuple[str, ...]]]] = {
    "count": (_count, _of(sums.count, "by")),
    "sum": (_sum, _of(sums.sum, "by", "center", "even")),
    "mean": (_mean, _of(moments.mean, "by", "center", "unit_total")),
    "histogram": (_histogram, _of(histogram)),
    "series": (lambda given: Values(**given), _of(Values)),
    "second moments": (_moments, _of(moments.second_moments)),
    "series_value": (lambda given: ValueAt(**given), _of(ValueAt)),
}
_STATISTIC: Final = (recorded, ("name", "sensitivity", "grid", "parameters", "bounds", "direction"))
KINDS: Final = tuple(_KINDS)


# JSON read strictly: what two readers could take for two different things is refused.

_DEEP: Final = 64


def parsed_body(raw: bytes) -> dict[str, Any]:
    """The object that a body holds.

    Errors: `InvalidParameter`, which never repeats the body. It is raised for what is no JSON object in UTF-8, names a
    field twice, or nests deeper than 64 levels. Also for what holds NaN, an infinity, a number with thousands of
    digits, NUL or half a character.

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
    _plain(found, _DEEP)
    return found


def check_fields(body: Mapping[str, Any], known: Collection[str], told: str) -> None:
    """`InvalidParameter` that names the first unknown field of a body, and ends with `told`, the known ones.

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


def _plain(value: Any, deep: int) -> None:
    if deep == 0:
        raise InvalidParameter(f"the body nests deeper than {_DEEP} levels")
    if isinstance(value, str):
        _plain_text(value)
    elif isinstance(value, (dict, list)):
        for inner in value:
            _plain(inner, deep - 1)
        for inner in value.values() if isinstance(value, dict) else ():
            _plain(inner, deep - 1)


def _plain_text(text: str) -> None:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InvalidParameter("the body holds a text with NUL or half a character")
