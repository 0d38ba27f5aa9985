"""Units that may still take part: counts of units each of which is used up after so many hits."""

import itertools
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chary.data.columns import Schema, TypeClass
from chary.data.count import Count
from chary.data.engine import ROWS, Engine, quietly
from chary.data.evaluation import POSITION, Place, evaluate
from chary.data.query import Query
from chary.data.rows import Rows
from chary.data.table import Table
from chary.errors import EngineFailure, InvalidQuery

_TEXTUAL = re.compile(r"boolean|date|timestamp(_s|_ms|_ns)?|uuid|u?hugeint|ubigint|decimal\(.*\)")
_numbers = itertools.count()


class Rooms:
    """How often some units may still take part, all others `hits` times. Secret.

    `left` has a column `unit` (int64 or string) and a column `room`. It is a temporary table of the engine as soon as a
    query needs it, again after each reconnection, and until this object goes.
    """

    def __init__(self, left: pa.Table, hits: int) -> None:
        self._left, self.hits = left, hits
        self._name, self._generation = f"chary_rooms_{next(_numbers)}", 0
        rooms = left["room"].to_numpy() if len(left) else np.array([hits])
        self.any, self.any_spent = len(left) > 0, bool(np.any(rooms == 0))
        self.least = int(rooms[rooms > 0].min(initial=hits))

    def offer(self, engine: Engine) -> str:
        """The name of the temporary table."""
        if self._generation == 0:
            weakref.finalize(self, engine.retire, self._name)
        if self._generation != engine.generation:
            units = self._left["unit"].combine_chunks()
            kind = "int64" if pa.types.is_int64(units.type) else "string"
            engine.offer(self._name, {"unit": (kind, units), "room": ("int64", self._left["room"].combine_chunks())})
            self._generation = engine.generation
        return self._name

    def __repr__(self) -> str:
        return "Rooms(<secret>)"


class Living:
    """A compiled count of living units, one number or one for each key.

    A unit takes part in a key when it has a row there that satisfies the predicate, in at most its first `room` keys in
    the order of the list (and the first `keep_per_unit`); without room it takes no part at all. So what a unit does
    follows from its own rows and its own room. Units are told apart by id: rows that are appended for a unit without
    room are ignored as well.

    >>> from chary.data import Neighbouring, count
    >>> rows = pa.table({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> table = Table.open(rows, neighbouring=Neighbouring("add/remove", "patient"))
    >>> with living(table, count("age >= 65")).at(Rooms(pa.table({"unit": [2], "room": [0]}), hits=3)) as units:
    ...     int(units.counts()[0]), units.of([0])["unit"].to_pylist()
    (1, [1])
    """

    def __init__(self, engine: Engine, query: Count, schema: Schema, unit: str) -> None:
        """Use `living`."""
        self._engine, self._name, self._generation = engine, f"chary_living_{next(_numbers)}", 0
        place = Place(ROWS, self._name)
        self._keys = evaluate(query, schema, unit, place).keys
        self.cells, self.keyed = _select(query, schema, unit, place, self._keys), self._keys is not None
        self.size = 1 if self._keys is None else len(self._keys[POSITION][1])
        self.keep = None if query.keying is None else query.keying.keep_per_unit
        weakref.finalize(self, engine.retire, self._name)

    def run(self) -> "Living":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator["LivingUnits"]:
        """One state of the rows, which cannot grow meanwhile; `EngineFailure`, naming no value, if the engine fails."""
        with self._engine.connection():
            if self._keys is not None and self._generation != self._engine.generation:
                _quiet(lambda: self._engine.offer(self._name, self._keys or {}))
                self._generation = self._engine.generation
            yield LivingUnits(self, self._engine, rooms)

    def __repr__(self) -> str:
        return f"Living({self.size} keys)"


class LivingUnits:
    """The living units of one state of the rows; made by `Living.at`."""

    def __init__(self, plan: Living, engine: Engine, rooms: Rooms) -> None:
        self._plan, self._engine, self._rooms = plan, engine, rooms
        self._table = _quiet(lambda: rooms.offer(engine)) if rooms.any else None
        self._limited = plan.keyed and self._binding()
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def counts(self) -> npt.NDArray[np.int64]:
        """How many units take part in each key; secret."""
        if self._plan.keyed:
            found = self._fetch(f"SELECT {POSITION}, count(*) AS answer FROM ({self._alive()}) GROUP BY {POSITION}")
        else:
            found = self._fetch(f"SELECT 0 AS {POSITION}, count(DISTINCT unit) AS answer FROM ({self._living_rows()})")
        self._counts = np.zeros(self._plan.size, np.int64)
        self._counts[found[POSITION].to_numpy()] = found["answer"].to_numpy()
        return self._counts

    def of(self, positions: Sequence[int]) -> pa.Table:
        """The units that take part in the keys at these positions, and in how many of them (`used`); secret."""
        with self._offered(positions) as chosen:
            part = f"SEMI JOIN {chosen} USING ({POSITION})" if self._plan.keyed else ""
            took = self._fetch(f"SELECT unit, count(*) AS used FROM ({self._alive()}) {part} GROUP BY unit")
        if (pc.sum(took["used"]).as_py() or 0) != self._counts[list(positions)].sum():
            raise EngineFailure("the rows were changed from outside while they were asked")
        return took

    @contextmanager
    def _offered(self, positions: Sequence[int]) -> Iterator[str]:
        name = f"chary_chosen_{next(_numbers)}"
        _quiet(lambda: self._engine.offer(name, {POSITION: ("int64", list(positions))}))
        try:
            yield name
        finally:
            self._engine.retire(name)

    def _living_rows(self) -> str:
        spent = f" ANTI JOIN (SELECT unit FROM {self._table} WHERE room = 0) USING (unit)"
        return f"SELECT * FROM ({self._plan.cells})" + (spent if self._rooms.any_spent else "")

    def _alive(self) -> str:
        return self._first_keys() if self._limited else self._all_alive()

    def _all_alive(self) -> str:
        return f"SELECT DISTINCT * FROM ({self._living_rows()})"

    def _first_keys(self) -> str:
        order = f"row_number() OVER (PARTITION BY unit ORDER BY {POSITION})"
        ranked = f"SELECT unit, {POSITION}, {order} AS rank FROM ({self._all_alive()})"
        if not self._rooms.any:
            return f"SELECT * FROM ({ranked}) WHERE rank <= {self._most}"
        room = f"least(coalesce(room, {self._most}), {self._most})"
        return f"SELECT unit, {POSITION} FROM ({ranked}) LEFT JOIN {self._table} USING (unit) WHERE rank <= {room}"

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
        with self._engine.connection() as connection:
            return _quiet(lambda: connection.sql(sql).to_arrow_table())

    def __repr__(self) -> str:
        return "LivingUnits(<secret>)"


def living(rows: Rows, query: Query) -> Living:
    """Compile a count of living units; `InvalidQuery` unless it is a `count` and the rows are a table of units."""
    table, unit = table_of_units(rows)
    if not isinstance(query, Count):
        raise InvalidQuery('living units are counted: ask count("age >= 65"), with by(...) for a watch')
    return Living(table._engine, query, table.schema, unit)


def table_of_units(rows: Rows) -> tuple[Table, str]:
    """The table and its unit column; `InvalidQuery` where units cannot be recognised when they are met again."""
    if not isinstance(rows, Table) or rows.neighbouring.unit is None:
        raise InvalidQuery(
            "individual charging recognises each unit by its id: open a table with privacy_unit='column' "
            "(rows without an id cannot be told apart)"
        )
    _identity(rows.schema, rows.neighbouring.unit)
    return rows, rows.neighbouring.unit


def _select(query: Count, schema: Schema, unit: str, place: Place, keys: Any) -> str:
    """The rows that count: the id of their unit and, with keys, the position of their key."""
    rows = place.table(place.rows, schema)
    if query.where is not None:
        rows = rows.filter(query.where.expression(rows, schema))
    rows = rows.filter(rows[unit].notnull())
    if keys is None or query.keying is None:
        sql = ibis.to_sql(rows.select(unit=rows[unit]), dialect="duckdb", pretty=False)
        return f"SELECT {_identity(schema, unit)} AS unit FROM ({sql})"
    public = place.table(place.keys, {name: kind for name, (kind, _) in keys.items()})
    matches = [rows[name] == public[f"k{index}"] for index, name in enumerate(query.keying.domain.columns)]
    chosen = rows.inner_join(public, matches).select(unit=rows[unit], position=public[POSITION])
    sql = ibis.to_sql(chosen, dialect="duckdb", pretty=False)
    return f"SELECT {_identity(schema, unit)} AS unit, {POSITION} FROM ({sql})"


def _identity(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = schema[unit]
    if kind in (TypeClass.INTEGER, TypeClass.STRING):
        return "unit"
    if kind == TypeClass.FLOAT:
        return "CAST(unit + 0.0 AS VARCHAR)"  # 0.0 and -0.0 are one unit
    if _TEXTUAL.fullmatch(kind):
        return "CAST(unit AS VARCHAR)"
    raise InvalidQuery(f"units of type {kind} cannot be recognised: use a column of integers or strings")


def _quiet(work: Callable[[], Any]) -> Any:
    return quietly(work, EngineFailure("the engine failed while it counted the units"))
