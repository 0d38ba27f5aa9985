"""Logging in with a browser at an issuer of OpenID Connect: authorization code, with PKCE, state and nonce."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx

from chary.errors import InvalidParameter
from chary.service.access.openid_issuer import answered
from chary.service.access.openid_tokens import OpenIdTokens, checked_claims, granted
from chary.service.access.roles import Principal
from chary.service.serving.openid_options import OpenIdOptions
from chary.service.serving.service_config import ServiceConfig
from chary.service.wire.problems import Refusal

_BYTES: Final = 32
_SECONDS: Final = 5.0
# So long may somebody take to log in at the issuer.
_LONGEST: Final = 600.0
# The service's own token of somebody who logged in.
_DAYS: Final = 1


@dataclass(frozen=True)
class Begun:
    """A log-in that was begun: the address at which it goes on, and what the browser keeps meanwhile.

    `kept` belongs into a cookie that is HttpOnly, Secure and SameSite=Lax (with Strict it would not come back from the
    issuer), for ten minutes.
    """

    address: str
    kept: str


class OpenIdLogIn:
    """Takes somebody to the issuer and back.

    Guarantee: `finish` lets in only the browser in which it was begun, once (the issuer takes a code once), and only
    somebody whom a grant fits; what the issuer says is checked like any token, with the nonce of this log-in. Whoever
    is in has a token of the service's own for a day, which custodians see in their list and may revoke.
    """

    def __init__(
        self,
        said: OpenIdOptions,
        tokens: OpenIdTokens,
        secret: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if said.client_id is None or said.redirect is None:
            raise InvalidParameter("to log in with a browser, name client-id and redirect in [service.openid]")
        self._client, self._redirect = said.client_id, said.redirect
        self._said, self._tokens, self._secret, self._clock = said, tokens, secret, clock

    @property
    def by_https(self) -> bool:
        """Whether browsers come back by HTTPS, so that their cookies are for HTTPS alone."""
        return self._redirect.startswith("https://")

    def begin(self) -> Begun:
        """Begin: send the browser to `address`, and let it keep `kept`."""
        state, nonce, verifier = (secrets.token_urlsafe(_BYTES) for _ in range(3))
        asked = {"response_type": "code", "scope": "openid", "client_id": self._client, "redirect_uri": self._redirect}
        asked |= {
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        place = self._tokens.issuer.place("authorization_endpoint")
        address = f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"
        return Begun(address, f"{state}.{nonce}.{verifier}.{int(self._clock())}")

    def check(self, kept: str, said: Mapping[str, str]) -> None:
        """`Refusal` with status 403 unless this browser was sent to the issuer and comes back; nobody is asked."""
        self._began(kept, said.get("state", ""))

    def finish(self, kept: str, said: Mapping[str, str]) -> Principal:
        """Who came back: `kept` as the browser kept it, `said` the query with which the issuer sent it here.

        Errors: `Refusal` with status 403 for whoever is not let in, 503 while the issuer does not answer.
        """
        nonce, verifier = self._began(kept, said.get("state", ""))
        if said.get("iss", self._said.issuer) != self._said.issuer or "error" in said or not said.get("code"):
            raise Refusal(403, "the issuer let nobody in: begin again")
        claims = self._claims(self._exchanged(said["code"], verifier), nonce)
        who = granted(self._said, claims, "log-in")
        if who is None:
            raise Refusal(403, "this account has no role here: ask whoever keeps the service for one")
        token = self._tokens.make(who.analyst, roles=sorted(who.roles), datasets=sorted(who.datasets), days=_DAYS)
        found = self._tokens.recognise(token)
        if found is None:
            raise Refusal(503, "the token of this log-in is not valid any more")
        return found

    def _began(self, kept: str, state: str) -> tuple[str, str]:
        try:
            ours, nonce, verifier, began = kept.split(".")
            same = hmac.compare_digest(ours.encode(), state.encode()) and self._clock() - int(began) <= _LONGEST
        except ValueError:
            same = False
        if not same:
            raise Refusal(403, "this log-in was not begun in this browser, or too long ago: begin again")
        return nonce, verifier

    def _exchanged(self, code: str, verifier: str) -> str:
        place = self._tokens.issuer.place("token_endpoint")
        sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect}
        sent |= {"client_id": self._client, "code_verifier": verifier}
        # As RFC 6749 wants both parts, encoded before they are joined.
        known = None if self._secret is None else (quote(self._client, safe=""), quote(self._secret, safe=""))
        try:
            with httpx.Client(auth=known, timeout=_SECONDS, follow_redirects=False, trust_env=False) as client:
                status, told = answered(client, "POST", place, data=sent)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            raise Refusal(503, "the issuer does not answer: begin again later") from None
        found = told.get("id_token") if isinstance(told, dict) and status == 200 else None
        if not isinstance(found, str):
            raise Refusal(403, "the issuer did not take this log-in: begin again")
        return found

    def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        claims = checked_claims(token, self._tokens.issuer, self._client, self._said.leeway, self._clock())
        if claims is None or claims.get("nonce") != nonce or claims.get("azp", self._client) != self._client:
            raise Refusal(403, "what the issuer says of this log-in is not valid: begin again")
        return claims


def log_in_of(config: ServiceConfig, tokens: OpenIdTokens) -> OpenIdLogIn | None:
    """The log-in that a chary.toml names; None where it names none. `InvalidParameter` for a secret that is missing."""
    said = config.service.openid
    if said is None or said.client_id is None:
        return None
    secret = None
    if said.client_secret_file is not None:
        file = config.folder / said.client_secret_file
        secret = file.read_text().strip() if file.is_file() else ""
        if not secret:
            raise InvalidParameter("client-secret-file of [service.openid] is no file with a secret")
    return OpenIdLogIn(said, tokens, secret)


def challenge(verifier: str) -> str:
    """What is sent ahead of a verifier (RFC 7636, S256).

    >>> challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
