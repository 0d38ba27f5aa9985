"""The marks of a ledger that moved away, and of one that is arriving: nothing is charged in it, by any version."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Table, inspect, select, update

from chary.errors import LedgerBroken, LedgerError
from chary.ledger.head import Head
from chary.ledger.sql.schema import FORMAT, TWO_ACCOUNTS, apart, chain, datasets, number_column, text_column

# Formats of their own, so that every version refuses to open it.
DEPARTED, ARRIVING = 0, -1

departures = Table(
    "departures",
    apart,
    Column("id", number_column("id").type, primary_key=True, autoincrement=False),
    text_column("place"),
    number_column("entries"),
    text_column("head"),
    sqlite_strict=True,
)
# Versions that have the file open look at its format no more, but this stops them.
_STOP = "CREATE TRIGGER {} BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'moved'); END"
_GONE, _COMING = "ledger_has_moved", "ledger_is_arriving"


def depart(connection: Connection, place: str, head: Head) -> None:
    """Mark a ledger that went to `place` with this head, in the transaction that holds it."""
    if connection.dialect.name == "sqlite":
        departures.create(connection)
        connection.exec_driver_sql(_STOP.format(_GONE))
    connection.execute(departures.insert(), {"id": 1, "place": place, "entries": head.entries, "head": head.hash})
    connection.execute(update(chain).values(format=DEPARTED))


def arrive(connection: Connection) -> None:
    """Mark a ledger whose rows have come, and which its source has not left yet: whoever has it open is stopped too."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_STOP.format(_COMING))
    connection.execute(update(chain).values(format=ARRIVING))


def activate(connection: Connection) -> None:
    """Let a ledger that arrived be charged; in one that is charged already nothing changes."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_COMING}")
    connection.execute(update(chain).values(format=format_of(connection)).where(chain.c.format == ARRIVING))


def format_of(connection: Connection) -> int:
    """The format that a ledger with these datasets has."""
    if connection.dialect.name != "sqlite":
        return FORMAT
    two = connection.execute(select(datasets.c.name).where(datasets.c.capacity_basic > 0).limit(1)).first()
    return FORMAT if two is None else TWO_ACCOUNTS


def place_of(connection: Connection) -> tuple[str, Head]:
    """Where a ledger that departed went, and with which head."""
    row = connection.execute(select(departures)).one_or_none()
    if row is None:
        raise LedgerBroken("the mark of a moved ledger is damaged")
    return row.place, Head(row.entries, row.head)


def chargeable(connection: Connection, format: int) -> None:
    """Raise `LedgerError` unless the ledger has the format of this version, saying where one went that has moved."""
    if format == DEPARTED and inspect(connection).has_table(departures.name):
        raise LedgerError(f"the ledger was moved to {place_of(connection)[0]}: open it there")
    if format == ARRIVING:
        raise LedgerError("the ledger is still arriving here: finish `chary ledger move` by the same command")
    if format not in (FORMAT, TWO_ACCOUNTS):
        raise LedgerError(
            f"the ledger has format {format}, this version of chary reads formats {FORMAT} and {TWO_ACCOUNTS}"
        )
