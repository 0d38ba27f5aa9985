"""Where a ledger is: a file, or a schema of a server; and how it is opened."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from chary.errors import LedgerError
from chary.ledger.postgresql.address import Address, is_address
from chary.ledger.sql.upkeep import Transactions, Upkeep
from chary.ledger.sqlite.layout import file_of, lay_out
from chary.ledger.sqlite.ledger_file import SqlLedger
from chary.ledger.sqlite.ledger_files import create
from chary.ledger.sqlite.sqlite_upkeep import SqliteUpkeep
from chary.ledger.sqlite.store import Store

if TYPE_CHECKING:
    from chary.ledger.postgresql.postgres_ledger import PostgresLedger


def whereabouts(text: str) -> str | Path:
    """What a text names: a URL stays as it is, anything else is the path of a file.

    >>> whereabouts("postgresql://db.example/privacy")
    'postgresql://db.example/privacy'
    """
    return text if "://" in text else Path(text)


def open_ledger(
    target: str | Path, *, timeout: float = 30.0, witness: str | Path | None = None
) -> SqlLedger | PostgresLedger:
    """Open, or make, the ledger at a path, or at a URL that begins with `sqlite:` or `postgresql:`.

    Errors: those of `SqlLedger` and `PostgresLedger`, and `LedgerError` where the driver of PostgreSQL is missing.
    """
    if not is_address(target):
        return SqlLedger(target, timeout=timeout, witness=witness)
    _driver()
    from chary.ledger.postgresql.postgres_ledger import PostgresLedger  # noqa: PLC0415

    return PostgresLedger(str(target), timeout=timeout, witness=witness)


def ledger_exists(target: str | Path) -> bool:
    """Whether there is a ledger, or at least a file, by that name; nothing is made."""
    if not is_address(target):
        return file_of(target).exists()
    _driver()
    from chary.ledger.postgresql.layouts import laid_out  # noqa: PLC0415

    return laid_out(str(target))


def shown(target: str | Path) -> str:
    """A place as people are told of it, without passwords."""
    return Address.parse(str(target)).shown if is_address(target) else str(file_of(target).absolute())


def bare(target: str | Path, timeout: float = 30.0) -> tuple[Transactions, Upkeep]:
    """Transactions on a ledger, made if it is not there, whatever state it is in; only for moving one."""
    if not is_address(target):
        path = file_of(target)
        create(path, timeout, lambda new: lay_out(new, timeout))
        return Store(path, timeout), SqliteUpkeep()
    _driver()
    from chary.ledger.postgresql.postgres_ledger import bare_store  # noqa: PLC0415

    return bare_store(str(target), timeout)


def _driver() -> None:
    if find_spec("psycopg") is None:
        raise LedgerError("a ledger in PostgreSQL needs its driver: install chary[postgresql]")
