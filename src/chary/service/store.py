"""The store of a service in SQLite or PostgreSQL: its tables, its transactions, and the migrations of its schema."""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    inspect,
    text,
)
from sqlalchemy.exc import DisconnectionError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.schema import CreateColumn

from chary.addresses import Address, file_of, is_server
from chary.client.problems import Refusal
from chary.errors import LedgerError

# The tables: about people and programs, not about data.


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True)


def _given(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one type that must not be null."""
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one type that may be null."""
    return [Column(name, kind) for name in names]


TABLES: Final = MetaData()
# One row: the layout of the database (`STEPS`).
LAYOUT: Final = Table("chary_layout", TABLES, Column("number", Integer, primary_key=True, autoincrement=False))
TOKENS: Final = Table(
    "chary_tokens",
    TABLES,
    _key("token", String(32)),
    *_given(Text, "hashed", "analyst", "roles", "datasets"),
    *_given(Float, "created", "expires"),
    *_optional(Float, "revoked"),
)
LOGGED_IN: Final = Table(
    "chary_logged_in", TABLES, _key("hashed", String(64)), *_given(String(32), "token"), *_given(Float, "expires")
)
TRAIL: Final = Table(
    "chary_trail",
    TABLES,
    _key("number", Integer),
    *_given(Text, "time", "token", "analyst", "dataset", "action"),
    *_optional(Text, "request"),
    *_given(Text, "asked"),
    *_given(String(64), "sealed"),
)
JOBS: Final = Table(
    "chary_jobs",
    TABLES,
    _key("job", String(32)),
    *_given(Text, "analyst", "dataset", "asked", "request"),
    *_given(String(16), "state", "step"),
    *_optional(Text, "problem"),
    *_given(Float, "touched"),
)
REQUESTS: Final = Table(
    "chary_requests",
    TABLES,
    *(_key(name, Text) for name in ("dataset", "analyst", "request")),
    *_optional(Integer, "call"),
)
PUBLISHED: Final = Table("chary_published", TABLES, _key("number", Integer), *_given(Text, "dataset", "time", "report"))
STANDING: Final = Table(
    "chary_standing",
    TABLES,
    _key("standing", String(16)),
    *_given(Text, "analyst", "token", "dataset", "asked", "every", "share"),
    *_given(String(8), "tell"),
    *_optional(Text, "webhook"),
    *_given(Float, "created"),
    *_given(String(16), "state"),
    *_given(Integer, "version"),
    *_given(Float, "looked", "charged"),
    *_given(Integer, "hits", "runs"),
    *_given(Float, "busy"),
    # From layout 2 on: the version of the rows at which it resumed after a pause, and until when it is silenced.
    *_optional(Integer, "resumed"),
    *_optional(Float, "silenced"),
)
TOLD: Final = Table(
    "chary_told",
    TABLES,
    _key("number", Integer),
    *_given(String(16), "standing"),
    *_given(Text, "analyst", "dataset", "time"),
    *_given(String(16), "kind"),
    *_given(Integer, "version"),
    *_optional(Integer, "call"),
    *_given(Text, "detail"),
    *_optional(Text, "webhook"),
    *_given(Integer, "tries"),
    *_optional(Float, "due"),
    # From layout 2 on.
    *_optional(String(16), "severity"),
    *_optional(Text, "note", "groups"),
    *_optional(Boolean, "silenced"),
    *_optional(Text, "acknowledged", "acknowledged_by"),
    UniqueConstraint("standing", "kind", "version"),
)
RATES: Final = Table("chary_rates", TABLES, _key("name", Text), *_given(Float, "left", "at"))


# The service's own database: a file by default, or a schema of a PostgreSQL server, which many machines share.

_PATIENCE_MS = 10_000
_PRIVATE = 0o600
# Seconds between two looks at the server's clock; in between, this process counts.
_CLOCK_SECONDS = 60.0


class ServiceStore:
    """Transactions on the service's database. It contains nothing of the data: no answer, no row, no secret of a token.

    `place` is a file, or `postgresql://user@host/database?schema=...`, which several processes and machines share. A
    database of an earlier version is migrated to this one, with its contents. Errors: `Refusal` with status 503 if
    another process locked it for too long or if it is down. `LedgerError` for a database of a newer version and for any
    other failure.
    """

    def __init__(self, place: str | Path) -> None:
        self.on_server = is_server(place)
        with _translated():
            self._engine = server_engine(str(place)) if self.on_server else _file(place)
        self._ahead, self._read_again = 0.0, -inf
        # Queries need no transaction.
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with self.transaction("tables") as connection:
                prepare(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, name: str = "") -> Iterator[Connection]:
        """One transaction: committed at the end of the block, rolled back if it raises.

        Those with one `name` are serialized; on a file all are.
        """
        with _translated(), self._engine.begin() as connection:
            if name and self.on_server:
                alone(connection, name)
            yield connection

    @contextmanager
    def held(self, name: str, seconds: float) -> Iterator[None]:
        """Lock a name against all other processes, waiting this many seconds; a process that dies loses its locks.

        Processes that share a file never append to datasets, so on a file there is no lock.
        """
        if not self.on_server:
            yield
            return
        with _translated(), held(self._engine, name, seconds):
            yield

    def clock(self, connection: Connection) -> float:
        """Seconds since 1970, by one clock for all processes of this database."""
        return server_clock(connection) if self.on_server else time.time()

    def now(self) -> float:
        """The same clock outside a transaction: read from the database once a minute."""
        if not self.on_server:
            return time.time()
        passed = time.monotonic()
        if passed >= self._read_again:
            with _translated(), self._reading.connect() as connection:
                self._ahead = server_clock(connection) - time.monotonic()
            self._read_again = passed + _CLOCK_SECONDS
        return time.monotonic() + self._ahead

    def rows(self, statement: Any) -> list[Any]:
        """The rows of a query."""
        if not self.on_server:
            with self.transaction() as connection:
                return list(connection.execute(statement))
        with _translated(), self._reading.connect() as connection:
            return list(connection.execute(statement))

    def change(self, statement: Any) -> int:
        """Execute a statement; returns how many rows it changed."""
        with self.transaction() as connection:
            return int(connection.execute(statement).rowcount)

    def add_once(self, statement: Any, name: str = "") -> bool:
        """Insert a row, serialized with others of that name; False if a row with its key exists, which stays."""
        with self.transaction(name) as connection:
            try:
                with connection.begin_nested():
                    connection.execute(statement)
            except IntegrityError:
                return False
        return True

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, NoConnection):
        raise Refusal(503, "the service's database was held by another process for too long, or is gone") from None
    except SQLAlchemyError as error:
        raise LedgerError(f"the service's database refused ({type(error).__name__})") from None


def _file(place: str | Path) -> Engine:
    file = file_of(place)
    _keep_private(file)
    return _writing_first(create_engine(URL.create("sqlite", database=str(file))))


def _keep_private(place: Path) -> None:
    """Make the file readable for its owner alone, like a ledger. SQLite gives its journals the same mode."""
    with suppress(OSError):  # SQLite raises its own error if it cannot open the file
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    with suppress(OSError):
        if stat.S_IMODE(place.stat().st_mode) != _PRIVATE:
            place.chmod(_PRIVATE)


def _writing_first(engine: Engine) -> Engine:
    """Begin transactions of SQLite as writers, so that none fails halfway because another one wrote."""

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
        connection.execute("PRAGMA journal_mode=WAL")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


# The layout of the service's database, and its migrations.
#
# Databases that were made before layouts had numbers have the first. A change of the tables above takes one more step
# here: tables that are missing are made before any step, so a step adds columns, or moves what is there.

Step = Callable[[Connection], None]


def prepare(connection: Connection) -> None:
    """Create the tables, or migrate them to the newest layout, in a transaction that excludes other migrations.

    Errors: `LedgerError` for an unknown layout; then nothing is changed.
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
    """Add a column of `TABLES` to an existing table.

    Existing rows have its server default, or null.
    """
    table = column.table.name
    if column.name in {known["name"] for known in inspect(connection).get_columns(table)}:
        return
    named = connection.dialect.identifier_preparer.quote(table)
    said = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {named} ADD COLUMN {said}")


def _alerts(connection: Connection) -> None:
    """Alerts have a severity, a note and groups; they can be silenced, acknowledged, and go on after a pause."""
    for name in ("resumed", "silenced"):
        add_column(connection, STANDING.c[name])
    for name in ("severity", "note", "groups", "silenced", "acknowledged", "acknowledged_by"):
        add_column(connection, TOLD.c[name])


# From layout 1 to 2, from 2 to 3, and so on; released steps never change.
STEPS: Final[tuple[Step, ...]] = (_alerts,)


def _held(connection: Connection, newest: int) -> int:
    """The layout of the database; the current one if it is empty."""
    there = inspect(connection)
    if there.has_table(LAYOUT.name):
        return int(connection.execute(LAYOUT.select()).scalar_one())
    return 1 if there.has_table(TOKENS.name) else newest


# The service's own database on a PostgreSQL server: a schema of its own, and locks that processes share.

_USUAL: Final = "chary_service"
_HELD_UP: Final = text("SELECT set_config('lock_timeout', :most, :here)")
_LOCKED: Final = text("SELECT pg_advisory_lock(:number)")
_ALONE: Final = text("SELECT pg_advisory_xact_lock(:number)")
_CLOCK: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
# Seconds after which an idle connection is checked before use.
_TRUSTED: Final = 1.0


def server_engine(place: str) -> Engine:
    """Connections to `postgresql://user@host/database?schema=...`; a missing schema is created.

    Errors: `InvalidParameter` for any other URL.
    """
    address = Address.parse(place, _USUAL, public=True)
    engine = create_engine(
        "postgresql+psycopg://",
        connect_args=address.options,
        pool_size=8,
        max_overflow=8,
        pool_timeout=_PATIENCE_MS / 1000,
    )

    def connected(connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {address.schema}")
            cursor.execute(f"SET lock_timeout TO {_PATIENCE_MS}")
            cursor.execute("SET default_transaction_isolation TO 'read committed'")
        connection.commit()

    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", _still_there)
    event.listen(engine, "checkin", _used)
    with engine.begin() as connection:
        alone(connection, "tables")
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {address.schema}"))
    return engine


def alone(connection: Connection, name: str) -> None:
    """Wait for the lock on a name; it is held until the transaction ends."""
    connection.execute(_ALONE, {"number": _number(name)})


@contextmanager
def held(engine: Engine, name: str, seconds: float) -> Iterator[None]:
    """Lock a name against all processes; the server releases it when this one dies. `OperationalError` after this many
    seconds.
    """
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
        connection.execute(_HELD_UP, {"most": str(max(1, round(seconds * 1000))), "here": False})
        connection.execute(_LOCKED, {"number": _number(name)})
        yield


def server_clock(connection: Connection) -> float:
    """Seconds since 1970 by the server's clock, which all machines share."""
    return float(connection.execute(_CLOCK).scalar_one())


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"chary service {name}".encode()).digest()[:8], signed=True)


def _used(_: Any, record: Any) -> None:
    record.info["used"] = time.monotonic()


def _still_there(connection: Any, record: Any, _: Any) -> None:
    if time.monotonic() - record.info["used"] < _TRUSTED:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.rollback()
    except Exception:  # any error: open a new connection
        raise DisconnectionError from None
