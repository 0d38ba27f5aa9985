"""Tables of a ledger in SQL, versions of their format, and the statements that read and write them."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    BindParameter,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    event,
    insert,
    inspect,
    join,
    literal_column,
    select,
    update,
)
from sqlalchemy.schema import SchemaItem

from chary.errors import LedgerCorrupted, LedgerError
from chary.ledger.entries import ChainEntry, Head

# Tables of a ledger in a database, versions of their format, and the mark of a ledger that moved away.

# Raised only where an earlier version could misread a ledger; tables and triggers that it can ignore are added as is.
FORMAT = 1
# That of a file which holds a dataset with a basic account: an earlier version would charge it without adding to that.
# On a server the layout says so.
TWO_ACCOUNTS = 2

# The basic account of a dataset: nothing of it is there where the capacity is 0.
BASIC = ("capacity_basic", "spent_basic", "alone")

metadata = MetaData()
# For tables that only some ledgers have.
apart = MetaData()
_whole = BigInteger().with_variant(Integer(), "sqlite")
# By bytes, as SQLite compares: names are in the same order everywhere.
_words = Text().with_variant(Text(collation="C"), "postgresql")


def number_column(name: str, *, null: bool = False) -> Column[int]:
    """A whole number of 64 bits."""
    return Column(name, _whole, nullable=null)


def _later(name: str) -> Column[int]:
    """A whole number that ledgers of earlier versions get at their opening, where it is 0."""
    return Column(name, _whole, nullable=False, server_default="0")


def text_column(name: str, *, null: bool = False, key: bool = False) -> Column[str]:
    """A text, compared by its bytes."""
    return Column(name, _words, nullable=null, primary_key=key)


def _table(name: str, *items: SchemaItem) -> Table:
    return Table(name, metadata, *items, sqlite_strict=True)


def _totals() -> list[Column[int]]:
    return [number_column(name) for name in ("spent_main", "spent_delta", "open_main", "open_delta")]


chain = _table(
    "chain",
    Column("id", _whole, primary_key=True, autoincrement=False),
    number_column("format"),
    number_column("entries"),
    text_column("head"),
    CheckConstraint("id = 1"),
)

entries = _table(
    "entries",
    Column("number", _whole, primary_key=True, autoincrement=False),
    text_column("kind"),
    text_column("dataset"),
    text_column("analyst"),
    number_column("call"),
    text_column("label"),
    text_column("body"),
    text_column("request", null=True),
    *[number_column(name) for name in ("main", "delta", "back_main", "back_delta", "hits", "tests")],
    text_column("answer_hash"),
    text_column("created"),
    text_column("hash"),
    # Last, and with a default, since those of earlier versions get it at their opening.
    Column("origin", _words, nullable=False, server_default=""),
    _later("basic"),
)

datasets = _table(
    "datasets",
    text_column("name", key=True),
    text_column("fingerprint"),
    text_column("conditions"),
    number_column("capacity_main"),
    number_column("capacity_delta"),
    *_totals(),
    number_column("version"),
    *[_later(name) for name in BASIC],
)

analysts = _table(
    "analysts",
    Column("dataset", _words, ForeignKey("datasets.name"), primary_key=True),
    text_column("analyst", key=True),
    number_column("cap_main", null=True),
    number_column("cap_delta", null=True),
    *_totals(),
)

tallies = _table(
    "tallies",
    Column("dataset", _words, ForeignKey("datasets.name"), primary_key=True),
    text_column("kind", key=True),
    *[number_column(name) for name in ("calls", "hits", "tests", "main", "delta")],
)

calls = _table(
    "calls",
    Column("number", _whole, ForeignKey("entries.number"), primary_key=True, autoincrement=False),
    text_column("dataset"),
    text_column("analyst"),
    text_column("request", null=True),
    text_column("state"),
    Column("closing", _whole, ForeignKey("entries.number"), nullable=True),
    number_column("charged_main"),
    number_column("charged_delta"),
    ForeignKeyConstraint(["dataset", "analyst"], ["analysts.dataset", "analysts.analyst"]),
)

answers = _table(
    "answers",
    Column("call", _whole, ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    text_column("answer"),
)

secrets = _table(
    "secrets",
    Column("call", _whole, ForeignKey("calls.number"), primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
    text_column("digest"),
)

# The secrets are no part of the chain, so this ties them to its head: pages of another moment do not fit together.
seals = _table(
    "seals",
    Column("id", _whole, primary_key=True, autoincrement=False),
    number_column("entries"),
    number_column("secrets"),
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

# These hand out calls of one analyst, calls of some kinds, and notes without a look at any other entry. Ledgers of
# earlier versions get them at their opening.
RESERVED: ColumnElement[str] = literal_column("'reserve'")
NOTED: ColumnElement[str] = literal_column("'note'")
ADDED = (
    Index("calls_of_analyst", calls.c.dataset, calls.c.analyst, calls.c.number),
    Index(
        "calls_of_kind",
        entries.c.dataset,
        entries.c.label,
        entries.c.analyst,
        entries.c.number,
        sqlite_where=entries.c.kind == RESERVED,
        postgresql_where=entries.c.kind == RESERVED,
    ),
    Index(
        "notes",
        entries.c.dataset,
        entries.c.number,
        sqlite_where=entries.c.kind == NOTED,
        postgresql_where=entries.c.kind == NOTED,
    ),
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

# The marks of a ledger that moved away, and of one that is arriving: nothing is charged in it, by any version.

# Formats of their own, so that every version refuses to open it.
DEPARTED, ARRIVING = 0, -1

departures = Table(
    "departures",
    apart,
    Column("id", number_column("id").type, primary_key=True, autoincrement=False),
    text_column("place"),
    number_column("entries"),
    text_column("head"),
    sqlite_strict=True,
)
# Versions that have the file open look at its format no more, but this stops them.
_STOP = "CREATE TRIGGER {} BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'moved'); END"
_GONE, _COMING = "ledger_has_moved", "ledger_is_arriving"


def depart(connection: Connection, place: str, head: Head) -> None:
    """Mark a ledger that went to `place` with this head, in the transaction that holds it."""
    if connection.dialect.name == "sqlite":
        departures.create(connection)
        connection.exec_driver_sql(_STOP.format(_GONE))
    connection.execute(departures.insert(), {"id": 1, "place": place, "entries": head.entries, "head": head.hash})
    connection.execute(update(chain).values(format=DEPARTED))


def arrive(connection: Connection) -> None:
    """Mark a ledger whose rows have come, and which its source has not left yet: whoever has it open is stopped too."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_STOP.format(_COMING))
    connection.execute(update(chain).values(format=ARRIVING))


def activate(connection: Connection) -> None:
    """Let a ledger that arrived be charged; in one that is charged already nothing changes."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {_COMING}")
    connection.execute(update(chain).values(format=format_of(connection)).where(chain.c.format == ARRIVING))


def format_of(connection: Connection) -> int:
    """The format that a ledger with these datasets has."""
    if connection.dialect.name != "sqlite":
        return FORMAT
    two = connection.execute(select(datasets.c.name).where(datasets.c.capacity_basic > 0).limit(1)).first()
    return FORMAT if two is None else TWO_ACCOUNTS


def place_of(connection: Connection) -> tuple[str, Head]:
    """Where a ledger that departed went, and with which head."""
    row = connection.execute(select(departures)).one_or_none()
    if row is None:
        raise LedgerCorrupted("the mark of a moved ledger is damaged")
    return row.place, Head(row.entries, row.head)


def chargeable(connection: Connection, format: int) -> None:
    """Raise `LedgerError` unless the ledger has the format of this version, saying where one went that has moved."""
    if format == DEPARTED and inspect(connection).has_table(departures.name):
        raise LedgerError(f"the ledger was moved to {place_of(connection)[0]}: open it there")
    if format == ARRIVING:
        raise LedgerError("the ledger is still arriving here: finish `chary ledger move` by the same command")
    if format not in (FORMAT, TWO_ACCOUNTS):
        raise LedgerError(
            f"the ledger has format {format}, this version of chary reads formats {FORMAT} and {TWO_ACCOUNTS}"
        )


# Statements of SQL that read and write a ledger's tables, made once.

_TOTALS = ("spent_main", "spent_delta", "open_main", "open_delta")


def _moving(table: Table, *names: str) -> dict[str, object]:
    """Columns that grow by the parameter of their own name with `_by` behind it."""
    return {name: table.c[name] + bindparam(f"{name}_by") for name in names}


of_call: BindParameter[int] = bindparam("of_call")
entry_columns = [entries.c[name] for name in ChainEntry._fields]
head_columns = [chain.c.entries.label("head_number"), chain.c.head]

read_head = select(*head_columns)
read_standing = (
    select(
        *head_columns,
        datasets.c.capacity_main,
        datasets.c.capacity_delta,
        *[datasets.c[name].label(f"dataset_{name}") for name in (*_TOTALS, *BASIC)],
        analysts.c.analyst,
        analysts.c.cap_main,
        analysts.c.cap_delta,
        *[analysts.c[name].label(f"analyst_{name}") for name in _TOTALS],
    )
    .select_from(chain)
    .join(datasets, datasets.c.name == bindparam("dataset"))
    .outerjoin(analysts, and_(analysts.c.dataset == datasets.c.name, analysts.c.analyst == bindparam("analyst")))
)
read_reserved = (
    select(*entry_columns, *head_columns, calls.c.state)
    .select_from(calls)
    .join(entries, entries.c.number == calls.c.number)
    .join(chain, literal_column("1=1"))
    .where(calls.c.number == bindparam("call"))
)
read_settled = select(calls.c.dataset).where(calls.c.number == bindparam("call"), calls.c.state == "settled")
_one_key = and_(
    calls.c.dataset == bindparam("dataset"),
    calls.c.analyst == bindparam("analyst"),
    calls.c.request == bindparam("request"),
)
_with_entry = join(calls, entries, entries.c.number == calls.c.number)
read_unanswered = select(entries.c.hash).select_from(_with_entry).where(_one_key, calls.c.state == "reserved")
read_key_settled = select(calls.c.number).where(_one_key, calls.c.state == "settled").limit(1)
read_asked = (
    select(*entry_columns, calls.c.state)
    .select_from(_with_entry)
    .where(_one_key, calls.c.state != "voided")
    .order_by(calls.c.closing.is_(None), calls.c.closing)
    .limit(1)
)

add_entry = insert(entries)
move_head = update(chain).values(entries=bindparam("new_entries"), head=bindparam("new_head"))

add_dataset = insert(datasets)
_one_dataset = datasets.c.name == bindparam("of_dataset")
charge_dataset = update(datasets).where(_one_dataset).values(_moving(datasets, *_TOTALS))
_main_left = datasets.c.capacity_main - datasets.c.spent_main
# Before the totals move, so that they are those that the charge found.
count_basic = (
    update(datasets)
    .where(_one_dataset, datasets.c.capacity_basic > 0)
    .values(
        spent_basic=datasets.c.spent_basic + bindparam("basic_by"),
        alone=case((_main_left < bindparam("main_by"), 1), else_=datasets.c.alone),
    )
)
give_basic_back = (
    update(datasets)
    .where(_one_dataset, datasets.c.spent_basic <= datasets.c.capacity_basic)
    .values(spent_basic=datasets.c.spent_basic - bindparam("basic_by"))
)
set_format = update(chain).values(format=bindparam("new_format"))
raise_version = (
    update(datasets).where(datasets.c.name == bindparam("of_dataset")).values(version=datasets.c.version + 1)
)

_one_analyst = and_(analysts.c.dataset == bindparam("of_dataset"), analysts.c.analyst == bindparam("of_analyst"))
add_analyst = insert(analysts)
charge_analyst = update(analysts).where(_one_analyst).values(_moving(analysts, *_TOTALS))
cap_analyst = (
    update(analysts).where(_one_analyst).values(cap_main=bindparam("new_main"), cap_delta=bindparam("new_delta"))
)

add_tally = insert(tallies)
raise_tally = (
    update(tallies)
    .where(tallies.c.dataset == bindparam("of_dataset"), tallies.c.kind == bindparam("of_kind"))
    .values(_moving(tallies, "calls", "hits", "tests", "main", "delta"))
)

add_call = insert(calls)
close_call = (
    update(calls)
    .where(calls.c.number == bindparam("call"))
    .values({name: bindparam(f"new_{name}") for name in ("state", "closing", "charged_main", "charged_delta")})
)
add_answer = insert(answers)
add_secret = insert(secrets)
read_digest = select(secrets.c.digest).where(secrets.c.call == of_call)
drop_secret = delete(secrets).where(secrets.c.call == of_call)
