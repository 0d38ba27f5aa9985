"""Running a compiled query on the engine."""

from dataclasses import replace
from functools import partial

import duckdb

from chary.data.engines.duckdb.asking.adding import Adding, adds_up
from chary.data.engines.duckdb.database import ROWS, Database, Offered, fresh
from chary.data.engines.duckdb.duck_dialect import DUCK
from chary.data.engines.duckdb.growing.growth import GROWN
from chary.data.engines.duckdb.reading.loading import Loader
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.evaluation import ANSWER, evaluate
from chary.data.engines.expressions.positions import HALF, POSITION, scattered
from chary.data.queries.query import Query
from chary.data.rows.rows import Answer


class EnginePlan:
    """SQL compiled once from a query; each `run` is one scan under the lock of the database.

    Where answers add up (`Adding`) the last one is remembered, and a later run scans what came since.
    """

    def __init__(self, database: Database, loader: Loader, query: Query) -> None:
        name = fresh("keys")
        self._place, self._loader = QueryPlace(ROWS, name, DUCK), loader
        evaluation = evaluate(query, loader.schema, loader.unit, self._place)
        self._query, self._database = query, database
        self._adding = Adding(loader) if adds_up(loader.unit) else None
        self._grown_sql: str | None = None
        self._keys = None if evaluation.keys is None else Offered(database, name, evaluation.keys)
        self._length = evaluation.positions
        if evaluation.keys is not None:
            self._length = len(evaluation.keys[POSITION][1])
        self.sql = _sql(self._place.sql(evaluation.expression), self._length is not None)

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: an int, or an int64 array in key order with 0 for keys without rows.

        The array holds Python integers instead when one does not fit into 64 bits. Any failure of the engine is an
        `EngineFailure` that names no value.
        """
        work = self._whole if self._adding is None else partial(self._adding.answer, self._whole, self._grown)
        answer: Answer = self._database.ask(work, "answered the query")
        return answer

    def _whole(self, connection: duckdb.DuckDBPyConnection) -> Answer:
        return self._run(connection, self.sql)

    def _grown(self, connection: duckdb.DuckDBPyConnection) -> Answer:
        if self._grown_sql is None:
            place = replace(self._place, rows=GROWN)
            found = evaluate(self._query, self._loader.schema, self._loader.unit, place).expression
            self._grown_sql = _sql(place.sql(found), self._length is not None)
        return self._run(connection, self._grown_sql)

    def _run(self, connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
        if self._length is None:
            # DuckDB refuses other work on the connection until a result has been fetched to its end.
            [(answer,)] = connection.execute(sql).fetchall()
            return int(answer or 0)
        if self._keys is not None:
            self._keys.ready()
        return scattered(connection.execute(sql).fetchnumpy(), self._length)

    def __repr__(self) -> str:
        return f"EnginePlan({self._query.describe()})"


def _sql(sql: str, keyed: bool) -> str:
    if not keyed:
        return sql
    return f"SELECT {POSITION}, {halves(ANSWER)} FROM ({sql})"


def halves(summed: str) -> str:
    """Sums are 128 bits wide in the engine and would come out as doubles; two halves of 64 bits are exact."""
    return f"CAST({summed} // {HALF} AS BIGINT) AS high, CAST({summed} % {HALF} AS BIGINT) AS low"
