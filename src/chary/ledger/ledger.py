"""The protocols of a ledger and its stores: reserve the worst cost, settle the actual one, remember both for ever."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from sqlalchemy import Connection

from chary.amounts import LIMIT, Amount
from chary.ledger import entries, witness
from chary.ledger.claims import Claim
from chary.ledger.records import Balance, CallRecord, Note, Reservation, Tally, Terms, Verification

Progress = Callable[[int, int], None]


@runtime_checkable
class Ledger(Protocol):
    """Budgets of one or several datasets. `SqlLedger` keeps them in a file, `MemoryLedger` in this process.

    Formal guarantees, whatever processes and threads do at the same time:

    1. What is spent, reservations included, never passes the capacity of the dataset nor the analyst's share. Where
       the dataset has a basic account it passes that of one account at most (`amounts.Accounts`).
    2. When `reserve` returns, the worst price is charged and (in a file) durable; when it raises, nothing is.
    3. Under one request key at most one call runs at a time, and none once one was settled.
    4. A reservation is settled or voided at most once. One that is neither, say after a crash, stays charged.
    5. Nothing recorded is changed or removed; `verify` recomputes everything from the recorded entries.

    Each method is one transaction. Texts must hold no NUL and no lone surrogate, names must not be empty
    (`InvalidParameter`). A dataset that was not opened, an unknown call and a closed ledger raise `LedgerError`.
    A ledger in a file may raise `LedgerLocked`, with nothing changed.
    """

    def open(self, terms: Terms) -> None:
        """Create the dataset, or check that it is held under these very terms (`LedgerMismatch` if not)."""

    def set_quota(self, dataset: str, analyst: str, cap: Amount, origin: str = "") -> None:
        """Cap one analyst inside the dataset's capacity; shares may overlap. It may be changed at any time.

        A cap above the dataset's capacity or below what the analyst has spent raises `InvalidParameter`.
        """

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
    ) -> Reservation:
        """Charge the worst price before any data are touched.

        `body` is the question in canonical JSON, `request` a key of the analyst's choice under which the answer can be
        had again, `origin` what it is asked through (a token of the service, say). `basic` is the sum of its pure
        epsilons in steps of the basic account, where the dataset has one. Raises `CapReached` (a `BudgetExceeded`) if
        the dataset or the analyst cannot afford the price, and `RequestConflict` if the key belongs to another
        question.

        The key is reserved with the price: while the reservation is not left (`Reservation.leave`) and its process
        lives, whoever reserves under the key gets `RequestInFlight`, and once it is settled `RequestAnswered`. A call
        that was left unsettled, or whose process died, stays charged, and its key can be reserved (and paid) again.
        """

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
        """Replace the worst price by the actual one and store the public answer; exactly once.

        `secret` is kept for this call outside the chain. `secrets` sets, or erases by None, those of earlier
        settled calls of the same dataset in the same transaction. `seen` holds the secrets on which the run was
        based: if one of them is another by now, `SecretMoved` is raised and nothing changes. A price above the worst
        raises `InvalidParameter`; a call that is unknown, settled or voided raises `LedgerError`.
        """

    def void(self, reservation: Reservation) -> None:
        """Give the whole reservation back: only for a call that has certainly not touched any data."""

    def note(self, dataset: str, kind: str, body: str, after: int | None = None, origin: str = "") -> int:
        """Record something about the dataset, such as appended rows, raise its version by one and return it.

        With `after` the version must still be that one, otherwise `VersionMoved` is raised and nothing changes.
        """

    def notes(self, dataset: str) -> list[Note]:
        """Everything recorded about the dataset, oldest first; it takes a scan of the ledger."""

    def last_note(self, dataset: str) -> Note | None:
        """What was recorded last about the dataset; it takes longer the more calls there were since."""

    def replay(self, dataset: str, analyst: str, request: str, kind: str, body: str) -> CallRecord | None:
        """The call that was first settled under this key, for free; None if there is none yet.

        A key belongs to one analyst of one dataset and to the first question asked under it, unless that was
        voided: another kind or body raises `RequestConflict`.
        """

    def last_settled(self, dataset: str, kind: str, body: str) -> CallRecord | None:
        """The latest call that was settled for this question, whoever asked; it takes longer the more came since."""

    def charged_under(self, dataset: str, analyst: str, keys: str) -> Balance:
        """What an analyst's calls were charged whose request keys begin with these words, whatever became of them, and
        what they added to the basic account; it takes longer the more of them there are."""

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; None if there is none. Never show it."""

    def balance(self, dataset: str) -> Balance:
        """What is spent of the dataset's capacity, in constant time."""

    def analyst_balance(self, dataset: str, analyst: str) -> Balance:
        """What one analyst has spent, in constant time; nothing at all for one never seen."""

    def tally(self, dataset: str) -> dict[str, Tally]:
        """Sums over the settled calls by kind of call, in constant time."""

    def version(self, dataset: str) -> int:
        """How many notes the dataset has."""

    def call(self, number: int) -> CallRecord:
        """One call."""

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
    ) -> Iterator[CallRecord]:
        """The dataset's calls with a number above `after` and below `before`, at most `limit` of them, in ascending
        order, or in descending order with `newest`.

        Only those of one `analyst`, of some `kinds`, or under request keys of that analyst that begin with `keys`,
        where they are named. In SQL it takes as long as what is handed out, however many others there are; by `keys`,
        as long as there are calls under them.
        """

    def analysts(self, dataset: str) -> list[str]:
        """Whoever has asked or was capped, by name."""

    def datasets(self) -> list[Terms]:
        """The terms of every dataset, by name."""

    def export(self, dataset: str) -> Iterator[dict[str, object]]:
        """Every entry of the dataset in order, with its hash, the one before it and the public answer."""

    def verify(self, progress: Progress | None = None) -> Verification:
        """Recompute the chain and every derived number; `progress` is called with entries done and in all."""

    def close(self) -> None:
        """Let go of everything; later calls raise `LedgerError`, another `close` does nothing."""


# The store's protocol: transactions on a ledger in a database, and what is kept beside its entries.


class Kept(NamedTuple):
    """A secret and the digest that was stored with it."""

    secret: bytes
    digest: str


class Upkeep(Protocol):
    """Writes of a transaction that holds the whole ledger; what they rest on was read and checked in it before."""

    def post(
        self,
        connection: Connection,
        head: str,
        entry: entries.ChainEntry,
        *,
        reserved: entries.ChainEntry | None = None,
        answer: str = "",
        known: bool = True,
    ) -> str:
        """Append an entry to the chain that ends in `head`, move all totals by it, and return its hash.

        `reserved` is the reserve entry of the call that a settle or a void closes, `answer` the public answer of a
        settle. `known` is whether the analyst has a row already.
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
        """Whether the seal says of entries and secrets what they are."""

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


class Transactions(Protocol):
    """Transactions on one ledger, for all threads of a process; errors are ours and hold no data."""

    bookmark: witness.Bookmark

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that holds the ledger against every other writer; durable when it ends, or nothing of it."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A short transaction that reads one state."""

    def witnessed(self) -> AbstractContextManager[Connection]:
        """A transaction that reads, at whose end the witness, if there is one, knows all that it could read."""

    def copied(self) -> AbstractContextManager[Connection]:
        """One state of the ledger for as long as it takes, while others go on."""

    def close(self) -> None:
        """Let go of everything."""
