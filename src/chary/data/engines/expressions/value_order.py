"""Values of a column in order: which of the rows' values count for a unit, and how often."""

from typing import Any

import ibis
import numpy as np
import numpy.typing as npt

from chary.data.columns import Schema
from chary.data.engines.expressions.dialect import Dialect, QueryPlace
from chary.data.engines.expressions.evaluation import chosen
from chary.data.queries.ordered_values import Occurring, Ordered, UnitValues


def ordered_rows(asked: Ordered, schema: Schema, unit: str | None, place: QueryPlace) -> Any:
    """Each `value` in steps and the `times` it counts; `InvalidQuery` when it does not fit the schema.

    Where values are drawn at random, `times` is the number of the value among those of its unit, from 1.
    """
    values = chosen(asked.total, schema, unit, place).expression
    if unit is None or asked.rows_per_unit is None:
        return _counted(values)
    if asked.of_unit == "random":
        return _ranked(values).order_by(["unit", "times"]).select("value", "times")
    if asked.of_unit == "mean":
        return _counted(_means(values, asked.total.steps[0], place.dialect))
    spread = _spread(values, asked.rows_per_unit, place.dialect)
    return _counted(spread, weighted=asked.of_unit == "weighted")


def in_order(asked: Ordered, values: npt.ArrayLike, times: npt.ArrayLike) -> Occurring | UnitValues:
    """What the columns of `ordered_rows` say."""
    places, counts = np.asarray(values, dtype=np.int64), np.asarray(times, dtype=np.int64)
    if asked.of_unit == "random":
        return UnitValues(places - asked.total.steps[0], np.cumsum(counts == 1))
    return Occurring(places - asked.total.steps[0], counts)


def _counted(values: Any, *, weighted: bool = False) -> Any:
    times = values.weight.sum().cast("int64") if weighted else values.count()
    return values.group_by("value").aggregate(times=times).order_by("value")


def _ranked(values: Any) -> Any:
    """With the number of each value among those of its unit, from 1."""
    return values.mutate(times=ibis.row_number().over(group_by="unit", order_by="value") + 1)


def _means(values: Any, first: int, dialect: Dialect) -> Any:
    """One value for each unit: the mean in whole steps, halves upwards; counted from the first step, so from 0."""
    shifted = values.mutate(above=values["value"] - ibis.literal(first, "int64"))
    summed = shifted.group_by("unit").aggregate(total=shifted.above.sum(), size=shifted.count())
    nearest = dialect.quotient(2 * summed["total"] + summed["size"], 2 * summed["size"])
    return summed.select(value=nearest.cast("int64") + ibis.literal(first, "int64"))


def _spread(values: Any, kept: int, dialect: Dialect) -> Any:
    """The rank r of the m values of a unit has as much weight as `(2 k r + m) // (2 m)` rises by: k in all.

    Of more than k values k have a weight, of 1.
    """
    ranked = values.mutate(
        rank=ibis.row_number().over(group_by="unit", order_by="value"),
        size=values.count().over(group_by="unit"),
    )
    at, after = (
        dialect.quotient(2 * kept * place + ranked["size"], 2 * ranked["size"])
        for place in (ranked["rank"], ranked["rank"] + 1)
    )
    return ranked.mutate(weight=after - at).filter(after > at)
