"""Readings compiled to SQL once, for every engine that runs it: queries, values in order, elements, active units."""

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet, finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chary.data.columns import SQL_TYPES, Schema, TypeClass, Unparsed, classify, quote
from chary.data.engines import compiler
from chary.data.engines.compiler import POSITION, Dialect, QueryPlace
from chary.data.engines.protocol import EngineRows
from chary.data.partition import RowPart
from chary.data.queries.ordered import Elements, Mark, Ordered, Words
from chary.data.queries.query import Query
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Answer, Deferred, Rooms
from chary.errors import EngineError, InvalidQuery

# Columns of a source, each brought to one of the few types that chary computes with.


@dataclass(frozen=True)
class Column:
    """One column of a source: its name, the name of its type for people, and the SQL that yields the class's type."""

    name: str
    type: str
    sql: str


def select(columns: Sequence[Column], relation: str) -> str:
    """The query that brings every column of a relation to its class."""
    return f"SELECT {', '.join(f'{column.sql} AS {quote(column.name)}' for column in columns)} FROM {relation}"


def shared_class(columns: Sequence[Column]) -> TypeClass | None:
    """The class that all values of some columns have or can be brought to, if there is one."""
    types = {column.type for column in columns}
    if types == {TypeClass.INTEGER, TypeClass.FLOAT}:
        return TypeClass.FLOAT
    return TypeClass(types.pop()) if len(types) == 1 and types <= set(SQL_TYPES) else None


# Small tables that go with a question: its keys, the rooms of units, chosen positions.

ARROW: Final[Mapping[str, pa.DataType]] = {
    TypeClass.BOOLEAN: pa.bool_(),
    TypeClass.INTEGER: pa.int64(),
    TypeClass.FLOAT: pa.float64(),
    TypeClass.STRING: pa.string(),
    TypeClass.DATE: pa.date32(),
    # Microseconds are what engines count: nothing is rounded.
    TypeClass.TIMESTAMP: pa.timestamp("us"),
}
_numbers = itertools.count()


def fresh(kind: str) -> str:
    """A name that no other small table of this process has."""
    return f"chary_{kind}_{next(_numbers)}"


class SmallTable:
    """A table that goes with questions: its columns by name, each as type and values. Secret."""

    def __init__(self, name: str, columns: Mapping[str, tuple[str, Any]]) -> None:
        """The name comes from `fresh`."""
        self.name, self.columns = name, columns

    @property
    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return pa.table({column: pa.array(values, ARROW[kind]) for column, (kind, values) in self.columns.items()})

    @cached_property
    def lists(self) -> list[list[Any]]:
        """The values of each column."""
        return [values.to_pylist() if hasattr(values, "to_pylist") else values for _, values in self.columns.values()]

    def __repr__(self) -> str:
        return f"SmallTable({self.name})"


class SmallTables:
    """Which small tables an engine has made: each when it is first needed, and gone some time after its object is."""

    def __init__(self) -> None:
        self._made: WeakSet[SmallTable] = WeakSet()
        self._unused: deque[str] = deque()

    def missing(self, tables: Sequence[SmallTable]) -> Iterator[SmallTable]:
        """Those that have to be made; each is taken as made once the next one is asked for."""
        for table in tables:
            if table not in self._made:
                # It may run in any thread at any moment, so it takes no lock: appending to a deque needs none.
                finalize(table, self._unused.append, table.name)
                yield table
                self._made.add(table)

    def unused(self) -> Iterator[str]:
        """The names of the tables that are needed no more."""
        while self._unused:
            yield self._unused.popleft()

    def forget(self) -> None:
        """Take none as made: the connection that held them is gone."""
        self._made.clear()


# What every engine that runs SQL does itself; all below follows from it.

ROWS: Final = "chary_rows"
"""The rows in SQL, in every engine."""
_ANSWERED: Final = "answered the query"
_SORTED: Final = "put the values in order"
_COUNTED: Final = "counted the units"
Reads = Callable[[str], Any]


class Backend(EngineRows, Protocol):
    """A connection, a dialect, and how small tables get there. Messages of `EngineError` end with `doing`.

    `reads_from` and `arrivals` are the relations of all readings: `ROWS` and `ARRIVALS`, or those of an earlier state.
    """

    unit: str | None
    dialect: ClassVar[Dialect]
    reads_from: str
    arrivals: str

    def number(self, sql: str, doing: str) -> int:
        """The one number that SQL yields, however large; 0 for NULL."""

    def numbers(self, sql: str, tables: Sequence[SmallTable], doing: str) -> Mapping[str, npt.NDArray[Any]]:
        """Columns of 64-bit integers by name, by the engine's own fastest way; the tables are there meanwhile."""

    def arrow(self, sql: str, tables: Sequence[SmallTable], doing: str) -> pa.Table:
        """The same as an Arrow table, in which a column `unit` holds integers or strings."""

    def words(self, key: str, text: str, chosen: str) -> Words:
        """The first 64 bits of SHA-256 of key and `text`, which is SQL on `element`, for each row that is `chosen`."""

    def place(self, keys: str, part: RowPart | None, dialect: Dialect | None = None) -> QueryPlace:
        """Where a reading of these rows finds them, and its keys."""

    def since(self, mark: Mark | None) -> tuple[str, Mark]:
        """A relation that has at least the rows that came since a mark, and a new mark at the end of that relation."""

    def remembering(self, asked: Any, part: RowPart | None, doing: str) -> Callable[[Reads], Any]:
        """What answers one plan, given what reads a relation: an engine may read less, and never answers otherwise."""


class SQLRows(Backend):
    """Rows of an engine that runs SQL, so far as all do the same; see `EngineRows`."""

    reads_from, arrivals = ROWS, compiler.ARRIVALS

    def __init__(self, unit: str | None) -> None:
        self.unit = unit
        # Tells marks of these rows from marks of rows that another process, or this one earlier, had opened.
        self.name = uuid.uuid4().hex
        # Weak, since a stream makes new rooms with each published answer and drops the old ones.
        self._rooms: MutableMapping[Rooms, SmallTable] = WeakKeyDictionary()

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return {}

    @property
    def knows_arrival(self) -> bool:
        return False

    def compile(self, query: Query, part: RowPart | None = None) -> "EnginePlan":
        return EnginePlan(self, query, part)

    def ordered(self, asked: Ordered, part: RowPart | None = None) -> Deferred:
        return _ordering(self, asked, part)

    def elements(self, asked: Elements, part: RowPart | None = None) -> "ElementReader":
        return ElementReader(self, asked, part)

    def living(self, query: Count | Sum, part: RowPart | None = None) -> "Living":
        return Living(self, query, self._rooms, part)

    def as_of(self, batch: int, size: int | None) -> EngineRows:
        raise InvalidQuery(f"rows of earlier versions cannot be told apart{self.dialect.by}: ask about those of now")

    def place(self, keys: str, part: RowPart | None, dialect: Dialect | None = None) -> QueryPlace:
        """Where a reading of these rows finds them, and its keys."""
        return QueryPlace(self.reads_from, keys, dialect or self.dialect, part, self.arrivals)

    def relation(self, part: RowPart | None, rows: str | None = None) -> str:
        """SQL of the rows, or of those of a part, to be read from."""
        if part is None:
            return rows or self.reads_from
        place = self.place("", part)
        return f"({place.sql(place.read(self.schema, self.unit))}) AS part"

    def check_units(self) -> None:
        identity(self.schema, str(self.unit), self.dialect)

    def since(self, mark: Mark | None) -> tuple[str, Mark]:
        return self.reads_from, Mark(self.name, 0)

    def remembering(self, asked: Any, part: RowPart | None, doing: str) -> Callable[[Reads], Any]:
        return lambda read: read(self.reads_from)


class _Written:
    """The SQL of an expression on all rows, and on some of them once it is asked for."""

    def __init__(self, place: QueryPlace, written: Callable[[QueryPlace], str]) -> None:
        self._place, self._written = place, written
        self._sql = {place.rows: written(place)}

    def on(self, rows: str) -> str:
        """The SQL on that relation."""
        if rows not in self._sql:
            self._sql[rows] = self._written(replace(self._place, rows=rows))
        return self._sql[rows]


# Running a compiled query.

# Compiling takes longer than asking a small table, and follows from the query and the columns. So what was compiled for
# one table serves the next one of such columns. Of long lists of keys nothing is kept once their table is gone.
_PLANS: Final = 256
_MOST_KEYS: Final = 1000
# Stands for the table of keys, of which each plan has its own. No text of a query can hold it.
_ANY_KEYS: Final = f"chary_keys_{uuid.uuid4().hex}"


@dataclass(frozen=True)
class _Compiled:
    """SQL, the columns of its keys, and how many positions its answers have; None for a single answer."""

    sql: str
    keys: Mapping[str, tuple[str, list[Any]]] | None
    length: int | None


@lru_cache(maxsize=_PLANS)
def _compiled(query: Query, schema: tuple[tuple[str, str], ...], unit: str | None, place: QueryPlace) -> _Compiled:
    found = compiler.evaluate(query, dict(schema), unit, place)
    length = found.positions if found.keys is None else len(found.keys[POSITION][1])
    return _Compiled(_statement(place, found.expression, length), found.keys, length)


def _statement(place: QueryPlace, expression: Any, length: int | None) -> str:
    sql, halves = place.sql(expression), place.dialect.halves(compiler.ANSWER)
    return sql if length is None else f"SELECT {POSITION}, {halves} FROM ({sql}) AS answered"


class EnginePlan:
    """SQL compiled once from a query; each `run` is one scan of one state of the rows, or less: see `remembering`."""

    def __init__(self, backend: Backend, query: Query, part: RowPart | None = None) -> None:
        """Compile; `InvalidQuery` where the query does not fit the schema."""
        self.query, self._backend = query, backend
        self._place = backend.place(fresh("keys"), part, backend.dialect.of(query))
        keep = part is None and len(query.keys or ()) <= _MOST_KEYS
        found = (_compiled if keep else _compiled.__wrapped__)(
            query, tuple(backend.schema.items()), backend.unit, replace(self._place, keys=_ANY_KEYS)
        )
        self._keys = [] if found.keys is None else [SmallTable(self._place.keys, found.keys)]
        self._length = found.length
        self._sql = {backend.reads_from: found.sql.replace(_ANY_KEYS, self._place.keys)}
        self._answer = backend.remembering(query, part, _ANSWERED)

    @property
    def sql(self) -> str:
        """What is asked of all rows."""
        return self._sql[self._place.rows]

    def run(self) -> Answer:
        """The exact answer: an int, or an int64 array in key order with 0 for keys without rows.

        The array holds Python integers instead when one does not fit into 64 bits. Any failure of the engine is an
        `EngineError` that names no value.
        """
        answer: Answer = self._answer(self.read)
        return answer

    def read(self, rows: str) -> Answer:
        """The answer of a relation with the columns of the rows."""
        if rows not in self._sql:
            place = replace(self._place, rows=rows)
            found = compiler.evaluate(self.query, self._backend.schema, self._backend.unit, place)
            self._sql[rows] = _statement(place, found.expression, self._length)
        if self._length is None:
            return self._backend.number(self._sql[rows], _ANSWERED)
        return compiler.scattered(self._backend.numbers(self._sql[rows], self._keys, _ANSWERED), self._length)

    def __repr__(self) -> str:
        return f"EnginePlan({self.query.describe()})"


# Reading the values of a column in order.


def _ordering(backend: Backend, asked: Ordered, part: RowPart | None) -> Deferred:
    def compiled(place: QueryPlace) -> compiler.Evaluation:
        return compiler.ordered_rows(asked, backend.schema, backend.unit, place)

    def read(rows: str) -> Any:
        return compiler.in_order(asked, backend.numbers(sql.on(rows), keys, _SORTED))

    place, answer = backend.place(fresh("keys"), part), backend.remembering(asked, part, _SORTED)
    offered = None if asked.keys is None else compiled(place).keys
    keys = [] if offered is None else [SmallTable(place.keys, offered)]
    sql = _Written(place, lambda place: place.sql(compiled(place).expression))
    return Deferred(asked, lambda: answer(read))


# Reading elements as keyed 64-bit words.

# A letter for the kind keeps the number 1 and the text '1' apart; a boolean is a number.
_LETTERS: Final = {
    TypeClass.BOOLEAN: "i",
    TypeClass.INTEGER: "i",
    TypeClass.STRING: "s",
    TypeClass.FLOAT: "f",
    TypeClass.DATE: "d",
    TypeClass.TIMESTAMP: "t",
    TypeClass.OTHER: "o",
}


class ElementReader:
    """Reads the words of elements: see `ElementReading`. `run` returns the reader itself: nothing is read yet."""

    def __init__(self, backend: Backend, asked: Elements, part: RowPart | None) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as strings."""

        def written(place: QueryPlace) -> str:
            return place.sql(compiler.element_rows(asked, backend.schema, backend.unit, place))

        self._backend = backend
        self._text = _element(backend.schema, compiler.element_column(asked, backend.unit), backend.dialect)
        self._chosen = _Written(backend.place("", part), written)
        # Which of the new rows are in the first parts of their units follows from the earlier ones.
        self._again = part is not None and part.first is not None

    def run(self) -> "ElementReader":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read. Both are secret, as is the key.

        With the mark of an earlier reading of the same table, only rows appended since are read, where they are kept in
        this process. Otherwise all rows are, which changes no sketch of the same key. `EngineError`, naming neither
        values nor the key, when the engine fails.
        """
        with self._backend.one_state():
            rows, mark = self._backend.since(None if self._again else since)
            return self._backend.words(key, self._text, self._chosen.on(rows)), mark

    def __repr__(self) -> str:
        return "ElementReader()"


def _element(schema: Schema, column: str, dialect: Dialect) -> str:
    """SQL for the text that is hashed of an `element`."""
    kind = classify(schema, column)
    text = dialect.text_of("element", schema[column])
    if kind is TypeClass.BOOLEAN:
        text = dialect.text_of("CAST(element AS integer)", TypeClass.INTEGER)
    if text is None:
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements{dialect.by}")
    return f"'{_LETTERS[kind]}' || {text}"


# Allowances of units in SQL: answers over units that may still take part, and the units that an answer used.


def identity(schema: Schema, unit: str, dialect: Dialect) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = schema[unit]
    text = "unit" if kind == TypeClass.INTEGER else dialect.text_of("unit", kind)
    if text is None:
        raise InvalidQuery(
            f"units of type {kind} cannot be recognised{dialect.by}: use a column of integers or strings"
        )
    return text


@dataclass(frozen=True)
class LivingPlan:
    """The cells of a count or sum, as SQL: the unit's identity, and the `position` and the `value`, if there are any.

    `columns` are the names behind the unit, `keys` the table of keys, `keep` the first keys that count.
    """

    cells: str
    columns: str
    keys: SmallTable | None
    size: int
    keep: int | None
    summed: bool

    @classmethod
    def of(cls, query: Count | Sum, schema: Schema, unit: str, place: QueryPlace) -> "LivingPlan":
        """Compile; `InvalidQuery` where the query does not fit, or units cannot be recognised."""
        summed, told = isinstance(query, Sum), identity(schema, unit, place.dialect)
        found = compiler.parts(query, schema, unit, place)
        keys = None if found.keys is None else SmallTable(place.keys, found.keys)
        columns = "".join([f", {POSITION}" if keys is not None else "", ", value" if summed else ""])
        cells = f"SELECT {told} AS unit{columns} FROM ({place.sql(found.expression)}) AS found"
        size = 1 if found.keys is None else len(found.keys[POSITION][1])
        keep = None if query.keying is None else query.keying.max_groups_per_unit
        return cls(cells, columns, keys, size, keep, summed)


class LivingAnswers:
    """The active units of one state of the rows; see `LivingUnits`."""

    def __init__(self, backend: Backend, plan: LivingPlan, rooms: Rooms, table: SmallTable | None) -> None:
        """The table of what each unit has left; None where every unit has all of it."""
        self._backend, self._plan, self._rooms, self._table = backend, plan, rooms, table
        self._tables = [each for each in (plan.keys, table) if each is not None]
        # In how many keys a unit with all its room takes part at most.
        self._most = min(rooms.hits, plan.keep or rooms.hits)
        self._limited = self._binding()
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def answers(self) -> npt.NDArray[Any]:
        """How many units take part in each key, or what they add up to in steps; secret."""
        summed = self._plan.summed
        found = self._backend.numbers(self._summed if summed else self._counted, self._tables, _COUNTED)
        self._counts = np.zeros(self._plan.size, np.int64)
        self._counts[found[POSITION]] = found["units" if summed else "answer"]
        return compiler.scattered(found, self._plan.size) if summed else self._counts

    def of(self, positions: Sequence[int]) -> pa.Table:
        """The units that take part in the keys at these positions, and in how many of them (`used`); secret."""
        chosen, part = SmallTable(fresh("chosen"), {POSITION: ("int64", list(positions))}), ""
        tables = self._tables
        if self._plan.keys is not None:
            tables, part = [*tables, chosen], f" WHERE {POSITION} IN (SELECT {POSITION} FROM {chosen.name})"
        sql = f"SELECT unit, count(*) AS used FROM ({self._alive}) AS alive{part} GROUP BY unit"
        took = self._backend.arrow(sql, tables, _COUNTED)
        if (pc.sum(took["used"]).as_py() or 0) != self._counts[list(positions)].sum():
            raise EngineError("the rows were changed from outside while they were asked")
        return took

    def _binding(self) -> bool:
        """Whether an active unit might be in more keys than it may still take part in: it has a row in each of its
        keys.
        """
        most = min(self._most, self._rooms.least)
        if self._plan.keys is None or self._plan.size <= most:
            return False
        rows = f"SELECT count(*) AS times FROM ({self._plan.cells}) AS cells GROUP BY unit"
        largest = f"SELECT coalesce(max(times), 0) AS largest FROM ({rows}) AS counted"
        return bool(self._backend.numbers(largest, self._tables, _COUNTED)["largest"][0] > most)

    @property
    def _counted(self) -> str:
        """How many units take part in each position."""
        if self._plan.keys is not None:
            return f"SELECT {POSITION}, count(*) AS answer FROM ({self._alive}) AS alive GROUP BY {POSITION}"
        units = f"SELECT DISTINCT unit FROM ({self._living_rows}) AS living"
        return f"SELECT 0 AS {POSITION}, count(*) AS answer FROM ({units}) AS alive"

    @property
    def _summed(self) -> str:
        """How many units take part in each position, and what they add up to."""
        place, halves = "0" if self._plan.keys is None else POSITION, self._backend.dialect.halves("total")
        sums = f"SELECT {place} AS {POSITION}, count(*) AS units, sum(value) AS total FROM ({self._alive}) AS alive"
        return f"SELECT {POSITION}, units, {halves} FROM ({sums} GROUP BY 1) AS summed"

    @property
    def _living_rows(self) -> str:
        if self._table is None or not self._rooms.any_spent:
            return self._plan.cells
        spent = f"SELECT 1 FROM {self._table.name} AS spent WHERE spent.unit = cells.unit AND spent.room = 0"
        return f"SELECT cells.* FROM ({self._plan.cells}) AS cells WHERE NOT EXISTS ({spent})"

    @property
    def _alive(self) -> str:
        """Each unit in each position in which it takes part."""
        alive, columns, most = f"SELECT DISTINCT * FROM ({self._living_rows}) AS living", self._plan.columns, self._most
        if not self._limited:
            return alive
        order = f"row_number() OVER (PARTITION BY unit ORDER BY {POSITION})"
        ranked = f"(SELECT alive.*, {order} AS rank FROM ({alive}) AS alive) AS ranked"
        if self._table is None:
            return f"SELECT unit{columns} FROM {ranked} WHERE rank <= {most}"
        joined = f"{ranked} LEFT JOIN {self._table.name} AS rooms USING (unit)"
        return f"SELECT unit{columns} FROM {joined} WHERE rank <= least(coalesce(room, {most}), {most})"

    def __repr__(self) -> str:
        return "LivingUnits(<secret>)"


class Living:
    """A compiled count or sum of active units: one number, or one for each key (see `LivingReading`)."""

    def __init__(
        self, backend: Backend, query: Count | Sum, rooms: MutableMapping[Rooms, SmallTable], part: RowPart | None
    ) -> None:
        """`rooms` are those that have a table already."""
        place = backend.place(fresh("living"), part)
        self._backend, self._rooms = backend, rooms
        self._plan = LivingPlan.of(query, backend.schema, str(backend.unit), place)

    def run(self) -> "Living":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[LivingAnswers]:
        """One state of the rows, which cannot grow meanwhile; `EngineError`, naming no value, if the engine fails."""
        with self._backend.one_state():
            if rooms.any and rooms not in self._rooms:
                self._rooms[rooms] = _table_of(rooms)
            yield LivingAnswers(self._backend, self._plan, rooms, self._rooms.get(rooms))

    def __repr__(self) -> str:
        return f"Living({self._plan.size} keys)"


def _table_of(rooms: Rooms) -> SmallTable:
    """Each unit that has less left than at first, and how often it may still take part."""
    units, room = (rooms.left[name].combine_chunks() for name in ("unit", "room"))
    kind = "int64" if pa.types.is_int64(units.type) else "string"
    return SmallTable(fresh("rooms"), {"unit": (kind, units), "room": ("int64", room)})
