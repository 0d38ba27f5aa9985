"""Connections to a PostgreSQL server that holds ledgers: errors in a ledger's words, and drivers."""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from chary.addresses import Address
from chary.errors import LedgerCorrupted, LedgerError, LedgerLocked

# What errors of the server mean for a ledger; nothing of what they quote is kept, for it may be a secret.

# Raised by the functions of a ledger; their messages are their own words.
OURS = "CHARY"
# Locks and statements that took too long, a deadlock, too many connections, a server that ends or begins.
_BUSY = frozenset({"55P03", "57014", "25P03", "40P01", "40001", "53300", "57P01", "57P02", "57P03"})
_DAMAGED = ("XX001", "XX002")
_FORBIDDEN = ("42501", "25006", "28000", "28P01")
_LOST = "the connection to the ledger's server was lost: nothing was recorded, try again"


class Lost(LedgerLocked):
    """The connection is gone, and with it the transaction."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the server and of its driver into chary's own, without any of their words."""
    try:
        yield
    except SQLAlchemyError as error:
        found = getattr(error, "orig", None)
        told = meaning(found)
        _emptied(error, "statement", "params", "orig")
        raise told from None
    except psycopg.Error as error:
        told = meaning(error)
        _emptied(error, "_info")
        raise told from None


def _emptied(error: Exception, *names: str) -> None:
    """Python keeps the error as the context of chary's own whatever is said, so it must hold nothing itself."""
    vars(error).update(dict.fromkeys(set(names) & vars(error).keys()))
    error.args = ()
    error.__cause__ = error.__context__ = error.__traceback__ = None


def lost(error: BaseException | None) -> bool:
    """Whether the connection is gone: the server reported it, or no answer came."""
    state = getattr(error, "sqlstate", None) or ""
    silent = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not state
    return silent or state.startswith("08") or state in ("57P01", "57P02", "57P03", "25P03")


def meaning(error: BaseException | None) -> LedgerError:
    """Our error for one of the driver's."""
    state = getattr(error, "sqlstate", None) or ""
    if lost(error):
        return Lost(_LOST)
    if state == OURS:
        return LedgerError(str(getattr(getattr(error, "diag", None), "message_primary", "") or "refused"))
    if state in _BUSY:
        return LedgerLocked("others held the ledger, or its server was busy, for too long: try again")
    if state in _DAMAGED:
        return LedgerCorrupted("the ledger's tables are damaged")
    if state in _FORBIDDEN:
        return LedgerError("the role that is connected may not do this to the ledger")
    return LedgerError(f"the ledger's server refused a statement (SQLSTATE {state or 'unknown'})")


# One connection to the server: its settings, what it insists on, and what a fork may not do to it.

# How long one wait for a lock takes before Ctrl-C is looked at, in seconds; who waits longer asks again.
SLICE = 2.0
# A statement reads or writes a few rows; only the check at opening and a verification sum up whole tables.
_STATEMENT, _IDLE = 600, 30
# A process whose machine is gone keeps its locks no longer than about half a minute.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_VERSION = 140000
_DURABLE = ("on", "remote_apply")


class Wire:
    """A connection with the search path of one ledger, on which transactions are begun by hand.

    Insists on a server that writes (no standby), durably (`fsync` and `full_page_writes` are on), in UTF-8, from
    version 14; `synchronous_commit` is set to on unless it is stronger. `core` is the same connection for SQLAlchemy.
    In a forked child it is dead without a word to the server, which would take that for the parent's.
    """

    def __init__(self, address: Address, timeout: float, *, plain: bool = False) -> None:
        """`plain` is without SQLAlchemy, which asks the server some questions first."""
        wait = max(2, round(timeout))
        with translated():
            options: dict[str, Any] = {"connect_timeout": wait, "tcp_user_timeout": wait * 1000, **_ALIVE}
            options |= {"application_name": "chary", "client_encoding": "utf8"} | address.options
            self.driver = psycopg.connect(autocommit=True, **options)
        # With this object, or with the process; one that a fork left behind is not the child's to end.
        self._ended = weakref.finalize(self, _end, self.driver, os.getpid())
        self._core: Connection | None = None
        _wires.add(self)
        try:
            with translated():
                self._settle(address, timeout)
                self._core = None if plain else self._engine().connect()
        except BaseException:
            self.close()
            raise

    @property
    def core(self) -> Connection:
        """The connection for statements of SQLAlchemy."""
        if self._core is None:
            raise LedgerError("the connection is closed, or is for claims alone")
        return self._core

    def end(self, word: str) -> str:
        """Send COMMIT or ROLLBACK; the command that the server reports to have done."""
        told = self.driver.execute(word).statusmessage or ""
        if self._core is not None:
            self._core.rollback()
        return told

    def close(self) -> None:
        """Close it; the server undoes what was not committed and gives its locks back."""
        self._ended()
        core, self._core = self._core, None
        if core is not None:
            with suppress(Exception):
                core.invalidate()
                core.close()

    def forget(self) -> None:
        """In a forked child: hold the socket no longer, so that the server notices when the parent ends."""
        with suppress(Exception):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self.driver.fileno())
            os.close(nowhere)

    def _engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=lambda: self.driver,
            poolclass=NullPool,
            pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

    def _settle(self, address: Address, timeout: float) -> None:
        path = sql.SQL("SET search_path = {}, pg_temp").format(sql.Identifier(address.schema))
        durable = self.driver.execute("SHOW synchronous_commit").fetchone() or ("",)
        self.driver.execute(path)
        for name, seconds in (
            ("lock_timeout", min(SLICE, max(timeout, 0.01))),
            ("statement_timeout", _STATEMENT),
            ("idle_in_transaction_session_timeout", _IDLE + timeout),
            # A connection for claims is idle for as long as a call runs.
            ("idle_session_timeout", 0),
        ):
            self.driver.execute(f"SET {name} = {round(seconds * 1000)}")
        if durable[0] not in _DURABLE:
            self.driver.execute("SET synchronous_commit = on")
        self._insist()

    def _insist(self) -> None:
        asked = "current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery()"
        found = self.driver.execute(f"SELECT {asked}, current_setting('server_encoding')").fetchone()
        if self.driver.info.server_version < _VERSION:
            raise LedgerError("a ledger needs PostgreSQL 14 or newer")
        if found is None or found[:2] != ("on", "on"):
            raise LedgerError("the server does not write durably: fsync and full_page_writes must be on")
        if found[2]:
            raise LedgerError("the server is a standby, which only reads: name the one that writes")
        if found[3] != "UTF8":
            raise LedgerError("the database of a ledger has the encoding UTF8")


def _end(driver: psycopg.Connection[Any], process: int) -> None:
    if os.getpid() == process:
        with suppress(Exception):
            driver.close()


_wires: weakref.WeakSet[Wire] = weakref.WeakSet()
_inherited: list[Wire] = []


def _in_child() -> None:
    # Kept for ever: whatever collects them would speak to the server on the parent's connection.
    _inherited.extend(_wires)
    for wire in _inherited:
        wire.forget()


os.register_at_fork(after_in_child=_in_child)
