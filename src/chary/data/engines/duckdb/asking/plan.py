"""Running a compiled query on the engine."""

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from chary.data.columns import Schema
from chary.data.engines.duckdb.asking.evaluation import ANSWER, POSITION, QueryPlace, evaluate, sql_of
from chary.data.engines.duckdb.database import ROWS, Database, Offered, fresh
from chary.data.queries.query import Query
from chary.data.rows.rows import Answer

# Two halves hold sums up to 2**95 steps: those of 2**42 rows with the 2**53 steps that a total allows each.
_HALF = 2**32


class EnginePlan:
    """SQL compiled once from a query; each `run` is one scan under the lock of the database."""

    def __init__(self, database: Database, query: Query, schema: Schema, unit: str | None) -> None:
        name = fresh("keys")
        evaluation = evaluate(query, schema, unit, QueryPlace(ROWS, name))
        self._query, self._database = query, database
        self._keys = None if evaluation.keys is None else Offered(database, name, evaluation.keys)
        self._length = evaluation.positions
        if evaluation.keys is not None:
            self._length = len(evaluation.keys[POSITION][1])
        self.sql = _sql(evaluation.expression, self._length is not None)

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: an int, or an int64 array in key order with 0 for keys without rows.

        The array holds Python integers instead when one does not fit into 64 bits. Any failure of the engine is an
        `EngineFailure` that names no value.
        """
        answer: Answer = self._database.ask(self._run, "answered the query")
        return answer

    def _run(self, connection: duckdb.DuckDBPyConnection) -> Answer:
        if self._length is None:
            # DuckDB refuses other work on the connection until a result has been fetched to its end.
            [(answer,)] = connection.execute(self.sql).fetchall()
            return int(answer or 0)
        if self._keys is not None:
            self._keys.ready()
        return scattered(connection.execute(self.sql).fetchnumpy(), self._length)

    def __repr__(self) -> str:
        return f"EnginePlan({self._query.describe()})"


def _sql(expression: Any, keyed: bool) -> str:
    sql = sql_of(expression)
    if not keyed:
        return sql
    return f"SELECT {POSITION}, {halves(ANSWER)} FROM ({sql})"


def halves(summed: str) -> str:
    """Sums are 128 bits wide in the engine and would come out as doubles; two halves of 64 bits are exact."""
    return f"CAST({summed} // {_HALF} AS BIGINT) AS high, CAST({summed} % {_HALF} AS BIGINT) AS low"


def scattered(columns: Mapping[str, npt.NDArray[Any]], length: int) -> npt.NDArray[Any]:
    """The sums of such halves by position, 0 where there are none; Python integers where 64 bits do not hold them."""
    position, high, low = (np.asarray(columns[name]) for name in (POSITION, "high", "low"))
    if np.any(np.abs(high) >= _HALF // 2):
        high = high.astype(object)
    answers = np.zeros(length, dtype=high.dtype)
    answers[position] = high * _HALF + low
    return answers
