"""The pages of questions and runs: forms, quotes, answers."""

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from chary.answers import Answer
from chary.calls.call import of_record
from chary.calls.run import Run, run_kinds
from chary.client.problems import status_of
from chary.core.transaction import openings
from chary.data import Series
from chary.data.queries.stored import current_kind
from chary.errors import CharyError
from chary.numbers import work_out
from chary.service.api.calls import Name as JobName
from chary.service.api.calls import begun, job_found
from chary.service.core.requests import Wish, readable_kinds, told_state
from chary.service.http.admission import Asking, Number
from chary.service.pages import forms, history
from chary.service.pages.fields import Texts
from chary.service.pages.frame import Asker, Form, Page, Posted, place_of, shown
from chary.service.state import Service, Shared

# The page of questions: forms, quotes, answers.

# What every form that asks does: begin it once, wait a little, lead on to the answer.

_ONCE: Final = re.compile(r"[0-9a-f]{32}")


def once() -> str:
    """What a form holds so that it asks once, however often it is sent."""
    return secrets.token_hex(16)


def page_key(said: str, body: Mapping[str, Any]) -> str:
    """The idempotency key of a form: sent twice it has one answer, changed in between it asks anew."""
    kept = said if _ONCE.fullmatch(said) else once()
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"page {kept} {digest[:16]}"


async def settled(service: Service, on: Asking, wish: Wish, key: str) -> Response:
    """Ask it and lead on: to the answer, to the run, or to where one waits. Errors: those of the call."""
    job = await begun(service, on, wish, key)
    if not await service.jobs.settled(job, service.config.service.patience):
        return RedirectResponse(place_of(on.served.name, "ask", "jobs", job.name), 303)
    error = job.future.exception()
    if error is not None:
        raise error
    return led_on(on, job.future.result(), wish)


def led_on(on: Asking, found: Any, wish: Wish) -> Response:
    """To what was answered or opened."""
    name = on.served.name
    if isinstance(found, Run):
        return RedirectResponse(place_of(name, "ask", "runs", found.call), 303)
    if not isinstance(found, Answer):
        return RedirectResponse(place_of(name, "history"), 303)
    if wish.run is not None:
        return RedirectResponse(f"{place_of(name, 'ask', 'runs', wish.run)}?answer={found.call}", 303)
    return RedirectResponse(f"{place_of(name, 'ask')}?answer={found.call}", 303)


# Asking: a form made from the call, its quote beside it, and the answer drawn.

router = APIRouter(prefix="/datasets/{dataset}/ask")
PAGE: Final = Page("ask", "Ask", "ask", router)
_WAIT: Final = {"Refresh": "2"}
# Earlier ones stand in the history.
_RUNS: Final = 20
Answered = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("")
def ask(request: Request, on: Asker, kind: str | None = None, answer: Answered = None) -> Response:
    """The form of a kind; with an answer, that one next to the form that asked it."""
    call = None if answer is None else history.shown_replay(on, answer)
    form, texts = _again(on, call, kind)
    return _form(request, on, form, texts, forms.Quoted(), call=call)


@router.post("")
async def post(request: Request, on: Asker, form: Form, service: Shared) -> Response:
    """Quote or ask what the form says."""
    made = forms.form_of(form.text("kind"))
    texts, do = forms.texts_of(form.fields), form.text("do")
    if do != "ask":
        told = await _quoted(service, on, made, form)
        return await asyncio.to_thread(_form, request, on, made, texts, told, said=form)
    try:
        body = await asyncio.to_thread(made.body, texts, on.served.session.schema)
        blocks = forms.blocks_said(form.fields)
        wish = Wish("start" if made.begun else "ask", body, blocks=blocks)
        return await settled(
            service, on, wish, page_key(form.text("once"), body | ({"blocks": blocks} if blocks else {}))
        )
    except CharyError as error:
        told, status = forms.refused(made.fields, texts, error), status_of(error)
        return await asyncio.to_thread(_form, request, on, made, texts, told, status, said=form)


@router.post("/quote")
async def quote(request: Request, on: Asker, form: Form, service: Shared) -> Response:
    """The quote alone, for the script of the page."""
    told = await _quoted(service, on, forms.form_of(form.text("kind")), form)
    return await asyncio.to_thread(shown, request, "quote", quoted=told)


@router.get("/jobs/{job}")
def job(request: Request, on: Asker, job: JobName, service: Shared) -> Response:
    """Where one waits for a call that takes long; its answer once it is there."""
    state, found = job_found(job, on.who, service)
    if state.state == "done":
        return led_on(on, found, state.wish)
    response = shown(request, "job", job=state)
    if state.state == "running":
        response.headers.update(_WAIT)
    return response


async def _quoted(service: Service, on: Asking, made: forms.CallForm, form: Posted) -> forms.Quoted:
    """The quote of what a form says, with what else would do where that is asked for; or why there is none."""
    texts, compared = forms.texts_of(form.fields), form.text("do") == "compare"

    def told() -> forms.Quoted:
        found = forms.quoted(on, made, texts, form.fields, compared=compared)
        if compared and found.quote is not None:
            work_out(found.quote.alternatives)  # and kept
        return found

    try:
        return await service.calculations.of(on.who.analyst, told)
    except CharyError as error:
        return forms.refused(made.fields, texts, error)


def _again(on: Asking, call: history.Replay | None, kind: str | None) -> tuple[forms.CallForm, Texts]:
    """The form that asked a call, filled as it was; the empty one of a kind otherwise."""
    asked = None if call is None else current_kind(call.entry.kind)
    if call is None or asked not in readable_kinds():
        form = forms.form_of(kind or forms.usual())
        return form, form.usual(_series(on))
    form = forms.form_of(asked)
    try:
        return form, form.filled(of_record(call.entry.kind, call.entry.question), on.served.session.schema)
    except CharyError:
        return form, form.usual(_series(on))


def _series(on: Asking) -> dict[str, Any] | None:
    """The question for all values, where the dataset is a series."""
    session = on.served.session
    return session.series().body() if isinstance(session.spine.rows, Series) else None


def _form(
    request: Request,
    on: Asking,
    form: forms.CallForm,
    texts: Texts,
    told: forms.Quoted,
    status: int = 200,
    *,
    call: history.Replay | None = None,
    said: Posted | None = None,
) -> Response:
    """The page: the form, and next to it the quote or the answer."""
    session = on.served.asked_by(on.who.analyst)
    fields: dict[str, Any] = {} if said is None else said.fields
    opened = openings(session.spine, *run_kinds(), analyst=on.served.shown_of(on.who), newest=True, here=True)
    runs = list(islice(opened, _RUNS))
    parts = {"form": form, "texts": texts, "quoted": told, "call": call, "menu": forms.menu(), "runs": runs}
    parts |= {"columns": on.served.session.schema, "once": fields.get("once") or once()}
    parts |= {"terms": {name: fields.get(name, "") for name in ("tests", "truth", "since", "until")}}
    parts["blocks"] = list(session.spine.blocks.readable()) if session.spine.blocks else []
    return shown(request, "ask", status, **parts)


# An open run: what is public of it, and the form of a question to it.

run_router = APIRouter(prefix="/datasets/{dataset}/ask/runs/{number}")


@run_router.get("")
def run(request: Request, on: Asker, number: Number, answer: Answered = None) -> Response:
    """The run, its latest answer next to the form."""
    return _question_form(request, on, number, {}, forms.Quoted(), answer=answer)


@run_router.post("")
async def ask_run(request: Request, on: Asker, number: Number, form: Form, service: Shared) -> Response:
    """Quote or ask what the form says."""
    texts = forms.texts_of(form.fields)
    found = await asyncio.to_thread(forms.run_of, on, number)
    if form.text("do") != "ask":
        told = await _question_quoted(service, on, found, texts)
        return await asyncio.to_thread(_question_form, request, on, number, texts, told)
    try:
        body = await asyncio.to_thread(forms.question_of, forms.run_fields(found), texts, on.served.session.schema)
        return await settled(service, on, Wish("question", body, number), page_key(form.text("once"), body))
    except CharyError as error:
        told = forms.refused(forms.run_fields(found), texts, error)
        return await asyncio.to_thread(_question_form, request, on, number, texts, told, status=status_of(error))


@run_router.post("/quote")
async def quote_run(request: Request, on: Asker, number: Number, form: Form, service: Shared) -> Response:
    """The quote alone, for the script of the page."""
    found = await asyncio.to_thread(forms.run_of, on, number)
    told = await _question_quoted(service, on, found, forms.texts_of(form.fields))
    return await asyncio.to_thread(shown, request, "quote", quoted=told)


async def _question_quoted(service: Service, on: Asking, run: Run[Any, Any], texts: Texts) -> forms.Quoted:
    """The quote of what a form says; or why there is none."""
    try:
        return await service.calculations.of(on.who.analyst, lambda: forms.question_quoted(on, run, texts))
    except CharyError as error:
        return forms.refused(forms.run_fields(run), texts, error)


def _question_form(
    request: Request,
    on: Asking,
    number: int,
    texts: Texts,
    told: forms.Quoted,
    *,
    answer: int | None = None,
    status: int = 200,
) -> Response:
    found = forms.run_of(on, number)
    call = None if answer is None else history.shown_replay(on, answer)
    parts = {
        "opening": history.shown_replay(on, number),
        "state": told_state(found),
        "fields_": forms.run_fields(found),
    }
    parts |= {"texts": texts, "quoted": told, "call": call, "once": once(), "columns": on.served.session.schema}
    return shown(request, "run", status, spent=found.spent.share, **parts)
