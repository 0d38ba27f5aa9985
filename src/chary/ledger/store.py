"""What ledgers and stores exchange: idempotency keys, standings, closings, and which calls are wanted."""

from collections.abc import Callable
from typing import NamedTuple

from chary.amounts import Amount
from chary.ledger.accounts import Purse
from chary.ledger.entries import ChainEntry, Head

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


class Closing(NamedTuple):
    """What a settle or a void closes: the reserve entry of the call, and of a settle the public answer."""

    reserved: ChainEntry
    answer: str = ""


class Wanted(NamedTuple):
    """Which calls are looked for; see `Ledger.calls`. Numbers lie between `after` and `before`, without these."""

    dataset: str
    after: int
    before: int
    analyst: str | None = None
    kinds: tuple[str, ...] | None = None
    keys: str | None = None
    newest: bool = False
