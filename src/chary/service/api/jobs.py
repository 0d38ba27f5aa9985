"""Routes of jobs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from chary.service.auth.tokens import Principal
from chary.service.core.jobs import JobState
from chary.service.core.requests import told_result
from chary.service.http.admission import Followed, May, Typed, key_header, looks
from chary.service.state import Service, Shared

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Asker = Annotated[Principal, Depends(May("ask"))]
Name = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
LOOK_EVERY: Final = 0.25


@router.get("/{job}")
def job(job: Name, who: Asker, service: Shared, typed: Typed = False) -> JSONResponse:
    """How far a call is; its answer, or its problem, once it ended. Nothing is asked from here: a call that was
    interrupted, or whose answer the ledger does not have, is asked again under its key."""
    state, found = job_found(job, who, service)
    told: dict[str, Any] = {"job": state.name, "state": state.state, "step": state.step, "dataset": state.dataset}
    if state.state == "done":
        session = service.datasets.for_(who, state.dataset).asked_by(who.analyst)
        told["result"] = told_result(found, session, typed=typed)
    told |= {} if state.problem is None else {"problem": state.problem}
    return JSONResponse(told, headers={"Idempotency-Key": key_header(state.request)})


def job_found(job: str, who: Principal, service: Service) -> tuple[JobState, Any]:
    """A job of somebody's with its answer, if it is done."""
    state = service.jobs.found(job, who)
    return service.jobs.replayed(state, service.datasets.for_(who, state.dataset), who)


def _state(job: Name, who: Asker, service: Shared) -> JobState:
    return job_found(job, who, service)[0]


@router.get("/{job}/events", response_class=EventSourceResponse)
async def job_events(
    first: Annotated[JobState, Depends(_state)], who: Asker, service: Shared, _: Followed
) -> AsyncIterator[ServerSentEvent]:
    """The steps of a call as they are reached: `step` events, then one named `done`, `failed` or `interrupted`."""
    told = ""
    async for _ in looks(service, who.token, LOOK_EVERY):
        state, _found = await asyncio.to_thread(job_found, first.name, who, service)
        if state.state != "running":
            yield ServerSentEvent(event=state.state, data={"job": state.name, "problem": state.problem})
            return
        if state.step != told:
            told = state.step
            yield ServerSentEvent(event="step", data={"job": state.name, "step": told})
