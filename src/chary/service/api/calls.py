"""Routes of calls, quotes, runs and jobs."""

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from chary.calls.run import run_kinds
from chary.core.transaction import openings
from chary.data.queries.bodies import check_fields
from chary.errors import InvalidParameter
from chary.service.auth.tokens import Principal
from chary.service.core import requests
from chary.service.core.audit_trail import headed
from chary.service.core.jobs import Job, JobState
from chary.service.http import admission
from chary.service.state import Service, Shared

# Routes of calls, quotes and runs.

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["calls"])
Asker = Annotated[admission.Asking, Depends(admission.On("ask"))]
_LONGEST_WAIT: Final = 60
_TERMS: Final = ("distance", "tests", "truth", "hits", "confidence")


def in_json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """The body of a route, for OpenAPI."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_CALL: Final = requests.calls_schema(openings=False)
_OPENING: Final = requests.calls_schema(openings=True)
_WORDS: Final = {"type": "object", "description": "The words of a question to the run, such as query and above."}
_SHARE: Final = {"type": ["number", "string"], "description": "A proportion of the rows, from 0 to 1."}
_LESSON: Final = {
    "type": "object",
    "required": ["where", "low", "high"],
    "additionalProperties": False,
    "properties": {
        "where": {"type": ["string", "object", "null"], "description": "The condition whose proportion is known."},
        "low": _SHARE,
        "high": _SHARE,
    },
}
_QUOTED: Final = {
    "type": "object",
    "required": ["call"],
    "additionalProperties": False,
    "properties": {
        "call": {"oneOf": [*_CALL["oneOf"], *_OPENING["oneOf"]]},
        "alternatives": {"type": "boolean", "description": "Also what else would do at that cost; takes a second."},
        **{name: {"type": ["number", "string", "null"]} for name in _TERMS},
        "blocks": requests.BLOCK_RANGE,
    },
}


@router.post("/calls", openapi_extra=in_json_body(_CALL) | admission.KEYED)
async def ask(
    request: Request, on: Asker, body: admission.Body, service: Shared, typed: admission.Typed = False
) -> JSONResponse:
    """Ask a call. Under an `Idempotency-Key` that came before, the stored answer, for free.

    What takes longer than a second, or than `Prefer: wait=N` says, answers with status 202 and becomes a job.
    """
    return await answered(request, service, on, requests.Wish.of_body("ask", body), typed)


@router.post("/runs", openapi_extra=in_json_body(_OPENING) | admission.KEYED)
async def start(
    request: Request, on: Asker, body: admission.Body, service: Shared, typed: admission.Typed = False
) -> JSONResponse:
    """Open a run: what stays open and is asked again and again."""
    return await answered(request, service, on, requests.Wish.of_body("start", body), typed)


@router.post("/runs/{number}/questions", openapi_extra=in_json_body(_WORDS) | admission.KEYED)
async def question(
    request: Request,
    on: Asker,
    number: admission.Number,
    body: admission.Body,
    service: Shared,
    typed: admission.Typed = False,
) -> JSONResponse:
    """Ask a run; its `words` say how."""
    return await answered(request, service, on, requests.Wish("question", body, number), typed)


@router.post("/runs/{number}/lessons", openapi_extra=in_json_body(_LESSON) | admission.KEYED)
async def learn(
    request: Request,
    on: Asker,
    number: admission.Number,
    body: admission.Body,
    service: Shared,
    typed: admission.Typed = False,
) -> JSONResponse:
    """Teach a public histogram that a fraction lies between two ends; free. What the histogram says then."""
    return await answered(request, service, on, requests.Wish("lesson", body, number), typed)


@router.get("/runs/{number}/lessons")
async def lessons(on: Asker, number: admission.Number, service: Shared) -> JSONResponse:
    """What published answers that are shown to this token say of shares, where the histogram says something else."""

    def told() -> JSONResponse:
        run = requests.taught_run(on.served, on.who, on.served.asked_by(on.who.analyst), number)
        return JSONResponse([each._asdict() for each in run.lessons(analyst=on.served.shown_of(on.who))])

    return await service.calculations.of(on.who.analyst, told)


@router.get("/runs")
def runs(request: Request, on: Asker, after: admission.After = 0, limit: admission.Limit = 100) -> JSONResponse:
    """The runs that can be asked, oldest first."""
    spine, analyst = on.served.session.spine, on.served.shown_of(on.who)
    found = list(islice(openings(spine, *run_kinds(), analyst=analyst, after=after, here=True), limit + 1))
    last = found[limit - 1].number if len(found) > limit else None
    return admission.paged(request, [{"run": run.number, "kind": run.kind} for run in found[:limit]], last)


@router.get("/runs/{number}")
def run(on: Asker, number: admission.Number, typed: admission.Typed = False) -> JSONResponse:
    """A run: how it is asked and what is public of it."""
    session = on.served.asked_by(on.who.analyst)
    return JSONResponse(requests.told_run(requests.run_shown(on.served, on.who, session, number), session, typed=typed))


@router.post("/quotes", openapi_extra=in_json_body(_QUOTED))
async def quote(on: Asker, body: admission.Body, service: Shared, typed: admission.Typed = False) -> JSONResponse:
    """What a call would cost and how accurate it would be; nothing is charged, read or written.

    What takes longer than `quote-seconds` to work out is a problem with status 503.
    """
    call, terms, alternatives = _quoted(body)

    def told() -> JSONResponse:
        session = requests.in_blocks(on.served.asked_by(on.who.analyst), body.get("blocks"))
        found = session.quote(requests.shown_call(on.served, on.who, session, call), **terms)
        return JSONResponse(requests.told_quote(found, alternatives=alternatives, typed=typed))

    return await service.calculations.of(on.who.analyst, told)


@router.post("/runs/{number}/quotes", openapi_extra=in_json_body(_WORDS))
async def quote_question(
    on: Asker, number: admission.Number, body: admission.Body, service: Shared, typed: admission.Typed = False
) -> JSONResponse:
    """What a question to a run would cost now."""

    def told() -> JSONResponse:
        asked = requests.run_shown(on.served, on.who, on.served.asked_by(on.who.analyst), number)
        return JSONResponse(
            requests.told_quote(asked.quote(**requests.words_of(asked, body)), alternatives=False, typed=typed)
        )

    return await service.calculations.of(on.who.analyst, told)


async def answered(
    request: Request, service: Service, on: admission.Asking, wish: requests.Wish, typed: bool
) -> JSONResponse:
    """Do what was asked, after it is in the audit log; a job where it takes longer than its asker waits."""
    key, patience = admission.request_key(request), _patience(request, service)
    job = await begun(service, on, wish, key)
    headers = {"Idempotency-Key": admission.key_header(key)}
    if not await service.jobs.settled(job, patience):
        place = f"/v1/jobs/{job.name}"
        told = {"job": job.name, "state": "running", "step": job.step, "events": f"{place}/events"}
        return JSONResponse(told, 202, headers | {"Location": place})
    return JSONResponse(await asyncio.to_thread(_told, job, typed), headers=headers)


async def begun(service: Service, on: admission.Asking, wish: requests.Wish, key: str) -> Job:
    """Begin what was asked, after it is in the audit log."""

    def entered() -> None:
        known = wish.written() | headed(on.served.session.spine.ledger)
        service.trail.add(on.who, on.served.name, wish.action, known, key)

    await asyncio.to_thread(entered)
    service.figures.calls.labels(on.served.name, wish.kind).inc()
    return service.jobs.start(on.who, on.served, wish, key)


def _told(job: Job, typed: bool) -> dict[str, Any]:
    found = job.future.result()
    session = requests.in_blocks(job.served.asked_by(job.who.analyst), job.wish.blocks)
    return requests.told_result(found, session, typed=typed)


def _patience(request: Request, service: Service) -> float:
    """How long somebody waits for an answer, in seconds: `Prefer` says (RFC 7240)."""
    said = admission.header(request, "prefer").lower()
    waits = re.search(r"(?:^|[,\s])wait=(\d{1,4})(?:$|[,\s])", said)
    if waits:
        return float(min(int(waits[1]), _LONGEST_WAIT))
    return 0.0 if "respond-async" in said else service.config.service.patience


def _quoted(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """The call, the terms under which it is quoted, and whether alternatives are asked for."""
    call, alternatives = body.get("call"), body.get("alternatives", False)
    told = f"a quote is of a call, with {', '.join(_TERMS)}, alternatives, blocks or none of them"
    check_fields(body, ["call", "alternatives", "blocks", *_TERMS], told)
    if not isinstance(call, dict) or type(alternatives) is not bool:
        raise InvalidParameter(told)
    return call, {name: body[name] for name in _TERMS if body.get(name) is not None}, alternatives


# Routes of jobs.

job_router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
JobAsker = Annotated[Principal, Depends(admission.May("ask"))]
Name = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
LOOK_EVERY: Final = 0.25


@job_router.get("/{job}")
def job(job: Name, who: JobAsker, service: Shared, typed: admission.Typed = False) -> JSONResponse:
    """How far a call is; its answer, or its problem, once it ended. Nothing is asked from here: a call that was
    interrupted, or whose answer the ledger does not have, is asked again under its key."""
    state, found = job_found(job, who, service)
    told: dict[str, Any] = {"job": state.name, "state": state.state, "step": state.step, "dataset": state.dataset}
    if state.state == "done":
        session = service.datasets.for_(who, state.dataset).asked_by(who.analyst)
        session = requests.in_blocks(session, state.wish.blocks)
        told["result"] = requests.told_result(found, session, typed=typed)
    told |= {} if state.problem is None else {"problem": state.problem}
    return JSONResponse(told, headers={"Idempotency-Key": admission.key_header(state.request)})


def job_found(job: str, who: Principal, service: Service) -> tuple[JobState, Any]:
    """A job of somebody's with its answer, if it is done."""
    state = service.jobs.found(job, who)
    return service.jobs.replayed(state, service.datasets.for_(who, state.dataset), who)


def _state(job: Name, who: JobAsker, service: Shared) -> JobState:
    return job_found(job, who, service)[0]


@job_router.get("/{job}/events", response_class=EventSourceResponse)
async def job_events(
    first: Annotated[JobState, Depends(_state)], who: JobAsker, service: Shared, _: admission.Followed
) -> AsyncIterator[ServerSentEvent]:
    """The steps of a call as they are reached: `step` events, then one named `done`, `failed` or `interrupted`."""
    told = ""
    async for _ in admission.looks(service, who.token, LOOK_EVERY):
        state, _found = await asyncio.to_thread(job_found, first.name, who, service)
        if state.state != "running":
            yield ServerSentEvent(event=state.state, data={"job": state.name, "problem": state.problem})
            return
        if state.step != told:
            told = state.step
            yield ServerSentEvent(event="step", data={"job": state.name, "step": told})
