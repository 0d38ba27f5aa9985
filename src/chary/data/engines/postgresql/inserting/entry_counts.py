"""Looking for units with too many rows, at the server."""

from collections.abc import Sequence
from typing import Any

from chary.data.columns import TypeClass, quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.statement import ROWS, Sent, Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.rows.entry_limit import EntryLimit
from chary.errors import SchemaMismatch

_AMONG = "chary_entered"
_COUNTED = (TypeClass.INTEGER, TypeClass.STRING)


def check_entry_counts(cursor: Cursor, rows: StoredRows, limit: EntryLimit, among: Sequence[Any] | None = None) -> None:
    """`SchemaMismatch`, naming nobody, if a unit (one of `among`, if given) is in too many rows."""
    if limit.of not in rows.schema:
        raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
    kind, unit = rows.schema[limit.of], quote(limit.of)
    if kind not in _COUNTED:
        raise SchemaMismatch(f"the units of entries in {limit.of!r} are no integers or texts")
    asked, sent = f"{unit} IS NOT NULL", []
    if among is not None:
        sent = [Sent(_AMONG, {"unit": (kind, [each for each in among if each is not None])})]
        asked = f"{unit} IN (SELECT unit FROM {_AMONG})"
    # One row tells enough: which units they are, and how many, is nobody's business.
    crowded = f"SELECT 1 FROM {ROWS} WHERE {asked} GROUP BY {unit} HAVING count(*) > {limit.most} LIMIT 1"
    if Statement(rows.sql).execute(cursor, crowded, sent):
        raise SchemaMismatch(f"some {limit.of} would have more than {limit.most} entries; nothing was written")
