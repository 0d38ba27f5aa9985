"""The table that is read: what it is, which columns of it the role may read, and what makes it unreadable."""

import re
from dataclasses import dataclass
from typing import Final

from chary.data.columns import listed, quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.tables.row_views import check_view
from chary.errors import InvalidParameter, SchemaMismatch

KEPT: Final = "chary_batches"
_NAME: Final = re.compile(r'(?:("(?:[^"]|"")+"|[^".]+)\.)?("(?:[^"]|"")+"|[^".]+)')
_USUAL: Final = "public"
_READABLE: Final = ("r", "p", "m", "v")
_FOUND: Final = """
SELECT n.nspname, c.relname, c.oid, c.relkind::text, row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
"""
_COLUMNS: Final = """
SELECT a.attname, t.typtype = 'd', t.oid, a.atttypmod, a.attgenerated::text
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attnum
"""
# A domain is read as what is below it, through as many domains as there are.
_BASE: Final = """
WITH RECURSIVE base(oid, typmod) AS (
  SELECT $1::oid, $2::integer
  UNION ALL
  SELECT t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype = 'd'
)
SELECT t.oid, t.typname, t.typtype::text, n.nspname = 'pg_catalog', format_type(t.oid, NULL), b.typmod
FROM base b JOIN pg_type t ON t.oid = b.oid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype <> 'd'
"""
_PARTS: Final = """
WITH RECURSIVE parts(oid) AS (
  SELECT $1::oid UNION SELECT i.inhrelid FROM parts p JOIN pg_inherits i ON i.inhparent = p.oid
)
SELECT 1 FROM parts p JOIN pg_class c ON c.oid = p.oid WHERE c.relkind = 'f' LIMIT 1
"""
_THERE: Final = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'v') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
AND c.relname <> $1 AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT') ORDER BY 1
"""


@dataclass(frozen=True)
class Stored:
    """A column as the server has it: the type below its domains, the type's own modifier, -1 for none."""

    name: str
    type: str
    kind: str
    built_in: bool
    shown: str
    modifier: int
    domain: bool
    generated: bool


@dataclass(frozen=True)
class FoundRelation:
    """A relation of rows that may be read, with the columns that the role may read."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[Stored, ...]
    made: str = ""

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @classmethod
    def find(cls, cursor: Cursor, table: str) -> "FoundRelation":
        """Look it up, and lock it against being changed until the transaction ends; no row is read.

        `SchemaMismatch` where there is no such table that the role may read, and where reading it might fail on a row,
        or not be of one state, or not be of all rows.
        """
        schema, name = parts_of(table)
        found = cursor.execute(_FOUND, [schema, name]).fetchone()
        if found is None:
            there = listed([known for (known,) in cursor.execute(_THERE, [KEPT]).fetchall()]) or "none"
            raise SchemaMismatch(f"there is no table {table!r} that the role may read; there are: {there}")
        # Not as they were asked for: of long names the server overlooks the end.
        schema, name, oid, kind, hidden = found
        _check(cursor, table, oid, kind, hidden)
        made = check_view(cursor, table, oid) if kind == "v" else ""
        relation = cls(schema, name, oid, kind, _columns(cursor, table, oid), made)
        named = ", ".join(quote(column.name) for column in relation.columns)
        cursor.execute(f"SELECT {named} FROM {relation.sql} LIMIT 0")
        return relation


def parts_of(table: str) -> tuple[str, str]:
    """Schema and name, each as the server spells it; the schema is public where none is named.

    >>> parts_of("visits"), parts_of("clinic.visits"), parts_of('"my.schema"."a table"')
    (('public', 'visits'), ('clinic', 'visits'), ('my.schema', 'a table'))
    """
    found = _NAME.fullmatch(table)
    if found is None:
        raise InvalidParameter('a table is named as "visits" or "schema.visits", names with dots in quotes')
    schema, name = (None if part is None else _bare(part) for part in found.groups())
    return schema or _USUAL, str(name)


def _bare(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _check(cursor: Cursor, table: str, oid: int, kind: str, hidden: bool) -> None:
    if kind not in _READABLE:
        what = "a foreign table, which is in no state of this server" if kind == "f" else "no table of rows"
        raise SchemaMismatch(f"{table!r} is {what}: copy it into a table")
    if hidden:
        raise SchemaMismatch(
            f"row level security is on for {table!r}: a policy says which of its rows this role sees, and may say "
            "otherwise tomorrow; ask as a role with BYPASSRLS, or copy the rows that may be asked into a table"
        )
    if cursor.execute(_PARTS, [oid]).fetchone() is not None:
        raise SchemaMismatch(f"a part of {table!r} is a foreign table, which is in no state of this server")


def _columns(cursor: Cursor, table: str, oid: int) -> tuple[Stored, ...]:
    columns = []
    for name, domain, type_oid, modifier, generated in cursor.execute(_COLUMNS, [oid]).fetchall():
        if generated == "v":
            raise SchemaMismatch(f"{table!r} has generated columns that a row may make fail: copy it into a table")
        [(_, word, base, built_in, shown, below)] = cursor.execute(_BASE, [type_oid, modifier]).fetchall()
        columns.append(Stored(name, word, base, built_in, shown, below, domain, bool(generated)))
    return tuple(columns)
