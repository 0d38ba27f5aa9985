"""Looking for units with too many rows."""

import duckdb

from chary.data.columns import quote
from chary.data.rows.entry_limit import EntryLimit
from chary.errors import SchemaMismatch


def check_entries(
    connection: duckdb.DuckDBPyConnection, limit: EntryLimit, relation: str, among: str | None = None
) -> None:
    """`SchemaMismatch`, naming nobody, if a unit (of the relation `among`, if given) is in too many rows."""
    unit = quote(limit.of)
    asked = f"{unit} IS NOT NULL" if among is None else f"{unit} IN (SELECT {unit} FROM {among})"
    # One row tells enough: which units they are, and how many, is nobody's business.
    crowded = f"SELECT 1 FROM {relation} WHERE {asked} GROUP BY {unit} HAVING count(*) > {limit.most} LIMIT 1"
    if connection.execute(crowded).fetchall():
        raise SchemaMismatch(f"some {limit.of} would have more than {limit.most} entries; nothing was written")
