"""The values of a column in order, on a public grid: what quantiles are computed from."""

from dataclasses import dataclass
from typing import Any, Final

import ibis
import numpy as np
from numpy.typing import NDArray

from chary.data.columns import Schema
from chary.data.contribution import per_unit
from chary.data.engine import ROWS, Engine, quietly
from chary.data.evaluation import Place, valued
from chary.data.neighbouring import Neighbouring
from chary.data.predicate import Predicate
from chary.data.total import Total, read_bounds, written
from chary.errors import EngineFailure, InvalidQuery
from chary.numbers import Number, positive

Integers = NDArray[np.int64]
MOST_POINTS: Final = 2**40


@dataclass(frozen=True)
class Ordered:
    """The values of a column, clipped to bounds and rounded to multiples of a step, and how often each occurs.

    The grid of possible values is public: the bounds and the multiples of the step between them. Values are those of
    rows satisfying `where`; NULL and NaN are nobody's. Built by `ordered`.

    `rows_per_unit=k`: of a unit with more than k values, chary keeps k that are evenly spread in their order (for
    k = 1 the lower middle one), whatever others have.
    """

    total: Total
    rows_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.rows_per_unit is not None:
            object.__setattr__(self, "rows_per_unit", per_unit(self.rows_per_unit, "rows_per_unit"))

    @property
    def points(self) -> int:
        """The number of possible values."""
        low, high = self.total.steps
        return high - low + 1

    def value(self, place: int) -> int | float:
        """The possible value of that number, counted from 0."""
        found = self.total.bounds[0] + place * self.total.grid
        return int(found) if found.denominator == 1 else float(found)

    def moves(self, neighbouring: Neighbouring) -> int:
        """How many values one unit has at most; `InvalidQuery` when nothing bounds that, or nothing needs to."""
        unit, column = neighbouring.unit, self.total.column
        if unit is None and self.rows_per_unit is not None:
            raise InvalidQuery("rows_per_unit is for a privacy unit with many rows; here each row is one")
        if unit is not None and self.rows_per_unit is None:
            raise InvalidQuery(
                f"one {unit} may have many values of {column}: limit them with rows_per_unit=1, which keeps the "
                f"middle one of each {unit}"
            )
        return self.rows_per_unit or 1

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        total = self.total
        return {
            "kind": "ordered",
            "column": total.column,
            "bounds": [str(edge) for edge in total.bounds],
            "step": str(total.grid),
            "where": None if total.where is None else total.where.text,
            "rows_per_unit": self.rows_per_unit,
        }

    def describe(self) -> str:
        """Such as `age in [0, 120] step 1`."""
        low, high = (written(edge) for edge in self.total.bounds)
        where = "" if self.total.where is None else f" where {self.total.where.text}"
        return f"{self.total.column} in [{low}, {high}] step {written(self.total.grid)}{where}"


@dataclass(frozen=True)
class Occurring:
    """Which grid places occur, ascending, and how often each does. Secret."""

    places: Integers
    counts: Integers

    def __repr__(self) -> str:
        return "Occurring(<secret>)"


class OrderedPlan:
    """Reads the values in order, in one scan; made by `Table.ordered`."""

    def __init__(self, engine: Engine, asked: Ordered, schema: Schema, neighbouring: Neighbouring) -> None:
        """Compile; `InvalidQuery` when it does not fit the schema or the privacy unit."""
        asked.moves(neighbouring)
        self._engine, self._asked = engine, asked
        self.sql = _sql(asked, schema, neighbouring.unit)

    def run(self) -> Occurring:
        """The values that occur; `EngineFailure`, naming none of them, when the engine fails."""
        failure = EngineFailure("the engine failed while it put the values in order")
        with self._engine.connection() as connection:
            found = quietly(lambda: connection.execute(self.sql).fetchnumpy(), failure)
        places, counts = (np.asarray(found[name], dtype=np.int64) for name in ("value", "times"))
        return Occurring(places - self._asked.total.steps[0], counts)

    def __repr__(self) -> str:
        return f"OrderedPlan({self._asked.describe()})"


def ordered(
    column: str,
    *,
    bounds: tuple[Number, Number],
    step: Number = 1,
    where: Predicate | str | None = None,
    rows_per_unit: int | None = None,
) -> Ordered:
    """Describe the values of a column on a public grid: multiples of `step` from one bound to the other.

    `InvalidQuery` for bounds in the wrong order, off the grid, or more than 2**40 steps apart; `InvalidParameter` for
    what is no number.

    >>> ages = ordered("age", bounds=(0, 120))
    >>> ages.points, ages.value(5), ages.moves(Neighbouring("replace", None))
    (121, 5, 1)
    """
    total = Total(
        column=column, bounds=read_bounds(bounds, "bounds"), grid=positive(step, "step"), where=Predicate.of(where)
    )
    made = Ordered(total, rows_per_unit)
    if made.points > MOST_POINTS:
        raise InvalidQuery("bounds may be at most 2**40 steps apart: choose a larger step")
    return made


def _sql(asked: Ordered, schema: Schema, unit: str | None) -> str:
    values = valued(asked.total, schema, unit, Place(ROWS, ""))
    if unit is not None and asked.rows_per_unit is not None:
        values = _spread(values, asked.rows_per_unit)
    found = values.group_by("value").aggregate(times=values.count()).order_by("value")
    return str(ibis.to_sql(found, dialect="duckdb", pretty=False))


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
