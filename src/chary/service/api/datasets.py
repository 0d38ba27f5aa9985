"""Datasets: what is public of each, what was asked so far, how much is left; and the routes of operators."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from prometheus_client import CONTENT_TYPE_LATEST

from chary.client.problems import Refusal
from chary.client.wire import in_typed
from chary.core.charges import accounts_of
from chary.core.transaction import numbered
from chary.data import Series, has_public_size
from chary.errors import CharyError, NotWithheld
from chary.ledger import CallRecord
from chary.service.auth.tokens import Principal
from chary.service.core.requests import call_schemas, finite, in_blocks
from chary.service.http.admission import After, Asking, Followed, Limit, May, Number, On, Typed, looks, paged
from chary.service.state import Service, Shared
from chary.session.statement import Entry, bytes_of, entry_of

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])
Looker = Annotated[Asking, Depends(On("look"))]
Historian = Annotated[Asking, Depends(On("history"))]
LOOK_EVERY: Final = 0.5


@router.get("")
def datasets(who: Annotated[Principal, Depends(May("look"))], service: Shared) -> JSONResponse:
    """The datasets of this token."""
    return JSONResponse({"items": [{"dataset": name} for name in sorted(service.datasets) if who.sees(name)]})


@router.get("/{dataset}")
def dataset(on: Looker, typed: Typed = False) -> JSONResponse:
    """What is public of a dataset: its promise, its budget, its columns."""
    session = on.served.session
    epsilon, delta = session.spine.filter.budget.exact
    neighbor_relation = session.spine.rows.neighbor_relation
    told = {"dataset": on.served.name, "epsilon": float(epsilon), "delta": float(delta)}
    told |= {"neighbors": str(neighbor_relation.neighbors), "unit": neighbor_relation.unit, "schema": session.schema}
    told |= {"accounting": session.spine.filter.describe(), "answers_shared": on.served.shared}
    told |= {"you": on.who.analyst, "roles": sorted(on.who.roles), "version": len(session.versions)}
    told["size"] = session.size if has_public_size(neighbor_relation) else None
    if (blocks := session.spine.blocks) is not None:
        told["blocks"] = blocks.body()
    told["series"] = session.series().body() if isinstance(session.spine.rows, Series) else None
    return JSONResponse(told | budget_of(on, typed))


@router.get("/{dataset}/schema")
def schema(on: Looker) -> JSONResponse:
    """Column names and types."""
    return JSONResponse({"schema": on.served.session.schema})


@router.get("/{dataset}/statement")
def statement(on: Looker) -> JSONResponse:
    """One paragraph: what was guaranteed so far, to whom, under which assumptions."""
    return JSONResponse({"statement": on.served.session.statement()})


@router.get("/{dataset}/versions")
def versions(request: Request, on: Looker, after: After = 0, limit: Limit = 100) -> JSONResponse:
    """The batches that were appended to the dataset."""
    found = [version for version in on.served.session.versions if version.number > after]
    last = found[limit - 1].number if len(found) > limit else None
    return paged(request, [asdict(version) for version in found[:limit]], last)


@router.get("/{dataset}/budget")
def budget(on: Looker, typed: Typed = False, since: str | None = None, until: str | None = None) -> JSONResponse:
    """What is spent by all together, and what this token's analyst could still spend.

    Where the budget renews, it is that of the blocks from one to another, by default all, with what each has spent."""
    said = {name: end for name, end in (("since", since), ("until", until)) if end is not None}
    return JSONResponse(budget_of(on, typed, said or None) | _by_block(on))


@router.get("/{dataset}/budget/events", response_class=EventSourceResponse)
async def budget_events(on: Looker, service: Shared, _: Followed) -> AsyncIterator[ServerSentEvent]:
    """The budget whenever it changed, as `budget` events: a stream that goes on until it is closed."""
    told: dict[str, Any] = {}
    async for _ in looks(service, on.who.token, LOOK_EVERY):
        now = await asyncio.to_thread(lambda: budget_of(on, False) | _by_block(on))
        if now != told:
            told = now
            yield ServerSentEvent(event="budget", data=now)


@router.get("/{dataset}/calls")
def history(request: Request, on: Historian, after: After = 0, limit: Limit = 100) -> JSONResponse:
    """The calls that are shown to this token, oldest first: one's own; all of them where answers are shared."""
    spine = on.served.session.spine
    accounts = accounts_of(spine.ledger, spine.dataset)
    found = list(spine.ledger.calls(spine.dataset, after, limit + 1, analyst=on.served.shown_of(on.who)))
    last = found[limit - 1].number if len(found) > limit else None
    return paged(request, [asdict(entry_of(record, accounts)) for record in found[:limit]], last)


@router.get("/{dataset}/calls/{number}")
def call(on: Historian, number: Number) -> JSONResponse:
    """One call; one that is not shown is not there."""
    return JSONResponse(finite(asdict(_entry(on, number))))


@router.get("/{dataset}/calls/{number}/outcome", response_class=Response)
def outcome(on: Historian, number: Number) -> Response:
    """What an algorithm returned in bytes, as a file."""
    return file_of(_entry(on, number))


def file_of(entry: Entry) -> Response:
    """The bytes that a call published, as a file; `NotWithheld` for any other call."""
    name = {"Content-Disposition": f'attachment; filename="call-{entry.call}.bin"'}
    return Response(bytes_of(entry), media_type="application/octet-stream", headers=name)


def record_shown(on: Asking, number: int) -> CallRecord:
    """The record of a call; `NotWithheld` for one that is not shown to this token, as for one that is absent."""
    spine = on.served.session.spine
    record = numbered(spine, number)
    if record.dataset != spine.dataset or not on.served.shows(on.who, record.analyst):
        raise NotWithheld("there is no call of that number")
    return record


def _entry(on: Asking, number: int) -> Entry:
    spine = on.served.session.spine
    return entry_of(record_shown(on, number), accounts_of(spine.ledger, spine.dataset))


def _by_block(on: Asking) -> dict[str, Any]:
    spent = on.served.session.spent_by_block
    return {"blocks": spent} if spent else {}


def budget_of(on: Asking, typed: bool, blocks: dict[str, Any] | None = None) -> dict[str, Any]:
    """What is spent and what is left, as shares of the budget; of blocks that of the one with least."""
    session = in_blocks(on.served.asked_by(on.who.analyst), blocks)
    spent, left = session.spent, session.remaining
    told: dict[str, Any] = {"spent": spent.share, "left": left.share}
    told["free_misses_ended"] = session.spine.free_misses_ended
    return told | ({"typed": {"spent": in_typed(spent), "left": in_typed(left)}} if typed else {})


# What operators look at: health, readiness, metrics; and what programs look at: the kinds of call.

operations_router = APIRouter(tags=["operations"])


@operations_router.get("/health")
async def health() -> JSONResponse:
    """Whether the process answers."""
    return JSONResponse({"healthy": True})


@operations_router.get("/ready")
def ready(service: Shared) -> JSONResponse:
    """Whether calls can be asked: all ledgers and the service's database answer, and it is not stopping.

    For everybody, so that it says nothing else, and looks at most once a second.
    """
    found = not service.stopping.is_set() and service.readiness.found(lambda: _answers(service))
    return JSONResponse({"ready": found}, 200 if found else 503)


@operations_router.get("/metrics")
def metrics(who: Annotated[Principal, Depends(May("metrics"))], service: Shared) -> Response:
    """Prometheus metrics of all processes here: calls by kind, refusals, latencies, budgets left, what alerts do, which
    events wait; of all datasets."""
    if not who.everywhere:
        raise Refusal(403, "metrics are of all datasets, and so for tokens that are for all")
    for name, served in service.datasets.items():
        service.figures.left.labels(name).set(1 - served.session.spent.share)
        service.figures.ended.labels(name).set(served.session.spine.free_misses_ended)
    return Response(service.figures.told() + service.stored.told(), media_type=CONTENT_TYPE_LATEST)


@operations_router.get("/v1/kinds")
def kinds(who: Annotated[Principal, Depends(May("look"))]) -> JSONResponse:
    """A JSON schema for each kind of call."""
    return JSONResponse({"schemas": call_schemas()})


def _answers(service: Service) -> bool:
    try:
        service.tokens.holder("nobody")
        for served in service.datasets.values():
            served.session.spine.ledger.balance(served.session.spine.dataset)
    except CharyError:
        return False
    return True
