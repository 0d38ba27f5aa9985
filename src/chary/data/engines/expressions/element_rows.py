"""Which elements a sketch counts, as rows of one column."""

from typing import Any

import ibis

from chary.data.columns import Schema
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.queries.elements import Elements
from chary.errors import InvalidQuery


def element_column(asked: Elements, unit: str | None) -> str:
    """The column whose values are the elements; `InvalidQuery` where each row is a unit and no column is named."""
    column = unit if asked.of is None else asked.of
    if column is None:
        raise InvalidQuery("where each row is a unit of its own, name the column whose values are counted: of='column'")
    return column


def element_rows(asked: Elements, schema: Schema, unit: str | None, place: QueryPlace) -> Any:
    """The distinct elements of the rows, in a column `element`; of each unit the smallest, if there is a limit."""
    column = element_column(asked, unit)
    table = place.where(place.table(place.rows, schema), schema, asked.where)
    # Not a set, whose order differs between processes: one question has one text.
    for needed in dict.fromkeys([column] if unit is None else [column, unit]):
        table = table.filter(table[needed].notnull())
    if asked.keep_per_unit is None or unit is None:
        return table.select(element=table[column]).distinct()
    pairs = table.select(unit=table[unit], element=table[column]).distinct()
    ranked = pairs.mutate(rank=ibis.row_number().over(group_by="unit", order_by="element"))
    return ranked.filter(ranked["rank"] < asked.keep_per_unit).select("element").distinct()
