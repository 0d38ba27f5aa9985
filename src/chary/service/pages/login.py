"""Log-in by token in the browser."""

import re
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from chary.client.problems import Refusal
from chary.service.http.admission import admitted, recognised
from chary.service.pages.browser import COOKIES, Form, by_https, forgotten, log_ins
from chary.service.pages.frame import ROOT, shown
from chary.service.state import service_of

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
