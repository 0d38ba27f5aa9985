"""The terms a dataset's budget was opened under: fixed at creation, compared at every opening."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from chary.amounts import Amount
from chary.errors import LedgerMismatch
from chary.ledger.checks import canonical, label, parsed, text

_OTHER_ROWS: Final = "the rows have other columns, other types, or whatever else is fixed about them is another"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a budget is a budget of. Everything here is public.

    `name` names the dataset inside the ledger, `fingerprint` is a hash of its schema, `conditions` is a JSON
    text the ledger does not interpret (neighbouring relation, privacy unit, budget, filter), and `capacity`
    is the hard cap. `basic` is the capacity of the basic account (see `amounts.Accounts`), 0 where there is none.
    Conditions are brought into canonical form, so spacing and key order do not matter.

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
        object.__setattr__(self, "conditions", canonical(parsed(self.conditions, "conditions")))


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
        told = [f"{_word(key)} is {_said(before, key)} in the ledger, not {_said(after, key)}" for key in differ]
        told = [words for key, words in zip(differ, told, strict=True) if key != "fingerprint"] or [_OTHER_ROWS]
        raise LedgerMismatch(f"the ledger holds {held.name!r} under other terms: {'; '.join(told)}")


def _word(key: str) -> str:
    return key.removeprefix("conditions.")


def _said(parts: dict[str, str], key: str) -> str:
    return parts.get(key, "absent")


def _parts(terms: Terms) -> dict[str, str]:
    """Every field as JSON text, so that 1, 1.0 and true differ, and null differs from a missing key."""
    conditions = parsed(terms.conditions, "conditions")
    named = {f"conditions.{key}": value for key, value in conditions.items()} if isinstance(conditions, dict) else {}
    fields = {"fingerprint": terms.fingerprint, "capacity": terms.capacity.main, "capacity.delta": terms.capacity.delta}
    fields |= {"capacity.basic": terms.basic} if terms.basic else {}
    parts = {key: canonical(value) for key, value in (named | fields).items()}
    return parts if named else parts | {"conditions": terms.conditions}
