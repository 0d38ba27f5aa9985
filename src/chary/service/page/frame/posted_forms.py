"""Forms that browsers send: read within limits, and only from pages of this service."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from chary.errors import InvalidParameter
from chary.service.access.roles import Principal
from chary.service.api.admission import header, media_of, read_body
from chary.service.api.service_state import service_of
from chary.service.page.frame.form_parts import PARTED, form_parts
from chary.service.page.frame.log_ins import NotLoggedIn, form_token, log_ins
from chary.service.wire.problems import Refusal

COOKIES: Final = ("__Host-chary", "chary")
FORM_TOKEN: Final = "form_token"
_PLAIN: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 500
_OF_STRANGERS: Final = 4_096
_NO_FORM: Final = "the form is not one of this page"
LOG_IN: Final = "/log-in"


@dataclass(frozen=True)
class Posted:
    """The fields of a form by name, and the files that came with it. A field that was sent twice is refused."""

    fields: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field without the blanks around it, empty where it was not sent."""
        return self.fields.get(name, "").strip()


async def guarded(request: Request) -> None:
    """A dependency of the whole page: what is posted comes from a page of this service, whatever route it is for.

    Nothing but a token is read of somebody who is not logged in, and no file of who may append none. Errors: `Refusal`
    with status 403 for a post of another site, or without the token of a form; `NotLoggedIn`.
    """
    if request.method != "POST":
        return
    _same_site(request)
    cookie = cookie_of(request)
    who = await asyncio.to_thread(log_ins(request).found, cookie) if cookie else None
    if who is None and not request.url.path.endswith(LOG_IN):
        raise NotLoggedIn
    request.state.form = await _read(request, who)
    said = request.state.form.fields.pop(FORM_TOKEN, "")
    if who is not None and not secrets.compare_digest(said.encode(), form_token(cookie).encode()):
        raise Refusal(403, "this form is of an earlier visit: load the page again")


def _form(request: Request) -> Posted:
    found: Posted = request.state.form
    return found


Form = Annotated[Posted, Depends(_form)]


def cookie_of(request: Request) -> str:
    """The cookie of this service, empty where there is none."""
    return next((request.cookies[name] for name in COOKIES if request.cookies.get(name)), "")


def forgotten(request: Request) -> None:
    """Forget whoever was logged in with this browser, by whichever cookie."""
    for name in COOKIES:
        log_ins(request).end(request.cookies.get(name, ""))


def by_https(request: Request) -> bool:
    """Whether the browser came by HTTPS: it says so itself, whatever proxy stands between."""
    return header(request, "origin").startswith("https://")


def _same_site(request: Request) -> None:
    """Every browser says where a post comes from; what does not say it is no browser's."""
    host, fetched = header(request, "host").lower(), header(request, "sec-fetch-site")
    here = header(request, "origin").lower() in (f"http://{host}", f"https://{host}")
    if not here or fetched not in ("", "same-origin"):
        raise Refusal(403, "this form was sent from another site")


async def _read(request: Request, who: Principal | None) -> Posted:
    limits, media = service_of(request).config.service, header(request, "content-type")
    if who is not None and who.may("append") and media.lower().startswith(PARTED):
        return _parted(media, await read_body(request, limits.rows_bytes))
    media_of(request, [_PLAIN])
    raw = await read_body(request, _OF_STRANGERS if who is None else limits.body_bytes)
    try:
        pairs = parse_qsl(raw.decode("ascii"), True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        pairs = None
    if pairs is None:
        raise InvalidParameter(_NO_FORM)
    return Posted(_once(pairs))


def _parted(media: str, raw: bytes) -> Posted:
    """A form that brings files."""
    parts = list(form_parts(media, raw))
    fields = [(part.name, part.content.decode("utf-8", "replace")) for part in parts if not part.file]
    found = Posted(_once(fields), {part.name: part.content for part in parts if part.file})
    if len(found.fields) + len(found.files) != len(parts):
        raise InvalidParameter(_NO_FORM)
    return found


def _once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Fields by name, each of them sent once, and as text."""
    found = dict(pairs)
    if len(found) != len(pairs) or any("\0" in text for _, text in pairs):
        raise InvalidParameter(_NO_FORM)
    return found
