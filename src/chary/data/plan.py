"""Running a compiled query on the engine."""

import itertools
import weakref
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt

from chary.data.columns import Schema
from chary.data.engine import ROWS, Engine, quietly
from chary.data.evaluation import ANSWER, POSITION, Place, evaluate
from chary.data.query import Query
from chary.data.rows import Answer
from chary.errors import EngineFailure

_HALF = 2**32
_numbers = itertools.count()


class EnginePlan:
    """SQL compiled once from a query; each `run` is one scan under the engine's lock."""

    def __init__(self, engine: Engine, query: Query, schema: Schema, unit: str | None) -> None:
        self._name = f"chary_keys_{next(_numbers)}"
        evaluation = evaluate(query, schema, unit, Place(ROWS, self._name))
        self._query, self._engine, self._keys = query, engine, evaluation.keys
        self._generation = 0
        self.sql = _sql(evaluation.expression, self._keys is not None)
        if self._keys is not None:
            weakref.finalize(self, engine.retire, self._name)

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: an int, or an int64 array in key order with 0 for keys without rows.

        The array holds Python integers instead when one does not fit into 64 bits. Any failure of the engine is an
        `EngineFailure` that names no value.
        """
        answer: Answer = quietly(self._run, EngineFailure("the engine failed while it answered the query"))
        return answer

    def _run(self) -> Answer:
        with self._engine.connection() as connection:
            if self._keys is None:
                # DuckDB refuses other work on the connection until a result has been fetched to its end.
                [(answer,)] = connection.execute(self.sql).fetchall()
                return int(answer or 0)
            if self._generation != self._engine.generation:
                self._engine.offer(self._name, self._keys)
                self._generation = self._engine.generation
            return _scatter(connection.execute(self.sql).fetchnumpy(), len(self._keys[POSITION][1]))

    def __repr__(self) -> str:
        return f"EnginePlan({self._query.describe()})"


def _sql(expression: Any, keyed: bool) -> str:
    sql = str(ibis.to_sql(expression, dialect="duckdb", pretty=False))
    if not keyed:
        return sql
    # Sums are 128 bits wide in the engine and would come out as doubles; two halves of 64 bits are exact.
    halves = f"CAST({ANSWER} // {_HALF} AS BIGINT) AS high, CAST({ANSWER} % {_HALF} AS BIGINT) AS low"
    return f"SELECT {POSITION}, {halves} FROM ({sql})"


def _scatter(columns: dict[str, npt.NDArray[Any]], length: int) -> Answer:
    position, high, low = (np.asarray(columns[name]) for name in (POSITION, "high", "low"))
    if np.any(np.abs(high) >= _HALF // 2):
        high = high.astype(object)
    answers = np.zeros(length, dtype=high.dtype)
    answers[position] = high * _HALF + low
    return answers
