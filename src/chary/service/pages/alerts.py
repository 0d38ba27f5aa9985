"""The page of alerts and their forms."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from chary.calls.alerts import Alert
from chary.calls.language import spoken
from chary.client.problems import Refusal, status_of
from chary.data.queries.bodies import parsed_body
from chary.errors import CharyError, InvalidParameter
from chary.numbers import plain
from chary.service.api.alerts import Name, acknowledged, silenced, stood, turned, wish_of
from chary.service.core import alerts, scheduler
from chary.service.core.problems import LABELS, problem
from chary.service.http.admission import Asking, Number
from chary.service.pages import ask, charts, forms, frame, timelines
from chary.service.state import Service, Shared
from chary.session import Quote

# Standing questions: what they found over time, how long they last; making, pausing and stopping one.

router = APIRouter(prefix="/datasets/{dataset}/standing")
PAGE: Final = frame.Page("standing", "Alerts", "history", router)
Stander = Annotated[Asking, Depends(frame.Visiting("stand"))]


@router.get("")
async def standing(request: Request, on: frame.Historian, service: Shared) -> Response:
    """The subscriptions that are shown to a token."""
    return await _page(request, on, service)


@router.post("")
async def stand(request: Request, on: Stander, service: Shared, form: frame.Form) -> Response:
    """Let a question stand."""
    try:
        body = standing_body(form)
        await stood(service, on, body, ask.page_key(form.text("once"), body))
    except CharyError as error:
        told = {"problem": problem(error, LABELS), "about": field_about(error)}
        return await _page(request, on, service, status_of(error), said={**USUAL, **form.fields}, **told)
    return RedirectResponse(frame.place_of(on.served.name, "standing"), 303)


@router.post("/new")
async def begin(request: Request, on: Stander, service: Shared, form: frame.Form) -> Response:
    """What the form of a call says, to be left standing: when, and for how much, is asked next."""
    texts, schema = forms.texts_of(form.fields), on.served.session.schema
    body = await asyncio.to_thread(forms.form_of(form.text("kind")).body, texts, schema)
    return await _begun(request, on, service, {"call": body})


@router.post("/new/{number}")
async def begin_question(request: Request, number: Number, on: Stander, service: Shared, form: frame.Form) -> Response:
    """What the form of a run says, to be left standing."""
    run = await asyncio.to_thread(forms.run_of, on, number)
    body = forms.question_of(forms.run_fields(run), forms.texts_of(form.fields), on.served.session.schema)
    return await _begun(request, on, service, {"run": number, "question": body})


@router.post("/{name}")
def turn(name: Name, on: Stander, service: Shared, form: frame.Form) -> Response:
    """Pause a subscription of one's own, let it go on, stop or silence it; or acknowledge what fired."""
    if hours := form.text("hours"):
        silenced(service, on, name, hours=hours)
    elif number := form.text("acknowledged"):
        acknowledged(service, on, news_number(number))
    else:
        turned(service, on, name, form.text("state"))
    return RedirectResponse(frame.place_of(on.served.name, "standing"), 303)


@router.get("/{name}/picture.svg")
async def picture(
    name: Name, on: frame.Historian, service: Shared, dark: bool = False, narrow: bool = False
) -> Response:
    """What a subscription found, drawn."""
    for each in await service.calculations.of(on.who.analyst, lambda: timelines.watched(service, on)):
        if each.standing.standing == name:
            return await asyncio.to_thread(charts.drawn, timelines.alarms_spec(each, narrow=narrow), dark=dark)
    raise Refusal(404, "there is no subscription of that name")


async def _begun(request: Request, on: Asking, service: Service, asked: dict[str, Any]) -> Response:
    return await _page(request, on, service, said={**USUAL, "asked": json.dumps(asked, ensure_ascii=False)})


async def _page(request: Request, on: Asking, service: Service, status: int = 200, **context: Any) -> Response:
    """The page, which quotes what stands."""
    return await service.calculations.of(on.who.analyst, lambda: _shown(request, on, service, status, context))


def _shown(request: Request, on: Asking, service: Service, status: int, context: dict[str, Any]) -> Response:
    told: dict[str, Any] = {"problem": None, "about": "", "said": USUAL} | context
    told |= {
        "found": timelines.watched(service, on),
        "lasts": timelines.lasts,
        "told_of": timelines.told_of,
        "now": service.standing.book.clock(),
        "once": told["said"].get("once") or ask.once(),
    }
    asked, refused = told_now(on, told["said"]["asked"])
    told |= {"asked": asked, "problem": told["problem"] or refused}
    return frame.shown(request, "standing", status, **told, webhooks=service.delivery.receivers)


# The form by which a question is left standing: its fields as the body that the interface takes.

USUAL: Final[Mapping[str, str]] = {
    "asked": "",
    "every": alerts.APPEND,
    "at": "",
    "share": "0.1",
    "tell": "hits",
    "webhook": "",
}
# Words of an error that tell which field it is about, the first that fits.
_ABOUT: Final[tuple[tuple[str, str], ...]] = (
    ("what stands", "asked"),
    ("crontab", "at"),
    ("never comes", "at"),
    ("share", "share"),
    ("webhook", "webhook"),
)


def standing_body(form: frame.Posted) -> dict[str, Any]:
    """The body of a subscription, as `POST /standing` takes it; `InvalidParameter` for what is no JSON."""
    every = alerts.APPEND if form.text("every") == alerts.APPEND else form.text("at")
    told = parsed_body(form.text("asked").encode()) | {"every": every, "share": form.text("share")}
    return told | {"tell": form.text("tell") or "hits", "webhook": form.text("webhook") or None}


def field_about(error: CharyError) -> str:
    """The field that an error is about.

    >>> field_about(CharyError("share must lie between 0 and 1")), field_about(CharyError("unknown column"))
    ('share', 'asked')
    """
    return next((field for word, field in _ABOUT if word in str(error)), "asked")


def told_now(on: Asking, asked: str) -> tuple[list[str], dict[str, Any] | None]:
    """What is to stand in words with what it would cost if it were asked now; and why it cannot be asked, if so."""
    if not asked:
        return [], None
    try:
        wish = wish_of(parsed_body(asked.encode()))
        quoted = scheduler.quote_of(on.served, on.who, on.served.asked_by(on.who.analyst), wish)
    except CharyError as error:
        return [], problem(error, LABELS)
    return [timelines.asked_told(wish), *(spoken(line, LABELS) for line in quoted.lines()), *_delay(quoted)], None


def _delay(quoted: Quote) -> list[str]:
    """How soon an alert is reported, from how often one version is enough."""
    if quoted.kind != Alert.kind or not quoted.distance or quoted.wrong_call is None or quoted.wrong_call >= 1:
        return []
    beyond, versions = plain(quoted.distance), plain(float(f"{1 / (1 - quoted.wrong_call):.3g}"))
    return [f"what goes {beyond} beyond the threshold is reported after {versions} versions on average"]


def news_number(said: str) -> int:
    """The number of events, as a form says it; `InvalidParameter` for what is none."""
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise InvalidParameter("events have a number")
    return int(said)
