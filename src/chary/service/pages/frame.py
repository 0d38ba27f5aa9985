"""The frame of every page: templates, navigation, and who is visiting which dataset."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from chary.errors import InvalidParameter
from chary.numbers import percent, plain
from chary.report.pages import interval, moment, number
from chary.service.api.datasets import budget_of
from chary.service.auth.tokens import ACTIONS, Principal
from chary.service.http.admission import Asking, DatasetName, admitted
from chary.service.pages.browser import FORM_TOKEN, NotLoggedIn, cookie_of, form_token, log_ins
from chary.service.state import service_of

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
    """What the layout shows: of the dataset at hand, and of whoever is logged in."""
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


def sentence(told: str) -> str:
    """Words as the beginning of a sentence; what is code in them stays as it is.

    >>> sentence("open another by session.start(SparseVector(...))")
    'Open another by session.start(SparseVector(...))'
    """
    return told[:1].upper() + told[1:]


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
    "percent": percent,
    "plain": plain,
    "sentence": sentence,
    "short": short,
}

# Who came to a page, of which dataset, and whether the token behind the cookie may do what the page does.


@dataclass(frozen=True)
class Logged:
    """A dependency of a page: whoever is logged in, if the token may do this action.

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
