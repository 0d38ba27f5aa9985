"""An issuer of OpenID Connect: what it tells of itself, and the keys with which it signs, as they change."""

import base64
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from chary.service.wire.problems import Refusal

_PLACE: Final = "/.well-known/openid-configuration"
_SECONDS: Final = 3.0
_LONGEST_TEXT: Final = 1_000_000
# Beside the time that each piece of an answer may take.
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
    """The discovery document and the keys of one issuer, kept for a while.

    Guarantee: only public keys for signatures that the issuer publishes now, or published within the last hour; the
    document is that of this very issuer. Errors: `Refusal` with status 503 while neither can be had: nobody is let in
    because the issuer is away.
    """

    def __init__(self, issuer: str, clock: Callable[[], float] = time.time) -> None:
        self.name, self._clock = issuer, clock
        self._lock = threading.Lock()
        self._document: Mapping[str, Any] = {}
        self._keys: Mapping[str, Key] = {}
        self._read = self._tried = -math.inf

    def key(self, name: object) -> Key | None:
        """The key of that name (`kid`), also one that is as new as this token; None if there is none."""
        # Without the lock: a flood of names that no key has holds up nobody whose key is known.
        if isinstance(name, str) and name in (keys := self._keys) and self._clock() - self._read <= _FRESH:
            return keys[name]
        with self._lock:
            if self._clock() - self._read > _FRESH or name not in self._keys:
                self._look()
            self._require()
            return self._keys.get(name) if isinstance(name, str) else None

    def place(self, name: str) -> str:
        """An address in the document, such as that of the "token_endpoint"."""
        with self._lock:
            if self._clock() - self._read > _FRESH:
                self._look()
            self._require()
            found = self._document.get(name)
        if not isinstance(found, str) or not _safe(found, self.name):
            raise Refusal(503, f"the issuer names no {name} that could be used")
        return found

    def _look(self) -> None:
        """Read document and keys; what cannot be read leaves what was there."""
        if self._clock() - self._tried < _PAUSE:
            return
        self._tried = self._clock()
        try:
            with httpx.Client(timeout=_SECONDS, follow_redirects=False, trust_env=False) as client:
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
    """The keys of a key set by name: public ones for signatures, RSA of 2048 bits or more; all others are left out.

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
    """Status and JSON of what an issuer answers; `ValueError` for what is long, takes long, or is none."""
    raw, until = bytearray(), time.monotonic() + _LONGEST_ANSWER
    with client.stream(method, place, **sent) as answer:
        for part in answer.iter_bytes():
            raw += part
            if len(raw) > _LONGEST_TEXT or time.monotonic() > until:
                raise ValueError("too much")
    return answer.status_code, json.loads(raw)


def _safe(place: str, issuer: str) -> bool:
    """Whether nobody on the way can change what is there; on this machine plain HTTP is enough."""
    return place.startswith("https://") or (issuer.startswith("http://") and place.startswith("http://"))
