"""What an engine brings to a ledger in SQL: transactions, writes that move totals, and claims on running calls."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from chary.ledger import checkpoint
from chary.ledger.claims import Claim
from chary.ledger.entries import ChainEntry
from chary.ledger.store import Closing


class Kept(NamedTuple):
    """A secret and the digest that was stored with it."""

    secret: bytes
    digest: str


class Upkeep(Protocol):
    """Writes of a transaction that holds the whole ledger; what they rest on was read and checked in it before."""

    def post(
        self, connection: Connection, head: str, entry: ChainEntry, closes: Closing | None = None, known: bool = True
    ) -> str:
        """Append an entry to the chain that ends in `head`, move all totals by it, and return its hash.

        A settle and a void say what they close. `known` is whether the analyst has a row already.
        """

    def add_secret(self, connection: Connection, call: int, secret: bytes) -> None:
        """Add the secret of a settled call that has none."""

    def drop_secret(self, connection: Connection, call: int) -> bool:
        """Take the secret of a call away; whether there was one."""

    def secret(self, connection: Connection, call: int) -> Kept | None:
        """The secret of a call."""

    def digest(self, connection: Connection, call: int) -> str | None:
        """The digest of the secret of a call."""

    def sealed(self, connection: Connection) -> bool:
        """Whether the seal fits the entries and the secrets."""

    def changed_secrets(self, connection: Connection) -> Iterator[int]:
        """The calls whose secret is not the one that was stored, or that may have none."""

    def structure(self, connection: Connection) -> Iterator[str]:
        """What the engine finds wrong with its own tables and indexes."""


class Holder(Protocol):
    """Claims on the calls that are being run, by the hash of the entry that reserved them; see `Claims`."""

    @property
    def take(self) -> Callable[[str], Claim]:
        """Claim a call inside of the transaction that reserves it."""

    @property
    def held(self) -> Callable[[str], bool]:
        """Whether anybody runs a call, inside of a writing transaction."""

    def close(self) -> None:
        """End the claims of this process, where they would outlive the store."""


class Transactions(Protocol):
    """Transactions on the tables of one ledger, for all threads of a process; errors are chary's and hold no data."""

    bookmark: checkpoint.Bookmark

    def check_apart(self, path: Path) -> None:
        """Raise `InvalidParameter` for a checkpoint that would lie in the ledger's own file."""

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that holds the ledger against every other writer; durable when it ends, or nothing of it."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A short transaction that reads one state."""

    def kept(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the checkpoint, if there is one, knows all that it could read."""

    def copied(self) -> AbstractContextManager[Connection]:
        """One state of the ledger for as long as it takes, while others go on."""

    def close(self) -> None:
        """Let go of everything."""
