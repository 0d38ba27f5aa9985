"""How far a ledger was seen to go: what is read later must go on from there, and the witness is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from chary.errors import LedgerBroken, LedgerError
from chary.ledger.head import Head
from chary.ledger.witness import Witness

# Straight through the driver: these run in every transaction and take as long as the layers above would for themselves.
_HEAD = "SELECT entries, head FROM chain"
_HASH = "SELECT hash FROM entries WHERE number = {:d}"


class Bookmark:
    """Remembers the last head that was seen in a ledger, so that an older copy put in its place is refused.

    With a `witness` the memory outlives the process. All methods but `holds` belong inside of a writing transaction.
    """

    def __init__(self, witness: str | Path | None = None) -> None:
        self.seen = Head()
        self.witness = None if witness is None else Witness(witness)
        self._told: Head | None = None

    def follow(self, connection: Connection) -> None:
        """Raise `LedgerBroken` unless the ledger goes on from what was seen before."""
        self.go_on(self.read(connection), hash_at(connection, self.seen.entries))

    def go_on(self, now: Head, then: str | None) -> None:
        """Remember the head, unless the entry that was seen last has another hash by now or is gone."""
        if self.seen != Head() and then != self.seen.hash:
            raise LedgerBroken("the ledger was replaced by an older or another copy while it was open")
        self.seen = now

    def read(self, connection: Connection) -> Head:
        """The head as it is now."""
        found = raw(connection).execute(_HEAD).fetchone()
        if found is None:
            raise LedgerBroken("the head of the chain is missing")
        if tuple(map(type, found)) != (int, str):
            raise LedgerBroken("the head of the chain is damaged")
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
    return head == Head() or hash_at(connection, head.entries) == head.hash


def hash_at(connection: Connection, number: int) -> str | None:
    """The hash of an entry; None if there is none."""
    found = raw(connection).execute(_HASH.format(number)).fetchone()
    return None if found is None else found[0]


def raw(connection: Connection) -> Any:
    """The driver's own connection; those of SQLite and of PostgreSQL both have `execute`."""
    return connection.connection.driver_connection
