"""Counting the units that may still take part, or adding up what they contribute."""

import re
import weakref
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from chary.data.columns import Schema, TypeClass
from chary.data.engines.duckdb.asking.plan import halves
from chary.data.engines.duckdb.database import ROWS, Columns, Database, Offered, fresh
from chary.data.engines.duckdb.duck_dialect import DUCK
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.living_rows import LivingAnswers, LivingPlan
from chary.data.engines.expressions.positions import POSITION
from chary.data.queries.count import Count
from chary.data.queries.total import Total
from chary.data.rows.rooms import Rooms
from chary.errors import InvalidQuery

# Types of the engine whose texts differ for different values and stay the same whatever the session's settings.
_TEXTUAL = re.compile(r"boolean|date|timestamp(_s|_ms|_ns)?|uuid|u?hugeint|ubigint|decimal\(.*\)")
_COUNTED = "counted the units"


class OfferedRooms:
    """The rooms of units as temporary tables, each for as long as its `Rooms` live."""

    def __init__(self, database: Database) -> None:
        self.database = database
        # Weak, since a stream makes new rooms with each published answer and drops the old ones.
        self._offered: MutableMapping[Rooms, Offered] = weakref.WeakKeyDictionary()

    def ready(self, rooms: Rooms) -> str:
        """The name of the temporary table."""
        if rooms not in self._offered:
            self._offered[rooms] = Offered(self.database, fresh("rooms"), _columns(rooms))
        return self._offered[rooms].ready()


class Living:
    """A compiled count or total of living units: one number, or one for each key (see `LivingReading`)."""

    def __init__(self, rooms: OfferedRooms, query: Count | Total, schema: Schema, unit: str) -> None:
        """Use `living`."""
        self._rooms, self._database = rooms, rooms.database
        place = QueryPlace(ROWS, fresh("living"), DUCK)
        self._plan = LivingPlan.of(query, schema, unit, place, identity(schema, unit), place.sql)
        self._keys = None if self._plan.keys is None else Offered(self._database, place.keys, self._plan.keys)

    def run(self) -> "Living":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[LivingAnswers]:
        """One state of the rows, which cannot grow meanwhile; `EngineFailure`, naming no value, if the engine fails."""
        held: list[Offered] = []

        def named(positions: Sequence[int]) -> str:
            held[:] = [Offered(self._database, fresh("chosen"), {POSITION: ("int64", list(positions))})]
            return str(self._database.ask(lambda _: held[0].ready(), _COUNTED))

        with self._database.connection():
            table = self._database.ask(lambda _: self._offered(rooms), _COUNTED)
            yield LivingAnswers(self._plan, rooms, table, self._fetch, named, halves)

    def _offered(self, rooms: Rooms) -> str | None:
        """The tables of keys and of rooms; the name of the second, where there is one."""
        if self._keys is not None:
            self._keys.ready()
        return self._rooms.ready(rooms) if rooms.any else None

    def _fetch(self, sql: str) -> pa.Table:
        return self._database.ask(lambda connection: connection.sql(sql).to_arrow_table(), _COUNTED)

    def __repr__(self) -> str:
        return f"Living({self._plan.size} keys)"


def identity(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = schema[unit]
    if kind in (TypeClass.INTEGER, TypeClass.STRING):
        return "unit"
    if kind == TypeClass.FLOAT:
        # 0.0 and -0.0 are one unit.
        return "CAST(unit + 0.0 AS VARCHAR)"
    if _TEXTUAL.fullmatch(kind):
        return "CAST(unit AS VARCHAR)"
    raise InvalidQuery(f"units of type {kind} cannot be recognised: use a column of integers or strings")


def _columns(rooms: Rooms) -> Columns:
    units, room = (rooms.left[name].combine_chunks() for name in ("unit", "room"))
    return {"unit": ("int64" if pa.types.is_int64(units.type) else "string", units), "room": ("int64", room)}
