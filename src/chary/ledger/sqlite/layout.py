"""Which file a ledger is kept in, and what a new one holds."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, func, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError

from chary.errors import LedgerError
from chary.ledger.entries import GENESIS
from chary.ledger.sql.schema import (
    ADDED,
    BASIC,
    FORMAT,
    calls,
    chain,
    datasets,
    entries,
    imprint,
    metadata,
    seals,
    secrets,
)
from chary.ledger.sqlite.sqlite_engine import engine_of

SEAL = select(
    chain.c.id,
    chain.c.entries,
    select(func.coalesce(func.sum(text(imprint("digest"))), 0)).select_from(secrets).scalar_subquery().label("secrets"),
)


def lay_out(path: Path, timeout: float) -> None:
    """Write a ledger without entries into an empty file."""
    with closing(engine_of(path, timeout).connect()) as connection, connection.begin():
        metadata.create_all(connection, checkfirst=False)
        connection.execute(chain.insert(), {"id": 1, "format": FORMAT, "entries": 0, "head": GENESIS})
        connection.execute(seals.insert(), {"id": 1, "entries": 0, "secrets": 0})


def sealed(connection: Connection) -> bool:
    """Whether the ledger has its seal; those of earlier versions have none."""
    return inspect(connection).has_table(seals.name)


def add_seal(connection: Connection) -> None:
    """Seal the ledger of an earlier version as it is, unless another process has just done so."""
    if not sealed(connection):
        metadata.create_all(connection, tables=[seals], checkfirst=False)
        connection.execute(seals.insert().from_select(["id", "entries", "secrets"], SEAL))


def lacking(connection: Connection) -> list[tuple[str, str]]:
    """The columns, by table, that ledgers of earlier versions have not."""
    later = [(entries, "origin"), (entries, "basic"), *((datasets, name) for name in BASIC)]
    held = {table: {each["name"] for each in inspect(connection).get_columns(table.name)} for table, _ in later}
    return [(table.name, name) for table, name in later if name not in held[table]]


def add_lacking(connection: Connection) -> None:
    """Add the columns that another process has not just added; entries that are there have no origin, and datasets no
    basic account."""
    for table, name in lacking(connection):
        kind = "TEXT NOT NULL DEFAULT ''" if name == "origin" else "INTEGER NOT NULL DEFAULT 0"
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def indexed(connection: Connection) -> bool:
    """Whether the ledger has all indexes of this version."""
    known = inspect(connection)
    held = {each["name"] for table in (calls, entries) for each in known.get_indexes(table.name)}
    return all(index.name in held for index in ADDED)


def add_indexes(connection: Connection) -> None:
    """Make the indexes that earlier versions did not, unless another process has just done so."""
    for index in ADDED:
        index.create(connection, checkfirst=True)


def file_of(target: str | Path) -> Path:
    """The file behind a path or a URL; only SQLite files so far."""
    if "\0" in str(target):
        raise LedgerError("there is no file with a NUL in its name")
    if isinstance(target, Path) or "://" not in target:
        return Path(target)
    try:
        url = make_url(target)
    except ArgumentError:
        raise LedgerError("the ledger's URL cannot be read") from None
    if url.get_backend_name() != "sqlite" or url.query or url.database in (None, "", ":memory:"):
        raise LedgerError("a ledger's URL must be sqlite:///path; for one in memory use MemoryLedger")
    return Path(str(url.database))
