"""The schema of a ledger on a PostgreSQL server: its migrations, and the roles that may write, read or rule it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from chary.addresses import Address
from chary.errors import InvalidParameter, LedgerError
from chary.ledger.postgresql.connection import Lost, Wire, translated
from chary.ledger.records import label

# Which layout a schema has, and how it gets the one of this version.

# The file of each version in `migrations`, oldest first. What was once released is never changed again.
_FILES: Final = {"1": "tables", "2": "functions", "3": "origins", "4": "indexes", "5": "accounts", "6": "parts"}
LAYOUTS = tuple(_FILES)
# Ledgers that are there have the table under this name.
_VERSIONED = """
CREATE TABLE alembic_version (version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY);
INSERT INTO alembic_version VALUES ('0')
"""
_HELD = "SELECT to_regclass(%s) IS NOT NULL"
_OLD = "SELECT version_num FROM alembic_version"
# One maker of ledgers at a time in a database: any number that is always the same.
_MAKING = 0x6368617279


def layout_of(wire: Wire, address: Address) -> str | None:
    """The version of the schema's layout; None if there is no ledger. Only inside of a transaction."""
    with translated():
        found = wire.driver.execute(_HELD, (f"{address.schema}.alembic_version",)).fetchone()
        if not found or not found[0]:
            return None
        row = wire.driver.execute(_OLD).fetchone()
        return None if row is None else str(row[0])


def prepare(wire: Wire, address: Address, timeout: float, to: str = LAYOUTS[-1]) -> None:
    """Make the ledger, or bring it to the layout `to`, in one transaction; only its owner can.

    A process that makes another ledger of the database at the same time is waited for.

    Errors: `LedgerError` for a layout that this version does not know, and when the role may not do it.
    """
    if _known(wire, address) == to:
        return
    with translated(), _alone(wire, timeout):
        wire.driver.execute("BEGIN")
        try:
            if (held := _known(wire, address)) is None:
                wire.driver.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(address.schema)))
                wire.driver.execute(_VERSIONED)
            migrate(wire, held or "0", to)
        except BaseException:
            wire.end("ROLLBACK")
            raise
        wire.end("COMMIT")


def _known(wire: Wire, address: Address) -> str | None:
    held = layout_of(wire, address)
    if held is not None and held not in LAYOUTS:
        raise LedgerError("the ledger was laid out by a newer version of chary: update this one")
    return held


@contextmanager
def _alone(wire: Wire, timeout: float) -> Iterator[None]:
    """Hold the lock of makers. It is taken before their transaction begins. A server that waits within one goes on
    believing what it has seen of schemas before, and would make a second one of the same name.
    """
    wire.driver.execute("BEGIN")
    try:
        wire.driver.execute(f"SET LOCAL lock_timeout = {round(timeout * 1000) + 1}")
        wire.driver.execute("SELECT pg_advisory_lock(%s)", (_MAKING,))
    except BaseException:
        wire.end("ROLLBACK")
        raise
    wire.end("COMMIT")
    try:
        yield
    finally:
        # A lost connection has given it back.
        with suppress(psycopg.Error):
            wire.driver.execute("SELECT pg_advisory_unlock(%s)", (_MAKING,))


def migrate(wire: Wire, held: str, to: str) -> None:
    """Bring the layout from a version, "0" for an empty schema, to another inside of the running transaction."""
    for version, name in _FILES.items():
        if int(held) < int(version) <= int(to):
            wire.driver.execute(Path(__file__).with_name("migrations").joinpath(f"{name}.sql").read_bytes())
            wire.driver.execute("UPDATE alembic_version SET version_num = %s", (version,))


def laid_out(target: str, timeout: float = 10.0) -> bool:
    """Whether there is a ledger at this URL; nothing is made."""
    address = Address.parse(target)
    try:
        wire = Wire(address, timeout, plain=True)
    except Lost:
        raise LedgerError("the ledger's server cannot be reached, or does not let this role in") from None
    try:
        return layout_of(wire, address) is not None
    finally:
        wire.close()


# What a role needs so that an analyst's process can use a ledger, and nothing more.

# All that the ledger calls public; `secrets` and `seals` are not among them.
_READ = (
    "alembic_version",
    "chain",
    "entries",
    "datasets",
    "analysts",
    "tallies",
    "calls",
    "answers",
    "partitions",
    "parts",
    "call_parts",
)
_CALLED = (
    "hold(bigint)",
    "append({schema}.entries, text)",
    "secret_of(bigint)",
    "digest_of(bigint)",
    "put_secret(bigint, bytea)",
    "drop_secret(bigint)",
    "sealed()",
    "changed_secrets()",
)
# What PostgreSQL keeps of a name.
_LONGEST = 63


def role_statements(schema: str, analysts: Sequence[str]) -> str:
    """SQL for the ledger's owner: a group of what analysts may do, and a role to log in with for each name.

    Guarantee: under such a role the server itself refuses the following, whatever SQL is sent.

    - To change or remove an entry, an answer or a total.
    - To append an entry that does not continue the chain, passes a cap, or gives back more than that reservation
      holds. Also one that speaks for an analyst of another name, or says that it came through a token.
    - To void, cap, note or open anything, and to answer an idempotency key twice.
    - To read or write the secret of another analyst's call.

    No server can enforce that a cost is that of the question, that this reads no parts but those named, or that an
    answer is what was found. Nor can it enforce that the clock was right, and that a process which can read the rows
    asks them through chary at all. A role can also be in the way: it may hold the ledger, or claim idempotency keys,
    until an administrator ends its connection. Questions and answers that it makes up, which no session wrote, stay in
    the ledger. A history or a report lists those that are no JSON as damaged. The owner can do
    everything.

    >>> print(role_statements("visits", ["ann"]).splitlines()[-1])
    GRANT "visits_analyst" TO "ann";
    """
    group = _quoted(f"{schema}_analyst")
    tables = ", ".join(f"{schema}.{name}" for name in _READ)
    functions = ", ".join(f"{schema}.{name.format(schema=schema)}" for name in _CALLED)
    lines = [
        *_made(group, f"{schema}_analyst", "NOLOGIN"),
        f"GRANT USAGE ON SCHEMA {schema} TO {group};",
        f"GRANT SELECT ON {tables} TO {group};",
        f"GRANT EXECUTE ON FUNCTION {functions} TO {group};",
    ]
    for name in analysts:
        lines += [*_made(_quoted(name), name, "LOGIN"), f"GRANT {group} TO {_quoted(name)};"]
    return "\n".join(lines)


def _made(quoted: str, name: str, how: str) -> list[str]:
    literal = "'" + name.replace("'", "''") + "'"
    missing = f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal})"
    return [f"DO $role$ BEGIN {missing} THEN CREATE ROLE {quoted} {how}; END IF; END $role$;"]


def _quoted(name: str) -> str:
    if len(label(name, "analyst").encode()) > _LONGEST or "$role$" in name:
        raise InvalidParameter("the name of an analyst who has a role of the server is at most 63 bytes long")
    return '"' + name.replace('"', '""') + '"'
