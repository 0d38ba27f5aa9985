"""The pages of history and of the public report: every call, and its answer again."""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from chary.answers import Answer
from chary.calls.history import History
from chary.calls.run import run_kinds, titled
from chary.charts import Chart
from chary.client.problems import Refusal, status_of
from chary.errors import CharyError, NotWithheld
from chary.ledger import CallRecord, Ledger, Verification
from chary.ledger.entries import head_of
from chary.report import content
from chary.service.api.custodian import Form as Format
from chary.service.api.custodian import last_report, publish, published_text
from chary.service.api.datasets import file_of, record_shown
from chary.service.auth.tokens import Principal
from chary.service.core.datasets import Served
from chary.service.core.problems import LABELS, problem
from chary.service.http.admission import Asking, Number
from chary.service.pages import charts, frame
from chary.service.state import Service, Shared
from chary.session.statement import Entry, entry_of

# The page of history: every call, and its answer again.

# Calls of the ledger as people read them: the question in words, the answer again, as it was shown.


@dataclass(frozen=True)
class Replay:
    """A call with its answer presented again from the ledger: nothing is read, nothing is charged."""

    entry: Entry
    title: str
    question: str
    outcome: str
    answer: Any
    values: tuple[content.PublishedValue, ...]
    opens: bool

    @property
    def bar(self) -> float | None:
        """The threshold that was asked for, where there is one."""
        return content.bar_of(self.entry.question.get("above"))

    @cached_property
    def chart(self) -> Chart | None:
        """What a picture of the answer shows; None where nothing was published that could be seen."""
        if not self.values:
            return None
        spots = tuple(value.spot(value.key or self.title) for value in self.values)
        ordered = len(spots) > 1 and all(value.key.startswith("[") or value.key.isdigit() for value in self.values)
        return Chart("columns" if ordered else "dots", f"{self.title}: {self.question}", spots, self.bar)

    @property
    def in_bytes(self) -> bool:
        """Whether what was published is a file to be had."""
        return isinstance(self.entry.outcome, bytes)

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
    spine = served.session.spine
    terms = next(terms for terms in spine.ledger.datasets() if terms.name == spine.dataset)
    history = content.history_of(spine.ledger, terms)
    return [_replay(history, record) for record in records]


def newest(served: Served, who: Principal, before: int | None, limit: int) -> list[CallRecord]:
    """This many calls that are shown to somebody, newest first, of those before a number."""
    spine, analyst = served.session.spine, served.shown_of(who)
    return list(spine.ledger.calls(spine.dataset, before=before, analyst=analyst, limit=limit, newest=True))


def _replay(history: History, record: CallRecord) -> Replay:
    body = history.body(record)
    entry = entry_of(record, history.accounts)
    asked = (entry, titled(record.kind), content.question_told(body, record.kind))
    opens = record.kind in run_kinds()
    if record.answer is None or entry.damage:
        return Replay(*asked, entry.damage, None, (), opens)
    rebuilt = history.rebuilt(record)
    values = content.values_of_answer(rebuilt, content.USUAL)
    return Replay(*asked, content.outcome_told(rebuilt.answer, body), rebuilt.answer, values, opens)


# What was asked so far: every call that is shown to a token, its answer again, and whether the chain holds.

router = APIRouter(prefix="/datasets/{dataset}/history")
PAGE: Final = frame.Page("history", "History", "history", router)
_EACH: Final = 25
_CHECKING: Final = threading.Lock()
Before = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("")
def history(request: Request, on: frame.Historian, before: Before = None, check: bool = False) -> Response:
    """The calls, newest first."""
    records = newest(on.served, on.who, before, _EACH + 1)
    calls, more = replays(on.served, records[:_EACH]), len(records) > _EACH
    following = calls[-1].entry.call if more else None
    ledger = on.served.session.spine.ledger
    verdict = _checked(ledger) if check else None
    return frame.shown(
        request, "history", calls=calls, before=before, following=following, verdict=verdict, head=head_of(ledger)
    )


def _checked(ledger: Ledger) -> Verification:
    """The verdict on the chain; one at a time, since all of it is read."""
    if not _CHECKING.acquire(blocking=False):
        raise Refusal(503, "the chain is being checked already: look again in a moment")
    try:
        return ledger.verify()
    finally:
        _CHECKING.release()


@router.get("/{number}")
def call(request: Request, on: frame.Historian, number: Number) -> Response:
    """One call; one that is not shown is not there."""
    return frame.shown(request, "call", call=shown_replay(on, number))


@router.get("/{number}/picture.svg")
def call_picture(on: frame.Historian, number: Number, dark: bool = False, narrow: bool = False) -> Response:
    """The answer drawn."""
    chart = shown_replay(on, number).chart
    if chart is None:
        raise NotWithheld("nothing of that call can be drawn")
    return charts.drawn(charts.specification(chart, dark=dark, narrow=narrow), dark=dark)


@router.get("/{number}/outcome", response_class=Response)
def call_outcome(on: frame.Historian, number: Number) -> Response:
    """What an algorithm returned in bytes, as a file."""
    return file_of(shown_replay(on, number).entry)


def shown_replay(on: Asking, number: int) -> Replay:
    """The replay of a call; `NotWithheld` for one that is not shown to this token, as for one that is absent."""
    return replays(on.served, [record_shown(on, number)])[0]


# The public report as it was published last; for custodians also how it is published.

report_router = APIRouter(prefix="/datasets/{dataset}/report")
PageNumber = Annotated[int, Query(ge=1, le=2**53)]
REPORT_PAGE: Final = frame.Page("report", "Report", "look", report_router)


@report_router.get("")
def report(request: Request, on: frame.Looker, service: Shared, page: PageNumber = 1) -> Response:
    """The report in the layout, this many questions a page."""
    return _shown(request, on, service, page=page)


@report_router.post("")
def publish_now(request: Request, on: frame.Publisher, form: frame.Form, service: Shared) -> Response:
    """Publish the report of now."""
    try:
        publish(on, service, form.text("title"), form.text("introduction"))
    except CharyError as error:
        return _shown(request, on, service, error, said=form)
    return RedirectResponse(frame.place_of(on.served.name, "report"), 303)


@report_router.get("/published")
def alone(request: Request, on: frame.Looker, service: Shared, form: Format = "html") -> Response:
    """The published report by itself, in one of its forms."""
    return published_text(request, on, service, form)


def _shown(
    request: Request,
    on: Asking,
    service: Service,
    error: CharyError | None = None,
    page: int = 1,
    said: frame.Posted | None = None,
) -> Response:
    try:
        found = last_report(service, on)
    except Refusal:
        told: dict[str, Any] = {"report": None, "found": None}
    else:
        told = {"report": found.front, "found": found.front.datasets[0], "sums": found.sums}
        told |= {"calls": found.calls(page), "part": page, "parts": len(found.pages)}
    told |= {"statement": on.served.session.statement(), "problem": None if error is None else problem(error, LABELS)}
    told["said"] = {} if said is None else said.fields
    return frame.shown(request, "report", 200 if error is None else status_of(error), **told)
