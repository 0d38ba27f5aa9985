"""What operators look at: health, readiness, metrics; and what programs look at: the kinds of call."""

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from chary.client.problems import Refusal
from chary.errors import CharyError
from chary.service.auth.tokens import Principal
from chary.service.core.requests import call_schemas
from chary.service.http.admission import May
from chary.service.state import Service, Shared

router = APIRouter(tags=["operations"])


@router.get("/health")
async def health() -> JSONResponse:
    """Whether the process answers."""
    return JSONResponse({"healthy": True})


@router.get("/ready")
def ready(service: Shared) -> JSONResponse:
    """Whether calls can be asked: all ledgers and the service's database answer, and it is not stopping.

    For everybody, so that it says nothing else, and looks at most once a second.
    """
    found = not service.stopping.is_set() and service.readiness.found(lambda: _answers(service))
    return JSONResponse({"ready": found}, 200 if found else 503)


@router.get("/metrics")
def metrics(who: Annotated[Principal, Depends(May("metrics"))], service: Shared) -> Response:
    """Prometheus metrics of all processes here: calls by kind, refusals, latencies, budgets left, what alerts do, which
    events wait; of all datasets."""
    if not who.everywhere:
        raise Refusal(403, "metrics are of all datasets, and so for tokens that are for all")
    for name, served in service.datasets.items():
        service.figures.left.labels(name).set(1 - served.session.spent.share)
    return Response(service.figures.told() + service.stored.told(), media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/kinds")
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
