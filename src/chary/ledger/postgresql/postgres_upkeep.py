"""What a writing transaction does on PostgreSQL: it calls the functions of the schema, which hold the rules."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from chary.ledger.entries import ChainEntry, seal
from chary.ledger.head import Head
from chary.ledger.sql.bookmark import raw
from chary.ledger.sql.upkeep import Kept

# As the columns of the table follow each other: the last ones came later.
_LATER = ("origin", "basic")
_columns = [*(name for name in ChainEntry._fields if name not in _LATER), "hash", *_LATER]
_places = ", ".join(f"%({name})s" for name in _columns)
# Through the driver: this is most of what a charge waits for.
_APPEND = f"SELECT append(ROW({_places})::entries, %(answer)s)"
# Where a connection says which entry its transaction wrote last, and the number of the transaction.
WRITTEN = "written"
_PUT = "SELECT put_secret(%s, %s)"
_DROP = "SELECT drop_secret(%s)"
_SECRET = "SELECT secret, digest FROM secret_of(%s)"


class PostgresUpkeep:
    """See `Upkeep`; totals follow from an entry inside of the server, with the rights of the owner."""

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
        """Append an entry; the server checks it again and moves the totals."""
        sealed = seal(head, entry)
        told = {**entry._asdict(), "kind": str(entry.kind), "hash": sealed, "answer": answer}
        (by,) = raw(connection).execute(_APPEND, told).fetchone()
        connection.info[WRITTEN] = Head(entry.number, sealed), by
        return sealed

    def add_secret(self, connection: Connection, call: int, secret: bytes) -> None:
        """Add the secret of a settled call."""
        raw(connection).execute(_PUT, (call, secret))

    def drop_secret(self, connection: Connection, call: int) -> bool:
        """Take the secret of a call away."""
        return bool(raw(connection).execute(_DROP, (call,)).fetchone()[0])

    def secret(self, connection: Connection, call: int) -> Kept | None:
        """The secret of a call; `LedgerError` for that of another analyst, unless the role is the owner's."""
        found = raw(connection).execute(_SECRET, (call,)).fetchone()
        return None if found is None else Kept(bytes(found[0]), found[1])

    def digest(self, connection: Connection, call: int) -> str | None:
        """The digest of the secret of a call."""
        found = raw(connection).execute("SELECT digest_of(%s)", (call,)).fetchone()
        digest: str | None = found[0]
        return digest

    def sealed(self, connection: Connection) -> bool:
        """Whether the seal is right."""
        return bool(connection.execute(text("SELECT sealed()")).scalar_one())

    def changed_secrets(self, connection: Connection) -> Iterator[int]:
        """The calls whose secret was changed."""
        yield from connection.execute(text("SELECT changed_secrets()")).scalars()

    def structure(self, connection: Connection) -> Iterator[str]:
        """Nothing: the server's administrator has `pg_amcheck` and data checksums for that."""
        yield from ()
