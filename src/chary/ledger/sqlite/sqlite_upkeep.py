"""What a writing transaction does on SQLite besides the entry itself, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from chary.errors import LedgerBroken
from chary.ledger.drafts import not_held, terms_of
from chary.ledger.entries import ChainEntry, Kind, seal
from chary.ledger.records import State
from chary.ledger.sql import statements as do
from chary.ledger.sql.schema import TWO_ACCOUNTS, calls, seals, secrets
from chary.ledger.sql.sql_writes import secret_digest
from chary.ledger.sql.upkeep import Kept
from chary.ledger.sqlite.layout import SEAL

_NO_TOTALS = {"spent_main": 0, "spent_delta": 0, "open_main": 0, "open_delta": 0}
_secrets = select(secrets, calls.c.state).outerjoin(calls, calls.c.number == secrets.c.call)
_one_secret = select(secrets.c.secret, secrets.c.digest).where(secrets.c.call == do.of_call)


class SqliteUpkeep:
    """See `Upkeep`; SQLite has no functions of its own in which rules could live, so all of it is done from here."""

    def post(
        self,
        connection: Connection,
        head: str,
        entry: ChainEntry,
        *,
        reserved: ChainEntry | None = None,
        answer: str = "",
        known: bool = True,
    ) -> str:
        """Append an entry and move the totals."""
        sealed = seal(head, entry)
        connection.execute(do.add_entry, {**entry._asdict(), "hash": sealed})
        connection.execute(do.move_head, {"new_entries": entry.number, "new_head": sealed})
        if not known:
            owner = {"dataset": entry.dataset, "analyst": entry.analyst}
            connection.execute(do.add_analyst, {**owner, "cap_main": None, "cap_delta": None, **_NO_TOTALS})
        if reserved is None:
            _BEGINNINGS[Kind(entry.kind)](connection, entry)
        else:
            _close(connection, reserved, entry)
            if entry.kind == Kind.SETTLE:
                _answered(connection, entry, answer)
        return sealed

    def add_secret(self, connection: Connection, call: int, secret: bytes) -> None:
        """Add the secret of a settled call."""
        connection.execute(do.add_secret, {"call": call, "secret": secret, "digest": secret_digest(call, secret)})

    def drop_secret(self, connection: Connection, call: int) -> bool:
        """Take the secret of a call away."""
        return bool(connection.execute(do.drop_secret, {"of_call": call}).rowcount)

    def secret(self, connection: Connection, call: int) -> Kept | None:
        """The secret of a call."""
        row = connection.execute(_one_secret, {"of_call": call}).one_or_none()
        if row is not None and not isinstance(row.secret, bytes):
            raise LedgerBroken(f"the secret of call {call} was changed")
        return None if row is None else Kept(row.secret, row.digest)

    def digest(self, connection: Connection, call: int) -> str | None:
        """The digest of the secret of a call."""
        found: str | None = connection.execute(do.read_digest, {"of_call": call}).scalar_one_or_none()
        return found

    def sealed(self, connection: Connection) -> bool:
        """Whether the seal is right."""
        return bool(connection.execute(select(seals)).all() == connection.execute(SEAL).all())

    def changed_secrets(self, connection: Connection) -> Iterator[int]:
        """The calls whose secret was changed."""
        for row in connection.execute(_secrets):
            if (
                not isinstance(row.secret, bytes)
                or row.state != State.SETTLED
                or row.digest != secret_digest(row.call, row.secret)
            ):
                yield row.call

    def structure(self, connection: Connection) -> Iterator[str]:
        """The pages and indexes of the file."""
        for (problem,) in connection.exec_driver_sql("PRAGMA integrity_check"):
            if problem != "ok":
                yield f"file: {problem}"


def _open(connection: Connection, entry: ChainEntry) -> None:
    terms = terms_of(entry)
    capacity = {"capacity_main": terms.capacity.main, "capacity_delta": terms.capacity.delta}
    named = {"name": terms.name, "fingerprint": terms.fingerprint, "conditions": terms.conditions}
    basic = {"capacity_basic": terms.basic, "spent_basic": 0, "alone": 0}
    connection.execute(do.add_dataset, {**named, **capacity, **_NO_TOTALS, "version": 0, **basic})
    if terms.basic:
        connection.execute(do.set_format, {"new_format": TWO_ACCOUNTS})


def _share(connection: Connection, entry: ChainEntry) -> None:
    owner = {"of_dataset": entry.dataset, "of_analyst": entry.analyst}
    connection.execute(do.cap_analyst, {**owner, "new_main": entry.main, "new_delta": entry.delta})


def _reserve(connection: Connection, entry: ChainEntry) -> None:
    owner = {"dataset": entry.dataset, "analyst": entry.analyst, "request": entry.request}
    charged = {"state": str(State.RESERVED), "charged_main": entry.main, "charged_delta": entry.delta}
    connection.execute(do.add_call, {"number": entry.number, **owner, **charged, "closing": None})
    adds = {"of_dataset": entry.dataset, "basic_by": entry.basic, "main_by": entry.main}
    connection.execute(do.count_basic, adds)
    _charge(connection, entry, entry.main, entry.delta, entry.main, entry.delta)


def _note(connection: Connection, entry: ChainEntry) -> None:
    if connection.execute(do.raise_version, {"of_dataset": entry.dataset}).rowcount == 0:
        raise not_held(entry.dataset)


_BEGINNINGS = {Kind.OPEN: _open, Kind.SHARE: _share, Kind.RESERVE: _reserve, Kind.NOTE: _note}


def _close(connection: Connection, held: ChainEntry, entry: ChainEntry) -> None:
    """Settle or void a call: what it gives back becomes available again."""
    state = State.SETTLED if entry.kind == Kind.SETTLE else State.VOIDED
    charged = {"new_charged_main": entry.main, "new_charged_delta": entry.delta}
    closed = {"call": held.number, "new_state": str(state), "new_closing": entry.number, **charged}
    connection.execute(do.close_call, closed)
    if entry.kind == Kind.VOID and held.basic:
        connection.execute(do.give_basic_back, {"of_dataset": held.dataset, "basic_by": held.basic})
    _charge(connection, held, -entry.back_main, -entry.back_delta, -held.main, -held.delta)


def _answered(connection: Connection, entry: ChainEntry, answer: str) -> None:
    """Store the public answer of a settled call and count it."""
    connection.execute(do.add_answer, {"call": entry.call, "answer": answer})
    sums = {"calls": 1, "hits": entry.hits, "tests": entry.tests, "main": entry.main, "delta": entry.delta}
    kind = {"of_dataset": entry.dataset, "of_kind": entry.label}
    if connection.execute(do.raise_tally, kind | {f"{name}_by": by for name, by in sums.items()}).rowcount == 0:
        connection.execute(do.add_tally, {"dataset": entry.dataset, "kind": entry.label, **sums})


def _charge(
    connection: Connection, owner: ChainEntry, spent_main: int, spent_delta: int, open_main: int, open_delta: int
) -> None:
    """Move the totals of the dataset and of the analyst together."""
    spent = {"spent_main_by": spent_main, "spent_delta_by": spent_delta}
    moves = {"of_dataset": owner.dataset, **spent, "open_main_by": open_main, "open_delta_by": open_delta}
    changed = connection.execute(do.charge_dataset, moves).rowcount
    changed += connection.execute(do.charge_analyst, {**moves, "of_analyst": owner.analyst}).rowcount
    if changed != 2:
        raise LedgerBroken("the totals of the dataset or of the analyst are missing")
