"""Tables of a PostgreSQL server: which relations, views, types and columns are accepted, and how rows are read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from chary.data.columns import TypeClass, beside, listed, quote
from chary.data.engines.batches import KEPT
from chary.data.engines.postgresql.connection import Cursor
from chary.data.engines.sql import ROWS, Column, SmallTable, select, shared_class
from chary.errors import EngineError, InvalidParameter, SchemaMismatch

# The table that is read: what it is, which columns of it the role may read, and what makes it unreadable.

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

        `SchemaMismatch` where there is no such table that the role may read. Also where reading it might fail on a row,
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
            f"row level security is on for {table!r}: a policy says which of its rows this role sees, and may change. "
            "Ask as a role with BYPASSRLS, or copy the rows that may be asked into a table"
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


# Views that are safe to read: rows of one table, chosen by conditions that no row can make fail.

_RULES: Final = "SELECT ev_action::text FROM pg_rewrite WHERE ev_class = $1 AND ev_type = '1'"
_FUNCTION: Final = re.compile(r":(?:funcid|opfuncid) (\d+)")
_READ: Final = re.compile(r":rtekind (\d+) :relid (\d+)")
_ENTRY: Final = "{RANGETBLENTRY"
# Nodes, in the notation of the server, that are no part of a view of rows of one table: they compute, join or count.
_OTHER: Final = re.compile(
    r"\{(?!(QUERY|RANGETBLENTRY|RTEPERMISSIONINFO|ALIAS|FROMEXPR|RANGETBLREF|TARGETENTRY|VAR|CONST|OPEXPR|FUNCEXPR"
    r"|BOOLEXPR|NULLTEST|BOOLEANTEST|RELABELTYPE|SCALARARRAYOPEXPR|DISTINCTEXPR|ARRAYEXPR|CASEEXPR|CASEWHEN"
    r"|COALESCEEXPR|COALESCE|CASE|WHEN|ARRAY)\b)[A-Z_]+"
)
_CLAUSES: Final = re.compile(
    ":(distinctClause|groupClause|havingQual|sortClause|limitCount|limitOffset|setOperations) (?!<>)"
)
_VOLATILE: Final = "SELECT 1 FROM pg_proc WHERE oid = ANY($1::oid[]) AND provolatile = 'v' LIMIT 1"
_MAY_FAIL: Final = """
SELECT 1 FROM unnest($1::oid[]) AS called
WHERE NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.oid = called AND p.proleakproof) LIMIT 1
"""
_ROWS: Final = "SELECT relkind::text, relrowsecurity FROM pg_class WHERE oid = $1"


def check_view(cursor: Cursor, table: str, oid: int) -> str:
    """What the view is made of; `SchemaMismatch` unless it picks columns and rows of one table and cannot fail.

    A function that PostgreSQL calls leakproof says nothing of its arguments but its result, so it never fails because
    of one. Volatile ones would choose other rows at each reading; aggregates, joins and limits make a row follow from
    other rows.
    """
    made = "".join(action for (action,) in cursor.execute(_RULES, [oid]).fetchall())
    called = sorted({int(number) for number in _FUNCTION.findall(made)})
    if cursor.execute(_VOLATILE, [called]).fetchone() is not None:
        raise _refused(table, "calls a volatile function: each reading could be of other rows")
    if cursor.execute(_MAY_FAIL, [called]).fetchone() is not None:
        raise _refused(table, "calls a function that a row may make fail, which would tell of that row")
    # The view itself is listed too, as what its rule is for.
    below = [read for kind, read in _READ.findall(made) if (kind, int(read)) != ("0", oid)]
    many = len(below) != 1 or made.count(_ENTRY) != len(_READ.findall(made))
    if many or _CLAUSES.search(made) or _OTHER.search(made):
        raise _refused(table, "does more than choose columns and rows of one table")
    return made + _check_below(cursor, table, int(below[0]))


def _check_below(cursor: Cursor, table: str, oid: int) -> str:
    [(kind, secured)] = cursor.execute(_ROWS, [oid]).fetchall()
    if secured:
        raise _refused(table, "reads a table with row level security, whose policies choose the rows")
    if kind == "v":
        return check_view(cursor, table, oid)
    if kind not in ("r", "p", "m") or cursor.execute(_PARTS, [oid]).fetchone() is not None:
        raise _refused(table, "reads a foreign table, which is in no state of this server")
    return ""


def _refused(table: str, why: str) -> SchemaMismatch:
    return SchemaMismatch(f"the view {table!r} {why}; make it a table or a materialized view")


# How every type of the server is brought to one of the few that chary computes with.

_WHOLE: Final = ("int2", "int4", "int8")
_FLOATS: Final = ("float4", "float8")
_TEXTS: Final = ("text", "varchar", "bpchar")
# Types whose values can be told apart by the server without a function that somebody else wrote.
UNITS: Final = ("uuid", "numeric", "bytea", "timestamptz", "time", "timetz", "inet", "cidr", "macaddr", "oid")
# A double holds the nearest number to any decimal of that many digits before and behind the point.
_DIGITS: Final = 300
_ABOVE: Final = "1.797693134862315807e308"
_BELOW: Final = "1e-307"


def column_of(stored: Stored, *, is_unit: bool) -> Column:
    """Choose the class of a type; no value of the column can make the SQL fail.

    NaN becomes NULL. Numerics become floats, those that doubles do not reach infinities or 0, except in the unit
    column: two units must never be merged, so there they stay as they are.
    """
    quoted = quote(stored.name)
    kind, sql = _class(stored, quoted)
    if kind is None and not is_unit and _is(stored, "numeric"):
        kind, sql = TypeClass.FLOAT, _double(stored, quoted)
    if kind is None and is_unit:
        sql = _unit(stored, quoted)
    return Column(stored.name, stored.shown if kind is None else str(kind), sql)


def _is(stored: Stored, *names: str) -> bool:
    return stored.built_in and stored.type in names


def _class(stored: Stored, quoted: str) -> tuple[TypeClass | None, str]:
    # One cast even where there is nothing to cast: it ends a domain.
    if _is(stored, "bool"):
        return TypeClass.BOOLEAN, f"CAST({quoted} AS boolean)"
    if _is(stored, *_WHOLE):
        return TypeClass.INTEGER, f"CAST({quoted} AS bigint)"
    if _is(stored, *_FLOATS):
        return TypeClass.FLOAT, f"nullif(CAST({quoted} AS double precision), CAST('NaN' AS double precision))"
    if _is(stored, *_TEXTS):
        return TypeClass.STRING, f'CAST({quoted} AS text) COLLATE "C"'
    if stored.kind == "e":
        # Whoever made the type may have made a cast to strings too, which fails on some of its values.
        return TypeClass.STRING, f'CAST(enum_out({quoted}) AS text) COLLATE "C"'
    if _is(stored, "date"):
        return TypeClass.DATE, f"CAST({quoted} AS date)"
    if _is(stored, "timestamp"):
        return TypeClass.TIMESTAMP, f"CAST({quoted} AS timestamp)"
    return None, quoted


def _double(stored: Stored, quoted: str) -> str:
    value = f"CAST({quoted} AS numeric)"
    digits = ((stored.modifier - 4) >> 16) & 0xFFFF
    scale = (stored.modifier - 4) & 0x7FF
    exact = f"CAST({value} AS double precision)"
    missing = f"WHEN {value} = CAST('NaN' AS numeric) THEN NULL"
    if stored.modifier >= 0 and digits <= _DIGITS and scale <= _DIGITS:
        return f"CASE {missing} ELSE {exact} END"
    ends = " ".join(
        f"WHEN {value} {sign}= {minus}{_ABOVE} THEN CAST('{minus}Infinity' AS double precision)"
        for sign, minus in ((">", ""), ("<", "-"))
    )
    return f"CASE {missing} {ends} WHEN abs({value}) < {_BELOW} THEN 0 ELSE {exact} END"


def _unit(stored: Stored, quoted: str) -> str:
    if not _is(stored, *UNITS):
        raise SchemaMismatch(
            f"the privacy unit {stored.name!r} is of type {stored.shown}: two of its values cannot be told apart safely"
        )
    if stored.type == "numeric":
        # Equal numbers have one text, and what is no number is nobody's.
        value = f"CAST({quoted} AS numeric)"
        text = value if stored.modifier >= 0 else f"trim_scale({value})"
        return f"nullif({text}, CAST('NaN' AS numeric))"
    return f"CAST({quoted} AS {stored.shown})"


# One statement: what is asked, behind the rows it is asked of and the tables that go with it as parameters.

_WITH: Final = "WITH "
_COLLATED: Final = ' COLLATE "C"'


def _sent(table: SmallTable, first: int) -> str:
    """A table that is sent with a statement, as SQL whose parameters begin with that number.

    The role need make no temporary table for it, and nothing of it stays at the server.
    """
    kinds = {column: SERVER_TYPES[TypeClass(kind)] for column, (kind, _) in table.columns.items()}
    arrays = ", ".join(f"CAST(${first + place} AS {kind}[])" for place, kind in enumerate(kinds.values()))
    cells = ", ".join(
        f'sent."{column}"{_COLLATED if kind == "text" else ""} AS "{column}"' for column, kind in kinds.items()
    )
    names = ", ".join(f'"{column}"' for column in kinds)
    return f"{table.name} AS (SELECT {cells} FROM unnest({arrays}) AS sent({names}))"


# The rows that are asked, as SQL on the server's own table: nothing is copied, and nothing is made there.

# The server cuts off what is behind them, so that two names may become one.
_LONGEST: Final = 63
SERVER_TYPES: Final = {
    TypeClass.BOOLEAN: "boolean",
    TypeClass.INTEGER: "bigint",
    TypeClass.FLOAT: "double precision",
    TypeClass.STRING: "text",
    TypeClass.DATE: "date",
    TypeClass.TIMESTAMP: "timestamp",
}


@dataclass(frozen=True)
class StoredRows:
    """A table of the server, the columns that are asked of it, and the SQL that selects them."""

    table: str
    relation: FoundRelation
    columns: tuple[Column, ...]
    sql: str
    unit: str | None
    long: bool

    @classmethod
    def find(cls, cursor: Cursor, table: str, unit: str | None, unpivot: tuple[str, str] | None) -> "StoredRows":
        """Look the table up; `SchemaMismatch` where it, its unit or its unpivoting is not possible. No row is read."""
        relation = FoundRelation.find(cursor, table)
        names = [column.name for column in relation.columns]
        if unit is not None and unit not in names:
            raise SchemaMismatch(f"there is no column {unit!r} to be the privacy unit{beside(unit, names)}")
        columns = tuple(column_of(column, is_unit=column.name == unit) for column in relation.columns)
        if unpivot is not None:
            columns, sql = _unpivoted(columns, relation, str(unit), unpivot)
            return cls(table, relation, columns, sql, unit, True)
        return cls(table, relation, columns, select(columns, relation.sql), unit, False)

    @property
    def schema(self) -> dict[str, str]:
        """Names and types of the columns."""
        return {column.name: column.type for column in self.columns}

    def execute(self, cursor: Cursor, sql: str, sent: Sequence[SmallTable] = (), more: Sequence[Any] = ()) -> list[Any]:
        """All rows of SQL in which `chary_rows` are these rows, and other tables are sent; `more` come before them."""
        tables, values = [f"{ROWS} AS NOT MATERIALIZED ({self.sql})"], list(more)
        for each in sent:
            tables.append(_sent(each, len(values) + 1))
            values += each.lists
        rest = f", {sql.removeprefix(_WITH)}" if sql.startswith(_WITH) else f" {sql}"
        return cursor.execute(f"{_WITH}{', '.join(tables)}{rest}", values).fetchall()

    def check(self, cursor: Cursor) -> None:
        """`EngineError` unless the table is still what was found: types, rights, policies, the making of a view."""
        try:
            same = FoundRelation.find(cursor, self.table) == self.relation
        except SchemaMismatch:
            same = False
        if not same:
            raise EngineError("the table is no longer the one that was opened, or may no longer be read: open it again")


def _unpivoted(
    columns: tuple[Column, ...], relation: FoundRelation, unit: str, unpivot: tuple[str, str]
) -> tuple[tuple[Column, ...], str]:
    key, value = unpivot
    if any(len(name.encode()) > _LONGEST for name in unpivot):
        raise SchemaMismatch(f"the server knows names of at most {_LONGEST} bytes: give shorter ones")
    [whose] = [column for column in columns if column.name == unit]
    wide = [column for column in columns if column.name != unit]
    kind = shared_class(wide)
    if kind is None:
        raise SchemaMismatch("the columns to unpivot have no one type")
    cast = SERVER_TYPES[kind]
    # The columns of the table are named in nothing but the cells, where no name of the cells is known yet.
    cells = ", ".join(f"({whose.sql}, {_text(column.name)}, CAST({column.sql} AS {cast}))" for column in wide)
    ordered = ' COLLATE "C"' if kind is TypeClass.STRING else ""
    chosen = f'cell.unit AS {quote(unit)}, cell.key COLLATE "C" AS {quote(key)}, cell.value{ordered} AS {quote(value)}'
    sql = f"SELECT {chosen} FROM {relation.sql} AS wide CROSS JOIN LATERAL (VALUES {cells}) AS cell(unit, key, value)"
    made = (whose, Column(key, TypeClass.STRING, ""), Column(value, kind, ""))
    return made, f"{sql} WHERE cell.value IS NOT NULL"


def _text(value: str) -> str:
    return "CAST('" + value.replace("'", "''") + "' AS text)"
