"""Adding rows to a table of a server: all of them, or none."""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from chary.data.columns import quote
from chary.data.engines.arriving import check_names, check_types
from chary.data.engines.engine import Engine
from chary.data.engines.postgresql.inserting.entry_counts import check_entry_counts
from chary.data.engines.postgresql.inserting.growable import check_growable
from chary.data.engines.postgresql.inserting.server_batches import ServerBatches
from chary.data.engines.postgresql.inserting.stored_values import ARRAYS, arrays_of, fitted
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.files.sources import RowSource
from chary.data.rows.batch import Arrival, Batch
from chary.data.rows.entry_limit import EntryLimit
from chary.data.silence import quietly
from chary.errors import EngineFailure, SchemaMismatch

# Rows a statement: its arrays stay far below what one parameter may hold.
_ROWS: Final = 50_000
# The type of a column of nothing but NULL in an Arrow table: it fits every column.
_UNTYPED: Final = '"null"'
_DECLARED: Final = {
    "boolean": "BOOLEAN",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


@dataclass(frozen=True)
class ServerAppend:
    """Writes rows and their batch in one transaction, one writer at a time."""

    embedded: Engine
    server: Server
    rows: StoredRows
    limit: EntryLimit | None

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        """Check the rows here, in the engine of this process, and insert them; `arrive` is told after the commit."""
        if self.rows.long:
            raise SchemaMismatch("rows cannot be appended to a table that was unpivoted; nothing was written")
        arrived = _read(self.embedded, source, self.rows)
        batches = ServerBatches(self.rows.relation)

        def write(cursor: Cursor) -> Batch:
            batches.prepare(cursor)
            held = batches.asked(cursor, request)
            if held is not None:
                return held
            self._insert(cursor, arrived)
            return batches.add(cursor, request)

        rolled_back = EngineFailure("the engine failed while it wrote the rows; they were rolled back")
        batch = quietly(lambda: self.server.write(write), rolled_back)
        arrive(batch)
        return batch

    def _insert(self, cursor: Cursor, arrived: pa.Table) -> None:
        check_growable(cursor, self.rows.relation)
        sql = _insertion(self.rows)
        types = self.rows.schema
        for start in range(0, len(arrived), _ROWS):
            cells = arrays_of(arrived.slice(start, _ROWS), types)
            cursor.execute(sql, list(cells.values()))
        if self.limit is not None:
            units = arrays_of(arrived.select([self.limit.of]), {self.limit.of: types[self.limit.of]})
            check_entry_counts(cursor, self.rows, self.limit, units[self.limit.of])


def _read(embedded: Engine, source: RowSource, rows: StoredRows) -> pa.Table:
    """The rows that arrive as an Arrow table of the classes' types; `SchemaMismatch` unless they fit the table."""
    failure = SchemaMismatch("the rows do not fit the table's columns and types; nothing was written")
    names = quietly(lambda: _names(embedded, source), failure)
    check_names(rows.schema, names, source.kind == "csv")
    types = {name: _DECLARED[kind] for name, kind in rows.schema.items() if kind in _DECLARED}
    read = {name: kind for name, kind in types.items() if source.kind == "csv" or name in source.objects}
    held = quietly(lambda: embedded.open(replace(source, types=read), rows.unit, None, None), failure)
    try:
        untyped = {name for name, kind in held.schema.items() if kind == _UNTYPED}
        check_types(rows.schema, held.schema, untyped)
        arrived: pa.Table = held.snapshot(list(rows.schema)).run()
    finally:
        held.close()
    return _as(arrived, rows.schema, untyped)


def _names(embedded: Engine, source: RowSource) -> list[str]:
    if source.kind == "frame":
        return list(source.frame.column_names)
    held = embedded.open(replace(source, types={}), None, None, None)
    try:
        return list(held.schema)
    finally:
        held.close()


def _as(arrived: pa.Table, schema: dict[str, str], untyped: set[str]) -> pa.Table:
    """With columns of nothing as such, and whole numbers as floats where the table has floats."""
    for place, (name, kind) in enumerate(schema.items()):
        if name in untyped:
            arrived = arrived.set_column(place, name, pa.nulls(len(arrived)))
        elif kind == "float64" and pa.types.is_integer(arrived[name].type):
            arrived = arrived.set_column(place, name, arrived[name].cast(pa.float64(), safe=False))
    return arrived


def _insertion(rows: StoredRows) -> str:
    names = list(rows.schema)
    columns = zip(rows.relation.columns, rows.columns, strict=True)
    values = ", ".join(fitted(stored, read, f"sent.c{place}") for place, (stored, read) in enumerate(columns))
    arrays = ", ".join(f"CAST(${place + 1} AS {ARRAYS[kind]}[])" for place, kind in enumerate(rows.schema.values()))
    cells = ", ".join(f"c{place}" for place in range(len(names)))
    into = f"{rows.relation.sql} ({', '.join(map(quote, names))})"
    return f"INSERT INTO {into} SELECT {values} FROM unnest({arrays}) AS sent({cells})"
