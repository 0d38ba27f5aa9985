"""Reading the values of a column in order."""

from typing import Any

import duckdb
import ibis
import numpy as np

from chary.data.columns import Schema
from chary.data.engines.duckdb.asking.evaluation import QueryPlace, chosen, sql_of
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.queries.ordered_values import Occurring, Ordered
from chary.data.rows.rows import Deferred


def ordering(database: Database, asked: Ordered, schema: Schema, unit: str | None) -> Deferred:
    """Reads, in one scan, the values that occur; `InvalidQuery` when that does not fit the schema."""
    sql, first = _sql(asked, schema, unit), asked.total.steps[0]

    def occurring(connection: duckdb.DuckDBPyConnection) -> Occurring:
        found = connection.execute(sql).fetchnumpy()
        places, counts = (np.asarray(found[name], dtype=np.int64) for name in ("value", "times"))
        return Occurring(places - first, counts)

    return Deferred(asked, lambda: database.ask(occurring, "put the values in order"))


def _sql(asked: Ordered, schema: Schema, unit: str | None) -> str:
    values = chosen(asked.total, schema, unit, QueryPlace(ROWS, "")).expression
    if unit is not None and asked.rows_per_unit is not None:
        values = _spread(values, asked.rows_per_unit)
    found = values.group_by("value").aggregate(times=values.count()).order_by("value")
    return sql_of(found)


def _spread(values: Any, kept: int) -> Any:
    """Of the m values of a unit, the rank r is kept where `(2 k r + m) // (2 m)` rises with r: k of them, or all m."""
    ranked = values.mutate(
        rank=ibis.row_number().over(group_by="unit", order_by="value"),
        size=values.count().over(group_by="unit"),
    )
    at, after = (
        (2 * kept * place + ranked["size"]) // (2 * ranked["size"]) for place in (ranked["rank"], ranked["rank"] + 1)
    )
    return ranked.filter(after > at)
