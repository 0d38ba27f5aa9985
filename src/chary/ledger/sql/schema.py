"""Tables of a ledger in SQL, versions of their format, and the statements that read and write them."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

from chary.errors import LedgerCorrupted, LedgerError
from chary.ledger.accounts import TOTALS
from chary.ledger.entries import ChainEntry, Head

# Tables of a ledger in a database, versions of their format, and the mark of a ledger that moved away.

# Raised only where an earlier version could misread a ledger; tables and triggers that it can ignore are added as is.
FORMAT = 1
# That of a file which holds a dataset with a basic account: an earlier version would charge it without adding to that.
# On a server the layout says so.
TWO_ACCOUNTS = 2
# That of a file in which a call of some parts was charged: an earlier version does not know what those hold together.
PARTED = 3
FORMATS = (FORMAT, TWO_ACCOUNTS, PARTED)

# The basic account of a dataset: nothing of it is there where the capacity is 0.
BASIC = ("capacity_basic", "spent_basic", "alone")

metadata = sa.MetaData()
# For tables that only some ledgers have.
apart = sa.MetaData()
_whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# By bytes, as SQLite compares: names are in the same order everywhere.
_words = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def number_column(name: str, *, null: bool = False) -> sa.Column[int]:
    """An integer of 64 bits."""
    return sa.Column(name, _whole, nullable=null)


def _later(name: str) -> sa.Column[int]:
    """An integer that ledgers of earlier versions get at their opening, where it is 0."""
    return sa.Column(name, _whole, nullable=False, server_default="0")


def text_column(name: str, *, null: bool = False, key: bool = False) -> sa.Column[str]:
    """A text, compared by its bytes."""
    return sa.Column(name, _words, nullable=null, primary_key=key)


def _table(name: str, *items: SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *items, sqlite_strict=True)


chain = _table(
    "chain",
    sa.Column("id", _whole, primary_key=True, autoincrement=False),
    *map(number_column, ("format", "entries")),
    text_column("head"),
    sa.CheckConstraint("id = 1"),
)

entries = _table(
    "entries",
    sa.Column("number", _whole, primary_key=True, autoincrement=False),
    *map(text_column, ("kind", "dataset", "analyst")),
    number_column("call"),
    *map(text_column, ("label", "body")),
    text_column("request", null=True),
    *map(number_column, ("main", "delta", "back_main", "back_delta", "hits", "tests")),
    *map(text_column, ("answer_hash", "created", "hash")),
    # Last, and with a default, since those of earlier versions get it at their opening.
    sa.Column("origin", _words, nullable=False, server_default=""),
    _later("basic"),
    sa.Column("parts", _words, nullable=False, server_default=""),
)

datasets = _table(
    "datasets",
    text_column("name", key=True),
    *map(text_column, ("fingerprint", "conditions")),
    *map(number_column, ("capacity_main", "capacity_delta", *TOTALS)),
    number_column("version"),
    *map(_later, BASIC),
)

analysts = _table(
    "analysts",
    sa.Column("dataset", _words, sa.ForeignKey("datasets.name"), primary_key=True),
    text_column("analyst", key=True),
    number_column("cap_main", null=True),
    number_column("cap_delta", null=True),
    *map(number_column, TOTALS),
)

tallies = _table(
    "tallies",
    sa.Column("dataset", _words, sa.ForeignKey("datasets.name"), primary_key=True),
    text_column("kind", key=True),
    *map(number_column, ("calls", "hits", "tests", "main", "delta")),
)

calls = _table(
    "calls",
    sa.Column("number", _whole, sa.ForeignKey("entries.number"), primary_key=True, autoincrement=False),
    *map(text_column, ("dataset", "analyst")),
    text_column("request", null=True),
    text_column("state"),
    sa.Column("closing", _whole, sa.ForeignKey("entries.number"), nullable=True),
    *map(number_column, ("charged_main", "charged_delta")),
    sa.ForeignKeyConstraint(["dataset", "analyst"], ["analysts.dataset", "analysts.analyst"]),
)

answers = _table(
    "answers",
    sa.Column("call", _whole, sa.ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    text_column("answer"),
)

secrets = _table(
    "secrets",
    sa.Column("call", _whole, sa.ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    sa.Column("secret", sa.LargeBinary, nullable=False),
    text_column("digest"),
)

# In how many parts of a partition one unit is at most.
partitions = _table(
    "partitions",
    sa.Column("dataset", _words, sa.ForeignKey("datasets.name"), primary_key=True),
    text_column("partition", key=True),
    number_column("most"),
)

# What each part holds of all calls together, under the name of no analyst, and of those of each analyst.
ALL = ""
parts = _table(
    "parts",
    *[text_column(name, key=True) for name in ("dataset", "analyst", "partition", "part")],
    *map(number_column, TOTALS),
    sa.ForeignKeyConstraint(["dataset", "partition"], ["partitions.dataset", "partitions.partition"]),
)

# The parts of calls that do not concern all rows.
call_parts = _table(
    "call_parts",
    sa.Column("call", _whole, sa.ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    text_column("partition", key=True),
    text_column("part", key=True),
)
PARTS = (partitions, parts, call_parts)

# The secrets are no part of the chain, so this ties them to its head: pages of another moment do not fit together.
seals = _table(
    "seals",
    sa.Column("id", _whole, primary_key=True, autoincrement=False),
    *map(number_column, ("entries", "secrets")),
    sa.CheckConstraint("id = 1"),
)


def _index(name: str, where: sa.ColumnElement[bool], *columns: sa.ColumnElement[Any]) -> sa.Index:
    """An index of those rows alone that satisfy a condition."""
    return sa.Index(name, *columns, sqlite_where=where, postgresql_where=where)


# On SQLite an index ends with the row's number, so this one also serves "of this dataset, above that number".
sa.Index("calls_of_dataset", calls.c.dataset)
# Covers the sums of the check at every opening: they never read the table itself.
sa.Index("charges", calls.c.dataset, calls.c.analyst, calls.c.state, calls.c.charged_main, calls.c.charged_delta)
_index("requests", calls.c.request.is_not(None), calls.c.dataset, calls.c.analyst, calls.c.request)

# The most expensive parts are found without a look at any other.
for _total in TOTALS:
    sa.Index(f"parts_by_{_total}", parts.c.dataset, parts.c.analyst, parts.c.partition, parts.c[_total])

# These hand out calls of one analyst, calls of some kinds, and notes without a look at any other entry. Ledgers of
# earlier versions get them at their opening.
RESERVED: sa.ColumnElement[str] = sa.literal_column("'reserve'")
NOTED: sa.ColumnElement[str] = sa.literal_column("'note'")
_OF_KIND = ("dataset", "label", "analyst", "number")
ADDED = (
    sa.Index("calls_of_analyst", calls.c.dataset, calls.c.analyst, calls.c.number),
    _index("calls_of_kind", entries.c.kind == RESERVED, *[entries.c[name] for name in _OF_KIND]),
    _index("notes", entries.c.kind == NOTED, entries.c.dataset, entries.c.number),
)

for _change in ("UPDATE", "DELETE"):
    _final = sa.DDL(  # type: ignore[no-untyped-call]
        f"CREATE TRIGGER entries_are_final_{_change.lower()} BEFORE {_change} ON entries "
        "BEGIN SELECT RAISE(ABORT, 'entries are final'); END"
    )
    sa.event.listen(entries, "after_create", _final.execute_if(dialect="sqlite"))

# Six digits tell 2^24 states apart, which is enough against accidents, and two million of their sums fit into 2^63.
_DIGITS = 6


def imprint(digest: str) -> str:
    """SQL for the number of a digest in this column; the sum of these numbers identifies a set of secrets."""
    return " + ".join(f"(unicode(substr({digest}, {place + 1}, 1)) << {7 * place})" for place in range(_DIGITS))


_SEALING = {
    "secrets_added": f"AFTER INSERT ON secrets BEGIN UPDATE seals SET secrets = secrets + {imprint('NEW.digest')}",
    "secrets_dropped": f"AFTER DELETE ON secrets BEGIN UPDATE seals SET secrets = secrets - ({imprint('OLD.digest')})",
    "seal_follows": "AFTER UPDATE ON chain BEGIN UPDATE seals SET entries = NEW.entries",
}
for _name, _body in _SEALING.items():
    # Triggers, so that an earlier version, which knows nothing of the seal, keeps it as well.
    _kept = sa.DDL(f"CREATE TRIGGER {_name} {_body}; END")  # type: ignore[no-untyped-call]
    sa.event.listen(metadata, "after_create", _kept.execute_if(dialect="sqlite"))

# The marks of a ledger that moved away, and of one that is arriving: nothing is charged in it, by any version.

# Formats of their own, so that every version refuses to open it.
DEPARTED, ARRIVING = 0, -1

departures = sa.Table(
    "departures",
    apart,
    sa.Column("id", number_column("id").type, primary_key=True, autoincrement=False),
    text_column("place"),
    number_column("entries"),
    text_column("head"),
    sqlite_strict=True,
)
# Versions that have the file open look at its format no more, but this stops them.
_STOP = "CREATE TRIGGER {} BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'moved'); END"
_GONE, _COMING = "ledger_has_moved", "ledger_is_arriving"


def depart(connection: sa.Connection, place: str, head: Head) -> None:
    """Mark a ledger that went to `place` with this head, in the transaction that holds it."""
    if connection.dialect.name == "sqlite":
        departures.create(connection)
        connection.exec_driver_sql(_STOP.format(_GONE))
    connection.execute(departures.insert(), {"id": 1, "place": place, "entries": head.entries, "head": head.hash})
    connection.execute(sa.update(chain).values(format=DEPARTED))


def arrive(connection: sa.Connection) -> None:
    """Mark a ledger whose rows have come, and which its source has not left yet: anyone who has it open is stopped
    too."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_STOP.format(_COMING))
    connection.execute(sa.update(chain).values(format=ARRIVING))


def activate(connection: sa.Connection) -> None:
    """Let a ledger that arrived be charged; in one that is charged already nothing changes."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_COMING}")
    connection.execute(sa.update(chain).values(format=format_of(connection)).where(chain.c.format == ARRIVING))


def format_of(connection: sa.Connection) -> int:
    """The format that a ledger with these datasets has."""
    if connection.dialect.name != "sqlite":
        return FORMAT
    if connection.execute(sa.select(partitions.c.most).limit(1)).first() is not None:
        return PARTED
    two = connection.execute(sa.select(datasets.c.name).where(datasets.c.capacity_basic > 0).limit(1)).first()
    return FORMAT if two is None else TWO_ACCOUNTS


def place_of(connection: sa.Connection) -> tuple[str, Head]:
    """Where a ledger that departed went, and with which head."""
    row = connection.execute(sa.select(departures)).one_or_none()
    if row is None:
        raise LedgerCorrupted("the mark of a moved ledger is damaged")
    return row.place, Head(row.entries, row.head)


def chargeable(connection: sa.Connection, format: int) -> None:
    """Raise `LedgerError` unless the ledger has the format of this version, saying where one went that has moved."""
    if format == DEPARTED and sa.inspect(connection).has_table(departures.name):
        raise LedgerError(f"the ledger was moved to {place_of(connection)[0]}: open it there")
    if format == ARRIVING:
        raise LedgerError("the ledger is still arriving here: finish `chary ledger move` by the same command")
    if format not in FORMATS:
        raise LedgerError(f"the ledger has format {format}, this version of chary reads formats {FORMAT} to {PARTED}")


# Statements of SQL that read and write a ledger's tables, made once.


def _moving(table: sa.Table, *names: str) -> dict[str, object]:
    """Columns that grow by the parameter of their own name with `_by` behind it."""
    return {name: table.c[name] + sa.bindparam(f"{name}_by") for name in names}


of_call: sa.BindParameter[int] = sa.bindparam("of_call")
entry_columns = [entries.c[name] for name in ChainEntry._fields]
head_columns = [chain.c.entries.label("head_number"), chain.c.head]

read_standing = (
    sa.select(
        *head_columns,
        datasets.c.capacity_main,
        datasets.c.capacity_delta,
        *[datasets.c[name].label(f"dataset_{name}") for name in (*TOTALS, *BASIC)],
        analysts.c.analyst,
        analysts.c.cap_main,
        analysts.c.cap_delta,
        *[analysts.c[name].label(f"analyst_{name}") for name in TOTALS],
    )
    .select_from(chain)
    .join(datasets, datasets.c.name == sa.bindparam("dataset"))
    .outerjoin(analysts, sa.and_(analysts.c.dataset == datasets.c.name, analysts.c.analyst == sa.bindparam("analyst")))
)
read_reserved = (
    sa.select(*entry_columns, *head_columns, calls.c.state)
    .select_from(calls)
    .join(entries, entries.c.number == calls.c.number)
    .join(chain, sa.literal_column("1=1"))
    .where(calls.c.number == sa.bindparam("call"))
)
read_settled = sa.select(calls.c.dataset).where(calls.c.number == sa.bindparam("call"), calls.c.state == "settled")
_one_key = sa.and_(
    calls.c.dataset == sa.bindparam("dataset"),
    calls.c.analyst == sa.bindparam("analyst"),
    calls.c.request == sa.bindparam("request"),
)
_with_entry = sa.join(calls, entries, entries.c.number == calls.c.number)
read_unanswered = sa.select(entries.c.hash).select_from(_with_entry).where(_one_key, calls.c.state == "reserved")
read_asked = (
    sa.select(*entry_columns, calls.c.state)
    .select_from(_with_entry)
    .where(_one_key, calls.c.state != "voided")
    .order_by(calls.c.closing.is_(None), calls.c.closing)
    .limit(1)
)

add_entry = sa.insert(entries)
move_head = sa.update(chain).values(entries=sa.bindparam("new_entries"), head=sa.bindparam("new_head"))

add_dataset = sa.insert(datasets)
_one_dataset = datasets.c.name == sa.bindparam("of_dataset")
charge_dataset = sa.update(datasets).where(_one_dataset).values(_moving(datasets, *TOTALS))
_main_left = datasets.c.capacity_main - datasets.c.spent_main
# Before the totals move, so that they are those that the charge found.
count_basic = (
    sa.update(datasets)
    .where(_one_dataset, datasets.c.capacity_basic > 0)
    .values(
        spent_basic=datasets.c.spent_basic + sa.bindparam("basic_by"),
        alone=sa.case((_main_left < sa.bindparam("main_by"), 1), else_=datasets.c.alone),
    )
)
give_basic_back = (
    sa.update(datasets)
    .where(_one_dataset, datasets.c.spent_basic <= datasets.c.capacity_basic)
    .values(spent_basic=datasets.c.spent_basic - sa.bindparam("basic_by"))
)
set_format = sa.update(chain).values(format=sa.bindparam("new_format"))
raise_version = (
    sa.update(datasets).where(datasets.c.name == sa.bindparam("of_dataset")).values(version=datasets.c.version + 1)
)

_one_analyst = sa.and_(
    analysts.c.dataset == sa.bindparam("of_dataset"), analysts.c.analyst == sa.bindparam("of_analyst")
)
add_analyst = sa.insert(analysts)
charge_analyst = sa.update(analysts).where(_one_analyst).values(_moving(analysts, *TOTALS))
cap_analyst = (
    sa.update(analysts)
    .where(_one_analyst)
    .values(cap_main=sa.bindparam("new_main"), cap_delta=sa.bindparam("new_delta"))
)

_one_partition = sa.and_(
    parts.c.dataset == sa.bindparam("of_dataset"),
    parts.c.analyst == sa.bindparam("of_analyst"),
    parts.c.partition == sa.bindparam("of_partition"),
)


def dearest_parts(total: str) -> sa.Select[tuple[str]]:
    """The `most` parts of one partition that hold most of a total; as everywhere, of one analyst or of all."""
    held = sa.select(parts.c.part, *[parts.c[name] for name in TOTALS]).where(_one_partition)
    return held.order_by(parts.c[total].desc()).limit(sa.bindparam("most"))


def _dearest(total: str) -> sa.Label[int]:
    held = dearest_parts(total).subquery()
    return sa.select(sa.func.coalesce(sa.func.sum(held.c[total]), 0)).scalar_subquery().label(total)


read_dearest = sa.select(*map(_dearest, TOTALS))
read_parts = sa.select(parts.c.part, *[parts.c[name] for name in TOTALS]).where(
    _one_partition, parts.c.part.in_(sa.bindparam("names", expanding=True))
)
read_most = sa.select(partitions.c.most).where(
    partitions.c.dataset == sa.bindparam("of_dataset"), partitions.c.partition == sa.bindparam("of_partition")
)
# All parts, each behind the number of its partition.
held_parts = sa.select(partitions.c.most, parts).join(
    partitions, sa.and_(partitions.c.dataset == parts.c.dataset, partitions.c.partition == parts.c.partition)
)
add_call_part = sa.insert(call_parts)

add_tally = sa.insert(tallies)
raise_tally = (
    sa.update(tallies)
    .where(tallies.c.dataset == sa.bindparam("of_dataset"), tallies.c.kind == sa.bindparam("of_kind"))
    .values(_moving(tallies, "calls", "hits", "tests", "main", "delta"))
)

add_call = sa.insert(calls)
close_call = (
    sa.update(calls)
    .where(calls.c.number == sa.bindparam("call"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("state", "closing", "charged_main", "charged_delta")})
)
add_answer = sa.insert(answers)
add_secret = sa.insert(secrets)
read_digest = sa.select(secrets.c.digest).where(secrets.c.call == of_call)
drop_secret = sa.delete(secrets).where(secrets.c.call == of_call)
