"""The tables of the service's own database, about people and programs, not about data."""

from typing import Any, Final

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, String, Table, Text, UniqueConstraint


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True)


def _given(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one type that must not be null."""
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one type that may be null."""
    return [Column(name, kind) for name in names]


TABLES: Final = MetaData()
# One row: the layout of the database (`STEPS` in the store).
LAYOUT: Final = Table("chary_layout", TABLES, Column("number", Integer, primary_key=True, autoincrement=False))
TOKENS: Final = Table(
    "chary_tokens",
    TABLES,
    _key("token", String(32)),
    *_given(Text, "hashed", "analyst", "roles", "datasets"),
    *_given(Float, "created", "expires"),
    *_optional(Float, "revoked"),
)
LOGGED_IN: Final = Table(
    "chary_logged_in", TABLES, _key("hashed", String(64)), *_given(String(32), "token"), *_given(Float, "expires")
)
TRAIL: Final = Table(
    "chary_trail",
    TABLES,
    _key("number", Integer),
    *_given(Text, "time", "token", "analyst", "dataset", "action"),
    *_optional(Text, "request"),
    *_given(Text, "asked"),
    *_given(String(64), "sealed"),
)
JOBS: Final = Table(
    "chary_jobs",
    TABLES,
    _key("job", String(32)),
    *_given(Text, "analyst", "dataset", "asked", "request"),
    *_given(String(16), "state", "step"),
    *_optional(Text, "problem"),
    *_given(Float, "touched"),
)
REQUESTS: Final = Table(
    "chary_requests",
    TABLES,
    *(_key(name, Text) for name in ("dataset", "analyst", "request")),
    *_optional(Integer, "call"),
)
PUBLISHED: Final = Table("chary_published", TABLES, _key("number", Integer), *_given(Text, "dataset", "time", "report"))
STANDING: Final = Table(
    "chary_standing",
    TABLES,
    _key("standing", String(16)),
    *_given(Text, "analyst", "token", "dataset", "asked", "every", "share"),
    *_given(String(8), "tell"),
    *_optional(Text, "webhook"),
    *_given(Float, "created"),
    *_given(String(16), "state"),
    *_given(Integer, "version"),
    *_given(Float, "looked", "charged"),
    *_given(Integer, "hits", "runs"),
    *_given(Float, "busy"),
    # From layout 2 on: the version of the rows at which it resumed after a pause, and until when it is silenced.
    *_optional(Integer, "resumed"),
    *_optional(Float, "silenced"),
)
TOLD: Final = Table(
    "chary_told",
    TABLES,
    _key("number", Integer),
    *_given(String(16), "standing"),
    *_given(Text, "analyst", "dataset", "time"),
    *_given(String(16), "kind"),
    *_given(Integer, "version"),
    *_optional(Integer, "call"),
    *_given(Text, "detail"),
    *_optional(Text, "webhook"),
    *_given(Integer, "tries"),
    *_optional(Float, "due"),
    # From layout 2 on.
    *_optional(String(16), "severity"),
    *_optional(Text, "note", "groups"),
    *_optional(Boolean, "silenced"),
    *_optional(Text, "acknowledged", "acknowledged_by"),
    UniqueConstraint("standing", "kind", "version"),
)
RATES: Final = Table("chary_rates", TABLES, _key("name", Text), *_given(Float, "left", "at"))
