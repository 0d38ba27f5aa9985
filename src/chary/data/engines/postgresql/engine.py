"""PostgreSQL as an engine: its dialect, plans of queries, elements, units and snapshots, and the engine itself."""

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import ibis
import numpy as np
import pyarrow as pa

from chary.data.columns import Schema, TypeClass, Unparsed, classify, quote
from chary.data.engines import allowances, compiler, protocol
from chary.data.engines.postgresql.append import ServerAppend, ServerBatches, check_entry_counts
from chary.data.engines.postgresql.catalog import ROWS, Sent, Statement, StoredRows
from chary.data.engines.postgresql.connection import Cursor, Server
from chary.data.predicates.conditions import double
from chary.data.queries.ordered import Elements, Mark, Ordered, Words
from chary.data.queries.query import Query
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Answer, Arrival, Batch, Deferred, EntryLimit, Rooms, StepColumns, Steps, check_steps
from chary.data.source import RowSource
from chary.errors import InvalidParameter, InvalidQuery, SchemaMismatch

# What PostgreSQL says for itself.

_HUGE: Final = 1e280
_TINY: Final = 1e-280


@ibis.udf.scalar.builtin(name="floor")  # type: ignore[untyped-decorator]
def _floor(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="ceil")  # type: ignore[untyped-decorator]
def _ceil(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="sign")  # type: ignore[untyped-decorator]
def _sign(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="div")  # type: ignore[untyped-decorator]
def _div(dividend: int, divisor: int) -> int:  # type: ignore[empty-body]
    """The whole part of an exact quotient of numerics."""


@dataclass(frozen=True)
class PostgresDialect:
    """See `Dialect`."""

    name: ClassVar[str] = "postgres"
    namespace: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, value: Any) -> Any:
        # The engine rounds halves to even. Twice a double below 2**53 is exact, and so are its halves.
        return _sign(value) * _ceil(_floor(value.abs() * double(2)) / double(2))

    def tame(self, value: Any) -> Any:
        # The engine fails where a product is too large or a quotient too small, which would tell of a row.
        # Its least() and greatest() pass over NULL, which has to stay what it is.
        within = ibis.ifelse(value > double(_HUGE), double(_HUGE), value)
        within = ibis.ifelse(value < double(-_HUGE), double(-_HUGE), within)
        return ibis.ifelse(value.abs() < double(_TINY), double(0), within)

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        return _div(dividend, divisor)

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        if fold:
            value, pattern = compiler.folded(value, pattern)
        return value.like(compiler.without_escapes(pattern))

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        return compiler.arrays_in_parallel(line, columns)

    def sql(self, expression: Any) -> str:
        return compiler.usual_sql(expression, self.name)


POSTGRES: Final[compiler.Dialect] = PostgresDialect()


def halves(summed: str) -> str:
    """SQL for the two halves of an exact sum; see `scattered`."""
    high, low = (f"{function}(CAST({summed} AS numeric), {compiler.HALF})" for function in ("div", "mod"))
    return f"CAST({high} AS bigint) AS high, CAST({low} AS bigint) AS low"


# Running compiled queries on the server.

_numbers = itertools.count()


def place_of(keys: str = "") -> compiler.QueryPlace:
    """Where queries find their rows, and the table of keys of that name."""
    return compiler.QueryPlace(ROWS, keys, POSTGRES)


def fresh(kind: str) -> str:
    """A name that no other table that is sent has."""
    return f"chary_{kind}_{next(_numbers)}"


class ServerPlan:
    """SQL compiled once from a query; each `run` is one statement in a transaction that only reads."""

    def __init__(self, server: Server, rows: StoredRows, query: Query) -> None:
        place = place_of(fresh("keys"))
        found = compiler.evaluate(query, rows.schema, rows.unit, place)
        self._query, self._server, self._statement = query, server, Statement(rows.sql)
        self._keys = [] if found.keys is None else [Sent(place.keys, found.keys)]
        self._length = found.positions if found.keys is None else len(found.keys[compiler.POSITION][1])
        self.sql = place.sql(found.expression)
        if self._length is not None:
            self.sql = f"SELECT {compiler.POSITION}, {halves(compiler.ANSWER)} FROM ({self.sql}) AS answered"

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer, as `ReadingPlan` says; any failure of the server is an `EngineError` without a value."""
        return self._server.ask(self._read, "answered the query")

    def _read(self, cursor: Cursor) -> Answer:
        rows = self._statement.execute(cursor, self.sql, self._keys)
        if self._length is None:
            [(answer,)] = rows
            return int(answer or 0)
        return compiler.scattered(columns_of(rows, (compiler.POSITION, "high", "low")), self._length)

    def __repr__(self) -> str:
        return f"ServerPlan({self._query.describe()})"


def columns_of(rows: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Rows of 64-bit integers as columns."""
    cells = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
    return {name: cells[:, place] for place, name in enumerate(names)}


def ordering_of(server: Server, rows: StoredRows, asked: Ordered) -> Deferred:
    """Reads the values that occur; `InvalidQuery` when that does not fit the schema."""
    place, statement = place_of(), Statement(rows.sql)
    sql = place.sql(compiler.ordered_rows(asked, rows.schema, rows.unit, place))

    def read(cursor: Cursor) -> Any:
        found = columns_of(statement.execute(cursor, sql), ("value", "times"))
        return compiler.in_order(asked, found["value"], found["times"])

    return Deferred(asked, lambda: server.ask(read, "put the values in order"))


# Texts of values as all engines write them: they are in ledgers and in sketches.

# `digits` are those that the server writes, `power` is that of ten behind them; `low` and `high` are the two nearest
# numbers with one digit less, and `zeros` the power of ten behind those.
_PARTS: Final = """
SELECT size, sign, written, digits, low, CAST(CAST(low AS numeric) + 1 AS text) AS high,
  power - length(digits) + CASE WHEN length(digits) > 1 THEN 2 ELSE 1 END AS zeros
FROM (
  SELECT size, sign, written, digits, power, left(digits, greatest(length(digits) - 1, 1)) AS low
  FROM (
    SELECT size, sign, written, replace(split_part(written, 'e', 1), '.', '') AS digits,
      coalesce(CAST(nullif(split_part(written, 'e', 2), '') AS integer), 0) AS power
    FROM (
      SELECT abs({name}) AS size, CASE WHEN {name} < 0 THEN '-' ELSE '' END AS sign,
        CASE WHEN abs({name}) = CAST('Infinity' AS double precision) THEN '0'
          ELSE CAST(abs({name}) AS text) END AS written
    ) AS given
  ) AS split
) AS shortened
"""
_PLAIN: Final = (
    "rpad(left(digits, 16), 16, '0') || '.' || CASE WHEN length(digits) > 16 THEN substr(digits, 17) ELSE '0' END"
)


def of_double(name: str) -> str:
    """SQL for a double as Python writes it: the shortest digits, a point below 1e16, and one zero.

    The server writes no point behind whole numbers, an exponent from 1e15 on, and one digit more than is needed where
    fewer make a number just between two doubles, of which reading takes the even one. Numbers of so few digits lie
    between 2**54 and 1e40.
    """
    return (
        "(SELECT sign || CASE WHEN size = CAST('Infinity' AS double precision) THEN 'inf' "
        f"WHEN size >= 1e15 AND size < 1e16 THEN {_PLAIN} "
        f"WHEN {_read('low')} = size THEN {_scientific('low')} WHEN {_read('high')} = size THEN {_scientific('high')} "
        f"WHEN written ~ '[.e]' THEN written ELSE written || '.0' END FROM ({_PARTS.format(name=name)}) AS parts)"
    )


def of_moment(name: str) -> str:
    """SQL for a date or a timestamp; years before the first are set in brackets."""
    return f"replace(CAST({name} AS text), ' BC', ' (BC)')"


def _read(digits: str) -> str:
    """As a double, where it may be wanted; else one that is the size of nothing."""
    asked = f"CASE WHEN size >= 1e16 AND size < 1e40 THEN {digits} || 'e' || zeros ELSE '-1' END"
    return f"CAST({asked} AS double precision)"


def _scientific(digits: str) -> str:
    shown = f"rtrim({digits}, '0')"
    point = f"CASE WHEN length({shown}) > 1 THEN '.' || substr({shown}, 2) ELSE '' END"
    return f"left({shown}, 1) || {point} || 'e+' || CAST(zeros + length({digits}) - 1 AS text)"


# Reading elements as keyed 64-bit words, hashed by the server: only words leave it.

# A letter for the kind keeps the number 1 and the text '1' apart; adding 0.0 makes -0.0 and 0.0 one value.
_TEXTS: Final = {
    TypeClass.BOOLEAN: "'i' || CAST(CAST(element AS integer) AS text)",
    TypeClass.INTEGER: "'i' || CAST(element AS text)",
    TypeClass.STRING: "'s' || element",
    TypeClass.FLOAT: f"'f' || {of_double('element')}",
    TypeClass.DATE: f"'d' || {of_moment('element')}",
    TypeClass.TIMESTAMP: f"'t' || {of_moment('element')}",
}
_TOLD_APART: Final = ("uuid", "numeric")


class ServerWords:
    """Reads the words of elements (see `ElementReading`); all rows are read each time, which changes no sketch."""

    def __init__(self, server: Server, rows: StoredRows, asked: Elements, table: str) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as texts."""
        self._server, self._statement, self._table = server, Statement(rows.sql), table
        text, place = _text(rows.schema, compiler.element_column(asked, rows.unit)), place_of()
        chosen = place.sql(compiler.element_rows(asked, rows.schema, rows.unit, place))
        digits = f"encode(sha256(convert_to(CAST($1 AS text) || {text}, 'UTF8')), 'hex')"
        self._sql = f"SELECT CAST(CAST('x' || left({digits}, 16) AS bit(64)) AS bigint) FROM ({chosen}) AS chosen"

    def run(self) -> "ServerWords":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The words of all elements there are; `since` spares nothing here."""

        def read(cursor: Cursor) -> Words:
            rows = self._statement.execute(cursor, self._sql, more=[key])
            return np.array(rows, dtype=np.int64).reshape(len(rows)).view(np.uint64)

        return self._server.ask(read, "read the elements"), Mark(self._table, 0)

    def __repr__(self) -> str:
        return "ServerWords()"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind in _TEXTS:
        return _TEXTS[kind]
    if schema[column] not in _TOLD_APART:
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements")
    return "'o' || CAST(element AS text)"


# Counting living units on the server.

# Types whose texts differ for different values, and follow from no setting but those of each connection.
_TEXTUAL = (TypeClass.BOOLEAN, "uuid", "numeric")
_COUNTED = "counted the units"


class ServerLiving:
    """A compiled count or sum of living units (see `LivingReading`); rooms and keys are sent with each statement."""

    def __init__(self, server: Server, rows: StoredRows, query: Count | Sum) -> None:
        place, unit = place_of(fresh("living")), str(rows.unit)
        self._server, self._statement = server, Statement(rows.sql)
        self._plan = allowances.LivingPlan.of(query, rows.schema, unit, place, recognised(rows.schema, unit), place.sql)
        self._kind = pa.int64() if rows.schema[unit] == TypeClass.INTEGER else pa.string()
        self._keys = [] if self._plan.keys is None else [Sent(place.keys, self._plan.keys)]

    def run(self) -> "ServerLiving":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[allowances.LivingAnswers]:
        """One state of the rows; `EngineError`, naming no value, if the server fails."""
        sent = [*self._keys, *([_rooms(rooms)] if rooms.any else [])]
        chosen: list[Sent] = []

        def named(positions: Sequence[int]) -> str:
            chosen[:] = [Sent(fresh("chosen"), {compiler.POSITION: ("int64", list(positions))})]
            return chosen[0].name

        def fetch(sql: str) -> pa.Table:
            return self._server.ask(lambda cursor: self._table(cursor, sql, [*sent, *chosen]), _COUNTED)

        with self._server.reading():
            yield allowances.LivingAnswers(
                self._plan, rooms, sent[-1].name if rooms.any else None, fetch, named, halves
            )

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


# Rows of the server as an Arrow table, whatever their values are.

# The largest numbers stand for infinite moments, as they do elsewhere: Arrow has no others.
_DAYS: Final = 2**31 - 1
_MICROSECONDS: Final = 2**63 - 1
# The server's calendar goes on for a while after 64 bits of microseconds since 1970 end.
_LAST: Final = "CAST('294247-01-10 04:00:54' AS timestamp)"
_EPOCH: Final = "CAST('1970-01-01' AS {})"
_ARROW: Final = {
    TypeClass.BOOLEAN: pa.bool_(),
    TypeClass.INTEGER: pa.int64(),
    TypeClass.FLOAT: pa.float64(),
    TypeClass.STRING: pa.string(),
    TypeClass.DATE: pa.date32(),
    TypeClass.TIMESTAMP: pa.timestamp("us"),
}
_NUMBERED: Final = {TypeClass.DATE: pa.int32(), TypeClass.TIMESTAMP: pa.int64()}


def snapshot_of(server: Server, rows: StoredRows, columns: Sequence[str]) -> Deferred:
    """Reads these columns of all rows; of a type that chary does not compute with, each value's own text."""
    schema, statement = rows.schema, Statement(rows.sql)
    cells = ", ".join(f"{_cell(schema, name)} AS {quote(name)}" for name in columns)

    def read(cursor: Cursor) -> pa.Table:
        return _table(statement.execute(cursor, f"SELECT {cells} FROM {ROWS}"), schema, columns)

    return Deferred(", ".join(columns), lambda: server.ask(read, "read the rows"))


def _cell(schema: Schema, name: str) -> str:
    value, kind = quote(name), schema[name]
    if kind == TypeClass.DATE:
        return _moment(value, f"{value} - {_EPOCH.format('date')}", "", "date", _DAYS)
    if kind == TypeClass.TIMESTAMP:
        micros = f"CAST(extract(epoch FROM {value}) * 1000000 AS bigint)"
        return _moment(value, micros, f" AND {value} < {_LAST}", "timestamp", _MICROSECONDS)
    # A cast of such a type may be somebody's own, and fail on some values.
    return value if kind in _ARROW else f"CASE WHEN {value} IS NOT NULL THEN format('%s', {value}) END"


def _moment(value: str, number: str, within: str, kind: str, most: int) -> str:
    ends = f"WHEN {value} > {_EPOCH.format(kind)} THEN {most} WHEN {value} < {_EPOCH.format(kind)} THEN -{most}"
    return f"CASE WHEN isfinite({value}){within} THEN {number} {ends} END"


def _table(rows: Sequence[Any], schema: Schema, columns: Sequence[str]) -> pa.Table:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return pa.table([_column(schema[name], column) for name, column in zip(columns, cells, strict=True)], list(columns))


def _column(kind: str, cells: Sequence[Any]) -> Any:
    known = TypeClass(kind) if kind in _ARROW else TypeClass.STRING
    # Days and microseconds come as numbers: Python's own calendar ends before the server's.
    return pa.array(cells, _NUMBERED.get(known, _ARROW[known])).view(_ARROW[known])


# Reading the time steps of a series from a table of a server.

_DECLARED: Final = {
    TypeClass.BOOLEAN: "BOOLEAN",
    TypeClass.INTEGER: "BIGINT",
    TypeClass.FLOAT: "DOUBLE",
    TypeClass.DATE: "DATE",
    TypeClass.TIMESTAMP: "TIMESTAMP",
}


def read_server_steps(server: Server, table: str, asked: StepColumns) -> Steps:
    """All steps in the order of a column, which has to tell them apart: a table of a server has no order of its own.

    Steps that are equal there would be put in another order by each reading, or by their secret counts.
    """
    if asked.order_by is None:
        raise InvalidParameter("a table of a server has no order: name the column that orders the steps, order_by=")
    found = server.ask(lambda cursor: _columns(cursor, table, asked), "read the steps")
    schema, cells = found
    check_steps(cells, asked)
    orders = tuple(cells[asked.order_by])
    if any(first == second for first, second in pairwise(orders)):
        raise SchemaMismatch(f"two steps are equal in {asked.order_by!r}, so that they have no order")
    labels = None if asked.labels is None else tuple(cells[asked.labels])
    types = {name: _DECLARED.get(TypeClass(schema[name]), "VARCHAR") for name in asked.names}
    return Steps(np.array(cells[asked.column], dtype=np.int64), orders, labels, types)


def _columns(cursor: Cursor, table: str, asked: StepColumns) -> tuple[dict[str, str], dict[str, list[Any]]]:
    rows = StoredRows.find(cursor, table, None, None)
    for name in asked.names:
        if name not in rows.schema:
            raise SchemaMismatch(f"there is no column {name!r}")
        if rows.schema[name] not in set(TypeClass):
            raise SchemaMismatch(f"column {name!r} is {rows.schema[name]}, which no step has")
    if rows.schema[asked.column] != TypeClass.INTEGER:
        raise SchemaMismatch(f"column {asked.column!r} is {rows.schema[asked.column]}; a series needs whole numbers")
    names = ", ".join(map(quote, asked.names))
    sql = f"SELECT {names} FROM {ROWS} ORDER BY {quote(str(asked.order_by))}"
    found = Statement(rows.sql).execute(cursor, sql)
    return rows.schema, {name: [row[place] for row in found] for place, name in enumerate(asked.names)}


# PostgreSQL as an engine: tables of a server, asked where they are.


class ServerRows:
    """Rows of a table of a server, which stay there; see `EngineRows`."""

    def __init__(
        self, embedded: protocol.Engine, server: Server, rows: StoredRows, source: RowSource, limit: EntryLimit | None
    ) -> None:
        """Use `PostgreSQL.open`."""
        self._embedded, self.server, self.rows, self._source, self._limit = embedded, server, rows, source, limit
        # Tells marks of these rows from marks of rows that another process, or this one earlier, had opened.
        self._name = uuid.uuid4().hex

    @property
    def schema(self) -> dict[str, str]:
        return self.rows.schema

    @property
    def reading(self) -> dict[str, Any]:
        return {} if self._source.said is None else self._source.said.body()

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return {}

    @property
    def keeps_batches(self) -> bool:
        return True

    def compile(self, query: Query) -> ServerPlan:
        return ServerPlan(self.server, self.rows, query)

    def snapshot(self, columns: Sequence[str]) -> Deferred:
        return snapshot_of(self.server, self.rows, columns)

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering_of(self.server, self.rows, asked)

    def elements(self, asked: Elements) -> ServerWords:
        return ServerWords(self.server, self.rows, asked, self._name)

    def living(self, query: Count | Sum) -> ServerLiving:
        return ServerLiving(self.server, self.rows, query)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        # What others add meanwhile is in no reading of the same transaction.
        with self.server.reading():
            yield

    def check_units(self) -> None:
        recognised(self.schema, str(self.rows.unit))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return ServerAppend(self._embedded, self.server, self.rows, self._limit).append(source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = ServerBatches(self.rows.relation)
        return self.server.ask(lambda cursor: kept.after(cursor, after), "read the batches")

    def close(self) -> None:
        self.server.close()


class PostgreSQL:
    """The engine of tables on PostgreSQL servers; see `Engine`. It reaches the server that an address names.

    The embedded engine reads the rows that are appended.
    """

    def __init__(self, embedded: protocol.Engine) -> None:
        self._embedded = embedded

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> ServerRows:
        table = str(source.table)
        with ExitStack() as undo:
            server = Server(source.address)
            undo.callback(server.close)
            rows = server.ask(lambda cursor: StoredRows.find(cursor, table, unit, unpivot), "looked at the table")
            server.guard(rows.check)
            if limit is not None:
                server.ask(lambda cursor: check_entry_counts(cursor, rows, limit), "counted the entries of units")
            undo.pop_all()
        return ServerRows(self._embedded, server, rows, source, limit)

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        server = Server(source.address)
        try:
            return read_server_steps(server, str(source.table), asked)
        finally:
            server.close()

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        raise InvalidParameter("a server makes no files: create the table there, and append to it")
