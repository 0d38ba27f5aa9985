"""Records of a ledger: terms, balances, calls and reservations, with checks of whatever may be written into one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from chary.amounts import LIMIT, Accounts, Amount, Basic
from chary.errors import BudgetExceeded, InvalidParameter, LedgerCorrupted, LedgerError, LedgerMismatch, quietly
from chary.ledger.claims import Claim
from chary.numbers import set_fields

# What a ledger hands out: calls, balances, tallies, verdicts.


class State(StrEnum):
    """Where a call stands: its worst cost is charged, its actual cost is charged, or nothing is.

    >>> State.SETTLED == "settled"
    True
    """

    RESERVED = "reserved"
    SETTLED = "settled"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to run one call, whose worst cost is already charged.

    A call under an idempotency key holds a `claim` on the key until it is left, by `leave` or because nothing refers to
    the reservation any more. It also ends with its process. Meanwhile nobody else can use the key.

    >>> Reservation(call=7)
    Reservation(call=7)
    """

    call: int
    claim: Claim | None = field(default=None, repr=False, compare=False)

    def leave(self) -> None:
        """Declare that the call runs no more, however it ended; a second time does nothing."""
        if self.claim is not None:
            self.claim.drop()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as the ledger knows it; every field is public.

    `number` is the number of the entry that reserved the call. `price`, `hits`, `tests` and `answer` are None
    until the call is settled, `settled` until it is settled or voided. Times are UTC in ISO 8601. `origin` is what it
    was asked through, such as a token of the service; empty for a session of one's own. `basic` is what it added to the
    basic account of the dataset, hit or miss. `parts` are the parts that it could read, None for all rows.
    `damage` says which part cannot be read any more, and is empty for an undamaged call.
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
    parts: Parts | None = None
    damage: str = ""

    @property
    def question(self) -> dict[str, Any]:
        """The question as JSON; `LedgerCorrupted` where it is no JSON object, which no session writes."""
        return self._object(self.body, "question")

    @property
    def outcome(self) -> Any:
        """The public answer, None without one; `LedgerCorrupted` where that is damaged, or no JSON."""
        if self.damage:
            raise LedgerCorrupted(f"call {self.number}: {self.damage}")
        return self._json("null" if self.answer is None else self.answer, "answer")

    def _object(self, text: str, name: str) -> dict[str, Any]:
        found = self._json(text, name)
        if not isinstance(found, dict):
            raise LedgerCorrupted(f"call {self.number}: its {name} is no JSON object")
        return found

    def _json(self, text: str, name: str) -> Any:
        return quietly(lambda: json.loads(text), LedgerCorrupted(f"call {self.number}: its {name} is no JSON"))

    @property
    def charged(self) -> Amount:
        """What it holds of the budget: its cost, the worst one while it is open, nothing once it was given back."""
        return self.worst if self.state == State.RESERVED else self.price or Amount(0)


@dataclass(frozen=True, slots=True)
class Balance:
    """What is spent of a cap. `spent` includes `open`, the worst costs of the calls still reserved.

    `capacity` is None for an analyst without a quota: then only the cap of the dataset holds. `basic` is the basic
    account of a dataset that has one; of some calls, what they added to it. For a set of parts, `spent` is such that
    `left` is what a call on these parts may cost.

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
        """The main cost and the delta that may still be reserved. No main cost is left once only the basic account is
        used."""
        return None if self.accounts is None else self.accounts.left


@dataclass(frozen=True, slots=True)
class PartitionBalance:
    """What the parts of a partition hold of the budget, open calls at their worst.

    A unit is in at most `most` of them, so that `spent`, what the most expensive `most` hold together, is what all of
    them take.
    """

    partition: str
    most: int
    spent: Amount
    parts: dict[str, Amount]


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
    """The call of this idempotency key was settled meanwhile: its answer can be replayed, and nothing was charged."""


class RequestUnanswered(LedgerError):  # noqa: N818
    """The ledger has no answer under this idempotency key, and was only to be read: nothing was asked or charged."""


class CapReached(BudgetExceeded):
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


# What may be written into a ledger: checked once, at the door, for every implementation alike.

# Tallies add counts up in 64 bits: 2**32 calls of this size still fit.
COUNT_LIMIT = 2**31 - 1


def _repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is repeated")
    return dict(pairs)


_write: Callable[[object], str] = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_read: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_repeats).decode


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII only.

    NaN, infinities and values JSON cannot hold raise `InvalidParameter`.

    >>> canonical({"unit": "patient", "budget": [1, "1e-6"]})
    '{"budget":[1,"1e-6"],"unit":"patient"}'
    """
    refused = InvalidParameter("a ledger stores only what JSON can hold, without NaN and infinities")
    return quietly(lambda: _write(value), refused)


def parsed(text: str, name: str) -> Any:
    """The value of a JSON text; `InvalidParameter` if it is not JSON or repeats a key.

    >>> parsed('{"unit": "patient"}', "conditions")
    {'unit': 'patient'}
    """
    return quietly(lambda: _read(text), InvalidParameter(f"{name} must be a JSON text"))


def text(value: str, name: str) -> str:
    """A text every engine stores unchanged: no lone surrogates and no NUL; it may be empty.

    >>> text("count", "kind")
    'count'
    """
    if isinstance(value, str) and "\0" not in value and (value.isascii() or _encodes(value)):
        return value
    raise InvalidParameter(f"{name} must be a text without NUL and lone surrogates")


def label(value: str, name: str) -> str:
    """A text that is not empty: the name of a dataset, an analyst, a kind or a request.

    >>> label("", "analyst")
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: analyst must not be empty
    """
    if text(value, name):
        return value
    raise InvalidParameter(f"{name} must not be empty")


def count(value: int, name: str) -> int:
    """An integer from 0 to 2^31 - 1.

    >>> count(3, "hits")
    3
    """
    # `type` and not `isinstance`: True is an int, and would be stored as 1 and hashed as true.
    if type(value) is not int or not 0 <= value <= COUNT_LIMIT:
        raise InvalidParameter(f"{name} must be an integer from 0 to 2^31 - 1")
    return value


def halves(value: Amount, name: str) -> tuple[int, int]:
    """Main and delta of an amount, checked once more: the ledger believes nobody.

    >>> halves(Amount(3, 1), "worst")
    (3, 1)
    """
    main, delta = getattr(value, "main", None), getattr(value, "delta", None)
    if type(main) is int and type(delta) is int and 0 <= main <= LIMIT and 0 <= delta <= LIMIT:
        return main, delta
    raise InvalidParameter(f"{name} must be an amount of integers from 0 to 2^62")


def whole_steps(value: int, name: str) -> int:
    """An integer of steps.

    >>> whole_steps(3, "basic")
    3
    """
    if type(value) is int and 0 <= value <= LIMIT:
        return value
    raise InvalidParameter(f"{name} must be an integer from 0 to 2^62")


def masked(value: bytes | None, name: str) -> bytes | None:
    """A secret: bytes or nothing. The message never shows it."""
    if value is None or isinstance(value, bytes):
        return value
    raise InvalidParameter(f"{name} must be bytes or None")


def unchanged(version: int, after: int | None) -> None:
    """Raise `VersionMoved` unless the dataset's version is the expected one, if any is.

    >>> unchanged(3, after=3), unchanged(3, after=None)
    (None, None)
    """
    if after is not None and version != after:
        raise VersionMoved(f"the dataset is at version {version}, no longer at {after}")


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# The parts that a call may read: charges of parts in which no unit is together are not added up.

# Answers about one part come after one another, and a text of a thousand parts takes long to read.
_KEPT_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one partition that a call may read; it must read the rows of no other.

    `partition` is a text that says everything of it: what divides the rows, and into which parts. `most` is in how many
    of its parts one unit is at most, for ever, also by rows that come later. Where a unit is replaced by another, it is
    in how many both are together. A ledger holds a partition with one `most`. `names` are kept in order.

    Errors: `InvalidParameter` for no names, for a name that is there twice, and where `most` is not from 1 to 2^31 - 1.

    >>> Parts("region", 1, ("south", "north")).text
    '{"most":1,"names":["north","south"],"partition":"region"}'
    """

    partition: str
    most: int
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        label(self.partition, "partition")
        if count(self.most, "most") == 0:
            raise InvalidParameter("most must be at least 1: in how many parts one unit is at most")
        names = tuple(sorted(label(name, "the name of a part") for name in self.names))
        if not names or len(set(names)) < len(names):
            raise InvalidParameter('name each part once, and at least one: Parts("region", 1, ("north", "south"))')
        set_fields(self, names=names)

    @property
    def text(self) -> str:
        """As an entry holds it."""
        return canonical({"partition": self.partition, "most": self.most, "names": self.names})

    @staticmethod
    def of(text: str) -> Parts | None:
        """What an entry holds, None where it names none; a `ValueError` for what no ledger wrote.

        >>> Parts.of(Parts("region", 1, ("north",)).text)
        Parts(partition='region', most=1, names=('north',))
        """
        return _parts_of(text) if text else None


def written(parts: Parts | None) -> str:
    """Parts as an entry holds them; empty where there are none.

    >>> written(None)
    ''
    """
    return "" if parts is None else parts.text


@lru_cache(maxsize=_KEPT_PARTS)
def _parts_of(text: str) -> Parts:
    try:
        said = parsed(text, "parts")
        found = Parts(said["partition"], said["most"], tuple(said["names"]))
    except (TypeError, LookupError):
        found = None
    if found is None or found.text != text:
        raise InvalidParameter("these parts were not written by a ledger")
    return found


# The terms a dataset's budget was opened under: fixed at creation, compared at every opening.

_OTHER_ROWS: Final = "the rows have other columns, other types, or whatever else is fixed about them is another"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a budget is a budget of. Everything here is public.

    `name` names the dataset inside the ledger, and `fingerprint` is a hash of its schema. `conditions` is a JSON text
    the ledger does not interpret (neighbouring relation, privacy unit, budget, filter). `capacity` is the hard cap.
    `basic` is the capacity of the basic account (see `amounts.Accounts`), 0 where there is none. Conditions are brought
    into canonical form, so spacing and key order do not matter.

    >>> Terms("visits", "ab12", '{"unit": "patient"}', Amount(100)).conditions
    '{"unit":"patient"}'
    """

    name: str
    fingerprint: str
    conditions: str
    capacity: Amount
    basic: int = 0

    def __post_init__(self) -> None:
        label(self.name, "name")
        text(self.fingerprint, "fingerprint")
        set_fields(self, conditions=canonical(parsed(self.conditions, "conditions")))


def agree(held: Terms, asked: Terms) -> None:
    """Raise `LedgerMismatch` naming every term in which the asked terms differ from the held ones.

    Fingerprints tell people nothing: they are mentioned, without their digits, only where nothing else differs.

    >>> agree(Terms("visits", "a", '{"unit":"row"}', Amount(9)), Terms("visits", "a", '{"unit":"id"}', Amount(9)))
    Traceback (most recent call last):
    ...
    chary.errors.LedgerMismatch: the ledger holds 'visits' under other terms:
    unit is "row" in the ledger, not "id"
    """
    # A dataset that was opened without a basic account goes on without one.
    before, after = _parts(held), _parts(asked if held.basic else replace(asked, basic=0))
    differ = [key for key in sorted(before | after) if before.get(key) != after.get(key)]
    if differ:
        told = [_differs(_word(key), before.get(key), after.get(key)) for key in differ]
        told = [words for key, words in zip(differ, told, strict=True) if key != "fingerprint"] or [_OTHER_ROWS]
        raise LedgerMismatch(f"the ledger holds {held.name!r} under other terms: {'; '.join(told)}")


def _word(key: str) -> str:
    return key.removeprefix("conditions.")


def _differs(word: str, held: str | None, asked: str | None) -> str:
    if held is None:
        return f"{word} is not in the ledger, and {asked} here"
    return f"{word} is {held} in the ledger, {'and not given here' if asked is None else f'not {asked}'}"


def _parts(terms: Terms) -> dict[str, str]:
    """Every field as JSON text, so that 1, 1.0 and true differ, and null differs from a missing key."""
    conditions = parsed(terms.conditions, "conditions")
    named = {f"conditions.{key}": value for key, value in conditions.items()} if isinstance(conditions, dict) else {}
    fields = {"fingerprint": terms.fingerprint, "capacity": terms.capacity.main, "capacity.delta": terms.capacity.delta}
    fields |= {"capacity.basic": terms.basic} if terms.basic else {}
    parts = {key: canonical(value) for key, value in (named | fields).items()}
    return parts if named else parts | {"conditions": terms.conditions}
