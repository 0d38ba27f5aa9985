"""Adding rows to a table: all of them, or none."""

from dataclasses import replace

import duckdb

from chary.data.columns import SQL_TYPES
from chary.data.engines.arriving import check_names, check_types
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.engines.duckdb.growing.batches import Batches
from chary.data.engines.duckdb.growing.entry_check import check_entries
from chary.data.engines.duckdb.growing.joining_files import APPENDED, already, has_table, join, look, stays
from chary.data.engines.duckdb.reading.attaching import attach, copied, describe, detach, relation_of, typed
from chary.data.engines.duckdb.reading.column_types import Column
from chary.data.engines.duckdb.reading.loading import Loader, read_columns, select
from chary.data.engines.duckdb.reading.stored import check_growable
from chary.data.files.sources import RowSource
from chary.data.rows.batch import Arrival, Batch
from chary.data.silence import quietly
from chary.errors import EngineFailure, InvalidParameter, SchemaMismatch

# The type of a column of nothing but NULL in an Arrow table: it fits every column.
_UNTYPED = '"NULL"'


def append(database: Database, loader: Loader, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
    """Check the columns of `source` against the table, insert them and remember the batch, in one transaction.

    In memory `arrive` is told of the batch inside the transaction: if it fails, nothing was added. A file commits
    first, since it remembers the batch for whoever was not told. Files of a folder that was opened stay there.
    """
    failure = SchemaMismatch("the rows do not fit the table's columns and types; nothing was written")
    in_place = stays(loader, source)
    arrived = source if in_place else quietly(lambda: copied(source), failure)
    arrived = arrived if in_place else replace(arrived, types=loader.types(arrived))
    kept = batches_of(loader)

    def write(connection: duckdb.DuckDBPyConnection) -> Batch:
        held = kept.asked(connection, request)
        if held is not None:
            return held
        found = in_place and _found(connection, loader, arrived, request)
        if not found:
            quietly(lambda: (join if in_place else _insert)(connection, loader, arrived), failure)
        batch = replace(kept.add(connection, request), found=found)
        if not kept.in_file:
            arrive(batch)
        return batch

    rolled_back = EngineFailure("the engine failed while it wrote the rows; they were rolled back")
    batch: Batch = quietly(lambda: database.write(write), rolled_back)
    if kept.in_file:
        arrive(batch)
    return batch


def batches_of(loader: Loader) -> Batches:
    """Where the batches of these rows are kept."""
    in_file = loader.path is not None
    relation = loader.stored if in_file else f"temp.main.{ROWS}"
    return Batches(loader.source.table or "", relation, in_file)


def _insert(connection: duckdb.DuckDBPyConnection, loader: Loader, source: RowSource) -> None:
    if loader.path is not None:
        check_growable(connection, str(loader.source.table))
    attach(connection, source)
    check_names(loader.schema, list(describe(connection, relation_of(source))), source.kind == "csv")
    relation = typed(connection, source)
    found = describe(connection, relation)
    incoming = read_columns(found, loader.unit)
    check_types(
        loader.schema,
        {column.name: column.type for column in incoming},
        {name for name, kind in found.items() if kind == _UNTYPED},
    )
    target = _target(connection, loader)
    kinds = describe(connection, target)
    fitted = tuple(_fitted(column, kinds[column.name]) for column in incoming)
    connection.execute(f"INSERT INTO {target} BY NAME {select(fitted, relation)}")
    if loader.limit is not None:
        everything = batches_of(loader).relation
        check_entries(connection, loader.limit, everything, f"({select(incoming, relation)})")
    detach(connection, source)


def _fitted(column: Column, kind: str) -> Column:
    """The column in the narrower type of a file; a value that does not fit there becomes NULL, and fails nothing."""
    if column.type not in SQL_TYPES or kind == SQL_TYPES[column.type]:
        return column
    return replace(column, sql=f"TRY_CAST({column.sql} AS {kind})")


def _target(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str:
    if loader.path is not None:
        return loader.stored
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    if not has_table(connection, APPENDED):
        connection.execute(f"CREATE TEMP TABLE {APPENDED} AS SELECT * FROM {ROWS} LIMIT 0")
        look(connection, loader)
    return f"temp.main.{APPENDED}"


def _found(connection: duckdb.DuckDBPyConnection, loader: Loader, source: RowSource, request: str | None) -> bool:
    """Whether the files are there already, and were asked for again under a key; `InvalidParameter` without one."""
    found = already(connection, loader, source)
    if found and request is None:
        raise InvalidParameter("this file is among the rows already; nothing was added")
    return found
