"""The application: all routes behind their guards, with one OpenAPI document made from the calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from chary.client.problems import MEDIA
from chary.errors import CharyError
from chary.service.api import alerts, calls, custodian, datasets
from chary.service.core import jobs, requests
from chary.service.core.audit_trail import LOG
from chary.service.core.problems import LABELS, problem
from chary.service.http.middleware import Observing, foreseen, told_problem
from chary.service.pages import alerts as alerts_page
from chary.service.pages import ask, frame, history, overview, timelines
from chary.service.pages import custodian as custodian_page
from chary.service.pages.frame import ROOT
from chary.service.state import Service

ROUTERS: Final = (
    calls.router,
    custodian.router,
    datasets.router,
    calls.job_router,
    datasets.operations_router,
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
# No redirects between addresses with and without a slash; no telemetry.
_OPTIONS: Final[dict[str, Any]] = {
    "redirect_slashes": False,
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
}


def application(service: Service) -> FastAPI:
    """The ASGI application of an open service."""
    app = FastAPI(title="chary", docs_url=None, redoc_url=None, lifespan=_lifespan, **_OPTIONS)
    _furnish(app, service, ROUTERS, told_problem)
    app.mount(ROOT, page_application(service))
    for path in ("/", ROOT):
        app.add_route(path, _to_the_page, include_in_schema=False)
    app.add_middleware(Observing, service=service)
    if proxies := service.config.service.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _furnish(app: FastAPI, service: Service, routers: Iterable[APIRouter], handler: Callable[..., Any]) -> None:
    """Give an application its service, its routes and its error handlers."""
    app.state.service = service
    for router in routers:
        app.include_router(router)
    for kind in (CharyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handler)


def _to_the_page(_: Request) -> RedirectResponse:
    return RedirectResponse(f"{ROOT}/", 303)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start and stop the service. A call that does not end in time keeps its reservation, as after a crash."""
    service: Service = app.state.service
    beating = [asyncio.create_task(each(service)) for each in (_beat, _tell)]
    yield
    for each in beating:
        each.cancel()
    app.state.running = await asyncio.to_thread(service.close)


async def _beat(service: Service) -> None:
    """Heartbeats of jobs, in a task of their own, since asking subscriptions may take long."""
    while True:
        await asyncio.sleep(jobs.BEAT)
        await _done(service.jobs.beat)


async def _tell(service: Service) -> None:
    """Periodic work: ask subscriptions, send events."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(service.woken.wait(), jobs.BEAT)
        service.woken.clear()
        for work in (service.standing.begin, service.delivery.begin):
            await _done(work)


async def _done(work: Callable[[], object]) -> None:
    """Run one turn in a thread; an error does not end later turns."""
    try:
        await asyncio.to_thread(work)
    except Exception as error:  # only its type is logged
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
    """Add to every route of the document the errors it may return and the token it needs."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {"description": "A problem (RFC 9457).", "content": content}
    if path not in _UNTOKENED:
        operation["security"] = [{"token": []}]


# The page as one application below `/page`: its routes behind their guards, its content policy on every answer.

# In the order of the navigation.
PAGES: Final[tuple[frame.Page, ...]] = (
    *(ask.PAGE, alerts_page.PAGE, timelines.PAGE),
    *(history.PAGE, history.REPORT_PAGE, custodian_page.PAGE),
)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Posts keep their origin, by which `frame.guarded` tells them from those of other sites.
_HEADERS: Final = {"content-security-policy": _POLICY, "referrer-policy": "same-origin", "x-frame-options": "DENY"}


def page_application(service: Service) -> "Enclosed":
    """The page of an open service; to be mounted at `/page`."""
    app = FastAPI(openapi_url=None, dependencies=[Depends(frame.guarded)], **_OPTIONS)
    app.state.pages = PAGES
    apart = (overview.log_in_router, overview.router, ask.run_router)
    _furnish(app, service, (*apart, *(page.router for page in PAGES)), _error_page)
    app.mount("/static", StaticFiles(directory=Path(frame.__file__).parent / "static"))
    app.add_exception_handler(Exception, _unforeseen_page)
    return Enclosed(app)


@dataclass(frozen=True)
class Enclosed:
    """Middleware: adds the content policy to every answer that has none of its own."""

    app: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def enclosed(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in more if each[0] not in given)]
            await send(message)

        await self.app(scope, receive, enclosed)


def _error_page(request: Request, error: Exception) -> Response:
    """An error as a page; a visitor who is not logged in is sent to the log-in."""
    if isinstance(error, frame.NotLoggedIn):
        then = request.url.path if request.method == "GET" else ""
        after = f"?then={quote(then)}" if then != f"{ROOT}/" else ""
        return RedirectResponse(f"{ROOT}/log-in{after}", 303)
    return _unforeseen_page(request, foreseen(error))


def _unforeseen_page(request: Request, error: Exception) -> Response:
    """An error as a page; of an error that is not chary's own only the type is shown."""
    told = problem(error, LABELS)
    return frame.shown(request, "problem", told["status"], problem=told)
