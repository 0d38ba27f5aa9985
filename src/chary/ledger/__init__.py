"""Budgets that no crash, race or restart can overspend: reserve the worst cost, run, settle the actual one.

A ledger knows costs as integers and events as JSON; it does no privacy mathematics. `open_ledger` opens one in a
hash-chained file that many processes may share, in a schema of a server that many machines may share, or in memory.
"""

from chary.amounts import Amount as Amount
from chary.ledger.accounts import together as together
from chary.ledger.entries import Head as Head
from chary.ledger.ledger import Ledger as Ledger
from chary.ledger.locations import IN_MEMORY as IN_MEMORY
from chary.ledger.locations import ledger_exists as ledger_exists
from chary.ledger.locations import open_ledger as open_ledger
from chary.ledger.records import Balance as Balance
from chary.ledger.records import CallRecord as CallRecord
from chary.ledger.records import Note as Note
from chary.ledger.records import PartitionBalance as PartitionBalance
from chary.ledger.records import Parts as Parts
from chary.ledger.records import RequestAnswered as RequestAnswered
from chary.ledger.records import RequestUnanswered as RequestUnanswered
from chary.ledger.records import Reservation as Reservation
from chary.ledger.records import SecretMoved as SecretMoved
from chary.ledger.records import State as State
from chary.ledger.records import Terms as Terms
from chary.ledger.records import Verification as Verification
from chary.ledger.records import VersionMoved as VersionMoved
from chary.ledger.records import canonical as canonical
