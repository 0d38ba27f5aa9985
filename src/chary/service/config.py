"""The configuration of a service: options of `chary.toml` and of an OpenID issuer, read strictly."""

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from pydantic import Field, field_validator

from chary.addresses import is_server
from chary.config import DatasetOptions, Placed, StrictOptions, checked, read
from chary.errors import InvalidParameter
from chary.service.auth.tokens import roles_of
from chary.session.opening import usual_ledger

# What a chary.toml says of an issuer of OpenID Connect, and which of its people may what.
#
# [service.openid] issuer = "https://login.example.org/realms/office" audience = "chary" analyst = "preferred_username"
# # the claim that names the analyst; default: sub
#
# [[service.openid.grant]]              # the first one that fits counts, and no other claim = "realm_access.roles"
# value = "statistics" roles = ["analyst"] datasets = ["visits"]

# Over plain HTTP anybody on the way could name other keys.
ADDRESS = r"^(https://[^\s?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s?#]*)?)$"


class Grant(StrictOptions):
    """Whoever has this value in this claim has these roles for these datasets ("*" is all of them)."""

    claim: str = Field(min_length=1)
    value: str = Field(min_length=1)
    roles: tuple[str, ...]
    datasets: tuple[str, ...] = Field(min_length=1)

    @field_validator("roles")
    @classmethod
    def _known(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        roles_of(list(roles))
        return roles


class OpenIdOptions(StrictOptions):
    """The issuer, what its tokens must say, and what is needed to log in with a browser. `leeway` is in seconds."""

    issuer: str = Field(pattern=ADDRESS)
    audience: str = Field(min_length=1)
    analyst: str = Field(default="sub", min_length=1)
    leeway: int = Field(default=30, ge=0, le=300)
    grant: tuple[Grant, ...] = Field(min_length=1)
    client_id: str | None = None
    client_secret_file: Path | None = None
    redirect: str | None = Field(default=None, pattern=ADDRESS)


# What a chary.toml says of a service: where it listens, whom it tells, and which datasets it serves.
#
#     [service]
#     port = 8321
#     store = "service.db"                  # its own database: tokens, audit trail, standing questions
#
#     [service.webhook.ops]
#     url = "https://ops.example.org/chary"
#     secret-file = "ops.secret"            # at least 24 bytes
#
#     [dataset.visits]                      # as `chary.config` has it
#     share-answers = true                  # whoever repeats a question has its answer, for free

_SHORTEST_SECRET: Final = 24


class Webhook(StrictOptions):
    """A place that may be told of hits, and the file that holds the secret for its signatures."""

    url: str = Field(pattern=r"^https?://[^\s]+$")
    secret_file: Path


class ServiceOptions(StrictOptions):
    """Where and how the service runs. Sizes in bytes, times in seconds, rates in requests a second."""

    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65_535)
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    store: str = "chary-service.db"
    ledger: str | None = None
    workers: int = Field(default=1, ge=1, le=64)
    threads: int = Field(default=4, ge=1, le=64)
    calls_each: int = Field(default=32, ge=1)
    patience: float = Field(default=1.0, ge=0, le=60)
    quote_seconds: float = Field(default=30.0, gt=0)
    body_bytes: int = Field(default=1_000_000, ge=1_000)
    rows_bytes: int = Field(default=50_000_000, ge=1_000)
    body_seconds: float = Field(default=10.0, gt=0)
    head_seconds: float = Field(default=10.0, gt=0)
    rate: float = Field(default=50.0, gt=0)
    burst: float = Field(default=200.0, ge=1)
    stop_seconds: float = Field(default=20.0, ge=0)
    webhook: Mapping[str, Webhook] = Field(default_factory=dict)
    openid: OpenIdOptions | None = None
    proxies: tuple[str, ...] = ()

    @field_validator("proxies")
    @classmethod
    def _few(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        """Addresses and networks; not all of the world, since whoever is trusted may say where a request came from."""
        if any(ip_network(each).prefixlen == 0 for each in proxies):
            raise ValueError("name the addresses of your own proxies")
        return proxies


class ServiceConfig(Placed):
    """A whole chary.toml, as the service reads it."""

    service: ServiceOptions = Field(default_factory=lambda: ServiceOptions())
    dataset: Mapping[str, DatasetOptions]

    @field_validator("dataset")
    @classmethod
    def _files(cls, datasets: Mapping[str, DatasetOptions]) -> Mapping[str, DatasetOptions]:
        if nowhere := [name for name, said in datasets.items() if said.file is None]:
            raise ValueError(f"{nowhere[0]} has no file")
        if elsewhere := [name for name, said in datasets.items() if said.engine is not None]:
            raise ValueError(f"{elsewhere[0]} names an engine, which only commands can ask: leave engine out")
        return datasets

    def file(self, dataset: str) -> str:
        """Where the rows of a dataset are, as the chary.toml has it."""
        return self.dataset[dataset].file or ""

    def ledger(self, dataset: str) -> str:
        """Where the ledger of a dataset is, as the chary.toml has it; beside its file where nothing is said."""
        return self.dataset[dataset].ledger or self.service.ledger or usual_ledger(self.file(dataset))

    def shared(self, dataset: str) -> bool:
        """Whether the rows of a dataset are those of a server, so that each process sees what another one appends."""
        return is_server(self.file(dataset))

    def secret(self, webhook: str) -> bytes:
        """The secret for the signatures of a webhook; `InvalidParameter` for a short or missing one."""
        file = self.folder / self.service.webhook[webhook].secret_file
        secret = file.read_bytes().strip() if file.is_file() else b""
        if len(secret) < _SHORTEST_SECRET:
            raise InvalidParameter(f"the secret of webhook {webhook!r} is a file of at least {_SHORTEST_SECRET} bytes")
        return secret


def service_config(place: Path) -> ServiceConfig:
    """Read a chary.toml; `InvalidParameter` that names the option for what it cannot say."""
    found = read(place.absolute())
    datasets = {name: found.options(name) for name in found.dataset}
    return configured({"folder": found.folder, "service": found.service, "dataset": datasets}, str(place))


def configured(said: Mapping[str, Any], place: str) -> ServiceConfig:
    """What was said, checked."""
    return checked(ServiceConfig, said, place)
