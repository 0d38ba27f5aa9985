"""Admission of requests: who asks, for which dataset, under which limits; event streams."""

import asyncio
import base64
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request
from fastapi.responses import JSONResponse

from chary.client.problems import Refusal
from chary.data.queries.bodies import parsed_body
from chary.errors import InvalidParameter
from chary.service.auth.tokens import ACTIONS, Principal
from chary.service.core.datasets import Served
from chary.service.core.requests import finite
from chary.service.state import Service, Shared, service_of

# Checks before every route: the token, its roles and its rate limit; and bodies, read strictly.

JSON: Final = "application/json"
# Tokens of an issuer contain claims; the server refuses longer headers before.
_LONGEST_TOKEN: Final = 8192
_HOW: Final = "send a token, as in Authorization: Bearer chary_..."
_BEARER: Final = 'Bearer realm="chary"'
_BASIC: Final = 'Basic realm="chary", charset="UTF-8"'


@dataclass(frozen=True)
class May:
    """A dependency of a route: the principal, if its token permits this action.

    Guarantee: every route of the interface has one; the table of actions has the roles it needs. Errors: `Refusal` with
    status 401 without a valid token, 403 without the role, 429 above the rate limit.

    A route that only reads may take the token as the password of HTTP Basic as well, under any name, for programs that
    can send nothing else. Browsers send that password by themselves, even from other sites; so no route that changes
    anything takes it.
    """

    action: str
    as_password: bool = False

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidParameter(f"actions are {', '.join(ACTIONS)}")

    def __call__(self, request: Request) -> Principal:
        return admitted(request, _known(request, as_password=self.as_password), self.action)


def admitted(request: Request, who: Principal, action: str) -> Principal:
    """The principal, if the token permits the action and is within its rate limit; `Refusal` with status 403 or 429
    otherwise.
    """
    request.state.token = who.token
    if wait := service_of(request).rates.wait(who.token):
        raise Refusal(429, "this token comes too often", Retry_After=str(ceil(wait)))
    if not who.may(action):
        raise Refusal(403, f"this takes one of the roles {', '.join(sorted(ACTIONS[action]))}")
    return who


def recognised(request: Request, token: str, challenge: str = _BEARER) -> Principal:
    """The principal of a token; `Refusal` with status 401 for an invalid one, 429 after too many invalid ones.

    Guarantee: a valid token is never refused because of invalid ones. Those count against the token whose name they
    have, and against the address they came from if there is no such token.
    """
    tokens = service_of(request).tokens
    if not token.isascii() or len(token) > _LONGEST_TOKEN:
        raise _nobody(_HOW, challenge)
    who = tokens.recognise(token)
    if who is None:
        tried = tokens.tried(token)
        whose = f"address {_address(request)}" if tried is None else f"token {tried}"
        _not_too_often(service_of(request).failures.wait(whose), "too many wrong tokens came before this one")
        raise _nobody("this token is not valid: unknown, expired or revoked", challenge)
    return who


@contextmanager
def log_in_tried(request: Request) -> Iterator[None]:
    """Count a log-in at an issuer: `Refusal` with status 429 after too many failures, since each takes seconds.

    They count by address, apart from invalid tokens.
    """
    failures, whose = service_of(request).failures, f"log-in {_address(request)}"
    _not_too_often(failures.blocked(whose), "too many log-ins failed from this address")
    try:
        yield
    except Refusal:
        failures.wait(whose)
        raise


def _not_too_often(wait: float, told: str) -> None:
    if wait:
        raise Refusal(429, told, Retry_After=str(ceil(wait)))


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def strict_body(request: Request) -> dict[str, Any]:
    """The JSON object of a body."""
    media_of(request, [JSON])
    return parsed_body(await read_body(request, service_of(request).config.service.body_bytes))


Body = Annotated[dict[str, Any], Depends(strict_body)]


async def read_body(request: Request, most: int) -> bytes:
    """A body of up to this many bytes; `Refusal` with status 413 for a longer one, 408 for a slow one."""
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise Refusal(400, "the length of the body is no number")
    if int(length) > most:
        raise Refusal(413, f"the body is larger than {most} bytes")
    found = bytearray()
    try:
        async with asyncio.timeout(service_of(request).config.service.body_seconds):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    raise Refusal(413, f"the body is larger than {most} bytes")
    except TimeoutError:
        raise Refusal(408, "the body came too slowly", Connection="close") from None
    return bytes(found)


def media_of(request: Request, known: Sequence[str]) -> str:
    """The media type of a body, if it is one of these; `Refusal` with status 415 otherwise."""
    media, _, charset = header(request, "content-type").partition(";")
    plain = charset.strip().lower() in ("", "charset=utf-8")
    if media.strip().lower() not in known or not plain:
        raise Refusal(415, f"send the body as {' or '.join(known)}")
    return media.strip().lower()


def header(request: Request, name: str) -> str:
    """A header, empty if it is absent; refused if it is repeated, since proxies could read different ones."""
    found = request.headers.getlist(name)
    if len(found) > 1:
        raise Refusal(400, f"the header {name} comes {len(found)} times")
    return found[0] if found else ""


def _known(request: Request, *, as_password: bool) -> Principal:
    scheme, _, said = header(request, "authorization").partition(" ")
    challenge = _BASIC if as_password else _BEARER
    if scheme.lower() == "bearer":
        return recognised(request, said, challenge)
    if scheme.lower() == "basic" and as_password:
        return recognised(request, _password(said), challenge)
    raise _nobody(_HOW, challenge)


def _password(said: str) -> str:
    """The password of HTTP Basic (RFC 7617), empty if there is none."""
    try:
        return base64.b64decode(said, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _nobody(told: str, challenge: str) -> Refusal:
    return Refusal(401, told, WWW_Authenticate=challenge)


# Parts of requests that several routes read: dataset and principal, numbers, pages, idempotency keys.

# The largest integer that JavaScript reads exactly.
_MOST: Final = 2**53
_LONGEST_KEY: Final = 500
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')

DatasetName = Annotated[str, Path(max_length=200, description="The name of a dataset.")]
Number = Annotated[int, Path(ge=1, le=_MOST, description="The number of a call in the ledger.")]
After = Annotated[int, Query(ge=0, le=_MOST, description="Only what comes after this number.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Typed = Annotated[bool, Query(description="Also the values from which chary's client makes an equal answer.")]


class Asking(NamedTuple):
    """A principal and the dataset it asks."""

    who: Principal
    served: Served


@dataclass(frozen=True)
class On:
    """A dependency of a route: the principal and the dataset of the path, if the token permits this action there."""

    action: str
    as_password: bool = False

    def __call__(self, request: Request, dataset: DatasetName) -> Asking:
        who = May(self.action, self.as_password)(request)
        return Asking(who, service_of(request).datasets.for_(who, dataset))


def request_key(request: Request) -> str:
    """The key of `Idempotency-Key`, plain or as a quoted string, in UTF-8; a new one without the header.

    Errors: `Refusal` with status 400 for a key that is empty, longer than 500 characters or not printable.
    """
    said = header(request, "idempotency-key")
    if not request.headers.getlist("idempotency-key"):
        return f"service {secrets.token_hex(16)}"
    try:
        text = said.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        text = ""
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not key.isprintable() or not 0 < len(key) <= _LONGEST_KEY:
        raise Refusal(400, f"an Idempotency-Key is a printable text of at most {_LONGEST_KEY} characters in UTF-8")
    return key


# The header of routes under which nothing is done twice, for OpenAPI: printable text, plain or as a quoted string.
KEYED: Final = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "What came before under this key is not done again, and its answer is returned for free.",
            "schema": {"type": "string", "maxLength": _LONGEST_KEY, "pattern": r'^([!#-~][ -~]*|"[ !#-\[\]-~]+")$'},
        }
    ]
}


def key_header(key: str) -> str:
    """An idempotency key as a value of `Idempotency-Key`, in the characters that headers allow.

    >>> key_header('a "b"')
    '"a \\\\"b\\\\""'
    """
    quoted = re.sub(r'(["\\])', r"\\\1", key)
    return f'"{quoted}"'.encode().decode("latin-1")


def paged(request: Request, items: list[dict[str, Any]], last: int | None) -> JSONResponse:
    """One page; `last` is the number after which the next page begins, None on the last page."""
    headers = {}
    if last is not None:
        following = request.url.include_query_params(after=last)
        # Names of datasets may be in any script, headers only in ASCII.
        headers["Link"] = f'<{quote(request.scope["path"])}?{following.query}>; rel="next"'
    return JSONResponse(finite({"items": items, "next": last}), headers=headers)


# Event streams end after some time, and when the token expires.

# Seconds after which a stream ends; clients connect again.
LONGEST: Final = 600.0


async def _followed(request: Request, service: Shared) -> AsyncIterator[None]:
    token: str = request.state.token
    service.streams.begin(token)
    try:
        yield
    finally:
        service.streams.end(token)


# Runs after the guard of a route, which has checked the token.
Followed = Annotated[None, Depends(_followed)]


async def looks(service: Service, token: str, every: float) -> AsyncIterator[None]:
    """Yields when to look for something new: until the service stops, the token expires, or `LONGEST` is over."""
    for _ in range(int(LONGEST / every)):
        yield
        if service.stopping.is_set():
            return
        await asyncio.sleep(every)
        if await asyncio.to_thread(service.tokens.holder, token) is None:
            return
