"""Where a session's ledger is, and who witnesses how far it went."""

import os
from dataclasses import dataclass
from pathlib import Path

from chary.errors import InvalidParameter, LedgerBroken, LedgerError
from chary.ledger import Ledger, MemoryLedger, ledger_exists, open_ledger
from chary.ledger.postgresql.address import is_address
from chary.ledger.sqlite.layout import file_of
from chary.ledger.witness import check_apart

IN_MEMORY = ":memory:"


@dataclass(frozen=True)
class Place:
    """Where the ledger is, and the witness of how far it went."""

    ledger: str | Path | Ledger
    witness: str | Path | None

    @property
    def missing(self) -> bool:
        """Whether the ledger is a file, or a schema of a server, that is not there yet.

        Errors: `LedgerError` where it could never be, and where a witness tells that it was there.
        """
        if not isinstance(self.ledger, (str, Path)) or str(self.ledger) == IN_MEMORY:
            return False
        if not is_address(self.ledger):
            check_apart(file_of(self.ledger), self.witness)
        if ledger_exists(self.ledger):
            return False
        if self.witness is not None and Path(self.witness).exists():
            raise LedgerBroken("the ledger is gone, its witness is there: restore the newest copy of the ledger")
        return is_address(self.ledger) or self._has_folder(file_of(self.ledger))

    def _has_folder(self, file: Path) -> bool:
        if not os.access(file.absolute().parent, os.W_OK | os.X_OK):
            raise LedgerError("the ledger's file cannot be used: its folder is missing, or cannot be written to")
        return True

    def open(self) -> Ledger:
        """The ledger itself, or the one that was handed in."""
        if isinstance(self.ledger, (str, Path)) and str(self.ledger) != IN_MEMORY:
            return open_ledger(self.ledger, witness=self.witness)
        if self.witness is not None:
            raise InvalidParameter("only a ledger that is opened by its path or its URL has a witness")
        return MemoryLedger() if isinstance(self.ledger, (str, Path)) else self.ledger
