"""Calls of the ledger as people read them: the question in words, the answer again, as it was shown."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chary.answers import Answer
from chary.calls.run import run_kinds
from chary.charts import Chart, Spot
from chary.ledger import CallRecord
from chary.report.content import (
    USUAL,
    PublishedValue,
    Rebuilder,
    bar_of,
    outcome_told,
    question_told,
    titled,
    values_of_answer,
)
from chary.service.access.roles import Principal
from chary.service.serving.served_datasets import Served
from chary.session.statement import Entry, entry_of


@dataclass(frozen=True)
class Replay:
    """A call with its answer presented again from the ledger: nothing is read, nothing is charged."""

    entry: Entry
    title: str
    question: str
    outcome: str
    answer: Any
    values: tuple[PublishedValue, ...]
    opens: bool

    @property
    def bar(self) -> float | None:
        """The threshold that was asked for, where there is one."""
        return bar_of(self.entry.question.get("above"))

    @cached_property
    def chart(self) -> Chart | None:
        """What a picture of the answer shows; None where nothing was published that could be seen."""
        if not self.values:
            return None
        spots = tuple(_spot(value, self.title) for value in self.values)
        ordered = len(spots) > 1 and all(value.key.startswith("[") or value.key.isdigit() for value in self.values)
        return Chart("columns" if ordered else "dots", f"{self.title}: {self.question}", spots, self.bar)

    @property
    def says(self) -> str:
        """What its interval holds for, in words."""
        return self.answer.interval_says if isinstance(self.answer, Answer) else ""

    @property
    def hit(self) -> bool | None:
        """Whether it hit; None for what has no target or no answer."""
        return self.entry.hits > 0 if self.entry.tests else None


def replays(served: Served, records: list[CallRecord]) -> list[Replay]:
    """These calls, in their order."""
    rebuilder = _rebuilder(served)
    return [_replay(served, rebuilder, record) for record in records]


def newest(served: Served, who: Principal, before: int | None, limit: int) -> list[CallRecord]:
    """So many calls that are shown to somebody, newest first, of those before a number."""
    spine, analyst = served.session.spine, served.shown_of(who)
    return list(spine.ledger.calls(spine.dataset, before=before, analyst=analyst, limit=limit, newest=True))


def _spot(value: PublishedValue, title: str) -> Spot:
    low, high = (None if end is None else float(end) for end in (value.low, value.high))
    return Spot(value.key or title, float(value.value), low, high, value.may_be_false)


def _replay(served: Served, rebuilder: Rebuilder, record: CallRecord) -> Replay:
    body = rebuilder.body(record)
    entry = entry_of(record, rebuilder.accounts)
    asked = (entry, titled(record.kind), question_told(body))
    opens = record.kind in run_kinds()
    if record.answer is None or entry.damage:
        return Replay(*asked, entry.damage, None, (), opens)
    rebuilt = rebuilder.rebuilt(record)
    values = values_of_answer(rebuilt, USUAL)
    return Replay(*asked, outcome_told(rebuilt.answer, body), rebuilt.answer, values, opens)


def _rebuilder(served: Served) -> Rebuilder:
    spine = served.session.spine
    terms = next(terms for terms in spine.ledger.datasets() if terms.name == spine.dataset)
    return Rebuilder.of(spine.ledger, terms)
