"""Counting living units on the server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from chary.data.columns import Schema, TypeClass
from chary.data.engines.expressions.living_rows import LivingAnswers, LivingPlan
from chary.data.engines.expressions.positions import POSITION
from chary.data.engines.postgresql.postgres_dialect import halves
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.server_plan import fresh, place_of
from chary.data.engines.postgresql.server_texts import of_double, of_moment
from chary.data.engines.postgresql.statement import Sent, Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.queries.count import Count
from chary.data.queries.total import Total
from chary.data.rows.rooms import Rooms
from chary.errors import InvalidQuery

# Types whose texts differ for different values, and follow from no setting but those of each connection.
_TEXTUAL = (TypeClass.BOOLEAN, "uuid", "numeric")
_COUNTED = "counted the units"


class ServerLiving:
    """A compiled count or total of living units (see `LivingReading`); rooms and keys are sent with each statement."""

    def __init__(self, server: Server, rows: StoredRows, query: Count | Total) -> None:
        place, unit = place_of(fresh("living")), str(rows.unit)
        self._server, self._statement = server, Statement(rows.sql)
        self._plan = LivingPlan.of(query, rows.schema, unit, place, recognised(rows.schema, unit), place.sql)
        self._kind = pa.int64() if rows.schema[unit] == TypeClass.INTEGER else pa.string()
        self._keys = [] if self._plan.keys is None else [Sent(place.keys, self._plan.keys)]

    def run(self) -> "ServerLiving":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[LivingAnswers]:
        """One state of the rows; `EngineFailure`, naming no value, if the server fails."""
        sent = [*self._keys, *([_rooms(rooms)] if rooms.any else [])]
        chosen: list[Sent] = []

        def named(positions: Sequence[int]) -> str:
            chosen[:] = [Sent(fresh("chosen"), {POSITION: ("int64", list(positions))})]
            return chosen[0].name

        def fetch(sql: str) -> pa.Table:
            return self._server.ask(lambda cursor: self._table(cursor, sql, [*sent, *chosen]), _COUNTED)

        with self._server.reading():
            yield LivingAnswers(self._plan, rooms, sent[-1].name if rooms.any else None, fetch, named, halves)

    def __repr__(self) -> str:
        return f"ServerLiving({self._plan.size} keys)"

    def _table(self, cursor: Cursor, sql: str, sent: Sequence[Sent]) -> pa.Table:
        rows = self._statement.execute(cursor, sql, sent)
        names = [column.name for column in cursor.description or ()]
        cells = zip(*rows, strict=True) if rows else [()] * len(names)
        kinds = [self._kind if name == "unit" else pa.int64() for name in names]
        return pa.table([pa.array(column, kind) for column, kind in zip(cells, kinds, strict=True)], names)


def recognised(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = schema[unit]
    if kind in (TypeClass.INTEGER, TypeClass.STRING):
        return "unit"
    if kind == TypeClass.FLOAT:
        return of_double("unit")
    if kind in (TypeClass.DATE, TypeClass.TIMESTAMP):
        return of_moment("unit")
    if kind in _TEXTUAL:
        return "CAST(unit AS text)"
    raise InvalidQuery(f"units of type {kind} cannot be recognised: use a column of integers or strings")


def _rooms(rooms: Rooms) -> Sent:
    units = rooms.left["unit"]
    kind = "int64" if pa.types.is_int64(units.type) else "string"
    return Sent("chary_rooms", {"unit": (kind, units.to_pylist()), "room": ("int64", rooms.left["room"].to_pylist())})
