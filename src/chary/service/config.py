"""The configuration of a service: options of `chary.toml` and of an OpenID issuer, read strictly."""

import re
from collections.abc import Mapping
from email.errors import MessageError
from email.headerregistry import Address
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

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
    """Anyone who has this value in this claim has these roles for these datasets ("*" is all of them)."""

    claim: str = Field(min_length=1, description="The claim of the token that is looked at.")
    value: str = Field(min_length=1, description="The value that the claim must have.")
    roles: tuple[str, ...] = Field(description="custodian, analyst or reader: what its people may do.")
    datasets: tuple[str, ...] = Field(min_length=1, description="For which datasets.")

    @field_validator("roles")
    @classmethod
    def _known(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        roles_of(list(roles))
        return roles


class OpenIdOptions(StrictOptions):
    """The issuer, what its tokens must say, and what is needed to log in with a browser. `leeway` is in seconds."""

    issuer: str = Field(pattern=ADDRESS, description="The address of the issuer.")
    audience: str = Field(min_length=1, description="The audience that its tokens must name.")
    analyst: str = Field(default="sub", min_length=1, description="The claim that names the analyst.")
    leeway: int = Field(default=30, ge=0, le=300, description="By how many seconds clocks may differ.")
    grant: tuple[Grant, ...] = Field(min_length=1, description="Roles by claims of a token, as tables of this name.")
    client_id: str | None = Field(default=None, description="The client of the page, for a login in a browser.")
    client_secret_file: Path | None = Field(default=None, description="The file with the secret of that client.")
    redirect: str | None = Field(default=None, pattern=ADDRESS, description="Where the issuer sends a browser back to.")


# What a chary.toml says of a service: where it listens, whom it tells, and which datasets it serves.
#
#     [service]
#     port = 8321
#     store = "service.db"                  # its own database: tokens, audit trail, subscriptions
#
#     [service.webhook.ops]                 # what finds are sent to: `webhook="ops"` of a subscription
#     url = "https://ops.example.org/chary"
#     secret-file = "ops.secret"            # at least 24 bytes, for the signatures
#
#     [service.webhook.chat]
#     form = "slack"                        # also what Mattermost and Rocket.Chat take
#     secret-file = "chat.url"              # the URL is the secret; or url = "https://..."
#
#     [service.webhook.duty]
#     form = "pagerduty"                    # url = that of PagerDuty, or of what takes the same
#     secret-file = "duty.key"              # the integration key, which goes into each event as its routing_key
#
#     [service.mail.night]                  # a mail is a receiver as well: `webhook="night"`
#     host = "smtp.example.org"             # tls = "starttls" at port 587; "tls" at 465; "none" at 25
#     user = "chary"
#     password-file = "night.password"
#     from = "chary@example.org"
#     to = ["night@example.org"]
#
#     [dataset.visits]                      # as `chary.config` has it
#     share-answers = true                  # whoever repeats a question has its answer, for free

_SHORTEST_SECRET: Final = 24
URL: Final = r"^https?://[^\s]+$"
PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"
WebhookForm = Literal["generic", "slack", "pagerduty"]


class Webhook(StrictOptions):
    """A place that is reported over HTTP, in one of the forms that receivers read, and the file that holds its secret.

    That secret is the key of the signatures. For a chat it is the whole URL, where `url` does not say it; for PagerDuty
    it is the routing key.
    """

    form: WebhookForm = Field(default="generic", description="The format of what is sent.")
    url: str | None = Field(default=None, pattern=URL, description="The address.")
    secret_file: Path | None = Field(default=None, description="The file with the secret.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.form == "slack":
            if (self.url is None) == (self.secret_file is None):
                raise ValueError("a chat has a url, or a secret-file that holds it")
        elif self.secret_file is None:
            raise ValueError("secret-file is missing")
        elif self.form == "generic" and self.url is None:
            raise ValueError("url is missing")
        return self


# Where a server of mail listens by custom.
_PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
_HERE: Final = ("localhost", "127.0.0.1", "::1")


class Mail(StrictOptions):
    """A server of mail that delivers events: the login there, the sender, and the receivers."""

    host: str = Field(pattern=r"^[A-Za-z0-9.:-]+$", description="The server.")
    port: int | None = Field(default=None, ge=1, le=65_535, description="The port; by default the usual one of tls.")
    tls: Literal["starttls", "tls", "none"] = Field(default="starttls", description="How the connection is encrypted.")
    user: str | None = Field(default=None, min_length=1, description="The user that logs in.")
    password_file: Path | None = Field(default=None, description="The file with the password.")
    sender: str = Field(alias="from", description="The address of the sender.")
    to: tuple[str, ...] = Field(min_length=1, description="The addresses of the receivers.")

    @field_validator("sender")
    @classmethod
    def _one(cls, said: str) -> str:
        return _address(said)

    @field_validator("to")
    @classmethod
    def _each(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_address(each) for each in said)

    @model_validator(mode="after")
    def _signed_in(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password-file go together")
        if self.user is not None and self.tls == "none" and self.host not in _HERE:
            raise ValueError('a password goes over TLS: say tls = "starttls" or "tls"')
        return self

    @property
    def at(self) -> int:
        """The port."""
        return self.port or _PORTS[self.tls]


def _address(said: str) -> str:
    """An address of mail alone, such as ops@example.org, in ASCII: as it stands in an envelope."""
    try:
        found = Address(addr_spec=said)
    except (MessageError, ValueError, IndexError):
        found = Address()
    if not found.username or not found.domain or not said.isascii() or not said.isprintable():
        raise ValueError("an address of mail is said as ops@example.org")
    return said


class ServiceOptions(StrictOptions):
    """Where and how the service runs. Sizes in bytes, times in seconds, rates in requests a second."""

    host: str = Field(default="127.0.0.1", description="The address on which the service listens.")
    port: int = Field(default=8321, ge=0, le=65_535, description="The port on which it listens.")
    hosts: tuple[str, ...] = Field(
        default=("127.0.0.1", "localhost"), description="The host names under which it may be asked."
    )
    store: str = Field(default="chary-service.db", description="The file or URL of its own database.")
    ledger: str | None = Field(default=None, description="The URL of a ledger for all datasets that name none.")
    workers: int = Field(default=1, ge=1, le=64, description="How many processes it runs.")
    threads: int = Field(default=4, ge=1, le=64, description="How many calls run at the same time in each process.")
    calls_each: int = Field(default=32, ge=1, description="How many calls of one analyst may wait or run in a process.")
    patience: float = Field(default=1.0, ge=0, le=60, description="After how many seconds a call becomes a job.")
    quote_seconds: float = Field(default=30.0, gt=0, description="After how many seconds a quote is cut off.")
    body_bytes: int = Field(default=1_000_000, ge=1_000, description="The largest body of a request.")
    rows_bytes: int = Field(default=50_000_000, ge=1_000, description="The largest body of a batch of rows.")
    body_seconds: float = Field(default=10.0, gt=0, description="How long a body may take to arrive.")
    head_seconds: float = Field(default=10.0, gt=0, description="How long the head of a request may take to arrive.")
    rate: float = Field(default=50.0, gt=0, description="How many requests a second a token may send in the long run.")
    burst: float = Field(default=200.0, ge=1, description="How many requests a token may send at once.")
    stop_seconds: float = Field(default=20.0, ge=0, description="How long a stop waits for calls that run.")
    webhook: Mapping[str, Webhook] = Field(
        default_factory=dict, description="Receivers of events by HTTP, a table each."
    )
    mail: Mapping[str, Mail] = Field(default_factory=dict, description="Receivers of events by mail, a table each.")
    openid: OpenIdOptions | None = Field(
        default=None, description="An issuer of OpenID Connect whose tokens are accepted."
    )
    proxies: tuple[str, ...] = Field(
        default=(), description="Addresses of your own proxies, which say where a request came from."
    )

    @field_validator("proxies")
    @classmethod
    def _few(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        """Addresses and networks; not all of the world, since anyone who is trusted may say where a request came
        from."""
        if any(ip_network(each).prefixlen == 0 for each in proxies):
            raise ValueError("name the addresses of your own proxies")
        return proxies

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if twice := sorted(self.webhook.keys() & self.mail.keys()):
            raise ValueError(f"{twice[0]} names a webhook and a mail: a subscription would not know which")
        return self


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
        """Where the ledger of a dataset is, as the chary.toml has it; next to its file where nothing is said."""
        return self.dataset[dataset].ledger or self.service.ledger or usual_ledger(self.file(dataset))

    def shared(self, dataset: str) -> bool:
        """Whether the rows of a dataset are those of a server, so that each process sees what another one appends."""
        return is_server(self.file(dataset))

    def secret(self, webhook: str) -> bytes:
        """The secret of a webhook, empty for one without; `InvalidParameter` for a short or missing one."""
        said = self.service.webhook[webhook]
        if said.secret_file is None:
            return b""
        secret = self._kept(said.secret_file)
        if len(secret) < _SHORTEST_SECRET:
            raise InvalidParameter(f"the secret of webhook {webhook!r} is a file of at least {_SHORTEST_SECRET} bytes")
        if said.form == "slack" and not re.fullmatch(URL.encode(), secret):
            raise InvalidParameter(f"the secret of webhook {webhook!r} is a file with its URL, such as https://...")
        if said.form == "pagerduty" and not re.fullmatch(rb"[!-~]+", secret):
            raise InvalidParameter(f"the secret of webhook {webhook!r} is a file with a routing key, which is one word")
        return secret

    def password(self, mail: str) -> str | None:
        """The password with which a mail is sent, None for one without; `InvalidParameter` for a missing one."""
        said = self.service.mail[mail]
        if said.password_file is None:
            return None
        secret = self._kept(said.password_file)
        if not re.fullmatch(rb"[ -~]+", secret):
            raise InvalidParameter(f"the password of mail {mail!r} is a file with one line of ASCII")
        return secret.decode("ascii")

    def _kept(self, file: Path) -> bytes:
        place = self.folder / file
        return place.read_bytes().strip() if place.is_file() else b""


def service_config(place: Path) -> ServiceConfig:
    """Read a chary.toml; `InvalidParameter` that names the option for what it cannot say."""
    found = read(place.absolute())
    datasets = {name: found.options(name) for name in found.dataset}
    return configured({"folder": found.folder, "service": found.service, "dataset": datasets}, str(place))


def configured(said: Mapping[str, Any], place: str) -> ServiceConfig:
    """What was said, checked."""
    return checked(ServiceConfig, said, place)
