"""A ledger in a database: each method is one transaction of its store."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

from chary.amounts import LIMIT, Amount
from chary.errors import LedgerCorrupted
from chary.ledger import accounts, entries, ledger, records, verification
from chary.ledger.sql import transaction as sql
from chary.ledger.witness import Witness, holds

# Above the numbers of all entries.
_END: Final = 2**62


class KeptLedger:
    """See `Ledger` for what every method guarantees.

    An engine brings transactions, claims on running calls, and the upkeep of what follows from the entries.
    """

    def __init__(self, store: ledger.Transactions, claims: ledger.Holder, upkeep: ledger.Upkeep) -> None:
        self._store: ledger.Transactions = store
        self._claims = claims
        self._upkeep = upkeep

    def open(self, terms: records.Terms) -> None:
        """Create the dataset or check its terms."""
        with self._store.writing() as connection:
            held = {each.name: each for each in sql.terms(connection)}.get(terms.name)
            if held:
                records.agree(held, terms)
            else:
                at = self._store.bookmark.read(connection)
                self._upkeep.post(connection, at.hash, entries.opening(at.entries + 1, terms))

    def set_quota(self, dataset: str, analyst: str, cap: Amount, origin: str = "") -> None:
        """Cap one analyst."""
        with self._store.writing() as connection:
            at = sql.standing(connection, dataset, analyst)
            entry = entries.sharing(at.number + 1, dataset, analyst, cap, origin)
            accounts.fitting_share(at.capacity, at.analyst, cap)
            self._upkeep.post(connection, at.head, entry, known=at.known)

    def reserve(
        self,
        dataset: str,
        analyst: str,
        kind: str,
        body: str,
        worst: Amount,
        request: str | None = None,
        origin: str = "",
        basic: int = LIMIT,
    ) -> records.Reservation:
        """Charge the worst price before any data are touched."""
        with ExitStack() as undo:
            with self._store.writing() as connection:
                at = sql.standing(connection, dataset, analyst)
                adds = at.dataset.counted(basic)
                entry = entries.reserving(at.number + 1, dataset, analyst, kind, body, worst, request, origin, adds)
                sql.unclaimed(connection, entry, self._claims.held)
                at.dataset.admit(worst, "dataset", at.analyst.asks(adds))
                at.analyst.admit(worst, "analyst")
                sealed = self._upkeep.post(connection, at.head, entry, known=at.known)
                # Claimed before the commit: nobody ever sees the key without its claim. A failed commit leaves it.
                made = records.Reservation(entry.number, None if request is None else self._claims.take(sealed))
                undo.callback(made.leave)
            undo.pop_all()
        return made

    def settle(
        self,
        reservation: records.Reservation,
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
            number, head, held = sql.reserved(connection, reservation.call)
            entry = entries.settling(number + 1, held, price, hits, tests, answer)
            records.masked(secret, "secret")
            sql.unanswered(connection, held)
            sql.unmoved(self._upkeep, connection, seen or {})
            changes = sql.changes_of(connection, secrets or {}, seen or {}, held.dataset)
            self._upkeep.post(connection, head, entry, reserved=held, answer=answer)
            sql.keep(self._upkeep, connection, changes)
            if secret is not None:
                self._upkeep.add_secret(connection, held.number, secret)

    def void(self, reservation: records.Reservation) -> None:
        """Give the whole reservation back."""
        with self._store.writing() as connection:
            number, head, held = sql.reserved(connection, reservation.call)
            self._upkeep.post(connection, head, entries.voiding(number + 1, held), reserved=held)

    def note(self, dataset: str, kind: str, body: str, after: int | None = None, origin: str = "") -> int:
        """Record something about the dataset and raise its version."""
        with self._store.writing() as connection:
            version = sql.account(connection, dataset).version
            records.unchanged(version, after)
            number, head = self._store.bookmark.read(connection)
            self._upkeep.post(connection, head, entries.noting(number + 1, dataset, kind, body, origin))
            return version + 1

    def notes(self, dataset: str) -> list[records.Note]:
        """Everything recorded about the dataset."""
        with self._store.reading() as connection:
            return sql.notes(connection, dataset)

    def last_note(self, dataset: str) -> records.Note | None:
        """What was recorded last about the dataset."""
        with self._store.reading() as connection:
            return sql.last_note(connection, dataset)

    def replay(self, dataset: str, analyst: str, request: str, kind: str, body: str) -> records.CallRecord | None:
        """The call first settled under this key, once the witness knows it: whoever settled it may have died before."""
        key = {"dataset": dataset, "analyst": analyst, "request": request}
        with self._store.witnessed() as connection:
            return sql.replay(connection, key, kind, body)

    def last_settled(self, dataset: str, kind: str, body: str) -> records.CallRecord | None:
        """The latest call that was settled for this question."""
        with self._store.reading() as connection:
            return sql.last_settled(connection, dataset, kind, body)

    def charged_under(self, dataset: str, analyst: str, keys: str) -> records.Balance:
        """What an analyst's calls were charged whose request keys begin with these words."""
        with self._store.reading() as connection:
            return sql.charged_under(connection, dataset, analyst, keys)

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; `LedgerCorrupted` if it is not what was stored."""
        with self._store.reading() as connection:
            return sql.secret(self._upkeep, connection, call)

    def balance(self, dataset: str) -> records.Balance:
        """What is spent of the dataset's capacity."""
        with self._store.reading() as connection:
            return sql.account(connection, dataset).purse.balance()

    def analyst_balance(self, dataset: str, analyst: str) -> records.Balance:
        """What one analyst has spent."""
        with self._store.reading() as connection:
            return sql.analyst(connection, dataset, analyst).balance()

    def tally(self, dataset: str) -> dict[str, records.Tally]:
        """Sums over the settled calls by kind of call."""
        with self._store.reading() as connection:
            return sql.tally(connection, dataset)

    def version(self, dataset: str) -> int:
        """How many notes the dataset has."""
        with self._store.reading() as connection:
            return sql.account(connection, dataset).version

    def call(self, number: int) -> records.CallRecord:
        """One call."""
        with self._store.reading() as connection:
            return sql.call(connection, number)

    def calls(
        self,
        dataset: str,
        after: int = 0,
        limit: int | None = None,
        *,
        before: int | None = None,
        analyst: str | None = None,
        kinds: Collection[str] | None = None,
        keys: str | None = None,
        newest: bool = False,
    ) -> Iterator[records.CallRecord]:
        """The dataset's calls that are looked for, read page by page."""
        left = limit if limit is None else records.count(limit, "limit")
        named = None if kinds is None else tuple(sorted(kinds))
        wanted = sql.Wanted(dataset, after, _END if before is None else before, analyst, named, keys, newest)
        while True:
            size = sql.PAGE if left is None else min(left, sql.PAGE)
            with self._store.reading() as connection:
                page = sql.page(connection, wanted, size)
            yield from page
            if len(page) < sql.PAGE:
                return
            end = page[-1].number
            wanted = wanted._replace(before=end) if newest else wanted._replace(after=end)
            left = None if left is None else left - size

    def analysts(self, dataset: str) -> list[str]:
        """Whoever has asked or was capped."""
        with self._store.reading() as connection:
            return sql.analysts_of(connection, dataset)

    def datasets(self) -> list[records.Terms]:
        """The terms of every dataset."""
        with self._store.reading() as connection:
            return sql.terms(connection)

    def export(self, dataset: str) -> Iterator[dict[str, object]]:
        """Every entry of the dataset with its hash and answer, read page by page."""
        after = 0
        while True:
            with self._store.reading() as connection:
                lines = sql.lines(connection, dataset, after)
            yield from lines
            if len(lines) < sql.PAGE:
                return
            after = cast("int", lines[-1]["number"])

    def verify(self, progress: ledger.Progress | None = None) -> records.Verification:
        """Recompute everything, on a copy: charging goes on meanwhile. Damage of any kind is listed, not raised."""
        try:
            with self._store.copied() as connection:
                return verification.audit(self._upkeep, connection, progress)
        except LedgerCorrupted as error:
            return records.Verification(0, [str(error)])

    def head(self) -> entries.Head:
        """How many entries there are and the hash of the last: keep it elsewhere, and an old copy can be told."""
        with self._store.reading() as connection:
            return self._store.bookmark.read(connection)

    def holds(self, head: entries.Head) -> bool:
        """Whether the ledger goes on from this head; an older copy does not."""
        with self._store.reading() as connection:
            return holds(connection, head)

    def witness(self, path: str | Path) -> entries.Head:
        """Make a new witness that knows this ledger as it is; `chary.open(..., witness=path)` asks it from then on.

        It takes the place of a witness; any other file that is there raises `InvalidParameter`.
        """
        with self._store.writing() as connection:
            Witness(path).start(head := self._store.bookmark.read(connection))
            return head

    def close(self) -> None:
        """Let go of everything."""
        self._store.close()
