"""Addresses: what names a file and what a server, for rows, ledgers and the service's store alike."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chary.errors import InvalidParameter

if TYPE_CHECKING:
    from sqlalchemy import URL

_SERVER: Final = "postgresql"
_SERVERS: Final = (_SERVER, "postgres", "postgresql+psycopg")
# What PostgreSQL takes for a name without quotes, within the 63 bytes that it keeps of one.
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRETS: Final = ("password", "passfile")
# Up to the last @ before the options of a URL, or at least to the first: too much is hidden rather than too little.
_PASSWORD: Final = re.compile(rf"(://[^:/@\s]*):(?:[^\s?]*|[^@\s]*)@|([?&](?:{'|'.join(_SECRETS)})=)[^&\s]*")


def is_url(place: object) -> bool:
    """Whether a place is named by a URL, rather than by a path.

    >>> is_url("sqlite:///visits.ledger"), is_url("visits.ledger")
    (True, False)
    """
    return isinstance(place, str) and "://" in place


def is_server(place: object) -> bool:
    """Whether a place is named by the URL of a server.

    >>> is_server("postgresql://reader@db.example/clinic"), is_server("visits.csv"), is_server(Path("visits.csv"))
    (True, False, False)
    """
    return isinstance(place, str) and place.partition("://")[0] in _SERVERS and is_url(place)


def place_of(text: str) -> str | Path:
    """What a text names: the URL of a server, as it is, or a file.

    >>> place_of("postgresql://db.example/privacy")
    'postgresql://db.example/privacy'
    """
    return text if is_server(text) else file_of(text)


def file_of(place: str | Path) -> Path:
    """The file behind a path, or behind a URL such as `sqlite:////data/visits.ledger`.

    Errors: `InvalidParameter` for any other URL, and for a name that no file can have.

    >>> file_of("sqlite:///visits.ledger") == file_of("visits.ledger") == Path("visits.ledger")
    True
    """
    if "\0" in str(place):
        raise InvalidParameter("there is no file with a NUL in its name")
    if not is_url(place):
        return Path(place)
    url = _read(str(place))
    if url.get_backend_name() != "sqlite" or url.query or url.database in (None, "", ":memory:"):
        raise InvalidParameter(
            "the URL of a file is written sqlite:///path, that of a server postgresql://host/database"
        )
    return Path(str(url.database))


def server_url(place: str) -> str:
    """The URL of a server as its driver reads it.

    >>> server_url("postgres://db.example/clinic")
    'postgresql://db.example/clinic'
    """
    return f"{_SERVER}://{place.partition('://')[2]}"


def database_of(place: str) -> str:
    """The name of the database in a server's URL; "server" where it has none.

    >>> database_of("postgresql://ann:p/w@db.example/clinic?sslmode=require"), database_of("postgresql://db.example")
    ('clinic', 'server')
    """
    path = re.split(r"[?#]", place.partition("://")[2])[0].rpartition("@")[2]
    return path.partition("/")[2].strip("/") or "server"


def without_password(text: str | Path) -> str:
    """A place, or another word, as it may be shown: URLs without their passwords.

    >>> without_password("postgresql://ann:secret@db.example/clinic?password=secret")
    'postgresql://ann@db.example/clinic?password='
    """
    return _PASSWORD.sub(lambda found: found[2] or f"{found[1]}@", str(text))


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database on a server. `options` are what libpq knows, such as `sslmode`; no password is shown.

    >>> Address.parse("postgresql://ann:pw@db.example/privacy?schema=visits&sslmode=require")
    Address(shown='postgresql://ann@db.example/privacy?schema=visits&sslmode=require', schema='visits')
    """

    shown: str
    schema: str
    options: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, place: str, usual: str = "chary", *, public: bool = False) -> "Address":
        """Read `postgresql://user@host/database?schema=...`; `public` allows the schema that all may share.

        Errors: `InvalidParameter` for what is no such URL. The password is best left to `~/.pgpass`.
        """
        url = _read(place)
        query = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
        schema = query.pop("schema", usual)
        if url.drivername not in _SERVERS or not url.database:
            raise InvalidParameter("the URL of a server is written postgresql://user@host/database?schema=name")
        if not _NAME.fullmatch(schema) or schema.startswith("pg_") or (schema == "public" and not public):
            raise InvalidParameter("the schema is its own: a name of small letters, digits and underscores")
        told = {"dbname": url.database, "user": url.username, "password": url.password, "host": url.host}
        named = {name: str(value) for name, value in (told | {"port": url.port}).items() if value}
        shown = url._replace(drivername=_SERVER, password=None).difference_update_query(_SECRETS)
        return cls(shown.render_as_string(), schema, query | named)


def _read(place: str) -> "URL":
    # Help of commands needs this module, and no library.
    from sqlalchemy import exc, make_url  # noqa: PLC0415

    try:
        return make_url(place)
    except (exc.ArgumentError, ValueError):
        raise InvalidParameter("the URL of a file or a server cannot be read") from None
