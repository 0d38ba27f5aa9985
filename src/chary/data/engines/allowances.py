"""Allowances of units in SQL: answers over units that may still take part, and the units that an answer used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chary.data.columns import Schema
from chary.data.engines.compiler import POSITION, QueryPlace, chosen, scattered, shares
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Rooms
from chary.errors import EngineError


@dataclass(frozen=True)
class LivingPlan:
    """The cells of a count or sum, as SQL: the unit's identity, and the `position` and the `value`, if there are any.

    `columns` are the names behind the unit, `keys` the columns of the table of keys, `keep` the first keys that count.
    """

    cells: str
    columns: str
    keys: Mapping[str, tuple[str, list[Any]]] | None
    size: int
    keep: int | None
    summed: bool

    @classmethod
    def of(
        cls,
        query: Count | Sum,
        schema: Schema,
        unit: str,
        place: QueryPlace,
        identity: str,
        written: Callable[[Any], str],
    ) -> "LivingPlan":
        """Compile; `identity` is SQL for the column `unit`, `written` makes SQL of an expression."""
        summed = isinstance(query, Sum)
        found = shares(query, schema, unit, place) if isinstance(query, Sum) else chosen(query, schema, unit, place)
        keys = found.keys
        columns = "".join([f", {POSITION}" if keys is not None else "", ", value" if summed else ""])
        cells = f"SELECT {identity} AS unit{columns} FROM ({written(found.expression)}) AS found"
        size = 1 if keys is None else len(keys[POSITION][1])
        return cls(
            cells, columns, keys, size, None if query.keying is None else query.keying.max_groups_per_unit, summed
        )


@dataclass(frozen=True)
class LivingSQL:
    """What is asked of the living units; `table` is where rooms are, None where every unit has all of its room."""

    plan: LivingPlan
    rooms: Rooms
    table: str | None
    limited: bool

    @property
    def most(self) -> int:
        """In how many keys a unit with all its room takes part at most."""
        return min(self.rooms.hits, self.plan.keep or self.rooms.hits)

    @property
    def largest(self) -> str:
        """In how many rows of cells one unit is at most."""
        rows = f"SELECT count(*) AS times FROM ({self.plan.cells}) AS cells GROUP BY unit"
        return f"SELECT coalesce(max(times), 0) AS largest FROM ({rows}) AS counted"

    @property
    def counted(self) -> str:
        """How many units take part in each position."""
        if self.plan.keys is not None:
            return f"SELECT {POSITION}, count(*) AS answer FROM ({self.alive}) AS alive GROUP BY {POSITION}"
        units = f"SELECT DISTINCT unit FROM ({self._living_rows}) AS living"
        return f"SELECT 0 AS {POSITION}, count(*) AS answer FROM ({units}) AS alive"

    def summed(self, halves: Callable[[str], str]) -> str:
        """How many units take part in each position, and what they add up to."""
        place = "0" if self.plan.keys is None else POSITION
        sums = f"SELECT {place} AS {POSITION}, count(*) AS units, sum(value) AS total FROM ({self.alive}) AS alive"
        return f"SELECT {POSITION}, units, {halves('total')} FROM ({sums} GROUP BY 1) AS summed"

    def took(self, chosen: str | None) -> str:
        """The units that take part, and in how many of the positions that the table `chosen` names, or of all."""
        part = "" if chosen is None else f" WHERE {POSITION} IN (SELECT {POSITION} FROM {chosen})"
        return f"SELECT unit, count(*) AS used FROM ({self.alive}) AS alive{part} GROUP BY unit"

    @property
    def alive(self) -> str:
        """Each unit in each position in which it takes part."""
        return self._first_keys if self.limited else self._all_alive

    @property
    def _living_rows(self) -> str:
        if not self.rooms.any_spent:
            return self.plan.cells
        spent = f"SELECT 1 FROM {self.table} AS spent WHERE spent.unit = cells.unit AND spent.room = 0"
        return f"SELECT cells.* FROM ({self.plan.cells}) AS cells WHERE NOT EXISTS ({spent})"

    @property
    def _all_alive(self) -> str:
        return f"SELECT DISTINCT * FROM ({self._living_rows}) AS living"

    @property
    def _first_keys(self) -> str:
        order = f"row_number() OVER (PARTITION BY unit ORDER BY {POSITION})"
        ranked = f"SELECT alive.*, {order} AS rank FROM ({self._all_alive}) AS alive"
        if not self.rooms.any:
            return f"SELECT unit{self.plan.columns} FROM ({ranked}) AS ranked WHERE rank <= {self.most}"
        room = f"least(coalesce(room, {self.most}), {self.most})"
        joined = f"({ranked}) AS ranked LEFT JOIN {self.table} AS rooms USING (unit)"
        return f"SELECT unit{self.plan.columns} FROM {joined} WHERE rank <= {room}"


class LivingAnswers:
    """The living units of one state of the rows; see `LivingUnits`.

    `fetch` runs SQL and yields an Arrow table, `naming` makes a table of positions and tells its name.
    """

    def __init__(
        self,
        plan: LivingPlan,
        rooms: Rooms,
        table: str | None,
        fetch: Callable[[str], pa.Table],
        naming: Callable[[Sequence[int]], str],
        halves: Callable[[str], str],
    ) -> None:
        self._plan, self._fetch, self._naming, self._halves = plan, fetch, naming, halves
        asked = LivingSQL(plan, rooms, table, False)
        self._asked = LivingSQL(plan, rooms, table, self._binding(asked))
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def answers(self) -> npt.NDArray[Any]:
        """How many units take part in each key, or what they add up to in steps; secret."""
        found = self._fetch(self._asked.summed(self._halves) if self._plan.summed else self._asked.counted)
        columns = {name: found[name].to_numpy() for name in found.column_names}
        self._counts = np.zeros(self._plan.size, np.int64)
        self._counts[columns[POSITION]] = columns["units" if self._plan.summed else "answer"]
        return scattered(columns, self._plan.size) if self._plan.summed else self._counts

    def of(self, positions: Sequence[int]) -> pa.Table:
        """The units that take part in the keys at these positions, and in how many of them (`used`); secret."""
        chosen = None if self._plan.keys is None else self._naming(positions)
        took = self._fetch(self._asked.took(chosen))
        if (pc.sum(took["used"]).as_py() or 0) != self._counts[list(positions)].sum():
            raise EngineError("the rows were changed from outside while they were asked")
        return took

    def _binding(self, asked: LivingSQL) -> bool:
        """Whether a living unit might be in more keys than it has room for: it has a row in each of its keys."""
        most = min(asked.most, asked.rooms.least)
        if self._plan.keys is None or self._plan.size <= most:
            return False
        return bool(self._fetch(asked.largest)["largest"][0].as_py() > most)

    def __repr__(self) -> str:
        return "LivingUnits(<secret>)"


def columns_of(rooms: Rooms) -> dict[str, tuple[str, Any]]:
    """The table of allowances that an engine joins: each unit, and how often it may still take part."""
    units, room = (rooms.left[name].combine_chunks() for name in ("unit", "room"))
    return {"unit": ("int64" if pa.types.is_int64(units.type) else "string", units), "room": ("int64", room)}
