"""Reading the values of a column in order."""

from typing import Any

import duckdb
import ibis
import numpy as np

from chary.data.columns import Schema
from chary.data.engines.duckdb.asking.evaluation import QueryPlace, chosen, sql_of
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.queries.ordered_values import Occurring, Ordered, UnitValues
from chary.data.rows.rows import Deferred


def ordering(database: Database, asked: Ordered, schema: Schema, unit: str | None) -> Deferred:
    """Reads, in one scan, the values that occur; `InvalidQuery` when that does not fit the schema."""
    sql, first = _sql(asked, schema, unit), asked.total.steps[0]

    def occurring(connection: duckdb.DuckDBPyConnection) -> Occurring | UnitValues:
        found = connection.execute(sql).fetchnumpy()
        places, counts = (np.asarray(found[name], dtype=np.int64) for name in ("value", "times"))
        if asked.of_unit == "random":
            return UnitValues(places - first, np.cumsum(counts == 1))
        return Occurring(places - first, counts)

    return Deferred(asked, lambda: database.ask(occurring, "put the values in order"))


def _sql(asked: Ordered, schema: Schema, unit: str | None) -> str:
    values = chosen(asked.total, schema, unit, QueryPlace(ROWS, "")).expression
    if unit is None or asked.rows_per_unit is None:
        return _counted(values)
    if asked.of_unit == "random":
        return sql_of(_ranked(values).order_by(["unit", "times"]).select("value", "times"))
    if asked.of_unit == "mean":
        return _counted(_means(values, asked.total.steps[0]))
    return _counted(_spread(values, asked.rows_per_unit), weighted=asked.of_unit == "weighted")


def _counted(values: Any, *, weighted: bool = False) -> str:
    times = values.weight.sum().cast("int64") if weighted else values.count()
    return sql_of(values.group_by("value").aggregate(times=times).order_by("value"))


def _ranked(values: Any) -> Any:
    """With the number of each value among those of its unit, from 1."""
    return values.mutate(times=ibis.row_number().over(group_by="unit", order_by="value") + 1)


def _means(values: Any, first: int) -> Any:
    """One value for each unit: the mean in whole steps, halves upwards; counted from the first step, so from 0."""
    shifted = values.mutate(above=values["value"] - ibis.literal(first, "int64"))
    summed = shifted.group_by("unit").aggregate(total=shifted.above.sum(), size=shifted.count())
    nearest = (2 * summed["total"] + summed["size"]) // (2 * summed["size"])
    return summed.select(value=nearest.cast("int64") + ibis.literal(first, "int64"))


def _spread(values: Any, kept: int) -> Any:
    """The rank r of the m values of a unit has as much weight as `(2 k r + m) // (2 m)` rises by: k in all.

    Of more than k values k have a weight, of 1.
    """
    ranked = values.mutate(
        rank=ibis.row_number().over(group_by="unit", order_by="value"),
        size=values.count().over(group_by="unit"),
    )
    at, after = (
        (2 * kept * place + ranked["size"]) // (2 * ranked["size"]) for place in (ranked["rank"], ranked["rank"] + 1)
    )
    return ranked.mutate(weight=after - at).filter(after > at)
