"""The service's own database: a file by default, or a schema of a PostgreSQL server, which many machines share."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection

from chary.errors import LedgerError
from chary.service.keeping.service_layouts import prepare
from chary.service.keeping.service_server import alone, held, server_clock, server_engine
from chary.service.wire.problems import Refusal

_PATIENCE_MS = 10_000
_PRIVATE = 0o600
# So long this process counts the seconds itself before it reads the server's clock again.
_CLOCK_SECONDS = 60.0


class ServiceStore:
    """Transactions on the service's database. Nothing about the data is in it: no answer, no row, no secret of a token.

    `place` is a file, or `postgresql://user@host/database?schema=...`, which several processes and machines share.
    One that an earlier version made is brought to the layout of this one; what is in it stays.
    Errors: `Refusal` with status 503 where another process held it for too long or where it is away, `LedgerError` for
    a database of a newer version and for anything else that it refuses.
    """

    def __init__(self, place: str | Path) -> None:
        self.on_server = "://" in str(place) and not str(place).startswith("sqlite")
        with _translated():
            self._engine = server_engine(str(place)) if self.on_server else _file(str(place))
        self._ahead, self._read_again = 0.0, -inf
        # A statement that reads needs no transaction around it.
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with self.transaction("tables") as connection:
                prepare(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, name: str = "") -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone where it raises.

        Those of one `name` follow one another; on a file all do.
        """
        with _translated(), self._engine.begin() as connection:
            if name and self.on_server:
                alone(connection, name)
            yield connection

    @contextmanager
    def held(self, name: str, seconds: float) -> Iterator[None]:
        """Hold a name against all other processes, waiting for it so long; it ends with the process.

        Processes that share a file are one machine's, and none of them grows: there it holds nothing.
        """
        if not self.on_server:
            yield
            return
        with _translated(), held(self._engine, name, seconds):
            yield

    def clock(self, connection: Connection) -> float:
        """Seconds since 1970, by one clock for all who share this database."""
        return server_clock(connection) if self.on_server else time.time()

    def now(self) -> float:
        """The same clock, without a transaction of one's own: it is read anew once a minute."""
        if not self.on_server:
            return time.time()
        passed = time.monotonic()
        if passed >= self._read_again:
            with _translated(), self._reading.connect() as connection:
                self._ahead = server_clock(connection) - time.monotonic()
            self._read_again = passed + _CLOCK_SECONDS
        return time.monotonic() + self._ahead

    def rows(self, statement: Any) -> list[Any]:
        """What a statement finds."""
        if not self.on_server:
            with self.transaction() as connection:
                return list(connection.execute(statement))
        with _translated(), self._reading.connect() as connection:
            return list(connection.execute(statement))

    def change(self, statement: Any) -> int:
        """Do it; returns how many rows it changed."""
        with self.transaction() as connection:
            return int(connection.execute(statement).rowcount)

    def add_once(self, statement: Any, name: str = "") -> bool:
        """Insert what it says, after others of that name; False where something with its key is there already, which
        stays."""
        with self.transaction(name) as connection:
            try:
                with connection.begin_nested():
                    connection.execute(statement)
            except IntegrityError:
                return False
        return True

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, NoConnection):
        raise Refusal(503, "the service's database was held by another process for too long, or is gone") from None
    except SQLAlchemyError as error:
        raise LedgerError(f"the service's database refused ({type(error).__name__})") from None


def _file(place: str) -> Engine:
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
