"""The tables of a ledger: append-only entries, and what is derived from them so that a charge is O(1)."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)
from sqlalchemy.schema import SchemaItem

# Raised only where an earlier version could misread a ledger; tables and triggers that it can ignore are added as is.
FORMAT = 1

metadata = MetaData()
_whole = BigInteger().with_variant(Integer(), "sqlite")


def _number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, _whole, nullable=null)


def _text(name: str, *, null: bool = False, key: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null, primary_key=key)


def _table(name: str, *items: SchemaItem) -> Table:
    return Table(name, metadata, *items, sqlite_strict=True)


def _totals() -> list[Column[int]]:
    return [_number(name) for name in ("spent_main", "spent_delta", "open_main", "open_delta")]


chain = _table(
    "chain",
    Column("id", _whole, primary_key=True, autoincrement=False),
    _number("format"),
    _number("entries"),
    _text("head"),
    CheckConstraint("id = 1"),
)

entries = _table(
    "entries",
    Column("number", _whole, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("dataset"),
    _text("analyst"),
    _number("call"),
    _text("label"),
    _text("body"),
    _text("request", null=True),
    *[_number(name) for name in ("main", "delta", "back_main", "back_delta", "hits", "tests")],
    _text("answer_hash"),
    _text("created"),
    _text("hash"),
)

datasets = _table(
    "datasets",
    _text("name", key=True),
    _text("fingerprint"),
    _text("conditions"),
    _number("capacity_main"),
    _number("capacity_delta"),
    *_totals(),
    _number("version"),
)

analysts = _table(
    "analysts",
    Column("dataset", Text, ForeignKey("datasets.name"), primary_key=True),
    _text("analyst", key=True),
    _number("cap_main", null=True),
    _number("cap_delta", null=True),
    *_totals(),
)

tallies = _table(
    "tallies",
    Column("dataset", Text, ForeignKey("datasets.name"), primary_key=True),
    _text("kind", key=True),
    *[_number(name) for name in ("calls", "hits", "tests", "main", "delta")],
)

calls = _table(
    "calls",
    Column("number", _whole, ForeignKey("entries.number"), primary_key=True, autoincrement=False),
    _text("dataset"),
    _text("analyst"),
    _text("request", null=True),
    _text("state"),
    Column("closing", _whole, ForeignKey("entries.number"), nullable=True),
    _number("charged_main"),
    _number("charged_delta"),
    ForeignKeyConstraint(["dataset", "analyst"], ["analysts.dataset", "analysts.analyst"]),
)

answers = _table(
    "answers",
    Column("call", _whole, ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    _text("answer"),
)

secrets = _table(
    "secrets",
    Column("call", _whole, ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
    _text("digest"),
)

# The secrets are no part of the chain, so this ties them to its head: pages of another moment do not fit together.
seals = _table(
    "seals",
    Column("id", _whole, primary_key=True, autoincrement=False),
    _number("entries"),
    _number("secrets"),
    CheckConstraint("id = 1"),
)

# On SQLite an index ends with the row's number, so this one also serves "of this dataset, above that number".
Index("calls_of_dataset", calls.c.dataset)
# Covers the sums of the check at every opening: they never read the table itself.
Index(
    "charges",
    calls.c.dataset,
    calls.c.analyst,
    calls.c.state,
    calls.c.charged_main,
    calls.c.charged_delta,
)
Index(
    "requests",
    calls.c.dataset,
    calls.c.analyst,
    calls.c.request,
    sqlite_where=calls.c.request.is_not(None),
    postgresql_where=calls.c.request.is_not(None),
)

for _change in ("UPDATE", "DELETE"):
    _final = DDL(  # type: ignore[no-untyped-call]
        f"CREATE TRIGGER entries_are_final_{_change.lower()} BEFORE {_change} ON entries "
        "BEGIN SELECT RAISE(ABORT, 'entries are final'); END"
    )
    event.listen(entries, "after_create", _final.execute_if(dialect="sqlite"))

# Six digits tell 2^24 states apart, which is enough against accidents, and two million of their sums fit into 2^63.
_DIGITS = 6


def imprint(digest: str) -> str:
    """SQL for a number that a digest in this column has; a sum of them says which secrets there are."""
    return " + ".join(f"(unicode(substr({digest}, {place + 1}, 1)) << {7 * place})" for place in range(_DIGITS))


_SEALING = {
    "secrets_added": f"AFTER INSERT ON secrets BEGIN UPDATE seals SET secrets = secrets + {imprint('NEW.digest')}",
    "secrets_dropped": f"AFTER DELETE ON secrets BEGIN UPDATE seals SET secrets = secrets - ({imprint('OLD.digest')})",
    "seal_follows": "AFTER UPDATE ON chain BEGIN UPDATE seals SET entries = NEW.entries",
}
for _name, _body in _SEALING.items():
    # Triggers, so that an earlier version, which knows nothing of the seal, keeps it as well.
    _kept = DDL(f"CREATE TRIGGER {_name} {_body}; END")  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _kept.execute_if(dialect="sqlite"))
