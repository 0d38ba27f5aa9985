"""Which batches of rows were appended: kept in a table beside the rows and written in their transaction."""

from dataclasses import dataclass
from typing import Any

from chary.data.columns import quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.tables.relation import KEPT, FoundRelation
from chary.data.rows.batch import Batch
from chary.errors import EngineFailure

_THERE = """
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
"""
_MAY_CREATE = "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1"
_COLUMNS = "(of_table text, number bigint, request text, rows bigint, PRIMARY KEY (of_table, number))"


@dataclass(frozen=True)
class ServerBatches:
    """The batches of the rows of a relation, in the table `chary_batches` of the same schema, for all its tables."""

    relation: FoundRelation

    @property
    def table(self) -> str:
        """Its name in SQL."""
        return f"{quote(self.relation.schema)}.{KEPT}"

    def after(self, cursor: Cursor, number: int) -> list[Batch]:
        """The batches above a number, in order of arrival; none where the role may not see them."""
        return self._found(cursor, "number > $2 ORDER BY number", number)

    def asked(self, cursor: Cursor, request: str | None) -> Batch | None:
        """The batch that came under this request key, if there is one."""
        found = [] if request is None else self._found(cursor, "request = $2", request)
        return found[0] if found else None

    def prepare(self, cursor: Cursor) -> None:
        """Let one writer in at a time, and make the table where there is none; `EngineFailure` for a missing right."""
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [f"{self.table} {self.relation.name}"])
        rights = cursor.execute(_THERE, [self.relation.schema, KEPT]).fetchone()
        if rights is None:
            [(may,)] = cursor.execute(_MAY_CREATE, [self.relation.schema]).fetchall()
            if not may:
                raise _lacking(f"CREATE on the schema {self.relation.schema!r}, or a table {KEPT} there {_COLUMNS}")
            cursor.execute(f"CREATE TABLE {self.table} {_COLUMNS}")
        elif not all(rights):
            raise _lacking(f"SELECT and INSERT on {self.relation.schema}.{KEPT}")

    def add(self, cursor: Cursor, request: str | None) -> Batch:
        """Remember the rows just written as the next batch, in the transaction that wrote them."""
        [(rows,)] = cursor.execute(f"SELECT count(*) FROM {self.relation.sql}").fetchall()
        last = self._found(cursor, "number > $2 ORDER BY number DESC LIMIT 1", 0)
        batch = Batch(last[0].number + 1 if last else 1, request, rows)
        values = [self.relation.name, batch.number, request, rows]
        cursor.execute(f"INSERT INTO {self.table} VALUES ($1, $2, $3, $4)", values)
        return batch

    def _found(self, cursor: Cursor, condition: str, value: Any) -> list[Batch]:
        rights = cursor.execute(_THERE, [self.relation.schema, KEPT]).fetchone()
        if rights is None or not rights[0]:
            return []
        sql = f"SELECT number, request, rows FROM {self.table} WHERE of_table = $1 AND {condition}"
        return [Batch(*row) for row in cursor.execute(sql, [self.relation.name, value]).fetchall()]


def _lacking(right: str) -> EngineFailure:
    return EngineFailure(f"rows cannot be appended: the role lacks the right to {right}; nothing was written")
