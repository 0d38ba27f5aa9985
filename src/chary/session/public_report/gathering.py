"""What is public of a dataset in a ledger: its questions with their answers, what they took, and the statement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from chary.answers import Spending
from chary.core.charges import spent_of
from chary.filters import Budget, Filter
from chary.ledger import CallRecord, Ledger, State, Terms
from chary.session.public_report.published_values import PublishedValue, values_of_answer
from chary.session.public_report.rebuilding import Rebuilder, Rebuilt, neighbouring_of, opened_by
from chary.session.public_report.simultaneous import SimultaneousHit, simultaneous_hits
from chary.session.public_report.wording import outcome_told, question_told, titled
from chary.session.reading import types_told
from chary.session.reporting import entries, entry_of, statement

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ReportedCall:
    """A settled call: what was asked, when and by whom, what came out and what it took.

    `time` is when it was asked, to the minute: how long calls took depends on the rows and is not published. `share` is
    the part of the budget that it took, `charged` the same in the filter's unit. `opened` is the call whose
    run it asked, `bar` the threshold, `keyed` whether its values have keys.
    """

    call: int
    time: str
    analyst: str
    kind: str
    title: str
    question: str
    outcome: str
    values: tuple[PublishedValue, ...]
    share: float
    charged: float
    hits: int
    tests: int
    opened: int | None = None
    bar: float | None = None
    series: bool = False
    asked: str = field(default="", repr=False)

    @property
    def keyed(self) -> bool:
        """Whether its values are those of keys."""
        return any(value.key for value in self.values)


@dataclass(frozen=True)
class ReportedDataset:
    """Everything of a dataset that a report tells. `steps` is when how much of the budget had been charged in all."""

    name: str
    budget: Budget
    filter: Filter
    relation: str
    spent: Spending
    statement: str
    calls: tuple[ReportedCall, ...]
    hits: tuple[SimultaneousHit, ...]
    steps: tuple[tuple[str, float], ...]
    unanswered: int
    unanswered_share: float
    versions: int


def gathered(ledger: Ledger, terms: Terms, confidence: Fraction, said: str | None, tell: Tell) -> ReportedDataset:
    """The report of one dataset; `said` is its statement where somebody knows more of it than the ledger."""
    rebuilder, name = Rebuilder.of(ledger, terms), terms.name
    told = said or _statement(ledger, terms, rebuilder)
    settled = [call for call in ledger.calls(name) if call.state == State.SETTLED]
    calls = tuple(_told(rebuilder, settled, confidence, tell))
    lost = [entry for entry in entries(ledger, name) if entry.state == State.RESERVED]
    return ReportedDataset(
        name,
        rebuilder.filter.budget,
        rebuilder.filter,
        neighbouring_of(terms).describe(),
        spent_of(ledger, name, rebuilder.filter),
        told,
        calls,
        tuple(_hits(calls, confidence, tell)),
        tuple(_steps(calls)),
        len(lost),
        sum(entry.share for entry in lost),
        ledger.version(name),
    )


def _statement(ledger: Ledger, terms: Terms, rebuilder: Rebuilder) -> str:
    said = statement(ledger, terms.name, rebuilder.filter, neighbouring_of(terms))
    return said + types_told(rebuilder.spine.rows, ledger, terms.name)


def _told(rebuilder: Rebuilder, settled: list[CallRecord], confidence: Fraction, tell: Tell) -> Iterator[ReportedCall]:
    for place, call in enumerate(settled, 1):
        yield _call(rebuilder, call, rebuilder.rebuilt(call), confidence)
        tell("reading answers", place, len(settled))


def to_the_minute(time: str) -> str:
    """A time of the ledger without its seconds: how long calls took is not published.

    >>> to_the_minute("2026-03-09T08:05:11.000001+00:00")
    '2026-03-09T08:05+00:00'
    """
    return datetime.fromisoformat(time).isoformat(timespec="minutes")


def _call(rebuilder: Rebuilder, call: CallRecord, rebuilt: Rebuilt, confidence: Fraction) -> ReportedCall:
    body, entry = rebuilder.body(call), entry_of(call, rebuilder.accounts)
    return ReportedCall(
        call.number,
        to_the_minute(call.created),
        call.analyst,
        call.kind,
        titled(call.kind),
        question_told(body),
        entry.damage or outcome_told(rebuilt.answer, body),
        values_of_answer(rebuilt, confidence),
        entry.share,
        rebuilder.filter.charged(call.charged),
        call.hits or 0,
        call.tests or 0,
        opened_by(body),
        bar_of(body.get("above")),
        _query_kind(body) == "series",
        call.body,
    )


def bar_of(above: Any) -> float | None:
    """A threshold as it was asked for; None for what is none."""
    try:
        return None if above is None else float(Fraction(above))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None


def _query_kind(body: dict[str, Any]) -> Any:
    query = body.get("query")
    return query.get("kind") if isinstance(query, dict) else None


def _hits(calls: tuple[ReportedCall, ...], confidence: Fraction, tell: Tell) -> list[SimultaneousHit]:
    """Values that were told because a test hit or they changed, in the order of their calls."""
    values = [(call.call, value) for call in calls for value in call.values if _is_hit(value)]
    return simultaneous_hits(values, confidence, lambda place: tell("comparing hits", place, len(values)))


def _is_hit(value: PublishedValue) -> bool:
    return value.finding is not None and value.finding.p_value is not None


def _steps(calls: tuple[ReportedCall, ...]) -> Iterator[tuple[str, float]]:
    """When how much had been charged, as a part of the budget."""
    spent = 0.0
    for call in sorted(calls, key=lambda call: (call.time, call.call)):
        if call.share:
            spent += call.share
            yield call.time, min(1.0, spent)
