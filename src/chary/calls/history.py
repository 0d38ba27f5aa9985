"""Questions and answers of earlier calls, rebuilt from the ledger alone: for findings and reports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Final, NamedTuple, cast

from chary.accounting import Finding, Findings
from chary.amounts import Accounts
from chary.calls.call import of_ledger, of_record
from chary.calls.run import RunKind, publishing, run_asked, run_kinds, run_of
from chary.core.charges import accounts_of
from chary.core.plan import Json, Plan
from chary.core.transaction import Spine, numbered, openings
from chary.data import NeighborRelation
from chary.errors import CharyError, LedgerCorrupted, NotWithheld
from chary.ledger import CallRecord

# The same question is asked again and again; what follows from it takes some kilobytes.
_KEPT: Final = 2_000
# Ledgers keep for ever what other versions asked in other words: then the answer is reported as it is stored.
_UNREADABLE: Final = (CharyError, KeyError, TypeError, ValueError, AttributeError)


class Rebuilt(NamedTuple):
    """A question and its answer; without a plan the answer is the stored JSON."""

    plan: Plan[Any] | None
    answer: Any


@dataclass(frozen=True)
class History:
    """The answers of one dataset, presented as its analysts saw them. No row is read, and no secret."""

    spine: Spine
    _plans: dict[tuple[str, str, bool], Plan[Any] | None] = field(default_factory=dict)
    _runs: dict[int, RunKind[Any, Any]] = field(default_factory=dict)

    @cached_property
    def accounts(self) -> Accounts:
        """What was charged when it was first looked at, and to which account."""
        return accounts_of(self.spine.ledger, self.spine.dataset)

    def body(self, call: CallRecord) -> Json:
        """What was asked; nothing where that cannot be read."""
        try:
            return call.question
        except LedgerCorrupted:
            return {}

    def rebuilt(self, call: CallRecord) -> Rebuilt:
        """The answer of a settled call; the stored JSON where the question cannot be put again without the rows."""
        stored = self._stored(call)
        try:
            plan = self._plan(call)
            if plan is not None:
                return Rebuilt(plan, plan.present(stored, call.number))
        except _UNREADABLE:
            pass
        return Rebuilt(None, stored)

    def findings(self, run: int | None = None) -> Findings:
        """All values that calls of the dataset published, or those of one run, in the order of the calls.

        More may follow, so intervals that hold at once split the failures allowed among calls, unless the number of
        values was fixed when the run was opened. What published no value with known noise is left out, such as outcomes
        of algorithms. So is what is no finding of a value by itself: quantiles, running counts, answers of public
        weights, synthetic data. Errors: `NotWithheld` for a call that opened no run of this dataset.
        """
        most = None if run is None else self._most(run)
        settled = (call for call in openings(self.spine, *publishing()) if self._readable(call))
        asked = [call for call in settled if run is None or opened_by(call.question) == run]
        found = [finding for call in asked for finding in self._published(call)]
        return Findings.of(found, most, open=True, made=sum(call.tests or 0 for call in asked))

    def _stored(self, call: CallRecord) -> Any:
        try:
            return call.outcome
        except LedgerCorrupted:
            return None

    def _readable(self, call: CallRecord) -> bool:
        """Whether question and answer can be read; what a role of a server made up, or damage, publishes nothing."""
        return bool(self.body(call)) and self._stored(call) is not None

    def _published(self, call: CallRecord) -> Findings:
        plan = self._asked(call, call.question)
        if plan is None:
            return Findings(())
        answer = plan.present(call.outcome, call.number)
        # A revision is reported under its own number.
        return Findings.of([Finding(call.number, found.key, found.value, found.told) for found in answer.findings])

    def _most(self, run: int) -> int | None:
        """The number of values that a run can publish, where its opening limits them."""
        stored = numbered(self.spine, run)
        opened = run_of(stored.kind) if stored.kind in run_kinds() and stored.dataset == self.spine.dataset else None
        if opened is None or not any(asked.publishes for asked in opened.questions):
            raise NotWithheld(f"call {run} opened no run of this dataset that publishes values")
        found: int | None = None if opened.most is None else json.loads(stored.body).get(opened.most)
        return found

    def _plan(self, call: CallRecord) -> Plan[Any] | None:
        key = (call.kind, call.body, call.parts is not None)
        if key not in self._plans:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            try:
                self._plans[key] = self._asked(call, self.body(call))
            except _UNREADABLE:
                self._plans[key] = None
        return self._plans[key]

    def _asked(self, call: CallRecord, body: Json) -> Plan[Any] | None:
        """The question again; None for what was asked of algorithms, which no ledger holds."""
        kind, known = call.kind, of_ledger(call.kind)
        if known is not None:
            return of_record(kind, body).plan(self._spine_of(call)) if _counted(known, body) else None
        run = self._run(kind, body)
        plan = None if run is None else run.recorded(body)
        return plan if plan is not None and plan.kind == kind else None

    def _run(self, kind: str, body: Json) -> RunKind[Any, Any] | None:
        """The run that a question names."""
        number = opened_by(body)
        if number is None or run_asked(kind) is None:
            return None
        if number not in self._runs:
            opening = numbered(self.spine, number)
            spine = self._spine_of(opening)
            self._runs[number] = run_of(opening.kind)(spine, number, json.loads(opening.body))
        return self._runs[number]

    def _spine_of(self, call: CallRecord) -> Spine:
        """That of the rows which were asked: of a part no more is known than how its neighbours differ."""
        if call.parts is None:
            return self.spine
        near = self.spine.rows.neighbor_relation
        rows: Any = _Divided(NeighborRelation(near.neighbors, near.unit, in_part=True))
        return replace(self.spine, rows=rows, parts=call.parts)


@dataclass
class _Divided:
    """The rows of a part, as far as a ledger says of them."""

    neighbor_relation: NeighborRelation


def opened_by(body: Mapping[str, Any]) -> int | None:
    """The call that opened the run which a question names; None where it names none."""
    return next((body[name] for name in names_of_runs() & body.keys() if type(body[name]) is int), None)


@cache
def names_of_runs() -> frozenset[str]:
    """The fields in which questions name the run that they ask."""
    return frozenset(run_of(kind).names for kind in run_kinds())


def _counted(known: Any, body: Json) -> bool:
    """Whether what a call asks of is in the ledger: a query, or conditions, or nothing that has to be."""
    if not any(each.name in ("query", "question", "candidates") for each in fields(cast("Any", known))):
        return True
    asked = body.get("query", body.get("candidates"))
    return isinstance(asked, dict) or (isinstance(asked, list) and all(isinstance(each, str) for each in asked))
