"""Standing questions: what they found over time, how long they last; making, pausing and stopping one."""

import asyncio
import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from chary.errors import CharyError
from chary.service.api.places import Asking, Number
from chary.service.api.service_state import Service, Shared
from chary.service.api.standing_routes import Name, stood, turned
from chary.service.page.asking.beginning import once, page_key
from chary.service.page.asking.call_forms import form_of, texts_of
from chary.service.page.asking.run_forms import question_of, run_fields, run_of
from chary.service.page.frame.posted_forms import Form
from chary.service.page.frame.shown_pages import Page, place_of, shown
from chary.service.page.frame.vega_pictures import drawn
from chary.service.page.frame.visiting import Historian, Visiting
from chary.service.page.looking.alarms_over_time import watched
from chary.service.page.looking.budget_over_time import lasts
from chary.service.page.looking.drawn_over_time import alarms_spec
from chary.service.page.looking.standing_form import USUAL, field_about, standing_body, told_now
from chary.service.wire.problems import Refusal, problem, status_of

router = APIRouter(prefix="/datasets/{dataset}/standing")
PAGE: Final = Page("standing", "Standing", "history", router)
Stander = Annotated[Asking, Depends(Visiting("stand"))]


@router.get("")
async def standing(request: Request, on: Historian, service: Shared) -> Response:
    """The standing questions that are shown to a token."""
    return await _page(request, on, service)


@router.post("")
async def stand(request: Request, on: Stander, service: Shared, form: Form) -> Response:
    """Let a question stand."""
    try:
        body = standing_body(form)
        await stood(service, on, body, page_key(form.text("once"), body))
    except CharyError as error:
        told = {"problem": problem(error), "about": field_about(error)}
        return await _page(request, on, service, status_of(error), said={**USUAL, **form.fields}, **told)
    return RedirectResponse(place_of(on.served.name, "standing"), 303)


@router.post("/new")
async def begin(request: Request, on: Stander, service: Shared, form: Form) -> Response:
    """What the form of a call says, to be left standing: when, and for how much, is asked next."""
    texts, schema = texts_of(form.fields), on.served.session.schema
    body = await asyncio.to_thread(form_of(form.text("kind")).body, texts, schema)
    return await _begun(request, on, service, {"call": body})


@router.post("/new/{number}")
async def begin_question(request: Request, number: Number, on: Stander, service: Shared, form: Form) -> Response:
    """What the form of a run says, to be left standing."""
    run = await asyncio.to_thread(run_of, on, number)
    body = question_of(run_fields(run), texts_of(form.fields), on.served.session.schema)
    return await _begun(request, on, service, {"run": number, "question": body})


@router.post("/{name}")
def turn(name: Name, on: Stander, service: Shared, form: Form) -> Response:
    """Pause a standing question of one's own, let it go on, or stop it."""
    turned(service, on, name, form.text("state"))
    return RedirectResponse(place_of(on.served.name, "standing"), 303)


@router.get("/{name}/picture.svg")
async def picture(name: Name, on: Historian, service: Shared, dark: bool = False) -> Response:
    """What a standing question found, drawn."""
    for each in await service.calculations.of(on.who.analyst, lambda: watched(service, on)):
        if each.standing.standing == name:
            return await asyncio.to_thread(drawn, alarms_spec(each), dark=dark)
    raise Refusal(404, "there is no standing question of that name")


async def _begun(request: Request, on: Asking, service: Service, asked: dict[str, Any]) -> Response:
    return await _page(request, on, service, said={**USUAL, "asked": json.dumps(asked, ensure_ascii=False)})


async def _page(request: Request, on: Asking, service: Service, status: int = 200, **context: Any) -> Response:
    """The page, which quotes what stands."""
    return await service.calculations.of(on.who.analyst, lambda: _shown(request, on, service, status, context))


def _shown(request: Request, on: Asking, service: Service, status: int, context: dict[str, Any]) -> Response:
    told: dict[str, Any] = {"problem": None, "about": "", "said": USUAL} | context
    told |= {"found": watched(service, on), "lasts": lasts, "once": told["said"].get("once") or once()}
    asked, refused = told_now(on, told["said"]["asked"])
    told |= {"asked": asked, "problem": told["problem"] or refused}
    return shown(request, "standing", status, **told, webhooks=sorted(service.config.service.webhook))
