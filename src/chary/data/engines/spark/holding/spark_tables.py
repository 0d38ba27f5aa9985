"""Tables of a catalog, as they are when they are opened."""

from typing import Any, Final

from chary.data.engines.spark.holding.spark_types import backquoted
from chary.errors import SchemaMismatch

# What says which version of a table is its newest, where a table has versions.
_NEWEST: Final = {
    "delta": ("DESCRIBE HISTORY {table} LIMIT 1", "version"),
    "iceberg": ("SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1", "snapshot_id"),
}
_VIEWS: Final = ("VIEW", "TEMPORARY", "METRIC_VIEW")


def table_frame(session: Any, name: str) -> Any:
    """The rows of a table; of its newest version, for good, where it has versions.

    `SchemaMismatch` for a table that is not there, and for a view, which a row may make fail.
    """
    quoted = ".".join(backquoted(part) for part in name.split("."))
    if not session.catalog.tableExists(name):
        raise SchemaMismatch(f"the session knows no table {name!r}")
    if session.catalog.getTable(name).tableType in _VIEWS:
        raise SchemaMismatch(f"{name!r} is a view, which a row may make fail: copy it into a table")
    provider = _provider(session, quoted)
    if provider in _NEWEST:
        asked, column = _NEWEST[provider]
        for newest in session.sql(asked.format(table=quoted)).collect():
            return session.sql(f"SELECT * FROM {quoted} VERSION AS OF {int(newest[column])}")
    return session.table(quoted)


def _provider(session: Any, quoted: str) -> str:
    told = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    return next((str(row[1]).lower() for row in told if row[0] == "Provider"), "")
