"""Which layout a schema has, and how it gets the one of this version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from chary.errors import LedgerError
from chary.ledger.postgresql.address import Address
from chary.ledger.postgresql.postgres_errors import Lost, translated
from chary.ledger.postgresql.wire import Wire

# Names of migrations, oldest first; see the files in `migrations`.
LAYOUTS = ("1", "2", "3", "4", "5")
_HELD = "SELECT to_regclass(%s) IS NOT NULL"
_OLD = "SELECT version_num FROM alembic_version"
# One maker of ledgers at a time in a database: any number that is always the same.
_MAKING = 0x6368617279


def layout_of(wire: Wire, address: Address) -> str | None:
    """The version of the schema's layout; None if there is no ledger. Only inside of a transaction."""
    with translated():
        found = wire.driver.execute(_HELD, (f"{address.schema}.alembic_version",)).fetchone()
        if not found or not found[0]:
            return None
        row = wire.driver.execute(_OLD).fetchone()
        return None if row is None else str(row[0])


def prepare(wire: Wire, address: Address, timeout: float, to: str = LAYOUTS[-1]) -> None:
    """Make the ledger, or bring it to the layout `to`, in one transaction; only its owner can.

    Who makes another ledger of the database at the same time is waited for.

    Errors: `LedgerError` for a layout that this version does not know, and when the role may not do it.
    """
    held = layout_of(wire, address)
    if held == to:
        return
    if held is not None and held not in LAYOUTS:
        raise LedgerError("the ledger was laid out by a newer version of chary: update this one")
    with translated(), _alone(wire, timeout):
        wire.driver.execute("BEGIN")
        try:
            if layout_of(wire, address) is None:
                wire.driver.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
            migrate(wire.core, to)
        except BaseException:
            wire.end("ROLLBACK")
            raise
        wire.end("COMMIT")


@contextmanager
def _alone(wire: Wire, timeout: float) -> Iterator[None]:
    """Hold the lock of makers. It is taken before their transaction begins: a server that waits within one goes on
    believing what it has seen of schemas before, and would make a second one of the same name."""
    wire.driver.execute("BEGIN")
    try:
        wire.driver.execute(f"SET LOCAL lock_timeout = {round(timeout * 1000) + 1}")
        wire.driver.execute("SELECT pg_advisory_lock(%s)", (_MAKING,))
    except BaseException:
        wire.end("ROLLBACK")
        raise
    wire.end("COMMIT")
    try:
        yield
    finally:
        # A lost connection has given it back.
        with suppress(psycopg.Error):
            wire.driver.execute("SELECT pg_advisory_unlock(%s)", (_MAKING,))


def migrate(connection: Connection, to: str) -> None:
    """Run the migrations up to a version inside of the running transaction."""
    # Alembic and its templates take a tenth of a second to import, and are needed once in the life of a ledger.
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    place = str(Path(__file__).with_name("migrations"))
    config.set_main_option("script_location", place)
    config.set_main_option("version_locations", place)
    config.set_main_option("path_separator", "newline")
    scripts = ScriptDirectory.from_config(config)

    def steps(held: Any, _context: Any) -> Any:
        return scripts._upgrade_revs(to, held)

    with EnvironmentContext(config, scripts, fn=steps, destination_rev=to) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()


def laid_out(target: str, timeout: float = 10.0) -> bool:
    """Whether there is a ledger at this URL; nothing is made."""
    address = Address.parse(target)
    try:
        wire = Wire(address, timeout, plain=True)
    except Lost:
        raise LedgerError("the ledger's server cannot be reached, or does not let this role in") from None
    try:
        return layout_of(wire, address) is not None
    finally:
        wire.close()
