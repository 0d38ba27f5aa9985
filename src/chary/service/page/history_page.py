"""What was asked so far: every call that is shown to a token, its answer again, and whether the chain holds."""

import threading
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from chary.core.history import numbered
from chary.errors import UnknownHeld
from chary.ledger import Ledger, Verification
from chary.ledger.entries import head_of
from chary.service.api.places import Asking, Number
from chary.service.page.asking.answer_pictures import specification
from chary.service.page.asking.replays import Replay, newest, replays
from chary.service.page.frame.shown_pages import Page, shown
from chary.service.page.frame.vega_pictures import drawn
from chary.service.page.frame.visiting import Historian
from chary.service.wire.problems import Refusal

router = APIRouter(prefix="/datasets/{dataset}/history")
PAGE: Final = Page("history", "History", "history", router)
_EACH: Final = 25
_CHECKING: Final = threading.Lock()
Before = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("")
def history(request: Request, on: Historian, before: Before = None, check: bool = False) -> Response:
    """The calls, newest first."""
    records = newest(on.served, on.who, before, _EACH + 1)
    calls, more = replays(on.served, records[:_EACH]), len(records) > _EACH
    following = calls[-1].entry.call if more else None
    ledger = on.served.session.spine.ledger
    verdict = _checked(ledger) if check else None
    return shown(
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
def call(request: Request, on: Historian, number: Number) -> Response:
    """One call; one that is not shown is not there."""
    return shown(request, "call", call=shown_replay(on, number))


@router.get("/{number}/picture.svg")
def call_picture(on: Historian, number: Number, dark: bool = False, narrow: bool = False) -> Response:
    """The answer drawn."""
    chart = shown_replay(on, number).chart
    if chart is None:
        raise UnknownHeld("nothing of that call can be drawn")
    return drawn(specification(chart, dark=dark, narrow=narrow), dark=dark)


def shown_replay(on: Asking, number: int) -> Replay:
    """The replay of a call; `UnknownHeld` for one that is not shown to this token, as for one that is not there."""
    spine = on.served.session.spine
    record = numbered(spine, number)
    if record.dataset != spine.dataset or not on.served.shows(on.who, record.analyst):
        raise UnknownHeld("there is no call of that number")
    return replays(on.served, [record])[0]
