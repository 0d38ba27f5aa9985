"""A public list of keys: the only groups a keyed query ever answers for."""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

from chary.errors import InvalidQuery

Key = bool | int | str | date | datetime
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", datetime: "timestamp", date: "date"}


@dataclass(frozen=True, eq=False)
class Domain:
    """Columns and the keys they may hold, in the order in which answers come back.

    The keys are public: they must not be read off the data. Equal domains hash equally; the hash is kept,
    so that a query over 100,000 keys is looked up fast.

    >>> Domain.of("clinic", ["north", "south"]).rows
    (('north',), ('south',))
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Key, ...], ...]
    kinds: tuple[str, ...]
    _hash: int

    @classmethod
    def of(cls, columns: str | Sequence[str], keys: Iterable[Any]) -> "Domain":
        """Read scalars (one column) or tuples (several); everything but int, str, bool, date and datetime is refused.

        Duplicates, NULLs, an empty list, keys of mixed types and keys of the wrong length raise `InvalidQuery`.
        """
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        rows = _rows(tuple(_listed(keys)), len(names), isinstance(columns, str))
        if not rows:
            raise InvalidQuery("keys must not be empty: list the public groups, such as keys=['north', 'south']")
        return cls(
            names, rows, tuple(_kind(name, column) for name, column in zip(names, zip(*rows, strict=True), strict=True))
        )

    def __init__(self, columns: tuple[str, ...], rows: tuple[tuple[Key, ...], ...], kinds: tuple[str, ...]) -> None:
        _check_names(columns)
        if len(set(rows)) != len(rows):
            raise InvalidQuery("keys must not hold duplicates")
        for name, value in zip(("columns", "rows", "kinds"), (columns, rows, kinds), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_hash", hash((columns, kinds, rows)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain) or self._hash != other._hash:
            return NotImplemented if not isinstance(other, Domain) else False
        return self is other or (self.columns, self.kinds, self.rows) == (other.columns, other.kinds, other.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Domain({', '.join(self.columns)}: {len(self)} keys)"

    def body(self) -> dict[str, Any]:
        """A JSON-able description; dates are ISO text and told apart from strings by `types`."""
        return self._body

    @cached_property
    def _body(self) -> dict[str, Any]:
        keys = [list(row) for row in self.rows]
        if not {*self.kinds} <= {"integer", "string", "boolean"}:
            keys = [[key.isoformat() if isinstance(key, date) else key for key in row] for row in keys]
        return {"columns": list(self.columns), "types": list(self.kinds), "keys": keys}


def _check_names(names: tuple[str, ...]) -> None:
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidQuery("by() needs one column name or a list of different column names")


def _listed(keys: Iterable[Any]) -> Iterable[Any]:
    if isinstance(keys, (str, bytes, Set)) or not isinstance(keys, Iterable):
        raise InvalidQuery("keys must be a list in a fixed order, such as keys=['north', 'south']")
    return keys


def _rows(keys: tuple[Any, ...], width: int, scalar: bool) -> tuple[tuple[Key, ...], ...]:
    if scalar and {*map(type, keys)} in ({int}, {str}):
        # Many keys of one plain type are checked together.
        for edge in (min(keys), max(keys)) if isinstance(keys[0], int) else ("".join(keys),):
            _scalar(edge)
        return tuple(zip(keys, strict=True))
    return tuple(tuple(map(_scalar, _row(key, width, scalar))) for key in keys)


def _row(key: Any, width: int, scalar: bool) -> tuple[Any, ...]:
    if scalar:
        return key if isinstance(key, tuple) and len(key) == 1 else (key,)
    if not isinstance(key, (tuple, list)) or len(key) != width:
        raise InvalidQuery(f"each key must be a tuple of {width} values, one for each column of by()")
    return tuple(key)


def _scalar(key: Any) -> Key:
    if hasattr(key, "to_pydatetime"):
        key = key.to_pydatetime(warn=False) if not getattr(key, "nanosecond", 0) else key.nanosecond / 1000
    elif hasattr(key, "item"):
        key = key.item()
    if key is None or (isinstance(key, float) and math.isnan(key)):
        raise InvalidQuery("keys must not hold NULL or NaN: rows without a value belong to no key")
    if type(key) not in _KINDS and not isinstance(key, str):
        raise InvalidQuery(f"keys must be int, str, bool, date or datetime, not {type(key).__name__}")
    return _encodable(str(key)) if isinstance(key, str) else _representable(key)


def _encodable(key: str) -> str:
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in key):
        raise InvalidQuery("keys must be valid Unicode text without NUL characters")
    return key


def _representable(key: Key) -> Key:
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        raise InvalidQuery("integer keys must fit into 64 bits")
    if isinstance(key, datetime) and key.tzinfo is not None:
        raise InvalidQuery("datetime keys must not carry a time zone")
    return key


def _kind(name: str, keys: tuple[Key, ...]) -> str:
    kinds = {_KINDS[type(key)] for key in keys}
    if len(kinds) > 1:
        raise InvalidQuery(f"keys of {name!r} must all have one type, got {' and '.join(sorted(kinds))}")
    return kinds.pop()
