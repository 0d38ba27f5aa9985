"""Parquet files of a folder that join the rows later, and stay where they are."""

from pathlib import Path
from typing import Final

import duckdb

from chary.data.columns import quote
from chary.data.engines.duckdb.database import ROWS
from chary.data.engines.duckdb.growing.entry_check import check_entries
from chary.data.engines.duckdb.reading.attaching import describe, parquet
from chary.data.engines.duckdb.reading.loading import Loader, check_cells, select
from chary.data.files.sources import RowSource
from chary.errors import InvalidParameter, SchemaMismatch

APPENDED: Final = "chary_appended"
_JOINED: Final = "chary_joined"


def files_of(connection: duckdb.DuckDBPyConnection, loader: Loader) -> tuple[str, ...]:
    """The Parquet files of the rows: those of the opening, and those that joined later."""
    if not has_table(connection, _JOINED):
        return loader.source.paths
    joined = connection.execute(f"SELECT path FROM temp.main.{_JOINED} ORDER BY rowid").fetchall()
    return (*loader.source.paths, *(path for (path,) in joined))


def stays(loader: Loader, source: RowSource) -> bool:
    """Whether a batch is read where it is: files of the folder that was opened."""
    folder = loader.source.folder
    return loader.is_view and folder is not None and source.kind == "parquet" and all(map(folder.holds, source.paths))


def already(connection: duckdb.DuckDBPyConnection, loader: Loader, source: RowSource) -> bool:
    """Whether the files of a batch are among the rows; `InvalidParameter` if only some are, or one is there twice."""
    known = {Path(path).resolve() for path in files_of(connection, loader)}
    arriving = [Path(path).resolve() for path in source.paths]
    if len(set(arriving)) < len(arriving):
        raise InvalidParameter("one of these files is named twice: name each once; nothing was added")
    found = {path in known for path in arriving}
    if len(found) > 1:
        raise InvalidParameter("some of these files are among the rows already: append the others; nothing was added")
    return True in found


def join(connection: duckdb.DuckDBPyConnection, loader: Loader, source: RowSource) -> None:
    """Read further files with the others, in the transaction; `SchemaMismatch` for other columns or types."""
    kinds = describe(connection, parquet(loader.source.paths[:1]))
    if any(describe(connection, parquet([path])) != kinds for path in source.paths):
        raise SchemaMismatch("the files do not have the same columns of the same types; nothing was written")
    incoming = f"({select(loader.columns, parquet(source.paths))})"
    check_cells(connection, incoming)
    connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {_JOINED} (path VARCHAR)")
    connection.executemany(f"INSERT INTO temp.main.{_JOINED} VALUES (?)", [[path] for path in source.paths])
    look(connection, loader)
    if loader.limit is not None:
        check_entries(connection, loader.limit, f"temp.main.{ROWS}", incoming)


def look(connection: duckdb.DuckDBPyConnection, loader: Loader) -> None:
    """Make the rows what is in the files and what was appended in memory."""
    parts = [select(loader.columns, parquet(files_of(connection, loader)))]
    if has_table(connection, APPENDED):
        parts.append(f"SELECT {named(loader)} FROM temp.main.{APPENDED}")
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS {' UNION ALL '.join(parts)}")


def named(loader: Loader) -> str:
    """The columns of the rows, to be selected."""
    return ", ".join(quote(name) for name in loader.schema)


def has_table(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether there is such a table in memory."""
    asked = "SELECT 1 FROM duckdb_tables() WHERE temporary AND table_name = ?"
    return bool(connection.execute(asked, [name]).fetchall())
