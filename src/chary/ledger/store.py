"""What a ledger asks of where it is kept: one state to read, and what a writing transaction adds to it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from chary.amounts import Amount
from chary.ledger.accounts import Account, Partition, Purse
from chary.ledger.claims import Claim
from chary.ledger.entries import ChainEntry, Head
from chary.ledger.records import Balance, CallRecord, Note, Parts, Tally, Terms, Verification

Progress = Callable[[int, int], None]
# A page is a short transaction of its own, so that reading a long history stops no charge.
PAGE = 500


class Key(NamedTuple):
    """An idempotency key: it belongs to one analyst of one dataset."""

    dataset: str
    analyst: str
    request: str


def key_of(entry: ChainEntry) -> Key:
    """The idempotency key of the entry of a call that has one."""
    return Key(entry.dataset, entry.analyst, entry.request or "")


class Standing(NamedTuple):
    """The end of the chain, and the purses a charge is compared with; `known` is whether the analyst has a row."""

    end: Head
    capacity: Amount
    dataset: Purse
    analyst: Purse
    known: bool


class Asked(NamedTuple):
    """The first call that was settled under an idempotency key, or else one that was not voided."""

    entry: ChainEntry
    settled: bool


class Wanted(NamedTuple):
    """Which calls are looked for; see `Ledger.calls`. Numbers lie between `after` and `before`, without these."""

    dataset: str
    after: int
    before: int
    analyst: str | None = None
    kinds: tuple[str, ...] | None = None
    keys: str | None = None
    newest: bool = False


class Transaction(Protocol):
    """One state of a ledger; only inside `Store.writing` it may be added to, by what was read there before.

    Datasets that were never opened and unknown calls raise `LedgerError`.
    """

    def end(self) -> Head:
        """How many entries there are, and the hash of the last; in memory no hash."""

    def standing(self, dataset: str, analyst: str, parts: Parts | None = None) -> Standing:
        """Everything that a charge depends on; of partitions, what one of these parts depends on."""

    def asked(self, key: Key) -> Asked | None:
        """The call under an idempotency key."""

    def running(self, key: Key) -> bool:
        """Whether a call under this key, reserved and not settled, is being run by anybody."""

    def reserved(self, call: int) -> tuple[Head, ChainEntry]:
        """The end of the chain and the reserve entry of an open call; otherwise `LedgerError`."""

    def settled_in(self, call: int) -> str | None:
        """The dataset of a settled call."""

    def same_secret(self, call: int, secret: bytes | None) -> bool:
        """Whether this is the secret that a call has; None is none."""

    def post(
        self, end: Head, entry: ChainEntry, *, reserved: ChainEntry | None = None, answer: str = "", known: bool = True
    ) -> str:
        """Append an entry to the chain that ends so, move all totals by it, and return its hash.

        `reserved` is the reserve entry of the call that a settle or a void closes, `answer` the public answer of a
        settle. `known` is whether the analyst has a row already.
        """

    def claim(self, entry: ChainEntry, sealed: str) -> Claim:
        """The sign that a reserved call is being run, before others can see its entry."""

    def add_secret(self, call: int, secret: bytes) -> None:
        """Add the secret of a settled call that has none."""

    def drop_secret(self, call: int) -> bool:
        """Take the secret of a call away; whether there was one."""

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; `LedgerCorrupted` if it is not what was stored."""

    def account(self, dataset: str, parts: Parts | None = None) -> Account:
        """A dataset's terms, totals and version; of partitions, what a charge of these parts depends on."""

    def analyst(self, dataset: str, name: str, parts: Parts | None = None) -> Purse:
        """An analyst's purse, likewise; an empty one for an analyst never seen."""

    def partitions(self, dataset: str) -> dict[str, Partition]:
        """What each part of each partition holds."""

    def tally(self, dataset: str) -> dict[str, Tally]:
        """Sums over the settled calls by kind."""

    def terms(self) -> list[Terms]:
        """The terms of all datasets, by name."""

    def notes(self, dataset: str) -> list[Note]:
        """Everything recorded about a dataset, oldest first."""

    def last_note(self, dataset: str) -> Note | None:
        """What was recorded last."""

    def call(self, number: int) -> CallRecord:
        """One call."""

    def last_settled(self, dataset: str, kind: str, body: str, parts: Parts | None = None) -> CallRecord | None:
        """The latest call that was settled for a question about these parts."""

    def charged_under(self, dataset: str, analyst: str, keys: str) -> Balance:
        """What an analyst's calls were charged whose idempotency keys begin so."""

    def page(self, wanted: Wanted, limit: int) -> list[CallRecord]:
        """The next calls that are looked for."""

    def analysts_of(self, dataset: str) -> list[str]:
        """Anyone who has asked or was capped, by name."""

    def lines(self, dataset: str, after: int) -> list[dict[str, object]]:
        """The next `PAGE` exported entries of a dataset."""

    def holds(self, head: Head) -> bool:
        """Whether the chain goes on from this head."""


class Store(Protocol):
    """Where a ledger is kept: transactions for all threads of a process; errors are chary's own and hold no data."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that holds the ledger against every other writer; all of it lasts when it ends, or nothing."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A short transaction that reads one state."""

    def kept(self) -> AbstractContextManager[Transaction]:
        """One that reads, at whose end the checkpoint, if there is one, knows all that it could read."""

    def checkpoint(self, path: Path) -> Head:
        """Make a new checkpoint that knows the ledger as it is."""

    def verify(self, progress: Progress | None) -> Verification:
        """Recompute everything from the entries, while others go on. Damage of any kind is listed, not raised."""

    @property
    def lasting(self) -> bool:
        """Whether it outlives the process."""

    def close(self) -> None:
        """Let go of everything."""
