"""Adding rows to a table: all of them, or none."""

from dataclasses import replace

import duckdb

from chary.data.columns import listed, quote
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.engines.duckdb.growing.batches import Batches
from chary.data.engines.duckdb.growing.entry_check import check_entries
from chary.data.engines.duckdb.reading.attaching import attach, copied, describe, detach, relation_of, typed
from chary.data.engines.duckdb.reading.column_types import Column
from chary.data.engines.duckdb.reading.loading import SQL_TYPES, Loader, read_columns, select
from chary.data.engines.duckdb.reading.stored import check_growable
from chary.data.files.sources import RowSource
from chary.data.rows.batch import Arrival, Batch
from chary.data.silence import quietly
from chary.errors import EngineFailure, SchemaMismatch

_APPENDED = "chary_appended"
_COLUMNS = "the rows do not have the table's columns"
# The type of a column of nothing but NULL in an Arrow table: it fits every column.
_UNTYPED = '"NULL"'


def append(database: Database, loader: Loader, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
    """Check the columns of `source` against the table, insert them and remember the batch, in one transaction.

    In memory `arrive` is told of the batch inside the transaction: if it fails, nothing was added. A file commits
    first, since it remembers the batch for whoever was not told.
    """
    failure = SchemaMismatch("the rows do not fit the table's columns and types; nothing was written")
    arrived = quietly(lambda: copied(source), failure)
    arrived = replace(arrived, types=loader.types(arrived))
    kept = batches_of(loader)

    def write(connection: duckdb.DuckDBPyConnection) -> Batch:
        held = kept.asked(connection, request)
        if held is not None:
            return held
        quietly(lambda: _insert(connection, loader, arrived), failure)
        batch = kept.add(connection, request)
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


def growing(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str | None:
    """The relation in this process whose `rowid` grows with appended rows; None where there is no such relation yet.

    Rows of a DuckDB file are other processes' too, and a column named rowid hides the engine's.
    """
    if loader.path is not None or "rowid" in map(str.lower, loader.schema):
        return None
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    return f"temp.main.{_APPENDED}" if _has_appended(connection) else None


def _insert(connection: duckdb.DuckDBPyConnection, loader: Loader, source: RowSource) -> None:
    if loader.path is not None:
        check_growable(connection, str(loader.source.table))
    attach(connection, source)
    _check_names(loader.schema, list(describe(connection, relation_of(source))), source.kind == "csv")
    relation = typed(connection, source)
    found = describe(connection, relation)
    incoming = read_columns(found, loader.unit)
    _check_types(loader.schema, incoming, {name for name, kind in found.items() if kind == _UNTYPED})
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


def _check_names(schema: dict[str, str], found: list[str], is_file: bool) -> None:
    if is_file and not set(found) & set(schema):
        # What was taken for the header may be a row, and its values for names: they must not be shown.
        names = listed([repr(name) for name in schema])
        hint = "check that there is a header line and that the delimiter is the right one"
        raise SchemaMismatch(f"the file cannot be read as rows of {names}: {hint}; nothing was written")
    parts = {"missing": sorted(set(schema) - set(found)), "unknown": sorted(set(found) - set(schema))}
    if set(found) != set(schema):
        told = ", ".join(f"{what} {listed([*map(repr, some)])}" for what, some in parts.items() if some)
        raise SchemaMismatch(f"{_COLUMNS}: {told}; nothing was written")


def _check_types(schema: dict[str, str], incoming: tuple[Column, ...], untyped: set[str]) -> None:
    for column in incoming:
        expected = schema[column.name]
        if column.name not in untyped and column.type != expected and (column.type, expected) != ("int64", "float64"):
            differ = f"column {column.name!r} is {expected} in the table but {column.type} in the rows"
            raise SchemaMismatch(f"{differ}; nothing was written")


def _target(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str:
    if loader.path is not None:
        return loader.stored
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    if not _has_appended(connection):
        names = ", ".join(quote(name) for name in loader.schema)
        connection.execute(f"CREATE TEMP TABLE {_APPENDED} AS SELECT * FROM {ROWS} LIMIT 0")
        both = f"{select(loader.columns, relation_of(loader.source))} UNION ALL SELECT {names} FROM {_APPENDED}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS {both}")
    return f"temp.main.{_APPENDED}"


def _has_appended(connection: duckdb.DuckDBPyConnection) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{_APPENDED}'").fetchall())
