"""A ledger in a schema of PostgreSQL: shared by any number of processes and machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chary.ledger.postgresql.address import Address
from chary.ledger.postgresql.advisory_claims import AdvisoryClaims
from chary.ledger.postgresql.layouts import prepare
from chary.ledger.postgresql.postgres_store import PostgresStore
from chary.ledger.postgresql.postgres_upkeep import PostgresUpkeep
from chary.ledger.postgresql.wire import Wire
from chary.ledger.sql import soundness
from chary.ledger.sql.bookmark import Bookmark
from chary.ledger.sql.kept_ledger import KeptLedger


class PostgresLedger(KeptLedger):
    """See `Ledger` for what every method guarantees. It is kept in one schema of a PostgreSQL database (14 or newer).

    The target is a URL, `postgresql://user@host/database?schema=visits` with further options of libpq. The schema is
    made if it is not there and the role may do so, and brought to the newest layout by its owner. At opening totals,
    numbering and the end of the chain are checked (`LedgerBroken`). `timeout` is how many seconds to wait for others,
    and for a server that is away, before `LedgerBusy`. Threads may share the object, and so may forked children, which
    connect anew. `witness` is a file on this machine as for `SqlLedger`: a server that was restored to an older state
    is then refused.

    Formal guarantees beyond those of `Ledger`, proved where they are kept:

    1. Writers follow one another, and whether a commit whose reply was lost took place is looked up, never guessed
       (`PostgresStore`).
    2. A claim on a request key ends with the process that runs the call, or with its connection; in the second case at
       most one of the calls under the key is answered (`AdvisoryClaims`).
    3. A role that was given only what `roles` gives it appends what the rules allow and changes nothing else.
    """

    def __init__(self, target: str, *, timeout: float = 30.0, witness: str | Path | None = None) -> None:
        address = Address.parse(target)
        self._store: PostgresStore = PostgresStore(address, timeout, Bookmark(witness))
        claims = AdvisoryClaims(partial(Wire, address, timeout, plain=True), lambda: self._store.wire)
        self._advisory = claims
        super().__init__(self._store, claims, PostgresUpkeep())
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresLedger({self._store.address.shown!r})"

    def close(self) -> None:
        """Let go of both connections, and with them of every claim."""
        self._advisory.close()
        super().close()

    def _prepare(self) -> None:
        prepare(self._store.wire, self._store.address, self._store.timeout)
        with self._store.reading() as connection:
            soundness.check(self._upkeep, connection)
            self._store.bookmark.follow(connection)
        if self._store.bookmark.witness is not None:
            with self._store.writing() as connection:
                self._store.bookmark.call(connection)


def bare_store(target: str, timeout: float) -> tuple[PostgresStore, PostgresUpkeep]:
    """Transactions on a ledger, made if it is not there, also on one that moved; only for moving it."""
    address = Address.parse(target)
    store = PostgresStore(address, timeout, Bookmark(), moved=True)
    try:
        prepare(store.wire, address, timeout)
        # It is held, and idle, while the other place is written and verified.
        store.wire.driver.execute("SET idle_in_transaction_session_timeout = 0")
    except BaseException:
        store.close()
        raise
    return store, PostgresUpkeep()
