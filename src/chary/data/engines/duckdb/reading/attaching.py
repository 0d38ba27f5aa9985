"""Sources brought to one relation that the engine can read."""

import os
from collections.abc import Sequence
from typing import Final

import duckdb

from chary.data.columns import quote
from chary.data.engines.duckdb.connecting import Access, as_pattern, literals
from chary.data.engines.duckdb.reading.casting import Casting, inferred
from chary.data.files.lines import read_texts
from chary.data.files.sources import RowSource
from chary.errors import InvalidParameter, SchemaMismatch

_SOURCE: Final = "chary_source"


def relation_of(source: RowSource) -> str:
    """What to write after FROM, in a connection that may read the source in place or had it attached."""
    match source.kind:
        case "parquet":
            return parquet(source.paths)
        case "duckdb":
            return quote(str(source.table))
        case _:
            return _SOURCE


def check_path(source: RowSource) -> None:
    """`InvalidParameter` for a DuckDB file that the engine would take for another one."""
    # The engine takes what follows a question mark for options, and a backslash for a slash.
    if source.kind == "duckdb" and any(sign in os.path.abspath(source.paths[0]) for sign in {"?", "\\"} - {os.sep}):
        raise InvalidParameter("the engine cannot open a DuckDB file with ? or \\ in its path: rename it")


def attach(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """Make rows that are not read in place visible under the name that `relation_of` uses."""
    if source.kind == "csv":
        connection.register(_SOURCE, read_texts(source.paths, source.dialect, list(source.types)))
    elif source.kind == "frame":
        connection.register(_SOURCE, source.frame)


def detach(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """Undo `attach`."""
    if source.kind in ("csv", "frame"):
        connection.unregister(_SOURCE)


def texts_of(connection: duckdb.DuckDBPyConnection, source: RowSource) -> dict[str, bool]:
    """Of each column of the attached rows whether its cells are texts without a type of their own."""
    return {name: source.kind == "csv" or name in source.objects for name in describe(connection, relation_of(source))}


def typed(
    connection: duckdb.DuckDBPyConnection, source: RowSource, unit: str | None = None, value: str | None = None
) -> str:
    """SQL for the attached rows with every cell of the type of its column.

    What is declared for `value` is the type of all columns of texts beside the unit's.
    """
    relation, are_texts = relation_of(source), texts_of(connection, source)
    if not any(are_texts.values()):
        return relation
    types = {name: kind for name, kind in source.types.items() if name != value}
    if source.infers:
        unsaid = [name for name, is_text in are_texts.items() if is_text and name not in types]
        types = inferred(connection, unsaid, relation, unit, source.dialect) | types
    return Casting(source.dialect, types, source.types.get(value or ""), unit).select(are_texts, relation)


def check_alike(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """`SchemaMismatch` for Parquet files of different types: a value of one might not fit the type of another."""
    kinds = [describe(connection, parquet([path])) for path in source.paths] if source.kind == "parquet" else []
    if any(kind != kinds[0] for kind in kinds):
        raise SchemaMismatch("the files do not have the same columns of the same types")


def copied(source: RowSource) -> RowSource:
    """The same rows without a file: what a connection can read that may not read files."""
    if source.kind != "parquet":
        return source
    with Access(files=source.paths, lossless=True).connect() as connection:
        check_alike(connection, source)
        return RowSource("frame", frame=connection.sql(f"SELECT * FROM {relation_of(source)}").to_arrow_table())


def describe(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """Column names and engine types of a relation, in order."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {row[0]: row[1] for row in rows}


def parquet(paths: Sequence[str]) -> str:
    """What to write after FROM for Parquet files that the connection may read in place."""
    # Names of folders such as day=1 would become columns, and tell of rows what nobody declared.
    # Writers leave NaN out of the least and greatest value that they note. Told to expect it, the engine believes no
    # such note: what a row becomes must not follow from the others of its group.
    files = literals([as_pattern(path) for path in paths])
    return f"read_parquet({files}, hive_partitioning = false, can_have_nan = true)"
