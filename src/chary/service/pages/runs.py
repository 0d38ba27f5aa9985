"""The page of a run."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from chary.calls.run import Run
from chary.client.problems import status_of
from chary.errors import CharyError
from chary.service.core.requests import Wish, told_state
from chary.service.http.admission import Asking, Number
from chary.service.pages.ask import once, page_key, settled
from chary.service.pages.browser import Form
from chary.service.pages.fields import Texts
from chary.service.pages.forms import (
    Quoted,
    question_of,
    question_quoted,
    question_refused,
    run_fields,
    run_of,
    texts_of,
)
from chary.service.pages.frame import Asker, shown
from chary.service.pages.history import shown_replay
from chary.service.state import Service, Shared

router = APIRouter(prefix="/datasets/{dataset}/ask/runs/{number}")
Answered = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("")
def run(request: Request, on: Asker, number: Number, answer: Answered = None) -> Response:
    """The run, its latest answer beside the form."""
    return _form(request, on, number, {}, Quoted(), answer=answer)


@router.post("")
async def ask_run(request: Request, on: Asker, number: Number, form: Form, service: Shared) -> Response:
    """Quote or ask what the form says."""
    texts = texts_of(form.fields)
    found = await asyncio.to_thread(run_of, on, number)
    if form.text("do") != "ask":
        told = await _quoted(service, on, found, texts)
        return await asyncio.to_thread(_form, request, on, number, texts, told)
    try:
        body = await asyncio.to_thread(question_of, run_fields(found), texts, on.served.session.schema)
        return await settled(service, on, Wish("question", body, number), page_key(form.text("once"), body))
    except CharyError as error:
        told = question_refused(found, texts, error)
        return await asyncio.to_thread(_form, request, on, number, texts, told, status=status_of(error))


@router.post("/quote")
async def quote_run(request: Request, on: Asker, number: Number, form: Form, service: Shared) -> Response:
    """The quote alone, for the script of the page."""
    found = await asyncio.to_thread(run_of, on, number)
    told = await _quoted(service, on, found, texts_of(form.fields))
    return await asyncio.to_thread(shown, request, "quote", quoted=told)


async def _quoted(service: Service, on: Asking, run: Run[Any, Any], texts: Texts) -> Quoted:
    """The quote of what a form says; or why there is none."""
    try:
        return await service.calculations.of(on.who.analyst, lambda: question_quoted(on, run, texts))
    except CharyError as error:
        return question_refused(run, texts, error)


def _form(
    request: Request,
    on: Asking,
    number: int,
    texts: Texts,
    told: Quoted,
    *,
    answer: int | None = None,
    status: int = 200,
) -> Response:
    found = run_of(on, number)
    call = None if answer is None else shown_replay(on, answer)
    parts = {"opening": shown_replay(on, number), "state": told_state(found), "fields_": run_fields(found)}
    parts |= {"texts": texts, "quoted": told, "call": call, "once": once(), "columns": on.served.session.schema}
    return shown(request, "run", status, spent=found.spent.share, **parts)
