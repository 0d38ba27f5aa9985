"""Budgets that no crash, race or restart can overspend: reserve the worst price, run, settle the actual one.

A ledger knows prices as whole numbers and events as JSON; it does no privacy mathematics. `SqlLedger` keeps a
hash-chained file that many processes may share, `PostgresLedger` (which `open_ledger` opens at a URL) a schema of a
server that many machines may share, and `MemoryLedger` follows the same rules inside one process.
"""

from chary.amounts import Amount
from chary.ledger.entries import Head
from chary.ledger.ledger import Ledger
from chary.ledger.locations import ledger_exists, open_ledger, whereabouts
from chary.ledger.memory import MemoryLedger
from chary.ledger.records import (
    Balance,
    CallRecord,
    Note,
    RequestAnswered,
    RequestUnanswered,
    Reservation,
    SecretMoved,
    State,
    Terms,
    Verification,
    VersionMoved,
    canonical,
)
from chary.ledger.sqlite.store import SqlLedger

__all__ = [
    "Amount",
    "Balance",
    "CallRecord",
    "Head",
    "Ledger",
    "MemoryLedger",
    "Note",
    "RequestAnswered",
    "RequestUnanswered",
    "Reservation",
    "SecretMoved",
    "SqlLedger",
    "State",
    "Terms",
    "Verification",
    "VersionMoved",
    "canonical",
    "ledger_exists",
    "open_ledger",
    "whereabouts",
]
