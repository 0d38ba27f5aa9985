"""From a query to an Ibis expression whose single scan yields exact integers.

Rows go through the same stages for every query: *choose* (predicate, unit, value, key), *keep* (the first keys, the
largest rows), *cap* (one cell a unit and key), *collect* (sum, by key). Expressions are built on unbound tables, so
no data is touched and any engine of Ibis can run them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import ibis

from chary.data.columns import Schema, TypeClass, classify, declare
from chary.data.domain.keys import Domain
from chary.data.engines.expressions.compact_keys import Offered, between, edges_of
from chary.data.engines.expressions.dialect import Dialect, QueryPlace
from chary.data.engines.expressions.moments import moments
from chary.data.engines.expressions.one_of_unit import Preference, is_packed, one_of_unit
from chary.data.engines.expressions.positions import POSITION
from chary.data.predicates.literals import double, read_date
from chary.data.queries.binned import Binned
from chary.data.queries.count import Count
from chary.data.queries.mean import Mean, RowCount
from chary.data.queries.query import Keying
from chary.data.queries.second_moments import SecondMoments
from chary.data.queries.total import Total
from chary.errors import InvalidQuery

ANSWER = "answer"


@dataclass(frozen=True)
class Evaluation:
    """A query ready for an engine: an expression of one `answer` column, keyed ones with a `position` column.

    `keys` holds, for a keyed query, the columns of the table named `keys_name` the engine must offer: k0, k1, ...
    and `position`, as (Ibis type, values). `positions` is how many answers a query has that are not by keys of rows.
    """

    expression: Any
    keys: Mapping[str, tuple[str, list[Any]]] | None
    positions: int | None = None


def evaluate(query: Any, schema: Schema, unit: str | None, place: QueryPlace) -> Evaluation:
    """Check a query against the schema and build its expression; `InvalidQuery` when they do not fit."""
    if isinstance(query, Mean):
        raise InvalidQuery("a mean is asked for in two parts: prepare each of query.parts(neighbouring)")
    if isinstance(query, SecondMoments):
        rows = _filtered(place, schema, query, unit)
        return Evaluation(moments(query, rows, schema, unit, place.dialect), None, len(query.keys))
    if not isinstance(query, (Count, Total, RowCount, Binned)):
        raise InvalidQuery(f"a table answers count(), total() and the parts of mean(), not {type(query).__name__}")
    asked = query.of if isinstance(query, (RowCount, Binned)) else query
    rows = _filtered(place, schema, asked, unit)
    if isinstance(query, Binned):
        rows, schema = query.numbered(rows, schema, unit)
        query = asked
    if asked.keying is None and isinstance(asked, Count):
        return Evaluation(rows.aggregate(**{ANSWER: rows.count() if unit is None else rows[unit].nunique()}), None)
    if unit is None and (grouped := _by_edges(rows, schema, asked, query, place)):
        return grouped
    found = _chosen(rows, schema, asked, unit, place)
    kept = found.expression if unit is None else _kept(found.expression, asked)
    return Evaluation(_collected(_cells(kept, query, unit), query, found.keys is not None), found.keys)


def chosen(asked: Count | Total, schema: Schema, unit: str | None, place: QueryPlace) -> Evaluation:
    """The rows that count, and of each its `unit` and `position`, if there are any, and the `value` that is summed.

    The value is clipped and in steps; rows without one do not count.
    """
    return _chosen(_filtered(place, schema, asked, unit), schema, asked, unit, place)


def shares(asked: Total, schema: Schema, unit: str, place: QueryPlace) -> Evaluation:
    """What each unit adds to each key, as the query limits it: its `unit`, `position`, if there are any, and `value`.

    A unit that adds nothing to a key has no row there.
    """
    found = chosen(asked, schema, unit, place)
    groups = ["unit"] if asked.keying is None else ["unit", POSITION]
    cells = _cells(_kept(found.expression, asked), asked, unit)
    summed = cells.group_by(groups).aggregate(value=cells.value.sum())
    return Evaluation(summed.filter(summed.value != 0), found.keys)


def _filtered(place: QueryPlace, schema: Schema, asked: Count | Total | SecondMoments, unit: str | None) -> Any:
    rows = place.table(place.rows, schema)
    chosen = place.where(rows, schema, asked.where)
    chosen = chosen if unit is None else chosen.filter(chosen[unit].notnull())
    without = asked.without if isinstance(asked, Count) else None
    if without is None:
        return chosen
    if unit is None:
        return chosen.filter(~without.expression(chosen, schema, place.dialect.like).fill_null(False))
    others = place.where(rows, schema, without)
    return chosen.anti_join(others.select(excluded=others[unit]), [(unit, "excluded")])


def _key_columns(domain: Domain, schema: Schema) -> dict[str, tuple[str, list[Any]]]:
    columns = {}
    for index, name in enumerate(domain.columns):
        kind, values = classify(schema, name), [row[index] for row in domain.rows]
        columns[f"k{index}"] = (str(kind), _typed(name, kind, domain.kinds[index], values))
    return columns | {POSITION: ("int64", list(range(len(domain))))}


_DECLARED = {"integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE"}


def _typed(name: str, kind: TypeClass, given: str, values: list[Any]) -> list[Any]:
    words = "integer" if kind is TypeClass.INTEGER else str(kind)
    if given == words:
        return values
    dates: list[date | None] = (
        [read_date(value) for value in values] if (given, words) == ("string", "date") else [None]
    )
    if None in dates:
        hint = declare(name, kind, _DECLARED.get(given, "DOUBLE"))
        raise InvalidQuery(f"column {name!r} is {kind.words}, so its keys cannot be of type {given}{hint}")
    return dates


def _chosen(rows: Any, schema: Schema, asked: Count | Total, unit: str | None, place: QueryPlace) -> Evaluation:
    rows, columns = _columns(rows, schema, asked, unit, place)
    if asked.keying is None:
        return Evaluation(rows.select(**columns), None)
    offered = _key_columns(asked.keying.domain, schema)
    keys = place.table(place.keys, _types(offered))
    matches = [rows[name] == keys[f"k{index}"] for index, name in enumerate(asked.keying.domain.columns)]
    return Evaluation(rows.inner_join(keys, matches).select(**columns, position=keys[POSITION]), offered)


def _columns(rows: Any, schema: Schema, asked: Count | Total, unit: str | None, place: QueryPlace) -> tuple[Any, Any]:
    """The rows that have a value, where one is asked for, and of each its unit and value."""
    columns = {} if unit is None else {"unit": rows[unit]}
    if isinstance(asked, Total):
        kind = classify(schema, asked.column)
        rows = rows if asked.missing is not None else rows.filter(rows[asked.column].notnull())
        columns["value"] = _steps(rows[asked.column], kind, asked, place.dialect)
    return rows, columns


def _types(offered: Offered) -> dict[str, str]:
    return {name: kind for name, (kind, _) in offered.items()}


def _by_edges(rows: Any, schema: Schema, asked: Count | Total, query: Any, place: QueryPlace) -> Evaluation | None:
    """Rows that are units by the keys' own columns first, if few others can occur: to join one costs more than that."""
    if asked.keying is None:
        return None
    names, offered = asked.keying.domain.columns, _key_columns(asked.keying.domain, schema)
    edges = edges_of([column for name, column in offered.items() if name != POSITION])
    if edges is None:
        return None
    found, columns = _columns(between(rows, names, edges), schema, asked, None, place)
    groups = {f"k{index}": found[name] for index, name in enumerate(names)}
    cells = _summed(found.select(**groups, **columns), query, list(groups))
    keys = place.table(place.keys, _types(offered))
    return Evaluation(cells.inner_join(keys, list(groups)).select(POSITION, ANSWER), offered)


def _steps(value: Any, kind: TypeClass, asked: Total, dialect: Dialect) -> Any:
    if kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
        hint = declare(asked.column, kind, "DOUBLE")
        raise InvalidQuery(f"total needs a column of numbers; {asked.column!r} is {kind.words}{hint}")
    low, high = (int(edge / asked.grid) for edge in asked.bounds)
    stands_in = None if asked.missing is None else int(asked.missing / asked.grid)
    if kind is TypeClass.INTEGER and asked.grid == 1:
        value = value if stands_in is None else value.fill_null(ibis.literal(stands_in, "int64"))
        steps = _clip(value, ibis.literal(low, "int64"), ibis.literal(high, "int64"))
    else:
        # The bounds are whole steps that doubles hold exactly, so rounding what is clipped cannot leave them.
        scaled = _scaled(dialect.tame(value.cast("float64")), asked.grid)
        scaled = scaled if stands_in is None else scaled.fill_null(double(stands_in))
        steps = dialect.nearest(_clip(scaled, double(low), double(high))).cast("int64")
    center = int(asked.center / asked.grid)
    return steps - ibis.literal(center, "int64") if center else steps


def _scaled(value: Any, grid: Fraction) -> Any:
    if grid.denominator != 1:
        value = value * double(grid.denominator)
    return value / double(grid.numerator) if grid.numerator != 1 else value


def _clip(value: Any, low: Any, high: Any) -> Any:
    return ibis.least(ibis.greatest(value, low), high)


def _kept(chosen: Any, asked: Count | Total) -> Any:
    if one := _single(asked):
        return one_of_unit(chosen, one)
    keying: Keying | None = asked.keying
    if keying is not None and keying.keep_per_unit is not None:
        ranked = chosen.mutate(rank=ibis.dense_rank().over(group_by="unit", order_by=POSITION))
        chosen = ranked.filter(ranked["rank"] < keying.keep_per_unit).drop("rank")
    if isinstance(asked, Total) and asked.rows_per_unit is not None:
        order = [chosen.value.abs().desc(), chosen.value.desc()] + ([] if keying is None else [chosen[POSITION].asc()])
        ranked = chosen.mutate(rank=ibis.row_number().over(group_by="unit", order_by=order))
        chosen = ranked.filter(ranked["rank"] < asked.rows_per_unit).drop("rank")
    return chosen


def _single(asked: Count | Total) -> list[Preference]:
    """In which order one row of each unit is kept; empty where more are, or other rows of it matter.

    It follows from the query alone, so which plan is run tells nothing of rows.
    """
    keying = asked.keying
    keep = None if keying is None else keying.keep_per_unit
    position = [] if keying is None else [Preference(POSITION, 0, len(keying.domain) - 1)]
    one = isinstance(asked, Total) and asked.rows_per_unit == 1
    value = [Preference("value", *asked.steps, farthest=True)] if isinstance(asked, Total) and one else []
    if keep is None:
        order = [*value, *position] if value else []
    else:
        order = [*position, *value] if keep == 1 and (value or isinstance(asked, Count)) else []
    return order if is_packed(order) else []


def _cells(kept: Any, query: Count | Total | RowCount, unit: str | None) -> Any:
    if isinstance(query, Count) and unit is not None:
        kept = kept.select("unit", POSITION) if _single(query) else kept.select("unit", POSITION).distinct()
    if isinstance(query, Total) and query.unit_steps is not None:
        low, high = (ibis.literal(edge, "int64") for edge in query.unit_steps)
        groups = ["unit"] if query.keying is None else ["unit", POSITION]
        kept = kept.group_by(groups).aggregate(value=kept.value.sum())
        return kept.mutate(value=_clip(kept.value, low, high))
    return kept


def _collected(cells: Any, query: Count | Total | RowCount, keyed: bool) -> Any:
    return _summed(cells, query, [POSITION] if keyed else [])


def _summed(cells: Any, query: Count | Total | RowCount, groups: list[str]) -> Any:
    answer = {ANSWER: cells.value.sum() if isinstance(query, Total) else cells.count()}
    return cells.group_by(groups).aggregate(**answer) if groups else cells.aggregate(**answer)
