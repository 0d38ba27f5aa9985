"""The tables of the service's own database: what is about people and programs, and so in no ledger."""

from typing import Final

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, String, Table, Text, UniqueConstraint

TABLES: Final = MetaData()
# One row: which layout the others have; see `service_layouts`.
LAYOUT: Final = Table("chary_layout", TABLES, Column("number", Integer, primary_key=True, autoincrement=False))
TOKENS: Final = Table(
    "chary_tokens",
    TABLES,
    Column("token", String(32), primary_key=True),
    Column("hashed", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("roles", Text, nullable=False),
    Column("datasets", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("revoked", Float),
)
LOGGED_IN: Final = Table(
    "chary_logged_in",
    TABLES,
    Column("hashed", String(64), primary_key=True),
    Column("token", String(32), nullable=False),
    Column("expires", Float, nullable=False),
)
TRAIL: Final = Table(
    "chary_trail",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("time", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("request", Text),
    Column("asked", Text, nullable=False),
    Column("sealed", String(64), nullable=False),
)
JOBS: Final = Table(
    "chary_jobs",
    TABLES,
    Column("job", String(32), primary_key=True),
    Column("analyst", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("step", String(16), nullable=False),
    Column("problem", Text),
    Column("touched", Float, nullable=False),
)
REQUESTS: Final = Table(
    "chary_requests",
    TABLES,
    Column("dataset", Text, primary_key=True),
    Column("analyst", Text, primary_key=True),
    Column("request", Text, primary_key=True),
    Column("call", Integer),
)
PUBLISHED: Final = Table(
    "chary_published",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("report", Text, nullable=False),
)
STANDING: Final = Table(
    "chary_standing",
    TABLES,
    Column("standing", String(16), primary_key=True),
    Column("analyst", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("every", Text, nullable=False),
    Column("share", Text, nullable=False),
    Column("tell", String(8), nullable=False),
    Column("webhook", Text),
    Column("created", Float, nullable=False),
    Column("state", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("looked", Float, nullable=False),
    Column("charged", Float, nullable=False),
    Column("hits", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("busy", Float, nullable=False),
    # From layout 2 on: the version of the rows when it went on after a pause, until when nothing is sent of it.
    Column("resumed", Integer),
    Column("silenced", Float),
)
TOLD: Final = Table(
    "chary_told",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("standing", String(16), nullable=False),
    Column("analyst", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("call", Integer),
    Column("detail", Text, nullable=False),
    Column("webhook", Text),
    Column("tries", Integer, nullable=False),
    Column("due", Float),
    # From layout 2 on.
    Column("severity", String(16)),
    Column("note", Text),
    Column("groups", Text),
    Column("silenced", Boolean),
    Column("acknowledged", Text),
    Column("acknowledged_by", Text),
    UniqueConstraint("standing", "kind", "version"),
)
RATES: Final = Table(
    "chary_rates",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("left", Float, nullable=False),
    Column("at", Float, nullable=False),
)
