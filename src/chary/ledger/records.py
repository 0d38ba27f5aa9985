"""Records of a ledger: terms, balances, calls and reservations, with checks of whatever may be written into one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chary.amounts import Accounts, Amount, Basic
from chary.errors import BudgetRefused, LedgerBroken, LedgerError
from chary.ledger.claims import Claim


class State(StrEnum):
    """Where a call stands: its worst price is charged, its actual price is charged, or nothing is.

    >>> State.SETTLED == "settled"
    True
    """

    RESERVED = "reserved"
    SETTLED = "settled"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to run one call, whose worst price is already charged.

    A call under a request key holds a `claim` on the key until it is left, by `leave` or because nothing refers to the
    reservation any more, or until its process ends: meanwhile nobody else can use the key.

    >>> Reservation(call=7)
    Reservation(call=7)
    """

    call: int
    claim: Claim | None = field(default=None, repr=False, compare=False)

    def leave(self) -> None:
        """Say that nobody runs the call any more, however it ended; a second time does nothing."""
        if self.claim is not None:
            self.claim.drop()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as the ledger knows it; every field is public.

    `number` is the number of the entry that reserved the call. `price`, `hits`, `tests` and `answer` are None
    until the call is settled, `settled` until it is settled or voided. Times are UTC in ISO 8601. `origin` is what it
    was asked through, such as a token of the service; empty for a session of one's own. `basic` is what it added to the
    basic account of the dataset, hit or miss. `damage` says what of it cannot be read any more, and is empty where all
    can.
    """

    number: int
    dataset: str
    analyst: str
    kind: str
    body: str
    request: str | None
    state: State
    worst: Amount
    created: str
    price: Amount | None = None
    hits: int | None = None
    tests: int | None = None
    answer: str | None = None
    settled: str | None = None
    origin: str = ""
    basic: int = 0
    damage: str = ""

    @property
    def question(self) -> dict[str, Any]:
        """What was asked; `LedgerBroken` where that is no JSON object, which no session writes."""
        return self._object(self.body, "question")

    @property
    def outcome(self) -> Any:
        """The public answer, None without one; `LedgerBroken` where that is damaged, or no JSON."""
        if self.damage:
            raise LedgerBroken(f"call {self.number}: {self.damage}")
        return self._json("null" if self.answer is None else self.answer, "answer")

    def _object(self, text: str, name: str) -> dict[str, Any]:
        found = self._json(text, name)
        if not isinstance(found, dict):
            raise LedgerBroken(f"call {self.number}: its {name} is no JSON object")
        return found

    def _json(self, text: str, name: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
        raise LedgerBroken(f"call {self.number}: its {name} is no JSON")

    @property
    def charged(self) -> Amount:
        """What it holds of the budget: its price, the worst one while it is open, nothing once it was given back."""
        return self.worst if self.state == State.RESERVED else self.price or Amount(0)


@dataclass(frozen=True, slots=True)
class Balance:
    """What is spent of a cap. `spent` includes `open`, the worst prices of the calls still reserved.

    `capacity` is None for an analyst without a share: then only the cap of the dataset holds. `basic` is the basic
    account of a dataset that has one; of some calls, what they added to it.

    >>> Balance(Amount(10), spent=Amount(4), open=Amount(1)).left
    Amount(main=6, delta=0)
    """

    capacity: Amount | None
    spent: Amount
    open: Amount
    basic: Basic | None = None

    @property
    def accounts(self) -> Accounts | None:
        """What may still be reserved under this cap; None without a cap."""
        return None if self.capacity is None else Accounts(self.capacity, self.spent, self.basic)

    @property
    def left(self) -> Amount | None:
        """The same of main and delta alone; nothing of main once only the basic account lives."""
        return None if self.accounts is None else self.accounts.left


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the settled calls of one kind."""

    calls: int
    hits: int
    tests: int
    price: Amount


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a whole ledger: `problems` is empty exactly if `ok`.

    A problem names entries and columns, never an answer. At most 100 are listed, the last one saying how many
    more there are.

    >>> Verification(entries=3).ok, Verification(entries=3, problems=["entry 2 is missing"]).ok
    (True, False)
    """

    entries: int
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything adds up."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class Note:
    """Something recorded about a dataset, all of it public; `version` counts the dataset's notes from 1.

    `entry` is its number in the ledger: calls of higher numbers came later. `origin` is that of calls.
    """

    version: int
    kind: str
    body: str
    created: str
    entry: int = field(default=0, compare=False)
    origin: str = field(default="", compare=False)


class VersionMoved(LedgerError):  # noqa: N818
    """Somebody else recorded something about the dataset meanwhile; nothing was recorded."""


class SecretMoved(LedgerError):  # noqa: N818
    """The secret state that a run was based on has changed meanwhile; nothing was settled."""


class RequestAnswered(LedgerError):  # noqa: N818
    """The call of this request key was settled meanwhile: its answer can be replayed, and nothing was charged."""


class RequestUnanswered(LedgerError):  # noqa: N818
    """The ledger has no answer under this request key, and was only to be read: nothing was asked or charged."""


class CapReached(BudgetRefused):
    """A refused reservation: `asked` does not fit into `left` of the `cap` of the "dataset" or the "analyst".

    >>> str(CapReached(asked=Amount(5), left=Amount(3), cap="dataset"))
    'asked for 5 (delta 0), but 3 (delta 0) is left of the dataset cap'
    """

    def __init__(self, asked: Amount, left: Amount, cap: str) -> None:
        super().__init__(f"asked for {asked}, but {left} is left of the {cap} cap")
        self.asked = asked
        self.left = left
        self.cap = cap

    def __reduce__(self) -> tuple[type[CapReached], tuple[Amount, Amount, str]]:
        return type(self), (self.asked, self.left, self.cap)
