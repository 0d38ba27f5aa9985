"""The address of a ledger on a PostgreSQL server, for which its driver need not be there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from chary.errors import LedgerError

_SCHEMES = ("postgresql", "postgresql+psycopg")
_USUAL = "chary"
# What PostgreSQL takes for a name without quotes, within the 63 bytes that it keeps of one.
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database: each ledger is a schema of its own. `options` are what libpq knows, such as `sslmode`.

    >>> Address.parse("postgresql://ann:pw@db.example/privacy?schema=visits&sslmode=require")
    Address(shown='postgresql://ann@db.example/privacy?schema=visits&sslmode=require', schema='visits')
    """

    shown: str
    schema: str
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, target: str) -> Address:
        """Read `postgresql://user@host/database?schema=...`; the schema is "chary" by default.

        Errors: `LedgerError` for what is no such URL. The password, best left to `~/.pgpass`, is never shown again.
        """
        try:
            url = make_url(target)
        except (ArgumentError, ValueError):
            raise LedgerError("the ledger's URL cannot be read") from None
        query = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
        schema = query.pop("schema", _USUAL)
        if url.drivername not in _SCHEMES or not url.database:
            raise LedgerError("a ledger's URL is written postgresql://user@host/database?schema=name")
        if not _NAME.fullmatch(schema) or schema.startswith("pg_") or schema == "public":
            raise LedgerError("the schema of a ledger is its own: a name of small letters, digits and underscores")
        told = {"dbname": url.database, "user": url.username, "password": url.password, "host": url.host}
        named = {name: str(value) for name, value in (told | {"port": url.port}).items() if value}
        shown = url._replace(drivername=_SCHEMES[0], password=None).difference_update_query(["password", "passfile"])
        return cls(shown.render_as_string(), schema, query | named)


def is_address(target: object) -> bool:
    """Whether a ledger is named by the URL of a server, rather than by a file.

    >>> is_address("postgresql://db.example/privacy"), is_address("visits.ledger")
    (True, False)
    """
    return isinstance(target, str) and target.split("://")[0] in _SCHEMES and "://" in target
