"""Ledgers of earlier versions, read for ever.

*Races* that were counted before calls paid in full left the counters alone: set right when the dataset is opened.

Earlier, a call without a cost per hit was charged in full and raised the counters of the targets it hit, so that later
hits were free on its account. What should have been counted, and what was charged for it, follows from the records of
the calls. The counters are set to that, and what was charged too little is charged at once. From then on all charges
are at least those of the proof (docs/theory/charging.md, best of k), as if no call had ever been counted twice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Targeted
from chary.amounts import Amount
from chary.calls import compute
from chary.core.transaction import ATTEMPTS
from chary.errors import LedgerCorrupted
from chary.filters import Filter
from chary.ledger import CallRecord, Ledger, SecretMoved, State

# Old ledgers hold entries of this kind by this analyst.
REPAIR: Final = "best_of_repair"
REPAIRER: Final = "chary"


def repair_races(ledger: Ledger, filter_: Filter, dataset: str) -> None:
    """Make the counters and the charges of all races what they should be; a ledger in order is only read.

    A repair is an entry of its own, of kind `best_of_repair` by the analyst "chary", whom no share caps. It charges
    what is missing, or all that is left where that is less.
    """
    if compute.CALL not in ledger.tally(dataset):  # calls of other kinds came after the rule
        return
    for _ in range(ATTEMPTS - 1):
        try:
            return _repair(ledger, filter_, dataset)
        except SecretMoved:
            continue
    _repair(ledger, filter_, dataset)


def _repair(ledger: Ledger, filter_: Filter, dataset: str) -> None:
    # States are looked at before the records: a call that is settled in between moves its state, which is noticed.
    states = {call.number: ledger.secret(call.number) for call in _settled(ledger, dataset, compute.MultiTarget.kind)}
    for race, due in _due(ledger, filter_, dataset, states).items():
        counters, seen = list(due.counters.values()), states[race]
        left = ledger.balance(dataset).left or Amount(0)
        missing = Amount(min(max(0, due.least - due.paid), left.main))
        if missing.main or (seen is not None and json.loads(seen) != counters):
            _settle(ledger, dataset, race, missing, (seen, json.dumps(counters).encode()))


@dataclass
class _Due:
    """What calls with a cost per hit should have counted for each target, and what was charged for them."""

    counters: dict[str, int]
    paid: int = 0

    @property
    def least(self) -> int:
        """What should have been charged."""
        return min(self.counters.values())

    def add(self, call: CallRecord, filter_: Filter) -> None:
        """One more record of the race; the worst cost of a call was that of a hit."""
        body, charged = json.loads(call.body), call.charged.main
        if call.kind == REPAIR:
            self.paid += charged
        elif call.kind == compute.ASK:
            raised = json.loads(call.answer or "{}")["raised"]
            self.paid += charged if raised else 0
            for name, amount in raised.items():
                self.counters[name] += amount
        elif filter_.price(Targeted(Fraction(body["epsilon"]), None, Fraction(body.get("delta", 0)))).free_miss:
            self.paid += charged
            for name in json.loads(call.answer or "{}")["hits"]:
                self.counters[name] += call.worst.main


def _due(ledger: Ledger, filter_: Filter, dataset: str, races: Mapping[int, bytes | None]) -> dict[int, _Due]:
    due = {race: _Due(dict.fromkeys(json.loads(ledger.call(race).body)["targets"], 0)) for race in races}
    for call in _settled(ledger, dataset, compute.CALL, compute.ASK, REPAIR):
        race = _race_of(call)
        if race in due:
            due[race].add(call, filter_)
    return due


def _race_of(call: CallRecord) -> Any:
    """The race of a record; None for what no session wrote, which a role of a server can make up."""
    try:
        return call.question.get("best_of") if isinstance(call.outcome, dict) else None
    except LedgerCorrupted:
        return None


def _settled(ledger: Ledger, dataset: str, *kinds: str) -> list[CallRecord]:
    return [call for call in ledger.calls(dataset, kinds=kinds) if call.state == State.SETTLED]


def _settle(ledger: Ledger, dataset: str, race: int, missing: Amount, states: tuple[bytes | None, bytes]) -> None:
    seen, counters = states
    reservation = ledger.reserve(dataset, REPAIRER, REPAIR, json.dumps({"best_of": race}), missing)
    try:
        ledger.settle(reservation, missing, 0, 0, "{}", secrets={race: counters}, seen={race: seen})
    except SecretMoved:
        ledger.void(reservation)
        raise
