"""Rows of the server as an Arrow table, whatever their values are."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from chary.data.columns import Schema, TypeClass, quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.statement import ROWS, Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.rows.rows import Deferred

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
