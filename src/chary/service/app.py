"""The application: all routes behind their guards, with one OpenAPI document made from the calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from chary.client.problems import MEDIA
from chary.errors import CharyError
from chary.service.api import alerts, calls, custodian, datasets, operations
from chary.service.core import jobs, requests
from chary.service.http.middleware import LOG, Observing, told_problem
from chary.service.pages.application import page_application
from chary.service.pages.frame import ROOT
from chary.service.state import Service

ROUTERS: Final = (
    calls.router,
    custodian.router,
    datasets.router,
    calls.job_router,
    operations.router,
    alerts.router,
    custodian.token_router,
)
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The field of the call that it is about."},
        "example": {"type": "object", "description": "That field as the body might say it."},
        "asked": {"type": "number", "description": "The fraction of the budget that was asked for."},
        "left": {"type": "number", "description": "The fraction that is left."},
        "epsilon": {"type": "number", "description": "The epsilon with which the same question would fit."},
    },
}
_UNTOKENED: Final = ("/health", "/ready")


def application(service: Service) -> FastAPI:
    """The ASGI application of an open service."""
    app = FastAPI(
        title="chary",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        lifespan=_lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    for kind in (CharyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, told_problem)
    app.mount(ROOT, page_application(service))
    for path in ("/", ROOT):
        app.add_route(path, _to_the_page, include_in_schema=False)
    app.add_middleware(Observing, service=service)
    if proxies := service.config.service.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _to_the_page(_: Request) -> RedirectResponse:
    return RedirectResponse(f"{ROOT}/", 303)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """From the first request to the last call: what does not end in time keeps its reservation, as after a crash."""
    service: Service = app.state.service
    beating = [asyncio.create_task(each(service)) for each in (_beat, _tell)]
    yield
    for each in beating:
        each.cancel()
    app.state.running = await asyncio.to_thread(service.close)


async def _beat(service: Service) -> None:
    """Jobs say that they live, however long a subscription takes."""
    while True:
        await asyncio.sleep(jobs.BEAT)
        await _done(service.jobs.beat)


async def _tell(service: Service) -> None:
    """What is done again and again: subscriptions are asked, events are sent."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(service.woken.wait(), jobs.BEAT)
        service.woken.clear()
        for work in (service.standing.begin, service.delivery.begin):
            await _done(work)


async def _done(work: Callable[[], object]) -> None:
    """Once, in a thread; what goes wrong ends no later turn."""
    try:
        await asyncio.to_thread(work)
    except Exception as error:  # nothing is told of it but its kind
        LOG.error('{"event": "turn", "error": "%s"}', type(error).__name__)


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = _made(app)
    return app.openapi_schema


def _made(app: FastAPI) -> dict[str, Any]:
    told = get_openapi(title="chary", version="1", description=__doc__, routes=app.routes)
    components = told.setdefault("components", {})
    components["schemas"] = requests.call_schemas() | {"Problem": _PROBLEM}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations_ in told["paths"].items():
        for operation in operations_.values():
            _finish(path, operation)
    return told


def _finish(path: str, operation: dict[str, Any]) -> None:
    """What every route answers where it refuses, and that it takes a token."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {"description": "A problem (RFC 9457).", "content": content}
    if path not in _UNTOKENED:
        operation["security"] = [{"token": []}]
