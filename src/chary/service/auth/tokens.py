"""Roles, and bearer tokens that are kept as hashes."""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import insert, select, update

from chary.errors import InvalidParameter
from chary.ledger.records import label
from chary.numbers import whole
from chary.service.store import TOKENS, ServiceStore

# Three roles, and for each action the roles that permit it.


class Role(StrEnum):
    """The role of a principal for a dataset.

    >>> [str(role) for role in Role]
    ['custodian', 'analyst', 'reader']
    """

    CUSTODIAN = "custodian"
    ANALYST = "analyst"
    READER = "reader"


EVERYBODY: Final = frozenset(Role)
_CUSTODIAN: Final = frozenset({Role.CUSTODIAN})
_ANALYST: Final = frozenset({Role.ANALYST})
# Only analysts ask: a custodian who also asks has a token with both roles, which the audit trail shows.
ACTIONS: Final[Mapping[str, frozenset[Role]]] = {
    "look": EVERYBODY,
    "history": EVERYBODY,
    "ask": _ANALYST,
    "stand": _ANALYST,
    "append": _CUSTODIAN,
    "cap": _CUSTODIAN,
    "publish": _CUSTODIAN,
    "tokens": _CUSTODIAN,
    "trail": _CUSTODIAN,
    "metrics": frozenset({Role.CUSTODIAN, Role.READER}),
}


@dataclass(frozen=True)
class Principal:
    """The owner of a token: the analyst's name in the ledger, roles, and datasets ("*" is all of them).

    >>> alice = Principal("1f", "alice", frozenset({Role.ANALYST}), frozenset({"visits"}))
    >>> alice.may("ask"), alice.may("append"), alice.sees("visits"), alice.sees("votes")
    (True, False, True, False)
    """

    token: str
    analyst: str
    roles: frozenset[Role]
    datasets: frozenset[str]

    def may(self, action: str) -> bool:
        """Whether one of the roles permits this action."""
        return bool(self.roles & ACTIONS[action])

    def sees(self, dataset: str) -> bool:
        """Whether the token is for this dataset."""
        return "*" in self.datasets or dataset in self.datasets

    @property
    def origin(self) -> str:
        """The origin of ledger entries made with this token: its name, never its secret."""
        return f"token {self.token}"

    @property
    def everywhere(self) -> bool:
        """Whether the token is for all datasets."""
        return "*" in self.datasets

    @property
    def custodian(self) -> bool:
        """Whether the principal is shown the calls of all analysts."""
        return Role.CUSTODIAN in self.roles


# Who types commands where the service runs has no token.
OPERATOR: Final = Principal("", "operator", frozenset(), frozenset())


def roles_of(names: object) -> frozenset[Role]:
    """Roles from their names; `InvalidParameter` for unknown names and for none.

    >>> sorted(roles_of(["reader", "analyst"]))
    [<Role.ANALYST: 'analyst'>, <Role.READER: 'reader'>]
    """
    known = {role.value: role for role in Role}
    if not isinstance(names, (list, tuple)) or not names or any(name not in known for name in map(str, names)):
        raise InvalidParameter(f"roles are one or more of {', '.join(known)}")
    return frozenset(known[str(name)] for name in names)


# Tokens: shown once, kept as digests, expiring, revocable, for some datasets.

PREFIX: Final = "chary"
_DAY: Final = 86_400
_LONGEST_DAYS: Final = 3_650
_SECRET_BYTES: Final = 32
_NAME_BYTES: Final = 8
_NAME: Final = re.compile(rf"[0-9a-f]{{{2 * _NAME_BYTES}}}")
# A secret of 256 random bits cannot be guessed however fast its digest is. It is fast, so that a right token is
# recognised at once, whoever sends wrong ones meanwhile.
_DIGEST: Final = "sha256:"
# Earlier versions kept slow hashes; a token of theirs has a digest from its first use on.
_HASHER: Final = PasswordHasher()


@dataclass(frozen=True)
class TokenRecord:
    """A token without its secret. Times are in seconds since 1970."""

    token: str
    analyst: str
    roles: tuple[str, ...]
    datasets: tuple[str, ...]
    created: float
    expires: float
    revoked: float | None


class BearerTokens:
    """Makes, lists, revokes and checks tokens.

    A token reads `chary_NAME_SECRET`. Its name is public; its secret is shown once and stored nowhere. Guarantee: a
    token that is unknown, expired, revoked or has a wrong secret is refused, and the time this takes reveals nothing
    about a secret.
    """

    def __init__(self, store: ServiceStore, clock: Callable[[], float] | None = None) -> None:
        self._store, self._clock = store, clock or store.now

    def make(self, analyst: str, *, roles: Any, datasets: Iterable[str], days: int) -> str:
        """A new token, shown only this once. `datasets` may contain "*"."""
        label(analyst, "analyst")
        kept = sorted({label(name, "dataset") for name in datasets})
        if not kept:
            raise InvalidParameter('a token is for some datasets, such as datasets=["visits"]')
        if whole(days, "days") > _LONGEST_DAYS:
            raise InvalidParameter(f"days are at most {_LONGEST_DAYS}")
        name, secret, now = secrets.token_hex(_NAME_BYTES), secrets.token_urlsafe(_SECRET_BYTES), self._clock()
        row = {"token": name, "hashed": _digest(secret), "analyst": analyst, "created": now}
        row |= {"roles": json.dumps(sorted(roles_of(roles))), "datasets": json.dumps(kept)}
        self._store.change(insert(TOKENS).values(**row, expires=now + days * _DAY))
        return f"{PREFIX}_{name}_{secret}"

    def recognise(self, token: str) -> Principal | None:
        """The principal of a token; None if it is not valid."""
        name, secret = _parts(token)
        found = self._found(name)
        if found is None or not self._genuine(secret, found) or not self._valid(found):
            return None
        return _principal(found)

    def tried(self, token: str) -> str | None:
        """The name in a token, whether or not its secret is right; None if no token of that name was made here."""
        name, _ = _parts(token)
        return name if self.keeps(name) else None

    def all(self) -> list[TokenRecord]:
        """All tokens, oldest first."""
        return [_record(row) for row in self._store.rows(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.token))]

    def holder(self, name: str) -> Principal | None:
        """The principal of the token of that name, while it is valid."""
        found = self._found(name)
        if found is None or not self._valid(found):
            return None
        return _principal(found)

    def keeps(self, name: str) -> bool:
        """Whether a token of that name was made here, valid or not."""
        return self._found(name) is not None

    def revoke(self, name: str) -> bool:
        """Revoke a token; returns whether there was one."""
        statement = update(TOKENS).where(TOKENS.c.token == name, TOKENS.c.revoked.is_(None))
        return self._store.change(statement.values(revoked=self._clock())) > 0

    def _found(self, name: str) -> Any:
        found = self._store.rows(select(TOKENS).where(TOKENS.c.token == name)) if _NAME.fullmatch(name) else []
        return found[0] if found else None

    def _valid(self, found: Any) -> bool:
        return found.revoked is None and self._clock() < found.expires

    def _genuine(self, secret: str, found: Any) -> bool:
        """Whether the secret is that of the token."""
        digest = _digest(secret)
        if found.hashed.startswith(_DIGEST):
            return hmac.compare_digest(found.hashed, digest)
        try:
            _HASHER.verify(found.hashed, secret)
        except (VerificationError, InvalidHashError):
            return False
        same = TOKENS.c.token == found.token, TOKENS.c.hashed == found.hashed
        self._store.change(update(TOKENS).where(*same).values(hashed=digest))
        return True


def _parts(token: str) -> tuple[str, str]:
    """The name and the secret of a token, both empty if it is malformed."""
    prefix, _, rest = token.partition("_")
    name, _, secret = rest.partition("_")
    return (name, secret) if prefix == PREFIX else ("", "")


def _digest(secret: str) -> str:
    return _DIGEST + hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _principal(row: Any) -> Principal:
    return Principal(row.token, row.analyst, roles_of(json.loads(row.roles)), frozenset(json.loads(row.datasets)))


def _record(row: Any) -> TokenRecord:
    roles = tuple(str(Role(role)) for role in json.loads(row.roles))
    return TokenRecord(
        row.token, row.analyst, roles, tuple(json.loads(row.datasets)), row.created, row.expires, row.revoked
    )
