"""What stands before every route: whose token it is, what it may do, how often; and the body, read strictly."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from fastapi import Request

from chary.errors import InvalidParameter
from chary.service.access.roles import ACTIONS, Principal
from chary.service.api.service_state import service_of
from chary.service.wire.problems import Refusal
from chary.service.wire.strict_json import parsed_body

JSON: Final = "application/json"
# Those of an issuer hold claims; longer headers are refused before.
_LONGEST_TOKEN: Final = 8192
_HOW: Final = "send a token, as in Authorization: Bearer chary_..."


@dataclass(frozen=True)
class May:
    """A dependency of a route: the principal, if its token may do this action.

    Guarantee: no route of the interface runs without one; the table of actions says which roles that takes. Errors:
    `Refusal` with status 401 for no token or one that is not valid, 403 for one that may not, 429 for coming too often.
    """

    action: str

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidParameter(f"actions are {', '.join(ACTIONS)}")

    def __call__(self, request: Request) -> Principal:
        return admitted(request, _bearer(request), self.action)


def admitted(request: Request, who: Principal, action: str) -> Principal:
    """Somebody who is known, if the token may do this now; `Refusal` with status 429 or 403 otherwise."""
    if wait := service_of(request).rates.wait(who.token):
        raise Refusal(429, "this token comes too often", Retry_After=str(ceil(wait)))
    if not who.may(action):
        raise Refusal(403, f"this takes one of the roles {', '.join(sorted(ACTIONS[action]))}")
    request.state.token = who.token
    return who


def recognised(request: Request, token: str) -> Principal:
    """Whose token it is; `Refusal` with status 401 for nobody's, 429 where too many wrong ones came before.

    Guarantee: a right token is never refused because of wrong ones. Those count by the token whose name they have, and
    by the address they came from where no token has it.
    """
    tokens = service_of(request).tokens
    if not token.isascii() or len(token) > _LONGEST_TOKEN:
        raise _nobody(_HOW)
    who = tokens.recognise(token)
    if who is None:
        tried = tokens.tried(token)
        whose = f"address {_address(request)}" if tried is None else f"token {tried}"
        _not_too_often(service_of(request).failures.wait(whose), "too many wrong tokens came before this one")
        raise _nobody("this token is not valid: unknown, expired or revoked")
    return who


@contextmanager
def log_in_tried(request: Request) -> Iterator[None]:
    """A log-in that asks somebody else: `Refusal` with status 429 after too many in vain, since each takes seconds.

    They count by the address they came from, and apart from wrong tokens.
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
    _check_media(request, [JSON])
    return parsed_body(await read_body(request, service_of(request).config.service.body_bytes))


async def read_body(request: Request, most: int) -> bytes:
    """A body of at most so many bytes that comes in time; `Refusal` with status 413 or 408 otherwise."""
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


def media_of(request: Request, known: Iterable[str]) -> str:
    """The media type of a body, one of those known; `Refusal` with status 415 for any other."""
    return _check_media(request, list(known))


def _check_media(request: Request, known: list[str]) -> str:
    media, _, charset = _single(request, "content-type").partition(";")
    plain = charset.strip().lower() in ("", "charset=utf-8")
    if media.strip().lower() not in known or not plain:
        raise Refusal(415, f"send the body as {' or '.join(known)}")
    return media.strip().lower()


def _single(request: Request, name: str) -> str:
    """A header that comes once; of several, readers would take different ones."""
    found = request.headers.getlist(name)
    if len(found) > 1:
        raise Refusal(400, f"the header {name} comes {len(found)} times")
    return found[0] if found else ""


def header(request: Request, name: str) -> str:
    """A header that comes at most once, empty where it does not come."""
    return _single(request, name)


def _bearer(request: Request) -> Principal:
    scheme, _, token = _single(request, "authorization").partition(" ")
    if scheme.lower() != "bearer":
        raise _nobody(_HOW)
    return recognised(request, token)


def _nobody(told: str) -> Refusal:
    return Refusal(401, told, WWW_Authenticate='Bearer realm="chary"')
