"""A store in SQL: transactions of an engine, as those of a ledger."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from chary.errors import LedgerCorrupted, LedgerLocked
from chary.interruption import Uninterrupted
from chary.ledger import entries, records, verification
from chary.ledger.checkpoint import Checkpoint
from chary.ledger.sql.protocols import Holder, Transactions, Upkeep
from chary.ledger.sql.transaction import SqlTransaction
from chary.ledger.store import Progress

# How often a thread that waits looks whether Ctrl-C was pressed, in seconds.
_LOOK = 0.1


def check_opened(transactions: Transactions, upkeep: Upkeep) -> None:
    """What is checked whenever a ledger is opened: its totals, its end, and its checkpoint if it has one.

    Errors: `LedgerCorrupted` if it is damaged or an older copy than was kept.
    """
    with transactions.reading() as connection:
        verification.check(upkeep, connection)
        transactions.bookmark.follow(connection)
    if transactions.bookmark.checkpoint is not None:
        with transactions.writing() as connection:
            transactions.bookmark.call(connection)


@contextmanager
def turn(lock: RLock, timeout: float) -> Iterator[Uninterrupted]:
    """Let one thread at a time use a store; Ctrl-C is raised at the end of its turn.

    `LedgerLocked` where another thread holds the lock for `timeout` seconds, or when Ctrl-C comes while this one waits.
    """
    with Uninterrupted() as block:
        deadline = time.monotonic() + max(timeout, 0)
        while not lock.acquire(timeout=min(_LOOK, max(deadline - time.monotonic(), 0))):
            if block.arrived or time.monotonic() >= deadline:
                raise LedgerLocked(f"another thread held the ledger for more than {timeout:g} seconds")
        try:
            yield block
        finally:
            lock.release()


class SqlStore:
    """A ledger in tables of SQL, for all threads of a process; errors are chary's own and hold no data.

    An engine brings transactions, claims on running calls, and the upkeep of what follows from the entries.
    """

    lasting = True

    def __init__(self, transactions: Transactions, claims: Holder, upkeep: Upkeep) -> None:
        self.transactions = transactions
        self.claims = claims
        self.upkeep = upkeep

    def __repr__(self) -> str:
        return f"SqlStore({self.transactions!r})"

    @contextmanager
    def writing(self) -> Iterator[SqlTransaction]:
        """A transaction that holds the ledger against every other writer; all of it lasts when it ends, or nothing."""
        with self.transactions.writing() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """A short transaction that reads one state."""
        with self.transactions.reading() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    @contextmanager
    def kept(self) -> Iterator[SqlTransaction]:
        """One that reads, at whose end the checkpoint, if there is one, knows all that it could read."""
        with self.transactions.kept() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    def checkpoint(self, path: Path) -> entries.Head:
        """Make a new checkpoint, apart from the ledger itself."""
        self.transactions.check_apart(path)
        with self.transactions.writing() as connection:
            Checkpoint(path).renew(connection, head := self.transactions.bookmark.read(connection))
            return head

    def verify(self, progress: Progress | None) -> records.Verification:
        """Recompute everything from the entries, on a copy: others go on meanwhile. Damage is listed, not raised."""
        try:
            with self.transactions.copied() as connection:
                return verification.audit(self.upkeep, connection, progress)
        except LedgerCorrupted as error:
            return records.Verification(0, [str(error)])

    def close(self) -> None:
        """Let go of everything, and with it of every claim."""
        self.claims.close()
        self.transactions.close()
