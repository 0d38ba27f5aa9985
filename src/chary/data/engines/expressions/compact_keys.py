"""Keys that fill their range: rows are counted first, and only what was counted is brought to the keys."""

from collections.abc import Iterable, Mapping
from datetime import date
from math import prod
from typing import Any, Final

import ibis

from chary.data.columns import TypeClass

# Rows between the edges that have no key take as much memory as so many keys.
_SPARE: Final = 4
Offered = Mapping[str, tuple[str, list[Any]]]
Edges = list[tuple[Any, Any]]


def edges_of(columns: Iterable[tuple[str, list[Any]]]) -> Edges | None:
    """The lowest and the highest key of each column, given as type and values; None unless keys fill most of the range.

    It follows from the keys alone, so which plan is run tells nothing of rows. Then no more groups than a few times the
    keys can occur between the edges, whatever other values the columns have.

    >>> edges_of([("int64", [3, 5, 4])]), edges_of([("int64", [1, 1000])]), edges_of([("string", ["a", "b"])])
    ([(3, 5)], None, None)
    """
    found, widths, size = [], [], 0
    for kind, values in columns:
        if kind not in (TypeClass.INTEGER, TypeClass.DATE):
            return None
        low, high = min(values), max(values)
        size = len(values)
        found.append((low, high))
        widths.append(((high - low).days if isinstance(low, date) else high - low) + 1)
    return found if prod(widths) <= _SPARE * size else None


def between(rows: Any, names: Iterable[str], edges: Edges) -> Any:
    """The rows of an Ibis table whose keys are between the edges."""
    return rows.filter(
        *(rows[name].between(_literal(low), _literal(high)) for name, (low, high) in zip(names, edges, strict=True))
    )


def _literal(key: Any) -> Any:
    return ibis.literal(key, "date" if isinstance(key, date) else "int64")
