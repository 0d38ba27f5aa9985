"""Answers rebuilt from a ledger alone: no row is there, and no secret is looked at."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

from chary.accounting import Findings
from chary.amounts import Accounts
from chary.calls.call import kinds
from chary.calls.history import told_so_far
from chary.calls.releases import Release
from chary.calls.run import Kept, run_kinds, run_of
from chary.calls.schedules import RunSchedule
from chary.core.charges import accounts_of
from chary.core.plan import Interaction, Json
from chary.core.transaction import Spine
from chary.data import Neighbouring
from chary.errors import CharyError, LedgerError
from chary.filters import Filter
from chary.ledger import Balance, CallRecord, Ledger, Terms
from chary.ledger.checks import parsed
from chary.noise import OperatingSystem
from chary.session.opening import held_filter
from chary.session.reporting import readable

# The same question is asked again and again; what follows from it takes some kilobytes.
_KEPT: Final = 2_000
# Ledgers keep for ever what other versions asked in other words: then the answer is told as it is stored.
_UNREADABLE: Final = (CharyError, KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class DeclaredRows:
    """What a ledger knows of the rows: their neighbours."""

    neighbouring: Neighbouring


@dataclass(frozen=True)
class PublicLedger:
    """What is public of a ledger that a report needs: its calls and sums. A secret is never handed out."""

    ledger: Ledger

    def balance(self, dataset: str) -> Balance:
        """What was charged in all."""
        return self.ledger.balance(dataset)

    def call(self, number: int) -> CallRecord:
        """One call."""
        return self.ledger.call(number)

    def calls(self, dataset: str, after: int = 0, limit: int | None = None, **looked_for: Any) -> Iterator[CallRecord]:
        """The calls of a dataset that are looked for, as of the ledger itself."""
        return self.ledger.calls(dataset, after, limit, **looked_for)

    def last_settled(self, dataset: str, kind: str, body: str) -> None:
        """What came before an answer is told by the answer."""

    def secret(self, call: int) -> bytes:
        """Refuses."""
        raise LedgerError("a report looks at nothing secret")


def findings_in(ledger: Ledger, terms: Terms, run: int | None = None) -> Findings:
    """What was published of a dataset, or by the questions to one run, from its ledger alone: as of its session.

    Errors: `UnknownHeld` for a call that opened no run.
    """
    return told_so_far(Rebuilder.of(ledger, terms).spine, run)


class Rebuilt(NamedTuple):
    """A question and its answer; without an interaction the answer is the stored JSON."""

    interaction: Interaction | None
    answer: Any


@dataclass
class Rebuilder:
    """Answers of one dataset, presented as its analysts saw them."""

    filter: Filter
    spine: Spine
    _interactions: dict[tuple[str, str], Interaction | None] = field(default_factory=dict)
    _runs: dict[int, Kept[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, terms: Terms) -> "Rebuilder":
        """For the dataset that these terms opened."""
        filter_, rows, public = held_filter(terms), DeclaredRows(neighbouring_of(terms)), PublicLedger(ledger)
        asked: Any = (rows, filter_, public, terms.name, "report", OperatingSystem(), _quiet)
        return cls(filter_, Spine(*asked))

    @cached_property
    def accounts(self) -> Accounts:
        """What was charged when it was first looked at, and to which account."""
        return accounts_of(self.spine.ledger, self.spine.dataset)

    def body(self, call: CallRecord) -> Json:
        """What was asked."""
        return readable(lambda: call.question, {}, [])

    def rebuilt(self, call: CallRecord) -> Rebuilt:
        """The answer of a settled call; the stored JSON where the question cannot be put again without the rows."""
        stored: Any = readable(lambda: call.outcome, None, [])
        try:
            if call.kind == RunSchedule.kind:
                return self._scheduled(call, stored)
            interaction = self._interaction(call)
            if interaction is not None:
                return Rebuilt(interaction, interaction.present(stored, call.number))
        except _UNREADABLE:
            pass
        return Rebuilt(None, stored)

    def _scheduled(self, call: CallRecord, stored: Json) -> Rebuilt:
        """A run of a schedule of counts, which is a release of the size that the answer tells."""
        box, epsilon = self._opening(call)["black_box"], Fraction(stored["epsilon"])
        size = {"rho": epsilon**2 / 2} if "rho" in box else {"epsilon": epsilon}
        interaction = Release.recorded({"query": box["query"]} | size).bind(self.spine)
        return Rebuilt(interaction, interaction.present(stored["answer"], call.number))

    def _opening(self, call: CallRecord) -> Json:
        """What the run was opened with that a call asked."""
        opened = opened_by(self.body(call))
        return {} if opened is None else self.body(self.spine.ledger.call(opened))

    def _interaction(self, call: CallRecord) -> Interaction | None:
        key = (call.kind, call.body)
        if key not in self._interactions:
            if len(self._interactions) >= _KEPT:
                self._interactions.clear()
            try:
                self._interactions[key] = self._asked(call.kind, self.body(call))
            except _UNREADABLE:
                self._interactions[key] = None
        return self._interactions[key]

    def _asked(self, kind: str, body: Json) -> Interaction | None:
        known = kinds().get(kind)
        if known is not None:
            # What ends a list early decides how many are published, not how.
            return known.recorded({name: said for name, said in body.items() if name != "until"}).bind(self.spine)
        run = self._run(body)
        if run is None:
            return None
        interaction = run.recorded(body)
        return interaction if interaction.kind == kind else None

    def _run(self, body: Json) -> Kept[Any, Any] | None:
        """The run that a question names."""
        number = opened_by(body)
        if number is not None and number not in self._runs:
            opening = self.spine.ledger.call(number)
            self._runs[number] = run_of(opening.kind)(self.spine, number, json.loads(opening.body))
        return None if number is None else self._runs[number]


def opened_by(body: Mapping[str, Any]) -> int | None:
    """The call that opened the run which a question names; None where it names none."""
    return next((body[name] for name in names_of_runs() & body.keys() if type(body[name]) is int), None)


@cache
def names_of_runs() -> frozenset[str]:
    """The fields by which questions name the run that they ask."""
    return frozenset(run_of(kind).names for kind in run_kinds())


def neighbouring_of(terms: Terms) -> Neighbouring:
    """The neighbours under which a dataset was opened."""
    conditions = parsed(terms.conditions, "conditions")
    return Neighbouring(conditions["relation"], conditions["unit"])


def _quiet(step: str) -> None:
    """Nothing is run."""
