"""What a chary.toml says of an issuer of OpenID Connect, and which of its people may what.

[service.openid]
issuer = "https://login.example.org/realms/office"
audience = "chary"
analyst = "preferred_username"        # the claim that names the analyst; default: sub

[[service.openid.grant]]              # the first one that fits counts, and no other
claim = "realm_access.roles"
value = "statistics"
roles = ["analyst"]
datasets = ["visits"]
"""

from pathlib import Path

from pydantic import Field, field_validator

from chary.service.access.roles import roles_of
from chary.service.serving.strict_options import StrictOptions

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
