"""A ledger in a file: durable, hash-chained, shared by any number of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, inspect, make_url
from sqlalchemy.exc import ArgumentError

from chary.amounts import Amount
from chary.errors import LedgerError
from chary.ledger import soundness, sql_reads, sql_writes
from chary.ledger.accounts import fitting_share
from chary.ledger.checks import count, unchanged
from chary.ledger.drafts import noting, reserving, settling, sharing, voiding
from chary.ledger.entries import GENESIS
from chary.ledger.protocol import Progress
from chary.ledger.records import Balance, Call, Note, Reservation, Tally, Verification
from chary.ledger.schema import FORMAT, chain, metadata
from chary.ledger.sql_audit import audit
from chary.ledger.statements import read_head
from chary.ledger.store import Store
from chary.ledger.terms import Terms, agree


class SqlLedger:
    """See `Ledger` for what every method guarantees. It is kept in one SQLite file of mode 0600.

    The target is a path or a URL such as `sqlite:////data/visits.ledger`. A new file is created; an existing
    one is checked in about a second at most: `LedgerBroken` if totals, numbering or the end of the chain are
    wrong, `LedgerError` if it is no ledger or has another format. `timeout` is how many seconds to wait for
    others before `LedgerBusy`. Threads and forked children may share the object.

    >>> import tempfile
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

    def __init__(self, target: str | Path, *, timeout: float = 30.0) -> None:
        self._store = Store(_path(target), timeout)
        try:
            self._prepare()
        except BaseException:
            self._store.close()
            raise

    def __repr__(self) -> str:
        return f"SqlLedger({str(self._store.path)!r})"

    def open(self, terms: Terms) -> None:
        """Create the dataset or check its terms."""
        with self._store.writing() as connection:
            held = {each.name: each for each in sql_reads.terms(connection)}.get(terms.name)
            if held:
                agree(held, terms)
            else:
                sql_writes.create(connection, terms)

    def set_share(self, dataset: str, analyst: str, cap: Amount) -> None:
        """Cap one analyst."""
        with self._store.writing() as connection:
            at = sql_writes.standing(connection, dataset, analyst)
            entry = sharing(at.number + 1, dataset, analyst, cap)
            fitting_share(at.capacity, at.analyst, cap)
            sql_writes.share(connection, at, entry)

    def reserve(
        self, dataset: str, analyst: str, kind: str, body: str, worst: Amount, request: str | None = None
    ) -> Reservation:
        """Charge the worst price before any data are touched."""
        with self._store.writing() as connection:
            at = sql_writes.standing(connection, dataset, analyst)
            entry = reserving(at.number + 1, dataset, analyst, kind, body, worst, request)
            sql_writes.unclaimed(connection, entry)
            at.dataset.admit(worst, "dataset")
            at.analyst.admit(worst, "analyst")
            sql_writes.reserve(connection, at, entry)
        return Reservation(entry.number)

    def settle(
        self,
        reservation: Reservation,
        price: Amount,
        hits: int,
        tests: int,
        answer: str,
        secret: bytes | None = None,
        secrets: Mapping[int, bytes | None] | None = None,
        seen: Mapping[int, bytes | None] | None = None,
    ) -> None:
        """Replace the worst price by the actual one and store the public answer."""
        with self._store.writing() as connection:
            number, head, held = sql_writes.reserved(connection, reservation.call)
            entry = settling(number + 1, held, price, hits, tests, answer)
            sql_writes.unmoved(connection, seen or {})
            sql_writes.keep_settled(connection, secrets or {}, seen or {}, held.dataset)
            sql_writes.close(connection, head, held, entry)
            sql_writes.answered(connection, entry, answer)
            if secret is not None:
                sql_writes.keep(connection, held.number, secret)

    def void(self, reservation: Reservation) -> None:
        """Give the whole reservation back."""
        with self._store.writing() as connection:
            number, head, held = sql_writes.reserved(connection, reservation.call)
            sql_writes.close(connection, head, held, voiding(number + 1, held))

    def note(self, dataset: str, kind: str, body: str, after: int | None = None) -> int:
        """Record something about the dataset and raise its version."""
        with self._store.writing() as connection:
            version = sql_reads.account(connection, dataset).version
            unchanged(version, after)
            sql_writes.noted(connection, dataset)
            number, head = connection.execute(read_head).one()
            sql_writes.append(connection, head, noting(number + 1, dataset, kind, body))
            return version + 1

    def notes(self, dataset: str) -> list[Note]:
        """Everything recorded about the dataset."""
        with self._store.reading() as connection:
            return sql_reads.notes(connection, dataset)

    def last_note(self, dataset: str) -> Note | None:
        """What was recorded last about the dataset."""
        with self._store.reading() as connection:
            return sql_reads.last_note(connection, dataset)

    def replay(self, dataset: str, analyst: str, request: str, kind: str, body: str) -> Call | None:
        """The call first settled under this key."""
        key = {"dataset": dataset, "analyst": analyst, "request": request}
        with self._store.reading() as connection:
            return sql_reads.replay(connection, key, kind, body)

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; `LedgerBroken` if it is not what was stored."""
        with self._store.reading() as connection:
            return sql_reads.secret(connection, call)

    def balance(self, dataset: str) -> Balance:
        """What is spent of the dataset's capacity."""
        with self._store.reading() as connection:
            return sql_reads.account(connection, dataset).purse.balance()

    def analyst_balance(self, dataset: str, analyst: str) -> Balance:
        """What one analyst has spent."""
        with self._store.reading() as connection:
            return sql_reads.analyst(connection, dataset, analyst).balance()

    def tally(self, dataset: str) -> dict[str, Tally]:
        """Sums over the settled calls by kind of call."""
        with self._store.reading() as connection:
            return sql_reads.tally(connection, dataset)

    def version(self, dataset: str) -> int:
        """How many notes the dataset has."""
        with self._store.reading() as connection:
            return sql_reads.account(connection, dataset).version

    def call(self, number: int) -> Call:
        """One call."""
        with self._store.reading() as connection:
            return sql_reads.call(connection, number)

    def calls(self, dataset: str, after: int = 0, limit: int | None = None) -> Iterator[Call]:
        """The dataset's calls in ascending order, read page by page."""
        left = limit if limit is None else count(limit, "limit")
        while True:
            size = sql_reads.PAGE if left is None else min(left, sql_reads.PAGE)
            with self._store.reading() as connection:
                page = sql_reads.page(connection, dataset, after, size)
            yield from page
            if len(page) < sql_reads.PAGE:
                return
            after, left = page[-1].number, None if left is None else left - size

    def datasets(self) -> list[Terms]:
        """The terms of every dataset."""
        with self._store.reading() as connection:
            return sql_reads.terms(connection)

    def export(self, dataset: str) -> Iterator[dict[str, object]]:
        """Every entry of the dataset with its hash and answer, read page by page."""
        after = 0
        while True:
            with self._store.reading() as connection:
                lines = sql_reads.lines(connection, dataset, after)
            yield from lines
            if len(lines) < sql_reads.PAGE:
                return
            after = cast("int", lines[-1]["number"])

    def verify(self, progress: Progress | None = None) -> Verification:
        """Recompute everything, on a snapshot: charging goes on meanwhile."""
        with self._store.snapshot() as connection:
            return audit(connection, progress)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _prepare(self) -> None:
        with self._store.reading() as connection:
            empty = not inspect(connection).has_table("chain")
        if empty:
            with self._store.writing() as connection:
                create_tables(connection)
        with self._store.reading() as connection:
            soundness.check(connection)


def create_tables(connection: Connection) -> None:
    """Lay out a new ledger, unless another process has just done so."""
    if not inspect(connection).has_table("chain"):
        metadata.create_all(connection, checkfirst=False)
        connection.execute(chain.insert(), {"id": 1, "format": FORMAT, "entries": 0, "head": GENESIS})


def _path(target: str | Path) -> Path:
    """The file behind a path or a URL; only SQLite files so far."""
    if isinstance(target, Path) or "://" not in target:
        return Path(target)
    try:
        url = make_url(target)
    except ArgumentError:
        raise LedgerError("the ledger's URL cannot be read") from None
    if url.get_backend_name() != "sqlite" or url.query or url.database in (None, "", ":memory:"):
        raise LedgerError("a ledger's URL must be sqlite:///path; for one in memory use MemoryLedger")
    return Path(str(url.database))
