"""PostgreSQL as an engine: its dialect, strings of values, snapshots and steps, its rows, and the engine itself."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import SQL_TYPES, Schema, TypeClass, beside, quote
from chary.data.engines import compiler, protocol
from chary.data.engines.compiler import Dialect
from chary.data.engines.postgresql.append import ServerBatches, append, check_entry_counts
from chary.data.engines.postgresql.catalog import StoredRows
from chary.data.engines.postgresql.connection import Cursor, Server, fetched
from chary.data.engines.sql import ARROW, ROWS, SmallTable, SQLRows
from chary.data.partition import RowPart
from chary.data.predicates.conditions import double
from chary.data.queries.ordered import Words
from chary.data.rows import Arrival, Batch, Deferred, EntryLimit, StepColumns, Steps, check_steps
from chary.data.source import RowSource
from chary.errors import InvalidParameter, SchemaMismatch

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


@ibis.udf.scalar.builtin(name="convert_to")  # type: ignore[untyped-decorator]
def _bytes(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """The bytes of a text."""


@ibis.udf.scalar.builtin(name="format")  # type: ignore[untyped-decorator]
def _format(pattern: str, value: bytes) -> str:  # type: ignore[empty-body]
    """A value of any type as its text."""


@ibis.udf.scalar.builtin(name="sha256")  # type: ignore[untyped-decorator]
def _sha256(value: bytes) -> bytes:  # type: ignore[empty-body]
    """The hash of some bytes."""


@ibis.udf.scalar.builtin(name="get_byte", signature=(("binary", "int32"), "int32"))  # type: ignore[untyped-decorator]
def _byte(value: bytes, place: int) -> int:  # type: ignore[empty-body]
    """One of some bytes, counted from 0; of 32 bits."""


# Types whose strings differ for different values, and follow from no setting but those of each connection.
_TEXTUAL: Final = (TypeClass.BOOLEAN, TypeClass.INTEGER, "uuid", "numeric")


class PostgresDialect(Dialect):
    """See `Dialect`."""

    name = "postgres"

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

    def as_text(self, value: Any) -> Any:
        # Types without a counterpart in Ibis stand in as binary, which it would encode.
        return _format("%s", value) if value.type().is_binary() else super().as_text(value)

    def hashed(self, text: Any) -> Any:
        found = _sha256(_bytes(text, "UTF8"))
        first, *others = (_byte(found, ibis.literal(place, "int32")).cast("int64") for place in range(4))
        for byte in others:
            first = first * 256 + byte
        return first

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        if fold:
            value, pattern = compiler.folded(value, pattern)
        return value.like(compiler.without_escapes(pattern))

    def halves(self, summed: str) -> str:
        high, low = (f"{function}(CAST({summed} AS numeric), {compiler.HALF})" for function in ("div", "mod"))
        return f"CAST({high} AS bigint) AS high, CAST({low} AS bigint) AS low"

    def text_of(self, value: str, kind: str) -> str | None:
        if kind == TypeClass.STRING:
            return value
        if kind == TypeClass.FLOAT:
            return of_double(value)
        if kind in (TypeClass.DATE, TypeClass.TIMESTAMP):
            return of_moment(value)
        return f"CAST({value} AS text)" if kind in _TEXTUAL else None


POSTGRES: Final[Dialect] = PostgresDialect()

# Strings of values as all engines write them.

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

    The server writes no point behind integers, and an exponent from 1e15 on. It writes one digit more than is needed
    where fewer make a number just between two doubles, of which reading takes the even one. Numbers of so few digits
    lie between 2**54 and 1e40.
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


# Rows of the server as an Arrow table, whatever their values are.

# The largest numbers stand for infinite moments, as they do elsewhere: Arrow has no others.
_DAYS: Final = 2**31 - 1
_MICROSECONDS: Final = 2**63 - 1
# The server's calendar goes on for a while after 64 bits of microseconds since 1970 end.
_LAST: Final = "CAST('294247-01-10 04:00:54' AS timestamp)"
_EPOCH: Final = "CAST('1970-01-01' AS {})"
_NUMBERED: Final = {TypeClass.DATE: pa.int32(), TypeClass.TIMESTAMP: pa.int64()}


def _cell(schema: Schema, name: str) -> str:
    value, kind = quote(name), schema[name]
    if kind == TypeClass.DATE:
        return _moment(value, f"{value} - {_EPOCH.format('date')}", "", "date", _DAYS)
    if kind == TypeClass.TIMESTAMP:
        micros = f"CAST(extract(epoch FROM {value}) * 1000000 AS bigint)"
        return _moment(value, micros, f" AND {value} < {_LAST}", "timestamp", _MICROSECONDS)
    # A cast of such a type may be somebody's own, and fail on some values.
    return value if kind in ARROW else f"CASE WHEN {value} IS NOT NULL THEN format('%s', {value}) END"


def _moment(value: str, number: str, within: str, kind: str, most: int) -> str:
    ends = f"WHEN {value} > {_EPOCH.format(kind)} THEN {most} WHEN {value} < {_EPOCH.format(kind)} THEN -{most}"
    return f"CASE WHEN isfinite({value}){within} THEN {number} {ends} END"


def _table(rows: Sequence[Any], schema: Schema, columns: Sequence[str]) -> pa.Table:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return pa.table([_column(schema[name], column) for name, column in zip(columns, cells, strict=True)], list(columns))


def _column(kind: str, cells: Sequence[Any]) -> Any:
    known = TypeClass(kind) if kind in ARROW else TypeClass.STRING
    # Days and microseconds come as numbers: Python's own calendar ends before the server's.
    return pa.array(cells, _NUMBERED.get(known, ARROW[known])).view(ARROW[known])


# Reading the time steps of a series from a table of a server.


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
    types = {name: SQL_TYPES.get(schema[name], "VARCHAR") for name in asked.names}
    return Steps(np.array(cells[asked.column], dtype=np.int64), orders, labels, types)


def _columns(cursor: Cursor, table: str, asked: StepColumns) -> tuple[dict[str, str], dict[str, list[Any]]]:
    rows = StoredRows.find(cursor, table, None, None)
    for name in asked.names:
        if name not in rows.schema:
            raise SchemaMismatch(f"there is no column {name!r}{beside(name, rows.schema)}")
        if rows.schema[name] not in set(TypeClass):
            raise SchemaMismatch(f"column {name!r} is {rows.schema[name]}, which no step has")
    if rows.schema[asked.column] != TypeClass.INTEGER:
        raise SchemaMismatch(f"column {asked.column!r} is {rows.schema[asked.column]}; a series needs integers")
    names = ", ".join(map(quote, asked.names))
    sql = f"SELECT {names} FROM {ROWS} ORDER BY {quote(str(asked.order_by))}"
    found = rows.execute(cursor, sql)
    return rows.schema, {name: [row[place] for row in found] for place, name in enumerate(asked.names)}


# PostgreSQL as an engine: tables of a server, asked where they are.


def _names(cursor: Cursor) -> list[str]:
    return [column.name for column in cursor.description or ()]


class ServerRows(SQLRows):
    """Rows of a table of a server, which stay there; see `EngineRows`."""

    dialect = POSTGRES
    keeps_batches = True

    def __init__(
        self, embedded: protocol.Engine, server: Server, rows: StoredRows, source: RowSource, limit: EntryLimit | None
    ) -> None:
        """Use `PostgreSQL.open`."""
        super().__init__(rows.unit)
        self._embedded, self.server, self.rows, self._source, self._limit = embedded, server, rows, source, limit

    @property
    def schema(self) -> dict[str, str]:
        return self.rows.schema

    @property
    def reading(self) -> dict[str, Any]:
        return {} if self._source.said is None else self._source.said.body()

    def one_state(self) -> AbstractContextManager[object]:
        # What others add meanwhile is in no reading of the same transaction.
        return self.server.reading()

    def number(self, sql: str, doing: str) -> int:
        [(found,)] = self.server.ask(lambda cursor: self.rows.execute(cursor, sql), doing)
        return int(found or 0)

    def numbers(self, sql: str, tables: Sequence[SmallTable], doing: str) -> dict[str, NDArray[Any]]:
        def read(cursor: Cursor) -> dict[str, NDArray[Any]]:
            rows = self.rows.execute(cursor, sql, tables)
            names = _names(cursor)
            cells = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
            return {name: cells[:, place] for place, name in enumerate(names)}

        return self.server.ask(read, doing)

    def arrow(self, sql: str, tables: Sequence[SmallTable], doing: str) -> pa.Table:
        unit = "int64" if self.rows.schema[str(self.unit)] == TypeClass.INTEGER else "string"

        def read(cursor: Cursor) -> pa.Table:
            rows = self.rows.execute(cursor, sql, tables)
            kinds = {name: unit if name == "unit" else "int64" for name in _names(cursor)}
            return _table(rows, kinds, list(kinds))

        return self.server.ask(read, doing)

    def words(self, key: str, text: str, chosen: str) -> Words:
        digits = f"encode(sha256(convert_to(CAST($1 AS text) || {text}, 'UTF8')), 'hex')"
        sql = f"SELECT CAST(CAST('x' || left({digits}, 16) AS bit(64)) AS bigint) FROM ({chosen}) AS chosen"
        rows = self.server.ask(lambda cursor: self.rows.execute(cursor, sql, more=[key]), "read the elements")
        return np.array(rows, dtype=np.int64).reshape(len(rows)).view(np.uint64)

    def snapshot(self, columns: Sequence[str], part: RowPart | None = None) -> Deferred:
        schema = self.schema
        cells = ", ".join(f"{_cell(schema, name)} AS {quote(name)}" for name in columns)
        sql = f"SELECT {cells} FROM {self.relation(part)}"

        def read(cursor: Cursor) -> pa.Table:
            return _table(self.rows.execute(cursor, sql), schema, columns)

        return Deferred(", ".join(columns), lambda: self.server.ask(read, "read the rows"))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return append(self._embedded, self.server, self.rows, self._limit, source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = ServerBatches.of(self.rows.relation)
        return self.server.ask(lambda cursor: kept.after(partial(fetched, cursor), after), "read the batches")

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
        with closing(Server(source.address)) as server:
            return read_server_steps(server, str(source.table), asked)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        raise InvalidParameter("a server makes no files: create the table there, and append to it")
