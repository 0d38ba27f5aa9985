"""Views that are safe to read: rows of one table, chosen by conditions that no row can make fail."""

import re
from typing import Final

from chary.data.engines.postgresql.reaching import Cursor
from chary.errors import SchemaMismatch

_RULES: Final = "SELECT ev_action::text FROM pg_rewrite WHERE ev_class = $1 AND ev_type = '1'"
_NODE: Final = re.compile(r"\{([A-Z_]+)")
_FUNCTION: Final = re.compile(r":(?:funcid|opfuncid) (\d+)")
_READ: Final = re.compile(r":rtekind (\d+) :relid (\d+)")
_ENTRY: Final = "{RANGETBLENTRY"
# What a view of rows of one table is made of in the server's own notation; whatever else computes, joins or counts.
_PLAIN: Final = {
    "QUERY",
    "RANGETBLENTRY",
    "RTEPERMISSIONINFO",
    "ALIAS",
    "FROMEXPR",
    "RANGETBLREF",
    "TARGETENTRY",
    "VAR",
    "CONST",
    "OPEXPR",
    "FUNCEXPR",
    "BOOLEXPR",
    "NULLTEST",
    "BOOLEANTEST",
    "RELABELTYPE",
    "SCALARARRAYOPEXPR",
    "DISTINCTEXPR",
    "ARRAYEXPR",
    "CASEEXPR",
    "CASEWHEN",
    "COALESCEEXPR",
    "COALESCE",
    "CASE",
    "WHEN",
    "ARRAY",
}
_KEYWORDS: Final = (
    "distinctClause",
    "groupClause",
    "havingQual",
    "sortClause",
    "limitCount",
    "limitOffset",
    "setOperations",
)
_VOLATILE: Final = "SELECT 1 FROM pg_proc WHERE oid = ANY($1::oid[]) AND provolatile = 'v' LIMIT 1"
_MAY_FAIL: Final = """
SELECT 1 FROM unnest($1::oid[]) AS called
WHERE NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.oid = called AND p.proleakproof) LIMIT 1
"""
_ROWS: Final = "SELECT relkind::text, relrowsecurity FROM pg_class WHERE oid = $1"
_FOREIGN: Final = """
WITH RECURSIVE parts(oid) AS (
  SELECT $1::oid UNION SELECT i.inhrelid FROM parts p JOIN pg_inherits i ON i.inhparent = p.oid
)
SELECT 1 FROM parts p JOIN pg_class c ON c.oid = p.oid WHERE c.relkind = 'f' LIMIT 1
"""


def check_view(cursor: Cursor, table: str, oid: int) -> str:
    """What the view is made of; `SchemaMismatch` unless it picks columns and rows of one table and cannot fail.

    A function that PostgreSQL calls leakproof tells nothing of its arguments but its result, so it never fails because
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
    used = any(re.search(rf":{word} (?!<>)", made) for word in _KEYWORDS)
    many = len(below) != 1 or made.count(_ENTRY) != len(_READ.findall(made))
    if used or many or not set(_NODE.findall(made)) <= _PLAIN:
        raise _refused(table, "does more than choose columns and rows of one table")
    return made + _check_below(cursor, table, int(below[0]))


def _check_below(cursor: Cursor, table: str, oid: int) -> str:
    [(kind, secured)] = cursor.execute(_ROWS, [oid]).fetchall()
    if secured:
        raise _refused(table, "reads a table with row level security, whose policies choose the rows")
    if kind == "v":
        return check_view(cursor, table, oid)
    if kind not in ("r", "p", "m") or cursor.execute(_FOREIGN, [oid]).fetchone() is not None:
        raise _refused(table, "reads a foreign table, which is in no state of this server")
    return ""


def _refused(table: str, why: str) -> SchemaMismatch:
    return SchemaMismatch(f"the view {table!r} {why}; make it a table or a materialized view")
