"""Tables in DuckDB files: which can be read, and which can grow, without a row that makes that fail."""

import duckdb

from chary.data.columns import listed, quote
from chary.data.engines.duckdb.connecting import text
from chary.data.engines.duckdb.growing.batches import KEPT
from chary.errors import SchemaMismatch

_LIMITS = {
    "duckdb_constraints()": "lower(replace(constraint_type, '_', ' '))",
    "duckdb_indexes()": "'index'",
    "duckdb_triggers()": "'trigger'",
}


def stored_relation(connection: duckdb.DuckDBPyConnection, name: str, catalog: str) -> str:
    """SQL for a table of the main schema; `SchemaMismatch` if there is none or if reading it may fail on a row.

    That is so of views and of generated columns, which are computed when they are read: a failure would tell of rows.
    """
    views = connection.execute(
        "SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal AND NOT temporary"
    ).fetchall()
    if (name.lower(),) in views:
        raise SchemaMismatch(f"{name!r} is a view, which a row may make fail: copy it into a table")
    found = connection.execute(
        "SELECT table_name, sql FROM duckdb_tables() WHERE NOT internal AND NOT temporary AND schema_name = 'main' "
        f"AND table_name <> {text(KEPT)} ORDER BY table_name"
    ).fetchall()
    made = {known.lower(): sql for known, sql in found}
    if name.lower() not in made:
        raise SchemaMismatch(f"no table {name!r} in this file; there are: {listed([k for k, _ in found]) or 'none'}")
    if "GENERATED ALWAYS AS" in made[name.lower()].upper():
        raise SchemaMismatch(f"{name!r} has generated columns, which a row may make fail: {_copied(name)}")
    return f"{quote(catalog)}.main.{quote(name)}"


def check_growable(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """`SchemaMismatch` for a table that may refuse a row: because of others, which it would tell of, or of itself."""
    ours = f"lower(table_name) = {text(name.lower())} AND schema_name = 'main' AND database_name = current_database()"
    asked = [f"SELECT {what} AS what FROM {where} WHERE {ours}" for where, what in _LIMITS.items()]
    found = connection.execute(f"SELECT DISTINCT what FROM ({' UNION ALL '.join(asked)}) ORDER BY what").fetchall()
    if found:
        raise SchemaMismatch(
            f"rows cannot be appended to {name!r}, which has: {listed([what for (what,) in found])}. Whether it "
            f"takes a row may follow from the rows, and a refusal would tell of them; {_copied(name)}. "
            "Nothing was written"
        )


def _copied(name: str) -> str:
    return f"copy it into a table without them, as in CREATE TABLE copied AS FROM {quote(name)}"
