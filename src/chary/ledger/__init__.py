"""Budgets that no crash, race or restart can overspend: reserve the worst cost, run, settle the actual one.

A ledger knows costs as integers and events as JSON; it does no privacy mathematics. `open_ledger` opens one in a
hash-chained file that many processes may share, in a schema of a server that many machines may share, or in memory.
"""

from chary.amounts import Amount
from chary.ledger.accounts import together
from chary.ledger.entries import Head
from chary.ledger.ledger import Ledger
from chary.ledger.locations import IN_MEMORY, ledger_exists, open_ledger
from chary.ledger.records import (
    Balance,
    CallRecord,
    Note,
    PartitionBalance,
    Parts,
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

__all__ = [
    "IN_MEMORY",
    "Amount",
    "Balance",
    "CallRecord",
    "Head",
    "Ledger",
    "Note",
    "PartitionBalance",
    "Parts",
    "RequestAnswered",
    "RequestUnanswered",
    "Reservation",
    "SecretMoved",
    "State",
    "Terms",
    "Verification",
    "VersionMoved",
    "canonical",
    "ledger_exists",
    "open_ledger",
    "together",
]
