"""Tokens of an issuer of OpenID Connect beside the service's own: signed claims that say who somebody is."""

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import GuestProtocol, Key

from chary.errors import InvalidParameter
from chary.ledger.records import label
from chary.service.access.bearer_tokens import BearerTokens
from chary.service.access.openid_issuer import OpenIdIssuer
from chary.service.access.roles import Principal, roles_of
from chary.service.keeping.service_store import ServiceStore
from chary.service.serving.openid_options import OpenIdOptions
from chary.service.wire.problems import Refusal

# Signatures that whoever can check them cannot make: with a shared secret, a public key could be taken for it.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LONGEST_NAME: Final = 200
_REMEMBERED: Final = 1_000
_UNREADABLE: Final = (JoseError, ValueError, TypeError, LookupError, RecursionError)


class OpenIdTokens(BearerTokens):
    """The service's own tokens, and those of an issuer.

    Guarantee: a token of the issuer is somebody's only if it is signed by one of its public keys with an asymmetric
    algorithm, names the issuer, this audience and a time at which it ends, is valid now (give or take `leeway`), and
    one of the grants fits. While the issuer is away and its keys are not known, nobody's is (`Refusal`, 503).
    """

    def __init__(self, store: ServiceStore, said: OpenIdOptions, clock: Callable[[], float] | None = None) -> None:
        super().__init__(store, clock)
        self._said, self._now = said, self._clock
        self.issuer = OpenIdIssuer(said.issuer, self._now)
        self._seen: dict[str, tuple[Principal, float]] = {}
        self._seeing = threading.Lock()

    def recognise(self, token: str) -> Principal | None:
        """Who a token stands for now; None for nobody."""
        if token.count(".") != 2:
            return super().recognise(token)
        claims = checked_claims(token, self.issuer, self._said.audience, self._said.leeway, self._now())
        who = None if claims is None else granted(self._said, claims, name_of(token))
        if who is not None and claims is not None:
            self._see(who, float(claims["exp"]))
        return who

    def holder(self, name: str) -> Principal | None:
        """Who the token of that name stands for, while it is valid; one of the issuer where this process saw it."""
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
    """The claims of a token of this issuer for this audience that is valid now; None for any other."""

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
    """Whom the claims make of somebody: the first grant that fits counts, and no other; None where none does."""
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
    """The public name of a token of an issuer, which tells nothing of it.

    It is made of what is signed: to one signature others can be made by anybody, such as (r, n - s) to (r, s) of an
    elliptic curve, and under each another name could come as often as a token may.

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
