"""Adding rows to a table: all of them, or none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb

from chary.data.batches import Arrival, Batch, Batches
from chary.data.columns import Column, TypeClass, listed, quote
from chary.data.engine import ROWS, Engine, quietly
from chary.data.loading import Loader, csv_types, read_columns, select
from chary.data.sources import Source, describe
from chary.errors import EngineFailure, SchemaMismatch

_APPENDED = "chary_appended"
_COLUMNS = "the rows do not have the table's columns"
_UNTYPED = '"NULL"'


def append(engine: Engine, loader: Loader, rows: Any, request: str | None, arrive: Arrival) -> Batch:
    """Check the columns of `rows` against the table, insert them and remember the batch, in one transaction.

    In memory `arrive` is told of the batch inside the transaction: if it fails, nothing was added. A file commits
    first, since it remembers the batch for whoever was not told.
    """
    source = Source.of(rows)
    if source.kind == "duckdb":
        raise SchemaMismatch("append rows from a CSV, a Parquet file or a frame")
    if source.kind == "csv":
        source = replace(source, types=csv_types(loader.schema))
    failure = SchemaMismatch("the rows do not fit the table's columns and types; nothing was written")
    kept = batches_of(loader)

    def write(connection: duckdb.DuckDBPyConnection) -> Batch:
        held = kept.asked(connection, request)
        if held is not None:
            return held
        quietly(lambda: _insert(connection, loader, source), failure)
        batch = kept.add(connection, request)
        if not kept.in_file:
            arrive(batch)
        return batch

    rolled_back = EngineFailure("the engine failed while it wrote the rows; they were rolled back")
    batch: Batch = _told(lambda: quietly(lambda: engine.write(write), rolled_back), failure, loader, source)
    if kept.in_file:
        arrive(batch)
    return batch


def batches_of(loader: Loader) -> Batches:
    """Where the batches of these rows are kept."""
    in_file = loader.path is not None
    relation = loader.source.relation if in_file else f"temp.main.{ROWS}"
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


def _insert(connection: duckdb.DuckDBPyConnection, loader: Loader, source: Source) -> None:
    source.attach(connection)
    found = describe(connection, source.relation)
    incoming = read_columns(found, loader.unit)
    _check(loader.schema, incoming, {name for name, kind in found.items() if kind == _UNTYPED})
    target = _target(connection, loader)
    connection.execute(f"INSERT INTO {target} BY NAME {select(incoming, source.relation)}")
    if loader.limit is not None:
        everything = batches_of(loader).relation
        loader.limit.check(connection, everything, f"({select(incoming, source.relation)})")
    source.detach(connection)


def _told(write: Callable[[], Batch], failure: SchemaMismatch, loader: Loader, source: Source) -> Batch:
    """A CSV is read with the table's types and may fail before its columns are known: then they are looked at alone."""
    try:
        return write()
    except SchemaMismatch as refused:
        if refused is not failure or source.kind != "csv":
            raise
    quietly(lambda: _compare(loader, replace(source, types={})), failure)
    raise failure


def _compare(loader: Loader, source: Source) -> None:
    with duckdb.connect() as connection:
        found = describe(connection, source.relation)
        full = ", ".join(f"count({quote(name)}) > 0" for name in found)
        if not set(found) & set(loader.schema):
            # What was taken for the header may be a row, and its values for names: they must not be shown.
            names = listed([repr(name) for name in loader.schema])
            hint = "check that there is a header line and that all lines have as many cells"
            raise SchemaMismatch(f"the file cannot be read as rows of {names}: {hint}; nothing was written")
        [filled] = connection.execute(f"SELECT {full} FROM {source.relation}").fetchall()
    text = {name for name, kind in loader.schema.items() if kind == TypeClass.STRING}
    empty = {name for name, some in zip(found, filled, strict=True) if not some}
    _check(loader.schema, read_columns(found, loader.unit), text | empty)


def _check(schema: dict[str, str], incoming: tuple[Column, ...], untyped: set[str]) -> None:
    names = {column.name for column in incoming}
    parts = {"missing": sorted(set(schema) - names), "unknown": sorted(names - set(schema))}
    if names != set(schema):
        told = ", ".join(f"{what} {listed([*map(repr, some)])}" for what, some in parts.items() if some)
        raise SchemaMismatch(f"{_COLUMNS}: {told}; nothing was written")
    for column in incoming:
        expected = schema[column.name]
        if column.name not in untyped and column.type != expected and (column.type, expected) != ("int64", "float64"):
            differ = f"column {column.name!r} is {expected} in the table but {column.type} in the rows"
            raise SchemaMismatch(f"{differ}; nothing was written")


def _target(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str:
    if loader.path is not None:
        return loader.source.relation
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    if not _has_appended(connection):
        names = ", ".join(quote(name) for name in loader.schema)
        connection.execute(f"CREATE TEMP TABLE {_APPENDED} AS SELECT * FROM {ROWS} LIMIT 0")
        both = f"{select(loader.columns, loader.source.relation)} UNION ALL SELECT {names} FROM {_APPENDED}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS {both}")
    return f"temp.main.{_APPENDED}"


def _has_appended(connection: duckdb.DuckDBPyConnection) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{_APPENDED}'").fetchall())
