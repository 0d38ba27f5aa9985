"""Where one begins: log-in by token or by OpenID, and the datasets of a token."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from chary.client.problems import Refusal
from chary.numbers import percent, plain
from chary.service.api.datasets import LOOK_EVERY, budget_of
from chary.service.auth.tokens import Principal
from chary.service.http.admission import Asking, Followed, admitted, log_in_tried, looks, recognised
from chary.service.pages.frame import COOKIES, ROOT, Form, Logged, Looker, Page, by_https, forgotten, log_ins, shown
from chary.service.state import Shared, service_of

if TYPE_CHECKING:
    from chary.service.auth.openid import OpenIdLogIn


# Log-in by token in the browser.

# Routes for visitors who are not logged in yet; those of `router` below need a log-in.
log_in_router = APIRouter()
_PAGE: Final = re.compile(rf"{ROOT}/[^\\\s]*")


@log_in_router.get("/log-in")
def asked(request: Request, then: str = "") -> Response:
    """The form."""
    return shown(request, "log_in", then=then, problem=None, openid=has_issuer(request))


@log_in_router.post("/log-in")
def log_in(request: Request, form: Form) -> Response:
    """Take the token for a cookie. Wrong ones count like those of programs."""
    then = form.text("then")
    try:
        who = admitted(request, recognised(request, form.text("token")), "look")
    except Refusal as refused:
        return shown(request, "log_in", refused.status, then=then, problem=str(refused), openid=has_issuer(request))
    forgotten(request)
    secure = by_https(request)
    response = RedirectResponse(then if _PAGE.fullmatch(then) else f"{ROOT}/", 303)
    cookie = log_ins(request).begin(who)
    response.set_cookie(COOKIES[0] if secure else COOKIES[1], cookie, httponly=True, secure=secure, samesite="strict")
    return response


def has_issuer(request: Request) -> bool:
    """Whether one logs in at an issuer, too."""
    return service_of(request).log_in is not None


@log_in_router.post("/log-out")
def log_out(request: Request, form: Form) -> Response:
    """Forget the cookie, here and in the browser."""
    forgotten(request)
    response = RedirectResponse(f"{ROOT}/log-in", 303)
    for name in COOKIES:
        response.delete_cookie(name, httponly=True, secure=name.startswith("__Host-"), samesite="strict")
    return response


# Log-in at an issuer of OpenID Connect, where the chary.toml names one: there, and back.

_KEPT: Final = "chary-log-in"
_PLACE: Final = f"{ROOT}/openid"
_SECONDS: Final = 600


@log_in_router.get("/openid")
def there(request: Request) -> Response:
    """To the issuer. The browser keeps what it takes to come back."""
    door = _door(request)
    begun = door.begin()
    response = RedirectResponse(begun.address, 303)
    # A browser that comes back from the issuer sends no strict cookie.
    response.set_cookie(_KEPT, begun.kept, _SECONDS, path=_PLACE, secure=door.by_https, httponly=True, samesite="lax")
    return response


@log_in_router.get("/openid/back")
def back(request: Request) -> Response:
    """From the issuer; a page that leads on, since a browser that is led on from elsewhere sends no strict cookie."""
    door, kept = _door(request), request.cookies.get(_KEPT, "")
    try:
        # What was not begun in this browser, such as an image on another site, is no log-in that failed.
        door.check(kept, request.query_params)
        with log_in_tried(request):
            who = door.finish(kept, request.query_params)
    except Refusal as refused:
        return shown(request, "log_in", refused.status, then="", problem=str(refused), openid=True)
    response = shown(request, "logged_in")
    name = COOKIES[0] if door.by_https else COOKIES[1]
    cookie = log_ins(request).begin(who)
    response.set_cookie(name, cookie, httponly=True, secure=door.by_https, samesite="strict")
    response.delete_cookie(_KEPT, path=_PLACE, httponly=True, secure=door.by_https, samesite="lax")
    return response


def _door(request: Request) -> "OpenIdLogIn":
    door = service_of(request).log_in
    if door is None:
        raise Refusal(404, "there is no such thing here")
    return door


# The datasets of a token; and the budget of one as it changes, for the line above every page.

router = APIRouter()
_SHOWN_BLOCKS: Final = 12


@router.get("/")
def overview(request: Request, who: Annotated[Principal, Depends(Logged("look"))], service: Shared) -> Response:
    """The datasets of this token, each with its promise and what is left."""
    names = sorted(name for name in service.datasets if who.sees(name))
    return shown(request, "overview", cards=[_card(Asking(who, service.datasets[name])) for name in names])


@router.get("/datasets/{dataset}")
def first(request: Request, on: Looker) -> Response:
    """The first page that this token may see."""
    pages: tuple[Page, ...] = request.app.state.pages
    return RedirectResponse(next(page for page in pages if on.who.may(page.action)).link(on.served.name), 303)


@router.get("/datasets/{dataset}/left/events", response_class=EventSourceResponse)
async def left_events(on: Looker, service: Shared, _: Followed) -> AsyncIterator[ServerSentEvent]:
    """The budget in words whenever it changed, as `left` events."""
    told: dict[str, Any] = {}
    async for _ in looks(service, on.who.token, LOOK_EVERY):
        now = await asyncio.to_thread(budget_of, on, False)
        if now != told:
            told = now
            words = {name: percent(share) for name, share in now.items()}
            yield ServerSentEvent(event="left", data=words | {"share": now["left"]})


def _card(on: Asking) -> dict[str, Any]:
    session = on.served.session
    epsilon, delta = session.spine.filter.budget.exact
    told: dict[str, Any] = {
        "name": on.served.name,
        "epsilon": plain(epsilon),
        "delta": plain(delta),
        "budget": budget_of(on, False),
    }
    told |= {"protects": session.spine.rows.neighbor_relation.describe(), "columns": session.schema}
    # The latest ones, which are asked most; the page of the budget has all.
    told["blocks"] = list(session.spent_by_block.items())[-_SHOWN_BLOCKS:]
    return told | {"version": len(session.versions), "shared": on.served.shared}
