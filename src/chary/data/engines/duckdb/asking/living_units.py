"""Counting the units that may still take part, or adding up what they contribute."""

import re
import weakref
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chary.data.columns import Schema, TypeClass
from chary.data.engines.duckdb.asking.evaluation import POSITION, QueryPlace, chosen, shares, sql_of
from chary.data.engines.duckdb.asking.plan import halves, scattered
from chary.data.engines.duckdb.database import ROWS, Columns, Database, Offered, fresh
from chary.data.queries.count import Count
from chary.data.queries.total import Total
from chary.data.rows.rooms import Rooms
from chary.errors import EngineFailure, InvalidQuery

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
        self.rooms, self.database = rooms, rooms.database
        place = QueryPlace(ROWS, fresh("living"))
        self.summed = isinstance(query, Total)
        found = shares(query, schema, unit, place) if isinstance(query, Total) else chosen(query, schema, unit, place)
        keys = found.keys
        self.columns = "".join([", position" if keys is not None else "", ", value" if self.summed else ""])
        self.cells = f"SELECT {identity(schema, unit)} AS unit{self.columns} FROM ({sql_of(found.expression)})"
        self.keys = None if keys is None else Offered(self.database, place.keys, keys)
        self.size = 1 if keys is None else len(keys[POSITION][1])
        self.keep = None if query.keying is None else query.keying.keep_per_unit

    def run(self) -> "Living":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator["DuckLivingUnits"]:
        """One state of the rows, which cannot grow meanwhile; `EngineFailure`, naming no value, if the engine fails."""
        with self.database.connection():
            yield DuckLivingUnits(self, rooms)

    def __repr__(self) -> str:
        return f"Living({self.size} keys)"


class DuckLivingUnits:
    """The living units of one state of the rows; made by `Living.at`."""

    def __init__(self, plan: Living, rooms: Rooms) -> None:
        self._plan, self._rooms = plan, rooms
        self._table = plan.database.ask(lambda _: self._offered(), _COUNTED)
        self._limited = plan.keys is not None and self._binding()
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def answers(self) -> npt.NDArray[Any]:
        """How many units take part in each key, or what they add up to in steps; secret."""
        if not self._plan.summed:
            return self._counted()
        place = "0" if self._plan.keys is None else POSITION
        sums = f"SELECT {place} AS {POSITION}, count(*) AS units, sum(value) AS total FROM ({self._alive()}) GROUP BY 1"
        found = self._fetch(f"SELECT {POSITION}, units, {halves('total')} FROM ({sums})")
        columns = {name: found[name].to_numpy() for name in found.column_names}
        self._counts = np.zeros(self._plan.size, np.int64)
        self._counts[columns[POSITION]] = columns["units"]
        return scattered(columns, self._plan.size)

    def _counted(self) -> npt.NDArray[np.int64]:
        if self._plan.keys is not None:
            found = self._fetch(f"SELECT {POSITION}, count(*) AS answer FROM ({self._alive()}) GROUP BY {POSITION}")
        else:
            found = self._fetch(f"SELECT 0 AS {POSITION}, count(DISTINCT unit) AS answer FROM ({self._living_rows()})")
        self._counts = np.zeros(self._plan.size, np.int64)
        self._counts[found[POSITION].to_numpy()] = found["answer"].to_numpy()
        return self._counts

    def of(self, positions: Sequence[int]) -> pa.Table:
        """The units that take part in the keys at these positions, and in how many of them (`used`); secret."""
        database, part = self._plan.database, ""
        named = Offered(database, fresh("chosen"), {POSITION: ("int64", list(positions))})
        if self._plan.keys is not None:
            part = f"SEMI JOIN {database.ask(lambda _: named.ready(), _COUNTED)} USING ({POSITION})"
        took = self._fetch(f"SELECT unit, count(*) AS used FROM ({self._alive()}) {part} GROUP BY unit")
        if (pc.sum(took["used"]).as_py() or 0) != self._counts[list(positions)].sum():
            raise EngineFailure("the rows were changed from outside while they were asked")
        return took

    def _offered(self) -> str | None:
        """The tables of keys and of rooms; the name of the second, where there is one."""
        if self._plan.keys is not None:
            self._plan.keys.ready()
        return self._plan.rooms.ready(self._rooms) if self._rooms.any else None

    def _living_rows(self) -> str:
        spent = f" ANTI JOIN (SELECT unit FROM {self._table} WHERE room = 0) USING (unit)"
        return f"SELECT * FROM ({self._plan.cells})" + (spent if self._rooms.any_spent else "")

    def _alive(self) -> str:
        return self._first_keys() if self._limited else self._all_alive()

    def _all_alive(self) -> str:
        return f"SELECT DISTINCT * FROM ({self._living_rows()})"

    def _first_keys(self) -> str:
        order = f"row_number() OVER (PARTITION BY unit ORDER BY {POSITION})"
        ranked = f"SELECT *, {order} AS rank FROM ({self._all_alive()})"
        if not self._rooms.any:
            return f"SELECT * FROM ({ranked}) WHERE rank <= {self._most}"
        room = f"least(coalesce(room, {self._most}), {self._most})"
        return (
            f"SELECT unit{self._plan.columns} FROM ({ranked}) LEFT JOIN {self._table} USING (unit) WHERE rank <= {room}"
        )

    @property
    def _most(self) -> int:
        return min(self._rooms.hits, self._plan.keep or self._rooms.hits)

    def _binding(self) -> bool:
        """Whether a living unit might be in more keys than it has room for: it has a row in each of its keys."""
        most = min(self._most, self._rooms.least)
        if self._plan.size <= most:
            return False
        rows = f"SELECT count(*) AS rows FROM ({self._plan.cells}) GROUP BY unit"
        largest = self._fetch(f"SELECT coalesce(max(rows), 0) AS largest FROM ({rows})")
        return bool(largest["largest"][0].as_py() > most)

    def _fetch(self, sql: str) -> pa.Table:
        return self._plan.database.ask(lambda connection: connection.sql(sql).to_arrow_table(), _COUNTED)

    def __repr__(self) -> str:
        return "LivingUnits(<secret>)"


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
