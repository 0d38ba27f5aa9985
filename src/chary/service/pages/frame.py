"""The frame of every page: templates, navigation, visitors, cookies of log-ins, forms with their guard."""

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import delete, insert, select

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.numbers import percent, plain, sentence
from chary.report.pages import interval, moment, number, paragraphs
from chary.service.api.datasets import budget_of
from chary.service.auth.tokens import ACTIONS, Principal
from chary.service.http.admission import Asking, DatasetName, admitted, header, media_of, read_body
from chary.service.state import service_of
from chary.service.store import LOGGED_IN, ServiceStore

# The frame of every page: templates, navigation, and who is visiting which dataset.

# Templates, and the layout around each page: navigation, who is here, what is left of the budget.

ROOT: Final = "/page"


@dataclass(frozen=True)
class Page:
    """A page of the navigation: its place below the dataset, its name, what a token must be allowed, its routes."""

    place: str
    title: str
    action: str
    router: APIRouter

    def link(self, dataset: str) -> str:
        """Where it is for a dataset."""
        return place_of(dataset, self.place)


def place_of(dataset: str, *parts: object) -> str:
    """An address below a dataset; its name may have any letters.

    >>> place_of("Besuche am Ort", "calls", 7)
    '/page/datasets/Besuche%20am%20Ort/calls/7'
    """
    return "/".join([ROOT, "datasets", quote(dataset, safe=""), *map(str, parts)])


def shown(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page of a template, in the layout."""
    made = _environment().get_template(f"{template}.html.jinja").render(**_around(request), **context)
    return HTMLResponse(made, status)


def _around(request: Request) -> dict[str, Any]:
    """What the layout shows: of the dataset at hand, and of anyone who is logged in."""
    who: Principal | None = getattr(request.state, "who", None)
    on: Asking | None = getattr(request.state, "on", None)
    cookie = cookie_of(request)
    around: dict[str, Any] = {"root": ROOT, "path": request.url.path, "who": who, "dataset": None, "pages": []}
    around |= {"form_token": form_token(cookie) if cookie else "", "form_token_name": FORM_TOKEN, "datasets": []}
    if who is not None:
        around["datasets"] = sorted(name for name in service_of(request).datasets if who.sees(name))
    if on is not None:
        pages: tuple[Page, ...] = request.app.state.pages
        around |= {"dataset": on.served.name, "budget": budget_of(on, False)}
        around["pages"] = [page for page in pages if on.who.may(page.action)]
    return around


@cache
def _environment() -> Environment:
    loader = PackageLoader("chary.service.pages")
    made = Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= _FILTERS
    made.globals |= {"place_of": place_of}
    return made


def day_of(seconds: float) -> str:
    """A time as a day and an hour, in UTC.

    >>> day_of(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def minute_of(time: str) -> str:
    """A time of the ledger, to the minute.

    >>> minute_of("2026-03-01T09:30:12.123456+00:00")
    '2026-03-01 09:30'
    """
    return time[:16].replace("T", " ")


def short(value: float) -> str:
    """A figure in three digits, never a small one as nothing.

    >>> short(3.95903e-8), short(144)
    ('3.96e-08', '144')
    """
    return plain(float(f"{value:.3g}")) if value < 1000 else number(round(value))


def json_of(value: Any) -> str:
    """A value as JSON that people can read; the template escapes it like any text."""
    return json.dumps(value, indent=2, ensure_ascii=False)


_FILTERS: Final[Mapping[str, Any]] = {
    "day": day_of,
    "interval": interval,
    "json": json_of,
    "minute": minute_of,
    "moment": moment,
    "number": number,
    "paragraphs": paragraphs,
    "percent": percent,
    "plain": plain,
    "sentence": sentence,
    "short": short,
}

# Who came to a page, of which dataset, and whether the token behind the cookie may do what the page does.


@dataclass(frozen=True)
class Logged:
    """A dependency of a page: anyone who is logged in, if the token may do this action.

    Guarantee: no page but the one to log in runs without one; what a role may is the table of the interface.
    """

    action: str

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidParameter(f"actions are {', '.join(ACTIONS)}")

    def __call__(self, request: Request) -> Principal:
        cookie = cookie_of(request)
        who = log_ins(request).found(cookie) if cookie else None
        if who is None:
            raise NotLoggedIn
        request.state.who = who
        return admitted(request, who, self.action)


@dataclass(frozen=True)
class Visiting:
    """A dependency of a page about a dataset: who asks, of which one."""

    action: str

    def __call__(self, request: Request, dataset: DatasetName) -> Asking:
        who = Logged(self.action)(request)
        on = Asking(who, service_of(request).datasets.for_(who, dataset))
        request.state.on = on
        return on


Looker = Annotated[Asking, Depends(Visiting("look"))]
Asker = Annotated[Asking, Depends(Visiting("ask"))]
Historian = Annotated[Asking, Depends(Visiting("history"))]
Publisher = Annotated[Asking, Depends(Visiting("publish"))]

# What a browser sends: cookies of log-ins, forms with their guard against other sites, parts of forms.

# Who is logged in: cookies that stand for tokens, as long as the tokens are valid.

# A working day; then the token is asked for again.
LONGEST: Final = 12 * 3600
_BYTES: Final = 32


class NotLoggedIn(Refusal):
    """Nobody is logged in, or no longer: the page asks for a token."""

    def __init__(self) -> None:
        super().__init__(401, "log in first")


class LogIns:
    """Cookies that identify browsers.

    A cookie holds 256 random bits and nothing else; the database has their hash, with the name of the token. Guarantee:
    a cookie stands for somebody only while the token itself does, so that one that was revoked is out at its next
    request, in every process.
    """

    def __init__(self, store: ServiceStore, holder: Callable[[str], Principal | None]) -> None:
        self._store, self._holder = store, holder

    def begin(self, who: Principal) -> str:
        """The cookie of somebody whose token was just recognised; old ones are forgotten."""
        cookie, now = secrets.token_urlsafe(_BYTES), self._store.now()
        self._store.change(delete(LOGGED_IN).where(LOGGED_IN.c.expires < now))
        row = {"hashed": _hashed(cookie), "token": who.token, "expires": now + LONGEST}
        self._store.change(insert(LOGGED_IN).values(**row))
        return cookie

    def found(self, cookie: str) -> Principal | None:
        """Whom a cookie stands for now; None for nobody."""
        here = LOGGED_IN.c.hashed == _hashed(cookie)
        rows = self._store.rows(select(LOGGED_IN).where(here, LOGGED_IN.c.expires > self._store.now()))
        return self._holder(rows[0].token) if rows else None

    def end(self, cookie: str) -> None:
        """Forget a cookie."""
        self._store.change(delete(LOGGED_IN).where(LOGGED_IN.c.hashed == _hashed(cookie)))


def log_ins(request: Request) -> LogIns:
    """The cookies of a service."""
    service = service_of(request)
    return LogIns(service.store, service.tokens.holder)


def form_token(cookie: str) -> str:
    """What every form of somebody logged in holds: nobody without the cookie can work it out, nor the cookie from it.

    >>> form_token("a") == form_token("a") != form_token("b")
    True
    """
    return _hashed(f"a form of {cookie}")


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()


# Forms that browsers send: read within limits, and only from pages of this service.

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
    """Forget anyone who was logged in with this browser, by whichever cookie."""
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


# The parts of a form that brings files, as browsers send it (RFC 7578): read in one pass, however large.

PARTED: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(rf"{PARTED};\s*boundary=(\"?)([\w'()+,./:=?-]{{1,70}})\1", re.ASCII | re.IGNORECASE)
_NAMED: Final = re.compile(
    rb"content-disposition:\s*form-data;\s*name=\"([^\"\r\n]*)\"(;\s*filename=\"[^\"\r\n]*\")?", re.IGNORECASE
)
_MOST: Final = 500


class Part(NamedTuple):
    """A field or a file of a form."""

    name: str
    content: bytes
    file: bool


def form_parts(media: str, raw: bytes) -> Iterator[Part]:
    r"""The parts of a body of that media type; `InvalidParameter` for what no browser sends.

    >>> raw = b'--x\r\nContent-Disposition: form-data; name="rows"; filename="a.csv"\r\n\r\nage\r\n70\r\n--x--\r\n'
    >>> list(form_parts("multipart/form-data; boundary=x", raw))
    [Part(name='rows', content=b'age\r\n70', file=True)]
    """
    boundary = _BOUNDARY.fullmatch(media.strip())
    limit = b"" if boundary is None else b"--" + boundary[2].encode()
    first, *parts = raw.split(b"\r\n" + limit, _MOST) if limit else [b""]
    if not limit or not parts or not first.startswith(limit) or parts[-1] not in (b"--", b"--\r\n"):
        raise InvalidParameter("the form is not one of this page")
    yield from map(_part, (first[len(limit) :], *parts[:-1]))


def _part(raw: bytes) -> Part:
    end = raw.find(b"\r\n\r\n")
    named = [found for line in raw[: max(end, 0)].split(b"\r\n") if (found := _NAMED.fullmatch(line))]
    if not raw.startswith(b"\r\n") or len(named) != 1:
        raise InvalidParameter("the form is not one of this page")
    return Part(named[0][1].decode("utf-8", "replace"), raw[end + 4 :], named[0][2] is not None)
