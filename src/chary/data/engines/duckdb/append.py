"""Batches appended to rows in DuckDB or in a folder of Parquet files, checked whole before they are written."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from chary.data import columns, rows
from chary.data.engines import batches
from chary.data.engines.compiler import ARRIVALS
from chary.data.engines.duckdb import reader
from chary.data.engines.duckdb.connection import Database, Growth, as_stored, fetched
from chary.data.engines.sql import ROWS, Column, select
from chary.data.source import RowSource
from chary.errors import EngineError, InvalidParameter, InvalidQuery, SchemaMismatch, quietly

# Looking for units with too many rows.


def check_entries(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, rows: str, among: str | None) -> None:
    """`SchemaMismatch`, naming nobody, if a unit (of the relation `among`, if given) is in too many rows."""
    if loader.limit is not None:
        unit = columns.quote(loader.limit.of)
        chosen = None if among is None else f"SELECT {unit} FROM {among}"
        found = partial(fetched, connection, values=())
        batches.check_entries(loader.limit, loader.schema, rows, unit, chosen, found)


# Parquet files of a folder that join the rows later, and stay where they are.

APPENDED: Final = "chary_appended"
_JOINED: Final = "chary_joined"
_BATCH: Final = "chary_batch"


def files_of(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> tuple[str, ...]:
    """The Parquet files of the rows: those of the opening, and those that joined later."""
    if not has_table(connection, _JOINED):
        return loader.source.paths
    joined = connection.execute(f"SELECT path FROM temp.main.{_JOINED} ORDER BY rowid").fetchall()
    return (*loader.source.paths, *(path for (path,) in joined))


def stays(loader: reader.Loader, source: RowSource) -> bool:
    """Whether a batch is read where it is: files of the folder that was opened."""
    folder = loader.source.folder
    return loader.is_view and folder is not None and source.kind == "parquet" and all(map(folder.holds, source.paths))


def already(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, source: RowSource) -> bool:
    """Whether the files of a batch are among the rows; `InvalidParameter` if only some are, or one is there twice."""
    known = {Path(path).resolve() for path in files_of(connection, loader)}
    arriving = [Path(path).resolve() for path in source.paths]
    if len(set(arriving)) < len(arriving):
        raise InvalidParameter("one of these files is named twice: name each once; nothing was added")
    found = {path in known for path in arriving}
    if len(found) > 1:
        raise InvalidParameter("some of these files are among the rows already: append the others; nothing was added")
    return True in found


def join(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, source: RowSource) -> None:
    """Read further files with the others, in the transaction; `SchemaMismatch` for other columns or types."""
    kinds = reader.describe(connection, reader.parquet(loader.source.paths[:1]))
    if any(reader.describe(connection, reader.parquet([path])) != kinds for path in source.paths):
        raise SchemaMismatch("the files do not have the same columns of the same types; nothing was written")
    incoming = f"({select(loader.columns, reader.parquet(source.paths))})"
    reader.check_cells(connection, incoming)
    connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {_JOINED} (path VARCHAR)")
    connection.executemany(f"INSERT INTO temp.main.{_JOINED} VALUES (?)", [[path] for path in source.paths])
    look(connection, loader)
    check_entries(connection, loader, f"temp.main.{ROWS}", incoming)


def look(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> None:
    """Make the rows what is in the files and what was appended in memory."""
    parts = [select(loader.columns, reader.parquet(files_of(connection, loader)))]
    if has_table(connection, APPENDED):
        parts.append(f"SELECT {named(loader)} FROM temp.main.{APPENDED}")
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS {' UNION ALL '.join(parts)}")
    reader.look_at_arrivals(connection, loader, f"temp.main.{APPENDED}" if len(parts) > 1 else None)


def named(loader: reader.Loader) -> str:
    """The columns of the rows, to be selected."""
    return ", ".join(columns.quote(name) for name in loader.schema)


def has_table(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether there is such a table in memory."""
    asked = "SELECT 1 FROM duckdb_tables() WHERE temporary AND table_name = ?"
    return bool(connection.execute(asked, [name]).fetchall())


# Adding rows to a table: all of them, or none.

# The type of a column of nothing but NULL in an Arrow table: it fits every column.
_UNTYPED = '"NULL"'


def append(
    database: Database, loader: reader.Loader, source: RowSource, request: str | None, arrive: rows.Arrival
) -> rows.Batch:
    """Check the columns of `source` against the table, insert them and remember the batch, in one transaction.

    In memory `arrive` gets the batch inside the transaction: if it fails, nothing was added. A file commits first,
    since it remembers the batch for anyone who did not learn of it. Files of a folder that was opened stay there.
    """
    in_place = stays(loader, source)
    arrived = source if in_place else quietly(lambda: reader.copied(source), batches.unfit())
    arrived = arrived if in_place else replace(arrived, types=loader.types(arrived))
    kept = batches_of(loader)

    def write(connection: duckdb.DuckDBPyConnection) -> rows.Batch:
        run = partial(fetched, connection)
        held = kept.asked(run, request)
        if held is not None:
            return held
        found = in_place and _found(connection, loader, arrived, request)
        kept.begin(run)
        if not kept.in_file:
            database.ends.setdefault(0, growth_of(connection, loader))
        unparsed = dict[str, columns.Unparsed]()
        if in_place and not found:
            quietly(lambda: join(connection, loader, arrived), batches.unfit())
        elif not in_place:
            unparsed = quietly(lambda: _insert(connection, loader, arrived), batches.unfit())
        batch = replace(kept.add(run, request), found=found, unparsed=unparsed)
        if not kept.in_file:
            database.ends[batch.number] = growth_of(connection, loader)
            arrive(batch)
        return batch

    batch: rows.Batch = quietly(lambda: database.write(write), batches.undone())
    if kept.in_file:
        arrive(batch)
    return batch


def batches_of(loader: reader.Loader) -> reader.Batches:
    """Where the batches of these rows are kept."""
    in_file = loader.path is not None
    relation = loader.stored if in_file else f"temp.main.{ROWS}"
    table = batches.KEPT if in_file else f"temp.main.{batches.KEPT}"
    return reader.Batches(table, loader.source.table or "", relation, in_file=in_file)


def _insert(
    connection: duckdb.DuckDBPyConnection, loader: reader.Loader, source: RowSource
) -> dict[str, columns.Unparsed]:
    """Add the rows; by column what of their strings became NULL, where anything did."""
    if loader.path is not None:
        reader.check_growable(connection, str(loader.source.table))
    reader.attach(connection, source)
    batches.check_names(
        loader.schema, list(reader.describe(connection, reader.relation_of(source))), source.kind == "csv"
    )
    relation = reader.typed(connection, source)
    found = reader.describe(connection, relation)
    incoming = reader.read_columns(found, loader.unit)
    batches.check_types(
        loader.schema,
        {column.name: column.type for column in incoming},
        {name for name, kind in found.items() if kind == _UNTYPED},
    )
    target = _target(connection, loader)
    kinds = reader.describe(connection, target)
    fitted = tuple(_fitted(column, kinds[column.name]) for column in incoming)
    typed = {name: [name] for name in source.types if kinds[name] != "VARCHAR"}
    batch = select(fitted, relation)
    if typed:  # strings are parsed once, and what became of them is counted
        connection.execute(f"CREATE TEMP TABLE {_BATCH} AS {batch}")
        batch = f"SELECT * FROM {_BATCH}"
    connection.execute(f"INSERT INTO {target} BY NAME {batch}")
    check_entries(connection, loader, batches_of(loader).relation, f"({select(incoming, relation)})")
    unparsed = reader.unparsed_in(connection, reader.relation_of(source), typed, kinds, _BATCH)
    if typed:
        connection.execute(f"DROP TABLE {_BATCH}")
    reader.detach(connection, source)
    return unparsed


def _fitted(column: Column, kind: str) -> Column:
    """The column in the narrower type of a file; a value that does not fit there becomes NULL, and fails nothing."""
    if column.type not in columns.SQL_TYPES or kind == columns.SQL_TYPES[column.type]:
        return column
    return replace(column, sql=f"TRY_CAST({column.sql} AS {kind})")


def _target(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> str:
    if loader.path is not None:
        return loader.stored
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    if not has_table(connection, APPENDED):
        connection.execute(f"CREATE TEMP TABLE {APPENDED} AS SELECT * FROM {ROWS} LIMIT 0")
        look(connection, loader)
    return f"temp.main.{APPENDED}"


def _found(
    connection: duckdb.DuckDBPyConnection, loader: reader.Loader, source: RowSource, request: str | None
) -> bool:
    """Whether the files are there already, and were asked for again under a key; `InvalidParameter` without one."""
    found = already(connection, loader, source)
    if found and request is None:
        raise InvalidParameter("this file is among the rows already; nothing was added")
    return found


# Which state rows are in, and which of them came after an earlier state.

GROWN: Final = "chary_grown"


@dataclass(frozen=True, repr=False)
class StateOfRows:
    """Which files there are, as the disk distinguishes them, and how many rows were added. Secret.

    Rows in memory belong to one connection and are only ever added: `rowid` numbers them. A file that is written again
    gets another time, size or number, so that two equal states are the same rows, as far as the disk shows. Of a DuckDB
    file it is known how often others wrote it (`Database.lineage`): in between, this process only added rows.
    """

    files: tuple[tuple[str, int, int, int, int], ...]
    upto: int

    def __repr__(self) -> str:
        return "StateOfRows(<secret>)"


def state_of(
    database: Database, connection: duckdb.DuckDBPyConnection, loader: reader.Loader, end: Growth | None = None
) -> StateOfRows | None:
    """The state now, or that of the rows up to an end; None where it cannot be determined.

    A column named rowid hides the engine's, and in a file from which rows were taken out the engine may give those
    behind them other numbers.
    """
    if _hides_rowid(loader):
        return None
    database.grown = now = database.grown or growth_of(connection, loader)
    paths, upto = end or now
    if loader.path is not None:
        is_told = _are_first(connection, loader, now[1])
        return StateOfRows(((loader.path, database.lineage, 0, 0, 0),), upto) if is_told else None
    try:
        return StateOfRows(tuple(map(_identity, paths)), upto)
    except OSError:
        return None


def growth_of(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> Growth:
    """How far rows have grown by now."""
    relation, upto = _added(connection, loader), 0
    if relation is not None:
        # Rows of a transaction have other numbers until it is committed.
        [(upto,)] = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()
    return files_of(connection, loader) if loader.is_view and loader.path is None else (), int(upto)


def look_at_growth(
    connection: duckdb.DuckDBPyConnection, loader: reader.Loader, before: StateOfRows, now: StateOfRows
) -> bool:
    """Make `temp.main.chary_grown` the rows that came between the states; False if the rows of then are others now."""
    known = len(before.files)
    if now.files[:known] != before.files or now.upto < before.upto:
        return False
    grown = _between(connection, loader, [path for path, *_ in now.files[known:]], before.upto, now.upto)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {GROWN} AS {grown}")
    return True


def _between(
    connection: duckdb.DuckDBPyConnection, loader: reader.Loader, files: Sequence[str], first: int, upto: int
) -> str:
    """SQL for the rows of some files and those that were added from one number to another."""
    relation, parts = _added(connection, loader), list[str]()
    if relation is not None:
        rows = select(loader.columns, relation) if loader.path else f"SELECT {named(loader)} FROM {relation}"
        parts.append(f"{rows} WHERE rowid >= {first} AND rowid < {upto}")
    if files:
        parts.append(select(loader.columns, reader.parquet(files)))
    return " UNION ALL ".join(parts)


# Rows of an earlier state.

THEN: Final = "chary_then"
ARRIVALS_THEN: Final = "chary_then_arrivals"


def end_of(
    database: Database, connection: duckdb.DuckDBPyConnection, loader: reader.Loader, batch: int, size: int | None
) -> Growth:
    """How far rows had grown with that batch, or when there were this many; `InvalidQuery` where that is not known.

    Rows are only added, so that those of then are the first ones.
    """
    if _hides_rowid(loader):
        raise InvalidQuery("a column named rowid hides which rows came first: ask about the rows of now")
    if loader.path is None:
        # Nothing came yet where no end is known.
        return database.ends[batch] if database.ends else growth_of(connection, loader)
    if size is None:
        held = batches_of(loader).of(partial(fetched, connection), batch)
        if held is None:
            raise InvalidQuery("this file does not tell how many rows there were before its first batch")
        size = held.rows
    return (), _place_of(connection, loader, size)


def _place_of(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, size: int) -> int:
    """The number before which the first this many rows are; they are numbered from 0, but where rows were taken out."""
    [(rows,)] = connection.execute(f"SELECT count(*) FROM {loader.stored}").fetchall()
    if rows < size:
        raise EngineError("there are fewer rows than there were: the rows were changed from outside")
    if size == 0 or _are_first(connection, loader, rows):
        return size
    numbered = f"SELECT rowid AS place, row_number() OVER (ORDER BY rowid) AS number FROM {loader.stored}"
    [(place,)] = connection.execute(f"SELECT place FROM ({numbered}) WHERE number = {size}").fetchall()
    return int(place) + 1


def _are_first(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, rows: int) -> bool:
    """Whether all the rows of a file, of which there are this many, have the first numbers: none was ever taken out."""
    beyond = f"SELECT 1 FROM {loader.stored} WHERE rowid >= {rows} LIMIT 1"
    return not connection.execute(beyond).fetchall()


def look_at_then(connection: duckdb.DuckDBPyConnection, loader: reader.Loader, end: Growth) -> None:
    """Make `temp.main.chary_then` the rows up to there, and `chary_then_arrivals` those in order, where it is known."""
    files, upto = end
    rows = _between(connection, loader, files, 0, upto)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {THEN} AS {rows}")
    if loader.knows_arrival:
        sql = f"SELECT * FROM temp.main.{ARRIVALS} WHERE {reader.places_before(loader, upto)}"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {ARRIVALS_THEN} AS {sql}")


def growing(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> str | None:
    """The relation in this process in which all rows are that came, and whose `rowid` grows with them; None where there
    is no such relation: yet, or since files joined.

    Rows of a DuckDB file are other processes' too, and a column named rowid hides the engine's.
    """
    if (
        loader.path is not None
        or _hides_rowid(loader)
        or (loader.is_view and len(files_of(connection, loader)) > len(loader.source.paths))
    ):
        return None
    return _added(connection, loader)


def _hides_rowid(loader: reader.Loader) -> bool:
    return "rowid" in map(str.lower, loader.schema)


def _added(connection: duckdb.DuckDBPyConnection, loader: reader.Loader) -> str | None:
    if loader.path is not None:
        return loader.stored
    if not loader.is_view:
        return f"temp.main.{ROWS}"
    return f"temp.main.{APPENDED}" if has_table(connection, APPENDED) else None


def _identity(path: str) -> tuple[str, int, int, int, int]:
    return path, *as_stored(path)
