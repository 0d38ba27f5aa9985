"""Questions and answers of earlier calls, rebuilt from the ledger alone: for findings, reports, public histograms."""

import json
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from chary.accounting import Finding, Findings
from chary.amounts import Accounts
from chary.answers import Answer, Ends, scalar
from chary.calls.call import of_ledger, of_record
from chary.calls.run import RunKind, publishing, run_asked, run_kinds, run_of
from chary.core.charges import accounts_of
from chary.core.plan import Json, Plan
from chary.core.transaction import Spine, numbered, openings
from chary.core.versions import Version
from chary.data import Count, NeighborRelation
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current, stored_kinds
from chary.errors import CharyError, InvalidQuery, LedgerCorrupted, NotWithheld
from chary.ledger import CallRecord
from chary.numbers import Number

# The same question is asked again and again; what follows from it takes some kilobytes.
_KEPT: Final = 2_000
# A ledger may hold questions of other versions, which cannot be read: then the stored answer is returned as it is.
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
        """What was charged, by account, when this was first looked at."""
        return accounts_of(self.spine.ledger, self.spine.dataset)

    def body(self, call: CallRecord) -> Json:
        """The body of a question; empty where it cannot be read."""
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
        """Whether question and answer can be read. A damaged or forged entry counts as one that published nothing."""
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
        """The plan of a stored question; None for a question about algorithms, which ledgers do not hold."""
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
        """The spine of the rows that were asked. Of a part, only its neighbour relation is known."""
        if call.parts is None:
            return self.spine
        near = self.spine.rows.neighbor_relation
        rows: Any = SimpleNamespace(neighbor_relation=NeighborRelation(near.neighbors, near.unit, in_part=True))
        return replace(self.spine, rows=rows, parts=call.parts)


def opened_by(body: Mapping[str, Any]) -> int | None:
    """The call that opened the run which a question names; None where it names none."""
    return next((body[name] for name in names_of_runs() & body.keys() if type(body[name]) is int), None)


@cache
def names_of_runs() -> frozenset[str]:
    """The fields in which questions name the run that they ask."""
    return frozenset(run_of(kind).names for kind in run_kinds())


def _counted(known: Any, body: Json) -> bool:
    """Whether the ledger holds all that a call asks about: a query or conditions, and no algorithm."""
    if not any(each.name in ("query", "question", "candidates") for each in fields(cast("Any", known))):
        return True
    asked = body.get("query", body.get("candidates"))
    return isinstance(asked, dict) or (isinstance(asked, list) and all(isinstance(each, str) for each in asked))


# Lessons: published answers about proportions of rows, from which public histograms learn for free.

# The kinds of call whose answers teach: what they publish are counts of rows, each with an interval of its own.
RELEASES: Final = ("release", "release_if", "release_all")
HISTOGRAMS: Final = ("multiplicative_weights", "sparse_weights")


class Lesson(NamedTuple):
    """What call `call` published of a proportion of the rows of now: it lies from `low` to `high`, with 95 %
    confidence."""

    call: int
    where: str
    low: float
    high: float


class Taught(ABC):
    """A public histogram that learns from other published answers, in a session or through a service."""

    @abstractmethod
    def lessons(self) -> list[Lesson]:
        """The intervals of proportions in published answers that the histogram contradicts now.

        They come from counts, released always or on a condition, and from hard answers of other histograms, all of the
        rows of this histogram. Rows that arrived later may be in any cell, so they widen an interval. Where their
        number is secret, answers before the last arrival are left out. Nothing is read, charged or recorded. A call on
        an earlier version of the rows (`session.as_of`) is taken to be about the rows of its time: do not teach it.
        """

    @abstractmethod
    def learn(self, where: Any, told: Answer | tuple[Number, Number], *, request: str | None = None) -> Any:
        """Teach the histogram what is known of one proportion."""

    def learn_published(self) -> int:
        """Teach the histogram all of its `lessons`, in the order of their calls, for free. Returns their number.

        Guarantee: as for `learn`. After an interruption the next call teaches the rest.
        """
        found = self.lessons()
        for lesson in found:
            self.learn(lesson.where, (lesson.low, lesson.high))
        return len(found)


def in_shares(ends: Ends, size: int, grown: int = 0) -> tuple[float, float]:
    """An interval in rows as one of proportions of `size` rows, of which the last `grown` arrived later."""
    low, high = ends
    shares = 0.0 if low is None else low / size, 1.0 if high is None else (high + grown) / size
    return min(1.0, max(0.0, shares[0])), min(1.0, max(0.0, shares[1]))


def published(spine: Spine, run: int, size: int, analyst: str | None = None) -> Iterator[Lesson]:
    """The published intervals of proportions of the current rows, by all calls or those of one analyst, oldest first.
    Questions to the run with this number are left out."""
    history, notes = History(spine), spine.ledger.notes(spine.dataset)
    places, sizes = [note.entry for note in notes], [Version.of(note).size for note in notes]
    last = len(notes) if spine.version is None else spine.version
    asked = [each.kind for kind in HISTOGRAMS for each in run_of(kind).questions]
    kinds = [word for kind in RELEASES for word in stored_kinds(kind)] + asked
    for call in openings(spine, *kinds, analyst=analyst):
        grown = _grown(sizes[:last], bisect(places, call.number))
        if call.parts != spine.parts or grown is None or opened_by(history.body(call)) == run:
            continue
        found = history.rebuilt(call)
        for where, ends in _told(call, found) if found.plan is not None else ():
            yield Lesson(call.number, where, *in_shares(ends, size, grown))


def _grown(sizes: Sequence[int | None], then: int) -> int | None:
    """How many rows arrived after version `then`; None where that is secret, and for a version not reached."""
    if then >= len(sizes):
        return 0 if then == len(sizes) else None
    first, last = (sizes[then - 1], sizes[-1]) if then else (None, None)
    return None if first is None or last is None else last - first


def _told(call: CallRecord, found: Rebuilt) -> Iterator[tuple[str, Ends]]:
    """The conditions whose rows an answer counts, each with the interval of its number of rows."""
    asked = current(call.question)
    if "where" in asked:
        if (ends := found.answer.interval) is not None:
            low, high = (None if end is None else end * call.outcome["size"] for end in ends)
            yield asked["where"], (low, high)
        return
    wheres = _wheres(query_of(asked["query"])) if "query" in asked else _wheres_of_all(asked["queries"])
    for value in found.answer.findings:
        if value.key in wheres:
            yield wheres[value.key], value.interval


def _wheres_of_all(queries: Sequence[Any]) -> Mapping[Any, str]:
    """The conditions of a release of several queries, by the keys of its findings."""
    known = [(place, _wheres(query_of(query))) for place, query in enumerate(queries)]
    return {place if key is None else (place, key): text for place, texts in known for key, text in texts.items()}


def _wheres(query: Any) -> Mapping[Any, str]:
    """By group, the condition of the rows that a count counts; none for other queries, and for all rows."""
    if not isinstance(query, Count) or query.without is not None:
        return {}
    if query.keying is None:
        return {} if query.where is None else {None: query.where.text}
    try:
        texts = [condition.text for condition in query.conditions()]
    except InvalidQuery:
        return {}
    return dict(zip(map(scalar, query.keys or ()), texts, strict=True))
