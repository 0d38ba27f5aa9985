"""Log-in in the browser: by token, and by OpenID."""

import re
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from chary.client.problems import Refusal
from chary.service.http.admission import admitted, log_in_tried, recognised
from chary.service.pages.frame import COOKIES, ROOT, Form, by_https, forgotten, log_ins, shown
from chary.service.state import service_of

if TYPE_CHECKING:
    from chary.service.auth.openid import OpenIdLogIn


# Log-in by token in the browser.

router = APIRouter()
_PAGE: Final = re.compile(rf"{ROOT}/[^\\\s]*")


@router.get("/log-in")
def asked(request: Request, then: str = "") -> Response:
    """The form."""
    return shown(request, "log_in", then=then, problem=None, openid=has_issuer(request))


@router.post("/log-in")
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


@router.post("/log-out")
def log_out(request: Request, form: Form) -> Response:
    """Forget the cookie, here and in the browser."""
    forgotten(request)
    response = RedirectResponse(f"{ROOT}/log-in", 303)
    for name in COOKIES:
        response.delete_cookie(name, httponly=True, secure=name.startswith("__Host-"), samesite="strict")
    return response


# Log-in at an issuer of OpenID Connect, where the chary.toml names one: there, and back.

openid_router = APIRouter()
_KEPT: Final = "chary-log-in"
_PLACE: Final = f"{ROOT}/openid"
_SECONDS: Final = 600


@openid_router.get("/openid")
def there(request: Request) -> Response:
    """To the issuer. The browser keeps what it takes to come back."""
    door = _door(request)
    begun = door.begin()
    response = RedirectResponse(begun.address, 303)
    # A browser that comes back from the issuer sends no strict cookie.
    response.set_cookie(_KEPT, begun.kept, _SECONDS, path=_PLACE, secure=door.by_https, httponly=True, samesite="lax")
    return response


@openid_router.get("/openid/back")
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
