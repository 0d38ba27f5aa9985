"""Which state rows are in, and which of them came after an earlier state."""

import os
from dataclasses import dataclass
from typing import Final

import duckdb

from chary.data.engines.duckdb.database import ROWS
from chary.data.engines.duckdb.growing.joining_files import APPENDED, files_of, has_table, named
from chary.data.engines.duckdb.reading.attaching import parquet
from chary.data.engines.duckdb.reading.loading import Loader, select

GROWN: Final = "chary_grown"


@dataclass(frozen=True, repr=False)
class StateOfRows:
    """Which files there are, as the disk tells them apart, and how many rows were added in memory. Secret.

    Rows in memory belong to one connection and are only ever added: `rowid` numbers them. A file that is written again
    gets another time, size or number, so that two equal states are the same rows, as far as the disk tells.
    """

    files: tuple[tuple[str, int, int, int, int], ...]
    upto: int

    def __repr__(self) -> str:
        return "StateOfRows(<secret>)"


def state_of(connection: duckdb.DuckDBPyConnection, loader: Loader) -> StateOfRows | None:
    """The state now; None where it cannot be told: other processes write into DuckDB files, and a column named rowid
    hides the engine's."""
    if _untold(loader):
        return None
    relation, upto = _added(connection, loader), 0
    if relation is not None:
        [(upto,)] = connection.execute(f"SELECT coalesce(max(rowid), -1) + 1 FROM {relation}").fetchall()
    paths = files_of(connection, loader) if loader.is_view else ()
    try:
        return StateOfRows(tuple(map(_identity, paths)), int(upto))
    except OSError:
        return None


def look_at_growth(
    connection: duckdb.DuckDBPyConnection, loader: Loader, before: StateOfRows, now: StateOfRows
) -> bool:
    """Make `temp.main.chary_grown` the rows that came between the states; False if the rows of then are others now."""
    known = len(before.files)
    if now.files[:known] != before.files or now.upto < before.upto:
        return False
    files = now.files[known:]
    relation, parts = _added(connection, loader), list[str]()
    if relation is not None:
        parts.append(f"SELECT {named(loader)} FROM {relation} WHERE rowid >= {before.upto}")
    if files:
        parts.append(select(loader.columns, parquet([path for path, *_ in files])))
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {GROWN} AS {' UNION ALL '.join(parts)}")
    return True


def growing(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str | None:
    """The relation in this process in which all rows are that came, and whose `rowid` grows with them; None where there
    is no such relation: yet, or since files joined.

    Rows of a DuckDB file are other processes' too, and a column named rowid hides the engine's.
    """
    if _untold(loader) or (loader.is_view and len(files_of(connection, loader)) > len(loader.source.paths)):
        return None
    return _added(connection, loader)


def _untold(loader: Loader) -> bool:
    return loader.path is not None or "rowid" in map(str.lower, loader.schema)


def _added(connection: duckdb.DuckDBPyConnection, loader: Loader) -> str | None:
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    return f"temp.main.{APPENDED}" if has_table(connection, APPENDED) else None


def _identity(path: str) -> tuple[str, int, int, int, int]:
    told = os.stat(path)
    return path, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns
