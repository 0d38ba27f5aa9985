"""Who is logged in: cookies that stand for tokens, as long as the tokens are valid."""

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

from fastapi import Request
from sqlalchemy import delete, insert, select

from chary.service.access.roles import Principal
from chary.service.api.service_state import service_of
from chary.service.keeping.service_store import ServiceStore
from chary.service.keeping.service_tables import LOGGED_IN
from chary.service.wire.problems import Refusal

# A working day; then the token is asked for again.
LONGEST: Final = 12 * 3600
_BYTES: Final = 32


class NotLoggedIn(Refusal):
    """Nobody is logged in, or no longer: the page asks for a token."""

    def __init__(self) -> None:
        super().__init__(401, "log in first")


class LogIns:
    """Cookies by which browsers are known.

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
