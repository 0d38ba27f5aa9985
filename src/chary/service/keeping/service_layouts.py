"""Which layout the service's database has, and how it gets the one of this version.

Databases that were made before layouts had numbers have the first. A change of `service_tables` takes one more step
here: tables that are missing are made before any step, so a step adds columns, or moves what is there.
"""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Column, Connection, inspect
from sqlalchemy.schema import CreateColumn

from chary.errors import LedgerError
from chary.service.keeping.service_tables import LAYOUT, TABLES, TOKENS

Step = Callable[[Connection], None]
# From layout 1 to 2, from 2 to 3, and so on; what was once released never changes.
STEPS: Final[tuple[Step, ...]] = ()


def prepare(connection: Connection) -> None:
    """Make the tables, or bring them to the newest layout, inside of a transaction that no other maker is in.

    Errors: `LedgerError` for a layout that this version does not know; then nothing is changed.
    """
    newest = 1 + len(STEPS)
    held = _held(connection, newest)
    if held > newest:
        raise LedgerError("the service's database was laid out by a newer version of chary: update this one")
    TABLES.create_all(connection)
    for step in STEPS[held - 1 :]:
        step(connection)
    connection.execute(LAYOUT.delete())
    connection.execute(LAYOUT.insert().values(number=newest))


def add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column of `service_tables` to its table, if the table was there without it.

    The rows that are there have its server default, or nothing.
    """
    table = column.table.name
    if column.name in {known["name"] for known in inspect(connection).get_columns(table)}:
        return
    named = connection.dialect.identifier_preparer.quote(table)
    said = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {named} ADD COLUMN {said}")


def _held(connection: Connection, newest: int) -> int:
    """The layout of what is there; that of this version for an empty database."""
    there = inspect(connection)
    if there.has_table(LAYOUT.name):
        return int(connection.execute(LAYOUT.select()).scalar_one())
    return 1 if there.has_table(TOKENS.name) else newest
