"""The service's own database: a file by default, any database that SQLAlchemy names by a URL."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from chary.errors import LedgerError
from chary.service.keeping.service_tables import TABLES
from chary.service.wire.problems import Refusal

_PATIENCE_MS = 10_000
_PRIVATE = 0o600


class ServiceStore:
    """Transactions on the service's database. Nothing about the data is in it: no answer, no row, no secret of a token.

    `place` is a file, or a URL such as `postgresql+psycopg://...`. Errors: `Refusal` with status 503 where another
    process held it for too long, `LedgerError` for anything else that the database refuses.
    """

    def __init__(self, place: str | Path) -> None:
        self._engine = _engine(str(place))
        with self.transaction() as connection:
            TABLES.create_all(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone where it raises."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except OperationalError:
            raise Refusal(503, "the service's database was held by another process for too long, or is gone") from None
        except SQLAlchemyError as error:
            raise LedgerError(f"the service's database refused ({type(error).__name__})") from None

    def rows(self, statement: Any) -> list[Any]:
        """What a statement finds."""
        with self.transaction() as connection:
            return list(connection.execute(statement))

    def change(self, statement: Any) -> int:
        """Do it; returns how many rows it changed."""
        with self.transaction() as connection:
            return int(connection.execute(statement).rowcount)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()


def _engine(place: str) -> Engine:
    if "://" in place and not place.startswith("sqlite"):
        return create_engine(make_url(place), pool_pre_ping=True)
    url = make_url(place if "://" in place else f"sqlite:///{place}")
    if url.database and not url.database.startswith((":memory:", "file:")):
        _keep_private(Path(url.database))
    return _writing_first(create_engine(url))


def _keep_private(place: Path) -> None:
    """For its owner alone, like a ledger: it holds what everybody asked. What SQLite puts beside it has its mode."""
    with suppress(OSError):  # SQLite says in its own words what it cannot open
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    with suppress(OSError):
        if stat.S_IMODE(place.stat().st_mode) != _PRIVATE:
            place.chmod(_PRIVATE)


def _writing_first(engine: Engine) -> Engine:
    """SQLite's transactions begin as writers, so that none fails in its middle because another one wrote."""

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
        connection.execute("PRAGMA journal_mode=WAL")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine
