"""Log-in by OpenID: the issuer, its tokens, and the code flow."""

import base64
import hashlib
import hmac
import json
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import GuestProtocol, Key, import_key

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.ledger.records import label
from chary.service.auth.tokens import BearerTokens, Principal, roles_of
from chary.service.config import OpenIdOptions, ServiceConfig
from chary.service.store import ServiceStore

# An issuer of OpenID Connect: its discovery document and its signing keys.

_PLACE: Final = "/.well-known/openid-configuration"
_ISSUER_SECONDS: Final = 3.0
_LONGEST_TEXT: Final = 1_000_000
# Seconds for a whole answer; each read has a timeout as well.
_LONGEST_ANSWER: Final = 10.0
# Keys are looked up again after ten minutes, and for one that is not known yet; not more often than every ten seconds,
# whoever sends what. Keys of an issuer that is silent are good for another fifty minutes.
_FRESH: Final = 600.0
_PAUSE: Final = 10.0
_STALE: Final = 3600.0
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
_PRIVATE: Final = frozenset({"d", "k", "p", "q"})
_LEAST_RSA_BITS: Final = 2048


class OpenIdIssuer:
    """The discovery document and the keys of one issuer, cached.

    Guarantee: it returns only public signing keys that the issuer publishes now, or published within the last hour, and
    a document that names this issuer. Errors: `Refusal` with status 503 if neither is available, so nobody gets in
    because the issuer is down.
    """

    def __init__(self, issuer: str, clock: Callable[[], float] = time.time) -> None:
        self.name, self._clock = issuer, clock
        self._lock = threading.Lock()
        self._document: Mapping[str, Any] = {}
        self._keys: Mapping[str, Key] = {}
        self._read = self._tried = -math.inf

    def key(self, name: object) -> Key | None:
        """The key with that `kid`, even if it is as new as this token; None if there is none."""
        # Outside the lock, so that a flood of unknown names does not delay tokens with a known key.
        if isinstance(name, str) and name in (keys := self._keys) and self._clock() - self._read <= _FRESH:
            return keys[name]
        with self._lock:
            if self._clock() - self._read > _FRESH or name not in self._keys:
                self._look()
            self._require()
            return self._keys.get(name) if isinstance(name, str) else None

    def place(self, name: str) -> str:
        """An address in the document, such as the "token_endpoint"."""
        with self._lock:
            if self._clock() - self._read > _FRESH:
                self._look()
            self._require()
            found = self._document.get(name)
        if not isinstance(found, str) or not _safe(found, self.name):
            raise Refusal(503, f"the issuer names no {name} that could be used")
        return found

    def _look(self) -> None:
        """Read document and keys; if that fails, the cached ones stay."""
        if self._clock() - self._tried < _PAUSE:
            return
        self._tried = self._clock()
        try:
            with httpx.Client(timeout=_ISSUER_SECONDS, follow_redirects=False, trust_env=False) as client:
                document = _told(client, self.name.rstrip("/") + _PLACE)
                place = document.get("jwks_uri")
                if document.get("issuer") != self.name or not isinstance(place, str) or not _safe(place, self.name):
                    return
                keys = public_keys(_told(client, place))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            return
        self._document, self._keys, self._read = document, keys, self._clock()

    def _require(self) -> None:
        if self._clock() - self._read > _STALE:
            raise Refusal(503, "the issuer of tokens does not answer, so that none can be checked", Retry_After="10")


def public_keys(told: Mapping[str, Any]) -> dict[str, Key]:
    """The public signing keys of a key set by `kid`, RSA from 2048 bits on; all others are left out.

    >>> public_keys({"keys": [{"kty": "oct", "kid": "1", "k": "AAAA"}]})
    {}
    """
    keys = told.get("keys")
    usable = [each for each in keys if _usable(each)] if isinstance(keys, list) else []
    return {each["kid"]: key for each in reversed(usable) if (key := _read_key(each)) is not None}


def _usable(each: Any) -> bool:
    if not isinstance(each, dict) or not isinstance(each.get("kid"), str) or str(each.get("kty")) not in _KINDS:
        return False
    return each.get("use", "sig") == "sig" and not _PRIVATE & each.keys()


def _read_key(each: dict[str, Any]) -> Key | None:
    try:
        return import_key(each) if each["kty"] != "RSA" or _bits(each["n"]) >= _LEAST_RSA_BITS else None
    except (JoseError, ValueError, TypeError, LookupError):
        return None


def _bits(modulus: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(f"{modulus}==")).bit_length()


def _told(client: httpx.Client, place: str) -> dict[str, Any]:
    status, told = answered(client, "GET", place, headers={"Accept": "application/json"})
    if status != 200 or not isinstance(told, dict):
        raise ValueError("no document")
    return told


def answered(client: httpx.Client, method: str, place: str, **sent: Any) -> tuple[int, Any]:
    """Status and JSON of an issuer's answer; `ValueError` if it is too long, too slow, or not JSON."""
    raw, until = bytearray(), time.monotonic() + _LONGEST_ANSWER
    with client.stream(method, place, **sent) as answer:
        for part in answer.iter_bytes():
            raw += part
            if len(raw) > _LONGEST_TEXT or time.monotonic() > until:
                raise ValueError("too much")
    return answer.status_code, json.loads(raw)


def _safe(place: str, issuer: str) -> bool:
    """Whether the connection cannot be tampered with; on this machine plain HTTP is enough."""
    return place.startswith("https://") or (issuer.startswith("http://") and place.startswith("http://"))


# Tokens of an issuer of OpenID Connect beside the service's own: signed claims that say who somebody is.

# Asymmetric algorithms only: with symmetric ones a public key could be misused as the shared secret.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LONGEST_NAME: Final = 200
_REMEMBERED: Final = 1_000
_UNREADABLE: Final = (JoseError, ValueError, TypeError, LookupError, RecursionError)


class OpenIdTokens(BearerTokens):
    """The service's own tokens, and those of an issuer.

    Guarantee: a token of the issuer is accepted only if one of its public keys signed it with an asymmetric algorithm.
    It must name the issuer, this audience and its expiry, be valid now (give or take `leeway`), and fit one of the
    grants. If the issuer is down and its keys are not cached, no token is accepted (`Refusal`, 503).
    """

    def __init__(self, store: ServiceStore, said: OpenIdOptions, clock: Callable[[], float] | None = None) -> None:
        super().__init__(store, clock)
        self._said, self._now = said, self._clock
        self.issuer = OpenIdIssuer(said.issuer, self._now)
        self._seen: dict[str, tuple[Principal, float]] = {}
        self._seeing = threading.Lock()

    def recognise(self, token: str) -> Principal | None:
        """The principal of a token; None if it is not valid."""
        if token.count(".") != 2:
            return super().recognise(token)
        claims = checked_claims(token, self.issuer, self._said.audience, self._said.leeway, self._now())
        who = None if claims is None else granted(self._said, claims, name_of(token))
        if who is not None and claims is not None:
            self._see(who, float(claims["exp"]))
        return who

    def holder(self, name: str) -> Principal | None:
        """The principal of the token of that name, while it is valid; for tokens of the issuer only if this process saw
        it.
        """
        who, until = self._seen.get(name, (None, 0.0))
        return who if who is not None and self._now() < until else super().holder(name)

    def _see(self, who: Principal, until: float) -> None:
        with self._seeing:
            if len(self._seen) >= _REMEMBERED:
                self._seen = {name: seen for name, seen in self._seen.items() if seen[1] > self._now()}
            if len(self._seen) < _REMEMBERED:
                self._seen[who.token] = who, until


def checked_claims(
    token: str, issuer: OpenIdIssuer, audience: str, leeway: int, now: float
) -> Mapping[str, Any] | None:
    """The claims of a valid token of this issuer for this audience; None for any other."""

    def key(guest: GuestProtocol) -> Key:
        found = issuer.key(guest.headers().get("kid"))
        if found is None:
            raise InvalidKeyIdError("no key of that name")
        return found

    one: Any = {"essential": True}
    rules = jwt.JWTClaimsRegistry(
        now=int(now), leeway=leeway, iss=one | {"value": issuer.name}, aud=one | {"value": audience}, exp=one, sub=one
    )
    try:
        found = jwt.decode(token, key, algorithms=ALGORITHMS)
        rules.validate(found.claims)
        kind = str(found.header.get("typ", "jwt")).lower()
    except Refusal:
        raise
    except _UNREADABLE:
        return None
    return found.claims if kind in _TYPES else None


def granted(said: OpenIdOptions, claims: Mapping[str, Any], name: str) -> Principal | None:
    """The principal of these claims, by the first grant that fits; None if none fits."""
    fits = next((each for each in said.grant if _holds(claims, each.claim, each.value)), None)
    analyst = _at(claims, said.analyst)
    if fits is None or not isinstance(analyst, str) or len(analyst) > _LONGEST_NAME or not analyst.isprintable():
        return None
    try:
        label(analyst, "analyst")
    except InvalidParameter:
        return None
    return Principal(name, analyst, roles_of(list(fits.roles)), frozenset(fits.datasets))


def name_of(token: str) -> str:
    """The public name of a token of an issuer, which reveals nothing of it.

    It is a hash of the signed part. A signature would not do: anybody can derive other valid ones, such as (r, n - s)
    from (r, s) of an elliptic curve, so one token could have several names.

    >>> name_of("a.b.c") == name_of("a.b.d")
    True
    """
    signed = token.rpartition(".")[0]
    return f"openid-{hashlib.sha256(signed.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _holds(claims: Mapping[str, Any], claim: str, value: str) -> bool:
    found = _at(claims, claim)
    return value in found if isinstance(found, list) else found == value


def _at(claims: Mapping[str, Any], claim: str) -> Any:
    """A claim by its name, or by a path such as "realm_access.roles"."""
    if claim in claims:
        return claims[claim]
    found: Any = claims
    for part in claim.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


# Logging in with a browser at an issuer of OpenID Connect: authorization code, with PKCE, state and nonce.

_BYTES: Final = 32
_SECONDS: Final = 5.0
# Seconds for a log-in at the issuer.
_LONGEST: Final = 600.0
# The service's own token after a log-in.
_DAYS: Final = 1


@dataclass(frozen=True)
class Begun:
    """A log-in that has begun: the address to go to, and what the browser keeps meanwhile.

    `kept` belongs into a cookie that is HttpOnly, Secure and SameSite=Lax (with Strict it would not come back from the
    issuer), for ten minutes.
    """

    address: str
    kept: str


class OpenIdLogIn:
    """Logs somebody in at the issuer.

    Guarantee: `finish` accepts only the browser that began, once, and only somebody whom a grant fits. The token of the
    issuer is checked like any other, with the nonce of this log-in. A visitor who is logged in has a token of the
    service's own for a day; custodians see it in their list and may revoke it.
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
        """Whether browsers come back by HTTPS, so that cookies are set for HTTPS alone."""
        return self._redirect.startswith("https://")

    def begin(self) -> Begun:
        """Begin a log-in: send the browser to `address`, and let it keep `kept`."""
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
        """`Refusal` with status 403 unless this browser began the log-in; the issuer is not asked."""
        self._began(kept, said.get("state", ""))

    def finish(self, kept: str, said: Mapping[str, str]) -> Principal:
        """The principal who comes back: `kept` from the browser's cookie, `said` the query of the issuer's redirect.

        Errors: `Refusal` with status 403 if the log-in fails, 503 if the issuer does not answer.
        """
        nonce, verifier = self._began(kept, said.get("state", ""))
        if said.get("iss", self._said.issuer) != self._said.issuer or "error" in said or not said.get("code"):
            raise Refusal(403, "the issuer let nobody in: begin again")
        claims = self._claims(self._exchanged(said["code"], verifier), nonce)
        who = granted(self._said, claims, "log-in")
        if who is None:
            raise Refusal(403, "this account has no role here: ask the owner of the service for one")
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
        # RFC 6749: both parts are encoded before they are joined.
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
    """The log-in of a chary.toml; None if it has none. `InvalidParameter` for a missing secret."""
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
    """The challenge of a verifier (RFC 7636, S256).

    >>> challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
