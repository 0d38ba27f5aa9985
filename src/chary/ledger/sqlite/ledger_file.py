"""A ledger in a file: durable, hash-chained, shared by any number of processes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from chary.errors import InvalidParameter
from chary.ledger.claims import Claims
from chary.ledger.head import Head
from chary.ledger.sql.bookmark import Bookmark
from chary.ledger.sql.kept_ledger import KeptLedger
from chary.ledger.sqlite import ledger_files as files
from chary.ledger.sqlite.layout import file_of, lay_out
from chary.ledger.sqlite.preparing import prepare
from chary.ledger.sqlite.sqlite_upkeep import SqliteUpkeep
from chary.ledger.sqlite.store import Store
from chary.ledger.witness import check_apart


class SqlLedger(KeptLedger):
    """See `Ledger` for what every method guarantees. It is kept in one SQLite file of mode 0600.

    The target is a path or a URL such as `sqlite:////data/visits.ledger`. A new file is created; an existing
    one is checked in about a second at most: `LedgerBroken` if totals, numbering or the end of the chain are
    wrong, `LedgerError` if it is no ledger or has another format. `timeout` is how many seconds to wait for
    others before `LedgerBusy`. Threads may share the object, and so may forked children, which open the file anew.
    `witness` is a small file elsewhere that is told the head of the ledger before anything is handed out: an older copy
    of the ledger then raises `LedgerBroken`, as does one that is put in its place while it is open. A ledger that is
    moved, deleted or has a second name (hard link) raises `LedgerError` at the next transaction.

    >>> import tempfile
    >>> from chary.ledger import Amount, Terms
    >>> path = tempfile.mkdtemp() + "/visits.ledger"
    >>> ledger = SqlLedger(path)
    >>> ledger.open(Terms("visits", "ab12", '{"unit": "patient"}', Amount(10)))
    >>> crashed = ledger.reserve("visits", "ann", "count", '{"where":"age > 65"}', Amount(4))
    >>> ledger.close()
    >>> again = SqlLedger(path)
    >>> again.balance("visits").left, again.verify().ok
    (Amount(main=6, delta=0), True)
    >>> again.close()
    """

    def __init__(self, target: str | Path, *, timeout: float = 30.0, witness: str | Path | None = None) -> None:
        path = file_of(target)
        check_apart(path, witness)
        files.create(path, timeout, lambda new: lay_out(new, timeout))
        self._store: Store = Store(path, timeout, Bookmark(witness))
        super().__init__(self._store, Claims(path), SqliteUpkeep())
        try:
            prepare(self._store, self._upkeep)
        except BaseException:
            self._store.close()
            raise

    def __repr__(self) -> str:
        return f"SqlLedger({str(self._store.path)!r})"

    def backup(self, to: str | Path) -> Head:
        """Write a consistent, durable copy of mode 0600, while others go on charging, and return its head.

        A file that is there already raises `InvalidParameter`. A copy is for the day on which the ledger is lost:
        whoever charges it while the ledger lives spends the budget twice.
        """
        check_apart(self._store.path, to, "a copy")
        if not files.create(Path(to).absolute(), self._store.timeout, self._store.copy_to):
            raise InvalidParameter(f"there is a file {to} already: a backup replaces none")
        with closing(SqlLedger(Path(to), timeout=self._store.timeout)) as copy:
            return copy.head()

    def witness(self, path: str | Path) -> Head:
        """Make a new witness that knows this ledger as it is; `chary.open(..., witness=path)` asks it from then on.

        It takes the place of a witness; any other file that is there raises `InvalidParameter`.
        """
        check_apart(self._store.path, path)
        return super().witness(path)
