"""Counts and totals of living units, by Spark."""

import weakref
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from chary.data.columns import Schema, TypeClass, classify
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.living_rows import LivingAnswers, LivingPlan
from chary.data.engines.expressions.positions import POSITION
from chary.data.engines.spark.asking.spark_plan import SparkKeys, halves
from chary.data.engines.spark.asking.spark_texts import has_text, text_of
from chary.data.engines.spark.spark_dialect import SPARK
from chary.data.engines.spark.spark_work import ROWS, Columns, SparkWork, fresh
from chary.data.queries.count import Count
from chary.data.queries.total import Total
from chary.data.rows.rooms import Rooms
from chary.errors import InvalidQuery

if TYPE_CHECKING:
    from chary.data.engines.spark.spark_rows import SparkRows

_COUNTED: Final = "counted the units"


class SparkRooms:
    """The rooms of units as small views, each for as long as its `Rooms` live."""

    def __init__(self, work: SparkWork) -> None:
        self._work = work
        # Weak, since a stream makes new rooms with each published answer and drops the old ones.
        self._offered: MutableMapping[Rooms, SparkKeys] = weakref.WeakKeyDictionary()

    def ready(self, rooms: Rooms) -> str:
        """The name of the view."""
        if rooms not in self._offered:
            self._offered[rooms] = SparkKeys(self._work, fresh("rooms"), _columns(rooms))
        return self._offered[rooms].ready()


class SparkLiving:
    """A compiled count or total of living units: see `LivingReading`."""

    def __init__(self, rows: "SparkRows", rooms: SparkRooms, query: Count | Total) -> None:
        """Use `SparkRows.living`."""
        self._rows, self._rooms, unit = rows, rooms, str(rows.unit)
        place = QueryPlace(ROWS, fresh("living"), SPARK)
        self._plan = LivingPlan.of(query, rows.schema, unit, place, identity(rows.schema, unit), place.sql)
        self._keys = None if self._plan.keys is None else SparkKeys(rows.work, place.keys, self._plan.keys)

    def run(self) -> "SparkLiving":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[LivingAnswers]:
        """One state of the rows: see `LivingReading`."""
        held: list[SparkKeys] = []

        def named(positions: Sequence[int]) -> str:
            held[:] = [SparkKeys(self._rows.work, fresh("chosen"), {POSITION: ("int64", list(positions))})]
            return held[0].ready()

        with self._rows.state():
            if self._keys is not None:
                self._keys.ready()
            table = self._rooms.ready(rooms) if rooms.any else None
            yield LivingAnswers(self._plan, rooms, table, self._fetch, named, halves)

    def _fetch(self, sql: str) -> pa.Table:
        return self._rows.work.read(sql, _COUNTED)

    def __repr__(self) -> str:
        return f"SparkLiving({self._plan.size} keys)"


def identity(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = classify(schema, unit)
    if kind is TypeClass.INTEGER:
        return "unit"
    if not has_text(schema, unit):
        raise InvalidQuery(
            f"units of type {schema[unit]} cannot be recognised by Spark: use a column of integers or strings"
        )
    return text_of("unit", kind)


def _columns(rooms: Rooms) -> Columns:
    units, room = (rooms.left[name].combine_chunks() for name in ("unit", "room"))
    return {"unit": ("int64" if pa.types.is_int64(units.type) else "string", units), "room": ("int64", room)}
