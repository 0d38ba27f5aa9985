"""The service's own database on a PostgreSQL server: a schema of its own, and locks that processes share."""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DisconnectionError

from chary.errors import InvalidParameter

_USUAL: Final = "chary_service"
_SCHEMES: Final = ("postgresql", "postgresql+psycopg")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HELD_UP: Final = text("SELECT set_config('lock_timeout', :most, :here)")
_LOCKED: Final = text("SELECT pg_advisory_lock(:number)")
_ALONE: Final = text("SELECT pg_advisory_xact_lock(:number)")
_CLOCK: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
# A transaction of the service takes milliseconds.
_PATIENCE_MS: Final = 10_000
# A connection that was used so long ago is asked whether it is still there before it is used.
_TRUSTED: Final = 1.0


def server_engine(place: str) -> Engine:
    """Connections to `postgresql://user@host/database?schema=...`; the schema is made if it is not there.

    Errors: `InvalidParameter` for what is no such URL.
    """
    url, schema = _read(place)
    engine = create_engine(url, pool_size=8, max_overflow=8, pool_timeout=_PATIENCE_MS / 1000)

    def connected(connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {schema}")
            cursor.execute(f"SET lock_timeout TO {_PATIENCE_MS}")
            cursor.execute("SET default_transaction_isolation TO 'read committed'")
        connection.commit()

    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", _still_there)
    event.listen(engine, "checkin", _used)
    with engine.begin() as connection:
        alone(connection, "tables")
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    return engine


def alone(connection: Connection, name: str) -> None:
    """Wait until no other transaction holds that name; held until this one ends."""
    connection.execute(_ALONE, {"number": _number(name)})


@contextmanager
def held(engine: Engine, name: str, seconds: float) -> Iterator[None]:
    """Hold a name against all processes; the server lets go of it when this one dies. `OperationalError` after so many
    seconds."""
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
        connection.execute(_HELD_UP, {"most": str(max(1, round(seconds * 1000))), "here": False})
        connection.execute(_LOCKED, {"number": _number(name)})
        yield


def server_clock(connection: Connection) -> float:
    """Seconds since 1970 by the server's clock, which is one for all machines."""
    return float(connection.execute(_CLOCK).scalar_one())


def _read(place: str) -> tuple[URL, str]:
    url: URL | None = None
    with suppress(ArgumentError, ValueError):
        url = make_url(place)
    if url is None or url.drivername not in _SCHEMES or not url.database:
        raise InvalidParameter("store is a file, or postgresql://user@host/database?schema=name")
    said = url.query.get("schema", _USUAL)
    schema = said if isinstance(said, str) else said[-1]
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidParameter("the schema of a store is a name of small letters, digits and underscores")
    return url.set(drivername=_SCHEMES[1]).difference_update_query(["schema"]), schema


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
    except Exception:  # of whichever kind: a new connection is made
        raise DisconnectionError from None
