"""What a public report holds: every published value of a ledger, its interval, its wording."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from heapq import nlargest
from typing import Any, Final

from chary.accounting import Finding, Findings, Publication, Support
from chary.answers import Answer, Ends, PublishedNumber, Spending, in_text, scalar
from chary.calls.history import History, Rebuilt, names_of_runs, opened_by
from chary.calls.run import titled
from chary.charts import Spot, spot_of
from chary.core.charges import spent_by_block, spent_of
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current, options_of
from chary.errors import CharyError, LedgerError
from chary.filters import Budget, Filter
from chary.ledger import Balance, CallRecord, Ledger, Parts, State, Terms
from chary.ledger.records import parsed
from chary.noise import OperatingSystem
from chary.numbers import plain
from chary.session.opening import blocks_of, held_filter
from chary.session.session import promised_across_blocks, types_told
from chary.session.statement import entries, entry_of, statement

# Answers rebuilt from a ledger alone, without rows and without reading secrets.


@dataclass(frozen=True)
class DeclaredRows:
    """The declared properties of the rows that a ledger has: their neighbor relation."""

    neighbor_relation: NeighborRelation


@dataclass(frozen=True)
class PublicLedger:
    """The public part of a ledger that a report needs: its calls and sums. It never returns a secret."""

    ledger: Ledger

    def balance(self, dataset: str, parts: Parts | None = None) -> Balance:
        """The sum of charges, or of those at these parts."""
        return self.ledger.balance(dataset, parts)

    def call(self, number: int) -> CallRecord:
        """One call."""
        return self.ledger.call(number)

    def calls(self, dataset: str, after: int = 0, limit: int | None = None, **looked_for: Any) -> Iterator[CallRecord]:
        """The calls of a dataset, filtered as by the ledger itself."""
        return self.ledger.calls(dataset, after, limit, **looked_for)

    def last_settled(self, dataset: str, kind: str, body: str, parts: Parts | None = None) -> None:
        """None: what an answer reports of earlier calls is stored with it."""

    def secret(self, call: int) -> bytes:
        """Refuses."""
        raise LedgerError("a report looks at nothing secret")


def findings_in(ledger: Ledger, terms: Terms, run: int | None = None) -> Findings:
    """The findings of a dataset, or of the questions to one run, from its ledger alone; equal to those of a session.

    Errors: `NotWithheld` for a call that opened no run.
    """
    return history_of(ledger, terms).findings(run)


def history_of(ledger: Ledger, terms: Terms) -> History:
    """The settled calls of a dataset that was opened with these terms, with their answers."""
    rows, public = DeclaredRows(neighbor_relation_of(terms)), PublicLedger(ledger)
    asked: Any = (rows, held_filter(terms), public, terms.name, "report", OperatingSystem(), _quiet)
    return History(Spine(*asked))


def neighbor_relation_of(terms: Terms) -> NeighborRelation:
    """The neighbor relation with which a dataset was opened."""
    conditions = parsed(terms.conditions, "conditions")
    blocks, neighbors = blocks_of(terms), Neighbors.of_stored(conditions["relation"])
    return NeighborRelation(neighbors, conditions["unit"], block=None if blocks is None else blocks.every)


def _quiet(step: str) -> None:
    """A progress callback that does nothing."""


# Published values, with intervals given that they were published.

USUAL: Final = Fraction(19, 20)


@dataclass(frozen=True)
class PublishedValue:
    """A published number; `key` names it within its answer, and is "" if it is the only one.

    `low` and `high` are its interval given that it was published; `bounded` is whether it has an interval, so that None
    is an open end. `caution` says that it may be a false alarm, `finding` how it was published.
    """

    key: str
    value: int | float
    low: int | float | None
    high: int | float | None
    bounded: bool
    caution: str | None = None
    finding: Finding | None = field(default=None, repr=False, compare=False)

    @property
    def may_be_false(self) -> bool:
        """Whether its interval reaches into the values that would have been withheld."""
        return self.caution is not None

    def spot(self, label: str) -> Spot:
        """The value as a point of a chart."""
        return spot_of(label, self.value, (self.low, self.high), self.caution)


def values_of_answer(rebuilt: Rebuilt, confidence: Fraction) -> tuple[PublishedValue, ...]:
    """The numbers of an answer, each with an interval at this confidence.

    If the noise distribution is not stored, there is an interval only at the confidence of the answer: for quantiles
    the one that was paid for, for others the default.
    """
    answer = rebuilt.answer
    if not isinstance(answer, Answer):
        return tuple(_stored(answer)) if confidence == USUAL else ()
    paid = None if rebuilt.plan is None else json.loads(rebuilt.plan.body).get("interval")
    held = confidence <= (USUAL if paid is None else Fraction(paid))
    found = {finding.key: finding for finding in answer.findings}
    return tuple(
        _value(number, held, found.get(scalar(number.key) if number.key else None), confidence)
        for number in answer.numbers()
    )


def _value(number: PublishedNumber, held: bool, found: Finding | None, confidence: Fraction) -> PublishedValue:
    if found is not None:
        low, high = interval_of(found, confidence)
        caution = found.told.caution(number.value, confidence)
        return PublishedValue(number.name, number.value, low, high, True, caution, found)
    ends = number.interval if held else None
    return PublishedValue(number.name, number.value, *(ends or (None, None)), ends is not None)


def interval_of(found: Finding, confidence: Fraction) -> Ends:
    """The interval of a value; if it is always published, by the quantiles of its noise, which are cached."""
    told, value = found.told, found.value
    plainly = isinstance(told, Publication) and told.support == Support.everything()
    if not plainly or not isinstance(told, Publication) or (told.step, told.floor, told.ceiling) != (None,) * 3:
        return told.interval(value, confidence)
    reach = float((told.noise.reach_up((1 - confidence) / 2) - 1) * Fraction(told.grid))
    return value - reach, value + reach


def _stored(answer: Any) -> Iterator[PublishedValue]:
    """A value from a stored answer. Its interval given that it was published is not known."""
    found: dict[str, Any] = answer if isinstance(answer, dict) else {}
    value: Any = found.get("value")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield PublishedValue("", value, None, None, False)


# Simultaneous intervals of all hits, and a list with a bounded false discovery rate.

# Of the hits to act on at most one in ten is false on average.
RATE: Final = Fraction(1, 10)


@dataclass(frozen=True)
class SimultaneousHit:
    """A hit with its value, its interval among all hits, its p-value, and whether it is in the list to act on.

    A caution says if the interval reaches into withheld values.
    """

    call: int
    value: PublishedValue
    low: int | float | None
    high: int | float | None
    p_value: float | None
    listed: bool
    caution: str | None


def simultaneous_hits(
    hits: Sequence[tuple[int, PublishedValue]], confidence: Fraction, tell: Callable[[int], None]
) -> list[SimultaneousHit]:
    """The hits in the order of their calls, with simultaneous intervals.

    Guarantee: with probability `confidence` every interval covers its truth, however the questions were chosen and
    however many follow, see `Findings.intervals`. In the list to act on the expected share of false hits is at most one
    in ten (`Findings.list`, the procedure for any analyst).
    """
    told = [(call, value, value.finding) for call, value in hits if value.finding is not None]
    found = Findings.of((_of_call(call, finding) for call, _, finding in told), open=True)
    rows = found.rows(confidence, simultaneous=True)
    listed = {(alarm.call, alarm.key) for alarm in found.list(fdr=RATE)}
    made = []
    for place, ((call, value, finding), row) in enumerate(zip(told, rows, strict=True), 1):
        chosen = (call, finding.key) in listed
        made.append(SimultaneousHit(call, value, row["low"], row["high"], row["p_value"], chosen, row["caution"]))
        tell(place)
    return made


def _of_call(call: int, finding: Finding) -> Finding:
    """The finding under the number of the call that published it, which may be a revision of the call that asked."""
    return Finding(call, finding.key, finding.value, finding.told)


# Questions and answers in words, from what a ledger stores of them.

# Fields that follow from the others, or are elsewhere in the report.
_LEFT_OUT: Final = {"query", "values", "parallel", "grid", "error_bar", "error_bars", "kind"}
_LONGEST: Final = 400
_KEYS: Final = 6


def question_told(body: Mapping[str, Any], kind: str = "") -> str:
    """A question in one line. The stored kind may add what the body lacks, such as a mechanism.

    >>> question_told({"query": {"kind": "count", "where": "age >= 65", "by": None}, "above": "500", "epsilon": "1/50"})
    'count where age >= 65, above 500, epsilon 0.02'
    >>> inner = {"kind": "release", "query": {"kind": "count", "where": None, "by": None}, "epsilon": "1/50"}
    >>> question_told({"algorithm": "release", "call": inner, "epsilon": "1/50", "prior": 3})
    'release (count, epsilon 0.02), prior 3'
    """
    body, query = {**body, **(options_of(kind) if body else {})}, body.get("query")
    asked = [_query(query)] if isinstance(query, Mapping) else []
    if (called := _called(body)) is not None:
        asked, body = [called], {name: each for name, each in body.items() if name not in _OF_CALLED}
    if isinstance(body.get("values"), Mapping):
        asked.append(_query(body["values"]))
    opened = opened_by(body)
    told = [
        f"of call {opened}" if name in names_of_runs() and value == opened else f"{_plainly(name)} {_said(value)}"
        for name, value in body.items()
        if _tells(name, value)
    ]
    return _cut(", ".join(asked + told)) or "no terms"


# Fields of an outer call that its nested call describes.
_OF_CALLED: Final = ("algorithm", "call", "parameters", "epsilon", "delta", "rho")


def _called(body: Mapping[str, Any]) -> str | None:
    """A nested call by its title and its own question; None if the body has no nested call."""
    inner = body.get("call")
    if not isinstance(inner, Mapping) or not isinstance(inner.get("kind"), str):
        return None
    asked = {name: each for name, each in inner.items() if name != "kind"}
    return f"{titled(inner['kind']).lower()} ({question_told(asked, inner['kind'])})"


def _plainly(name: str) -> str:
    return name.replace("_", " ")


def _tells(name: str, value: Any) -> bool:
    return name not in _LEFT_OUT and value not in (None, {}, []) and value is not False


def _query(body: Mapping[str, Any]) -> str:
    try:
        query = query_of(current(body))
        return f"{query.describe()}; {limits}" if (limits := getattr(query, "limits", "")) else query.describe()
    except (CharyError, KeyError, TypeError, ValueError, AttributeError):
        return ", ".join(f"{name} {_said(value)}" for name, value in body.items() if _tells(name, value))


def _said(value: Any) -> str:
    if isinstance(value, str):
        return _number(value)
    if isinstance(value, (list, tuple)):
        more = f" and {len(value) - _KEYS} more" if len(value) > _KEYS else ""
        return "; ".join(_said(each) for each in value[:_KEYS]) + more
    if isinstance(value, Mapping) and (called := _called(value)) is not None:
        return f"{value.get('algorithm')}: {called}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items() if each is not None)
    return plain(value) if isinstance(value, float) else json.dumps(value, default=str)


def _number(text: str) -> str:
    """An exact number as a short decimal; any other text unchanged."""
    try:
        return plain(Fraction(text)) if "/" in text else text
    except (ValueError, ZeroDivisionError, OverflowError):
        return text


def outcome_told(answer: Any, body: Mapping[str, Any]) -> str:
    """The outcome of a question in one line, without values, which have a column of their own.

    >>> from chary.calls import YesOrNo
    >>> outcome_told(YesOrNo(3, False), {}), outcome_told({"option": "yes", "charged": True}, {})
    ('no', 'option yes, charged yes')
    """
    if isinstance(answer, Answer):
        return _cut(answer.in_words)
    return "opened" if isinstance(answer, int) or not answer else _cut(in_text(_named(answer, body)))


def _named(answer: Any, body: Mapping[str, Any]) -> Any:
    """The name of a key or candidate that is stored by its position."""
    names = _candidates(body)
    if not isinstance(answer, dict) or not names:
        return answer
    places = answer.get("positions", [answer.get("position")])
    if not all(type(place) is int and 0 <= place < len(names) for place in places):
        return answer
    rest = {name: value for name, value in answer.items() if name not in ("position", "positions")}
    return {"chosen": "; ".join(names[place] for place in places)} | rest


def _candidates(body: Mapping[str, Any]) -> list[str]:
    query, listed = body.get("query"), body.get("candidates")
    by = query.get("by") if isinstance(query, Mapping) else None
    if isinstance(by, Mapping):
        return [", ".join(map(str, key)) for key in by.get("keys", ())]
    found = listed if isinstance(listed, list) else []
    return [str(each.get("algorithm", each)) if isinstance(each, Mapping) else str(each) for each in found]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# The public contents of a ledger: calls with their answers and charges, and the statement.

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ReportedCall:
    """A settled call with its question, time, analyst, outcome and charge.

    `time` is when it was asked, to the minute: durations depend on the rows and are not published. `share` is its
    charge as a fraction of the budget, `charged` the same in the filter's unit. `opened` is the call of the run that it
    asked, `bar` the threshold, `keyed` whether its values have keys.
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
    parts: Parts | None = None
    asked: str = field(default="", repr=False)

    @property
    def keyed(self) -> bool:
        """Whether its values have keys."""
        return any(value.key for value in self.values)


@dataclass(frozen=True)
class ReportedDataset:
    """The report of one dataset. `steps` has the total charge over time; `blocks` the charge of each block, if the
    budget renews.
    """

    name: str
    budget: Budget
    filter: Filter
    neighbors: str
    spent: Spending
    statement: str
    calls: tuple[ReportedCall, ...]
    hits: tuple[SimultaneousHit, ...]
    steps: tuple[tuple[str, float], ...]
    unanswered: int
    unanswered_share: float
    versions: int
    blocks: Mapping[str, float] | None = None


def gathered(ledger: Ledger, terms: Terms, confidence: Fraction, said: str | None, tell: Tell) -> ReportedDataset:
    """The report of one dataset; `said` is its statement from a session, which knows more than the ledger."""
    history, name = history_of(ledger, terms), terms.name
    told = said or _statement(ledger, terms, history)
    settled = [call for call in ledger.calls(name) if call.state == State.SETTLED]
    calls = tuple(_told(history, settled, confidence, tell))
    lost = [entry for entry in entries(ledger, name) if entry.state == State.RESERVED]
    return ReportedDataset(
        name,
        history.spine.filter.budget,
        history.spine.filter,
        neighbor_relation_of(terms).describe(),
        spent_of(ledger, name, history.spine.filter),
        told,
        calls,
        tuple(_hits(calls, confidence, tell)),
        tuple(_steps(calls)),
        len(lost),
        sum(entry.share for entry in lost),
        ledger.version(name),
        spent_by_block(ledger, name, history.spine.filter, blocks_of(terms)) or None,
    )


def _statement(ledger: Ledger, terms: Terms, history: History) -> str:
    neighbor_relation, filter_ = neighbor_relation_of(terms), history.spine.filter
    said = statement(ledger, terms.name, filter_, neighbor_relation)
    inferred = types_told(history.spine.rows, ledger, terms.name)
    return said + inferred + promised_across_blocks(neighbor_relation, filter_.budget)


def _told(history: History, settled: list[CallRecord], confidence: Fraction, tell: Tell) -> Iterator[ReportedCall]:
    for place, call in enumerate(settled, 1):
        yield _call(history, call, history.rebuilt(call), confidence)
        tell("reading answers", place, len(settled))


def to_the_minute(time: str) -> str:
    """A time of the ledger without seconds, since durations of calls are not published.

    >>> to_the_minute("2026-03-09T08:05:11.000001+00:00")
    '2026-03-09T08:05+00:00'
    """
    return datetime.fromisoformat(time).isoformat(timespec="minutes")


def _call(history: History, call: CallRecord, rebuilt: Rebuilt, confidence: Fraction) -> ReportedCall:
    body, entry = history.body(call), entry_of(call, history.accounts)
    query = body.get("query")
    return ReportedCall(
        call.number,
        to_the_minute(call.created),
        call.analyst,
        call.kind,
        titled(call.kind),
        question_told(body, call.kind) + of_parts(call.parts),
        entry.damage or outcome_told(rebuilt.answer, body),
        values_of_answer(rebuilt, confidence),
        entry.share,
        history.spine.filter.charged(call.charged),
        call.hits or 0,
        call.tests or 0,
        opened_by(body),
        bar_of(body.get("above")),
        isinstance(query, dict) and query.get("kind") == "series",
        call.parts,
        call.body if call.parts is None else f"{call.body} {call.parts.text}",
    )


def of_parts(parts: Parts | None) -> str:
    """The parts that a question was about; empty if it was about all rows.

    >>> of_parts(Parts("region", 1, ("north",)))
    ', in north of region'
    >>> of_parts(Parts("date_trunc('year', day)", 1, ("2012", "2013", "2014", "2015")))
    ", in 4 parts (2012, ..., 2015) of date_trunc('year', day)"
    """
    if parts is None:
        return ""
    first, *more = parts.names
    named = f"{len(parts.names)} parts ({first}, ..., {more[-1]})" if len(more) > _NAMED else " and ".join(parts.names)
    return _cut(f", in {named} of {parts.partition}")


# How many parts are named after the first.
_NAMED: Final = 2


def bar_of(above: Any) -> float | None:
    """A threshold as it was given; None if there is none."""
    try:
        return None if above is None else float(Fraction(above))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None


def _hits(calls: tuple[ReportedCall, ...], confidence: Fraction, tell: Tell) -> list[SimultaneousHit]:
    """Values that were published because a test hit or they changed, in the order of their calls."""
    every = ((call.call, value) for call in calls for value in call.values)
    values = [(call, value) for call, value in every if value.finding and value.finding.p_value is not None]
    return simultaneous_hits(values, confidence, lambda place: tell("comparing hits", place, len(values)))


def _steps(calls: tuple[ReportedCall, ...]) -> Iterator[tuple[str, float]]:
    """The total charge over time, as a fraction of the budget; with parts, that of the most expensive one."""
    common = 0.0
    partitions: dict[str, tuple[int, dict[str, float]]] = {}
    for call in sorted(calls, key=lambda call: (call.time, call.call)):
        if call.parts is None:
            common += call.share
        else:
            _, held = partitions.setdefault(call.parts.partition, (call.parts.most, {}))
            held |= {name: held.get(name, 0.0) + call.share for name in call.parts.names}
        if call.share:
            dearest = sum(sum(nlargest(most, held.values())) for most, held in partitions.values())
            yield call.time, min(1.0, common + dearest)
