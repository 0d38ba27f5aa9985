"""Middleware around every request: allowed hosts, durations, a line in the log, and an answer to every error."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from chary.client.problems import MEDIA, Refusal
from chary.errors import CharyError, InvalidParameter
from chary.service.core.audit_trail import LOG, log_line
from chary.service.core.problems import problem
from chary.service.state import Service

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Scope]]
_Send = Callable[[_Scope], Awaitable[None]]
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


@dataclass(frozen=True)
class Observing:
    """Middleware: refuses unknown hosts, answers unexpected errors with a problem without details, counts and logs.

    A line of the log has the route but never the path, the status but never the body, the type of an error but never
    its message.
    """

    app: Any
    service: Service

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        watched, began = _Watched(send), time.perf_counter()
        try:
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            app = self.app
            if len(hosts) != 1 or _host(hosts[0]) not in self.service.config.service.hosts:
                app = problem_response(Refusal(421, "this service does not answer for that host"))
            await app(scope, receive, watched.send)
        except Exception as error:  # only its type is logged
            LOG.error(log_line(event="unforeseen", error=type(error).__name__, route=_route(scope)))
            if not watched.status:
                await problem_response(error)(scope, receive, watched.send)
        self._told(scope, watched.status, time.perf_counter() - began)

    def _told(self, scope: _Scope, status: int, seconds: float) -> None:
        route, method = _route(scope), str(scope["method"]) if scope.get("route") else "other"
        self.service.figures.seconds.labels(method, route).observe(seconds)
        token = scope.get("state", {}).get("token")
        LOG.info(
            log_line(event="request", method=method, route=route, status=status, ms=int(seconds * 1000), token=token)
        )


class _Watched:
    """Sends an answer with the common headers, and remembers its status."""

    def __init__(self, send: _Send) -> None:
        self._send, self.status = send, 0

    async def send(self, message: _Scope) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await self._send(message)


def problem_response(error: Exception) -> JSONResponse:
    """The response for an error."""
    shown = error.example if isinstance(error, CharyError) else None
    told = problem(error) | ({} if shown is None else {"example": shown})
    headers = error.headers if isinstance(error, Refusal) else {}
    if told["status"] == 503:
        headers = {"Retry-After": "1"} | headers
    return JSONResponse(told, told["status"], headers, media_type=MEDIA)


def foreseen(error: Exception) -> CharyError:
    """An exception of a route as an error of chary; an unexpected one is raised again."""
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return InvalidParameter(f"{'.'.join(map(str, first['loc']))}: {str(first['msg']).lower()}")
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, "there is no such thing here", **dict(error.headers or {}))
    if not isinstance(error, CharyError):
        raise error
    return error


async def told_problem(request: Request, error: Exception) -> JSONResponse:
    """The response for an exception of a route."""
    error = foreseen(error)
    response = problem_response(error)
    found: Service = request.app.state.service
    found.figures.refusals.labels(problem(error)["type"].rpartition(":")[2]).inc()
    return response


def _route(scope: _Scope) -> str:
    return str(getattr(scope.get("route"), "path", "none"))


def _host(said: str) -> str:
    host, _, port = said.rpartition(":") if not said.endswith("]") else (said, "", "")
    return (host if host and port.isdigit() else said).lower()
