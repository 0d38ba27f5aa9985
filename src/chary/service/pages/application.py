"""The page as one application below `/page`: its routes behind their guards, its policy on every answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from chary.errors import CharyError
from chary.service.core.problems import LABELS, problem
from chary.service.http.middleware import foreseen
from chary.service.pages import alerts, ask, custodian, frame, history, login, overview, timelines
from chary.service.state import Service

# In the order of the navigation.
PAGES: Final[tuple[frame.Page, ...]] = (
    ask.PAGE,
    alerts.PAGE,
    timelines.PAGE,
    history.PAGE,
    history.REPORT_PAGE,
    custodian.PAGE,
)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The origin is not left out of posts, by which they are told from those of other sites.
_HEADERS: Final = {"content-security-policy": _POLICY, "referrer-policy": "same-origin", "x-frame-options": "DENY"}


def page_application(service: Service) -> "Enclosed":
    """The page of an open service; to be mounted at `/page`."""
    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(frame.guarded)],
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service, app.state.pages = service, PAGES
    apart = (login.router, login.openid_router, overview.router, ask.run_router)
    for router in (*apart, *(page.router for page in PAGES)):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    for kind in (CharyError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(Exception, _unforeseen)
    return Enclosed(app)


@dataclass(frozen=True)
class Enclosed:
    """Middleware: the content policy on every answer that brings none of its own."""

    app: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def enclosed(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in more if each[0] not in given)]
            await send(message)

        await self.app(scope, receive, enclosed)


def _told(request: Request, error: Exception) -> Response:
    """What a page raised, as a page; anyone who is not logged in is asked to."""
    if isinstance(error, frame.NotLoggedIn):
        then = request.url.path if request.method == "GET" else ""
        return RedirectResponse(
            f"{frame.ROOT}/log-in" + (f"?then={quote(then)}" if then != f"{frame.ROOT}/" else ""), 303
        )
    return _unforeseen(request, foreseen(error))


def _unforeseen(request: Request, error: Exception) -> Response:
    """An error as a page; of one that nobody foresaw nothing is reported."""
    told = problem(error, LABELS)
    return frame.shown(request, "problem", told["status"], problem=told)
