"""What to do about a ledger that was opened under wrong terms and never asked."""

from collections.abc import Iterator
from contextlib import contextmanager

from chary.errors import LedgerMismatch
from chary.ledger import Ledger


@contextmanager
def advising(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Add to a `LedgerMismatch` that the ledger may go, where no call was ever recorded.

    A charge is not enough to look at: a miss costs nothing and is still an answer, which a new budget would not know
    of; so is a call that was voided. Only public records are read, and the refusal stays a refusal.

    >>> from chary.ledger import MemoryLedger
    >>> with advising(MemoryLedger(), "visits"):
    ...     raise LedgerMismatch("the ledger holds other terms")
    Traceback (most recent call last):
    ...
    chary.errors.LedgerMismatch: the ledger holds other terms; nothing was ever asked or charged in this ledger: if
    these terms are right, delete its file and open again
    """
    try:
        yield
    except LedgerMismatch as mismatch:
        asked = {terms.name for terms in ledger.datasets() if any(True for _ in ledger.calls(terms.name, limit=1))}
        if dataset in asked:
            raise
        raise LedgerMismatch(f"{mismatch}; {_advice(dataset, bool(asked))}") from None


def _advice(dataset: str, others: bool) -> str:
    if others:
        return f"nothing was ever asked of {dataset!r} or charged: if these terms are right, take another ledger file"
    return "nothing was ever asked or charged in this ledger: if these terms are right, delete its file and open again"
