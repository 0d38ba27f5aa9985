"""A store in SQL: transactions of an engine, as those of a ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chary.errors import LedgerCorrupted
from chary.ledger import entries, records, verification
from chary.ledger.checkpoint import Checkpoint
from chary.ledger.sql.protocols import Holder, Transactions, Upkeep
from chary.ledger.sql.transaction import SqlTransaction
from chary.ledger.store import Progress


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


class SqlStore:
    """See `Store`. An engine brings transactions, claims on running calls, and the upkeep of what follows from the
    entries."""

    lasting = True

    def __init__(self, transactions: Transactions, claims: Holder, upkeep: Upkeep) -> None:
        self.transactions = transactions
        self.claims = claims
        self.upkeep = upkeep

    def __repr__(self) -> str:
        return f"SqlStore({self.transactions!r})"

    @contextmanager
    def writing(self) -> Iterator[SqlTransaction]:
        """A transaction that holds the ledger against every other writer."""
        with self.transactions.writing() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """A short transaction that reads one state."""
        with self.transactions.reading() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    @contextmanager
    def kept(self) -> Iterator[SqlTransaction]:
        """One that reads, and at whose end the checkpoint knows what it read."""
        with self.transactions.kept() as connection:
            yield SqlTransaction(connection, self.transactions.bookmark, self.upkeep, self.claims)

    def checkpoint(self, path: Path) -> entries.Head:
        """Make a new checkpoint, apart from the ledger itself."""
        self.transactions.check_apart(path)
        with self.transactions.writing() as connection:
            Checkpoint(path).start(head := self.transactions.bookmark.read(connection))
            return head

    def verify(self, progress: Progress | None) -> records.Verification:
        """Recompute everything, on a copy: charging goes on meanwhile."""
        try:
            with self.transactions.copied() as connection:
                return verification.audit(self.upkeep, connection, progress)
        except LedgerCorrupted as error:
            return records.Verification(0, [str(error)])

    def close(self) -> None:
        """Let go of everything, and with it of every claim."""
        self.claims.close()
        self.transactions.close()
