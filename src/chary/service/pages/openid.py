"""Log-in by OpenID in the browser."""

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from chary.client.problems import Refusal
from chary.service.http.admission import log_in_tried
from chary.service.pages.browser import COOKIES, log_ins
from chary.service.pages.frame import ROOT, shown
from chary.service.state import service_of

if TYPE_CHECKING:  # it needs the extra oidc
    from chary.service.auth.openid import OpenIdLogIn

router = APIRouter()
_KEPT: Final = "chary-log-in"
_PLACE: Final = f"{ROOT}/openid"
_SECONDS: Final = 600


@router.get("/openid")
def there(request: Request) -> Response:
    """To the issuer. The browser keeps what it takes to come back."""
    door = _door(request)
    begun = door.begin()
    response = RedirectResponse(begun.address, 303)
    # A browser that comes back from the issuer sends no strict cookie.
    response.set_cookie(_KEPT, begun.kept, _SECONDS, path=_PLACE, secure=door.by_https, httponly=True, samesite="lax")
    return response


@router.get("/openid/back")
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
