"""What a role needs so that an analyst's process can use a ledger, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence

from chary.errors import InvalidParameter
from chary.ledger.checks import label

# All that the ledger calls public; `secrets` and `seals` are not among them.
_READ = ("alembic_version", "chain", "entries", "datasets", "analysts", "tallies", "calls", "answers")
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

    Guarantee: under such a role the server itself refuses, whatever SQL is sent, to change or remove an entry, an
    answer or a total; to append an entry that does not continue the chain, passes a cap, gives back more than that
    reservation holds, or speaks for an analyst of another name, or says that it came through a token; to void, cap,
    note or open anything; to answer a request key twice; and to read or write the secret of another analyst's call.

    What no server can enforce: that a price is that of the question, that an answer is what was found, that the clock
    was right, and that a process which can read the rows asks them through chary at all. A role can also be in the way:
    it may hold the ledger, or claim request keys, until an administrator ends its connection; and questions and answers
    that it makes up, which no session wrote, stay in the ledger; a history or a report tells of those that are no JSON
    that they cannot be read. The owner can do everything.

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
