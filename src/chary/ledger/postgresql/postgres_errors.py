"""What errors of the server mean for a ledger; nothing of what they quote is kept, for it may be a secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from chary.errors import LedgerBroken, LedgerBusy, LedgerError

# Raised by the functions of a ledger; their messages are their own words.
OURS = "CHARY"
# Locks and statements that took too long, a deadlock, too many connections, a server that ends or begins.
_BUSY = frozenset({"55P03", "57014", "25P03", "40P01", "40001", "53300", "57P01", "57P02", "57P03"})
_DAMAGED = ("XX001", "XX002")
_FORBIDDEN = ("42501", "25006", "28000", "28P01")
_LOST = "the connection to the ledger's server was lost: nothing was recorded, try again"


class Lost(LedgerBusy):
    """The connection is gone, and with it the transaction."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the server and of its driver into ours, without any of their words."""
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
    """Python keeps the error as the context of ours whatever is said, so it must hold nothing itself."""
    vars(error).update(dict.fromkeys(set(names) & vars(error).keys()))
    error.args = ()
    error.__cause__ = error.__context__ = error.__traceback__ = None


def lost(error: BaseException | None) -> bool:
    """Whether the connection is gone: the server said so, or nobody said anything any more."""
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
        return LedgerBusy("others held the ledger, or its server was busy, for too long: try again")
    if state in _DAMAGED:
        return LedgerBroken("the ledger's tables are damaged")
    if state in _FORBIDDEN:
        return LedgerError("the role that is connected may not do this to the ledger")
    return LedgerError(f"the ledger's server refused a statement (SQLSTATE {state or 'unknown'})")
