"""Forms that browsers send: read within limits, and only from pages of this service."""

import asyncio
import secrets
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request

from chary.errors import InvalidParameter
from chary.service.api.admission import header, media_of, read_body
from chary.service.api.service_state import service_of
from chary.service.page.frame.log_ins import NotLoggedIn, form_token, log_ins
from chary.service.wire.problems import Refusal

COOKIES: Final = ("__Host-chary", "chary")
FORM_TOKEN: Final = "form_token"
_PLAIN: Final = "application/x-www-form-urlencoded"
_PARTED: Final = "multipart/form-data"
_MOST_FIELDS: Final = 500
_OF_STRANGERS: Final = 4_096
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

    Nothing but a token is read of somebody who is not logged in. Errors: `Refusal` with status 403 for a post of
    another site, or without the token of a form; `NotLoggedIn`.
    """
    if request.method != "POST":
        return
    _same_site(request)
    cookie = cookie_of(request)
    known = bool(cookie) and await asyncio.to_thread(log_ins(request).found, cookie) is not None
    if not known and not request.url.path.endswith(LOG_IN):
        raise NotLoggedIn
    request.state.form = await _read(request, known=known)
    said = request.state.form.fields.pop(FORM_TOKEN, "")
    if known and not secrets.compare_digest(said.encode(), form_token(cookie).encode()):
        raise Refusal(403, "this form is of an earlier visit: load the page again")


def _form(request: Request) -> Posted:
    found: Posted = request.state.form
    return found


Form = Annotated[Posted, Depends(_form)]


def cookie_of(request: Request) -> str:
    """The cookie of this service, empty where there is none."""
    return next((request.cookies[name] for name in COOKIES if request.cookies.get(name)), "")


def by_https(request: Request) -> bool:
    """Whether the browser came by HTTPS: it says so itself, whatever proxy stands between."""
    return header(request, "origin").startswith("https://")


def _same_site(request: Request) -> None:
    """Every browser says where a post comes from; what does not say it is no browser's."""
    origin = urlsplit(header(request, "origin"))
    fetched = header(request, "sec-fetch-site")
    here = origin.netloc.lower() == header(request, "host").lower() and origin.scheme in ("http", "https")
    if not here or fetched not in ("", "same-origin"):
        raise Refusal(403, "this form was sent from another site")


async def _read(request: Request, *, known: bool) -> Posted:
    limits = service_of(request).config.service
    if known and header(request, "content-type").lower().startswith(_PARTED):
        return _parts(header(request, "content-type"), await read_body(request, limits.rows_bytes))
    media_of(request, [_PLAIN])
    raw = await read_body(request, limits.body_bytes if known else _OF_STRANGERS)
    try:
        pairs = parse_qsl(raw.decode("ascii"), True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        pairs = None
    if pairs is None or len(dict(pairs)) != len(pairs) or any("\0" in text for _, text in pairs):
        raise InvalidParameter("the form is not one of this page")
    return Posted(dict(pairs))


def _parts(media: str, raw: bytes) -> Posted:
    """The parts of a form that brings files."""
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + media.encode("latin-1") + b"\r\n\r\n" + raw)
    found = Posted({})
    for part in message.iter_parts() if message.is_multipart() else ():
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes) or name in {**found.fields, **found.files}:
            raise InvalidParameter("the form is not one of this page")
        if part.get_filename() is None:
            found.fields[name] = content.decode("utf-8", "replace")
        else:
            found.files[name] = content
    return found
