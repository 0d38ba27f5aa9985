"""Which batches of rows were appended: kept beside the rows and written in their transaction."""

from dataclasses import dataclass

import duckdb

from chary.data.engines.duckdb.connecting import text
from chary.data.rows.batch import Batch

# The name is in files that were written: it must never change.
KEPT = "chary_batches"


@dataclass(frozen=True)
class Batches:
    """The batches of the rows in `relation`, in the table `chary_batches` of the same database.

    So rows and their batch are in the database together or not at all, whatever happens. A DuckDB file keeps them, of
    all its tables by `name`; elsewhere both are gone with the engine.
    """

    name: str
    relation: str
    in_file: bool

    def after(self, connection: duckdb.DuckDBPyConnection, number: int) -> list[Batch]:
        """The batches above a number, in order of arrival."""
        return self._found(connection, f"number > {int(number)} ORDER BY number")

    def count(self, connection: duckdb.DuckDBPyConnection) -> int:
        """How many batches there are."""
        last = self._found(connection, "true ORDER BY number DESC LIMIT 1")
        return last[0].number if last else 0

    def asked(self, connection: duckdb.DuckDBPyConnection, request: str | None) -> Batch | None:
        """The batch that came under this request key, if there is one."""
        found = [] if request is None else self._found(connection, f"request = {text(request)}")
        return found[0] if found else None

    def add(self, connection: duckdb.DuckDBPyConnection, request: str | None) -> Batch:
        """Remember the rows just written as the next batch, in the transaction that wrote them."""
        connection.execute(
            f"CREATE {'' if self.in_file else 'TEMP '}TABLE IF NOT EXISTS {KEPT} "
            "(of_table VARCHAR, number BIGINT, request VARCHAR, rows BIGINT, PRIMARY KEY (of_table, number))"
        )
        [(rows,)] = connection.execute(f"SELECT count(*) FROM {self.relation}").fetchall()
        batch = Batch(self.count(connection) + 1, request, rows)
        connection.execute(f"INSERT INTO {self._kept} VALUES (?, ?, ?, ?)", [self.name, batch.number, request, rows])
        return batch

    @property
    def _kept(self) -> str:
        return KEPT if self.in_file else f"temp.main.{KEPT}"

    def _found(self, connection: duckdb.DuckDBPyConnection, condition: str) -> list[Batch]:
        known = connection.execute(
            f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{KEPT}' AND schema_name = 'main' "
            f"AND temporary = {not self.in_file}"
        )
        if not known.fetchall():
            return []
        # The engine finds a table in whatever case its name is written.
        ours = f"lower(of_table) = lower({text(self.name)}) AND {condition}"
        rows = connection.execute(f"SELECT number, request, rows FROM {self._kept} WHERE {ours}")
        return [Batch(*row) for row in rows.fetchall()]
