"""What ledgers and services have stored of calls and queries, in the words of today, and the other way: JSON to JSON.

A stored word keeps its meaning for ever. Where a name changed, this table has both, and nothing else knows of it.
"""

from collections.abc import Mapping
from typing import Any, Final

# By today's name of a field the one under which it is stored, whatever query, call or answer has it.
STORED: Final[Mapping[str, str]] = {
    "max_groups_per_unit": "keep_per_unit",
    "max_rows_per_unit": "rows_per_unit",
    "assumed_groups_per_unit": "stated_per_unit",
}
CURRENT: Final[Mapping[str, str]] = {stored: name for name, stored in STORED.items()}


def stored(body: Mapping[str, Any]) -> dict[str, Any]:
    """A call or a query as ledgers hold it.

    >>> stored({"kind": "histogram", "column": "age", "max_groups_per_unit": 2})
    {'kind': 'histogram', 'column': 'age', 'keep_per_unit': 2}
    """
    return _renamed(body, STORED)


def current(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a ledger or a service holds of a call or a query, in the words of today.

    >>> current({"above": "5", "query": {"kind": "total", "column": "cost", "rows_per_unit": 2}})["query"]
    {'kind': 'total', 'column': 'cost', 'max_rows_per_unit': 2}
    """
    return _renamed(body, CURRENT)


def _renamed(body: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): _within(name, value, names) for name, value in body.items()}


def _within(name: str, value: Any, names: Mapping[str, str]) -> Any:
    """A query in a call, its keys, and queries in a list; columns, parameters and keys of callers are no names."""
    if isinstance(value, Mapping) and (name == "by" or isinstance(value.get("kind"), str)):
        return _renamed(value, names)
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [_within("", each, names) for each in value]
    return value
