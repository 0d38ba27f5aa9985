"""How far a ledger was seen to go: what is read later must go on from there, and the witness is told."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import cast

from sqlalchemy import Connection

from chary.errors import LedgerBroken, LedgerError
from chary.ledger.head import Head
from chary.ledger.witness import Witness

# Straight through the driver: these run in every transaction and take as long as the layers above would for themselves.
_HEAD = "SELECT entries, head FROM chain"
_HASH = "SELECT hash FROM entries WHERE number = ?"


class Bookmark:
    """Remembers the last head that was seen in a file, so that an older copy put in its place is refused.

    With a `witness` the memory outlives the process. All methods but `holds` belong inside of a writing transaction.
    """

    def __init__(self, witness: str | Path | None = None) -> None:
        self.seen = Head()
        self.witness = None if witness is None else Witness(witness)
        self._told: Head | None = None

    def follow(self, connection: Connection) -> None:
        """Raise `LedgerBroken` unless the ledger goes on from what was seen before."""
        if not holds(connection, self.seen):
            raise LedgerBroken("the ledger was replaced by an older or another copy while it was open")
        self.seen = self.read(connection)

    def read(self, connection: Connection) -> Head:
        """The head as it is now."""
        found = raw(connection).execute(_HEAD).fetchone()
        if found is None:
            raise LedgerBroken("the head of the chain is missing")
        return Head(*found)

    def move(self, head: Head) -> None:
        """Remember a head that was committed, and tell the witness, once it was asked, what it does not know."""
        self.seen = head
        # `seen` moves first: should the witness fail, this process still refuses an older copy.
        if self.witness is not None and self._told not in (None, head):
            self.witness.move(head)
            self._told = head

    def call(self, connection: Connection) -> None:
        """Ask the witness at opening; a ledger without entries may have a new one."""
        if self.witness is None:
            return
        witnessed, head = self.witness.read(), self.read(connection)
        if witnessed is None and not head.entries:
            self.witness.start(head)
            witnessed = head
        elif witnessed is None:
            raise LedgerError(
                f"there is no witness at {self.witness.path}; if this ledger is certainly the newest one, make it by "
                "`chary ledger head FILE --witness PATH`"
            )
        elif not holds(connection, witnessed):
            raise LedgerBroken(
                f"this ledger is an older or another copy: it has {head.entries} entries and does not hold the "
                f"witnessed entry {witnessed.entries}"
            )
        self._told = witnessed


def holds(connection: Connection, head: Head) -> bool:
    """Whether the entries up to this head are those that it stands for; every ledger holds the empty one."""
    if head == Head():
        return True
    found = raw(connection).execute(_HASH, (head.entries,)).fetchone()
    return found is not None and found[0] == head.hash


def raw(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)
