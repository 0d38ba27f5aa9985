"""Running a compiled query on Spark."""

import weakref
from typing import TYPE_CHECKING, Final

from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.evaluation import ANSWER, evaluate
from chary.data.engines.expressions.positions import HALF, POSITION, scattered
from chary.data.engines.spark.spark_dialect import SparkDialect
from chary.data.engines.spark.spark_work import ROWS, Columns, SparkWork, fresh
from chary.data.queries.query import Query
from chary.data.queries.total import Total
from chary.data.rows.rows import Answer

if TYPE_CHECKING:
    from chary.data.engines.spark.spark_rows import SparkRows

# Sums of 2**40 rows of so many steps fit into 64 bits.
_FEW_STEPS: Final = 2**22


class SparkKeys:
    """The keys of a query as a small view: made when it is first needed, gone after this object."""

    def __init__(self, work: SparkWork, name: str, columns: Columns) -> None:
        self._work, self._name, self._columns = work, name, columns
        self._made = False
        weakref.finalize(self, work.retire, name)

    def ready(self) -> str:
        """Its name, once it is there."""
        if not self._made:
            self._work.offer(self._name, self._columns)
            self._made = True
        return self._name


class SparkPlan:
    """SQL compiled once from a query; each `run` is one query of Spark's."""

    def __init__(self, rows: "SparkRows", query: Query) -> None:
        place = QueryPlace(ROWS, fresh("keys"), SparkDialect(wide=not _is_narrow(query)))
        evaluation = evaluate(query, rows.schema, rows.unit, place)
        self._rows, self._query, keys = rows, query, evaluation.keys
        self._keys = None if keys is None else SparkKeys(rows.work, place.keys, keys)
        self._length = evaluation.positions if keys is None else len(keys[POSITION][1])
        sql = place.sql(evaluation.expression)
        self.sql = sql if self._length is None else f"SELECT {POSITION}, {halves(ANSWER)} FROM ({sql})"

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: see `ReadingPlan`."""
        with self._rows.state():
            if self._keys is not None:
                self._keys.ready()
            found = self._rows.work.read(self.sql, "answered the query")
        if self._length is None:
            return int(found[ANSWER][0].as_py() or 0)
        return scattered({name: found[name].to_numpy() for name in found.column_names}, self._length)

    def __repr__(self) -> str:
        return f"SparkPlan({self._query.describe()})"


def halves(summed: str) -> str:
    """Sums have up to 38 digits; two halves of 64 bits are quickly read."""
    return f"CAST({summed} DIV {HALF} AS BIGINT) AS high, CAST({summed} % {HALF} AS BIGINT) AS low"


def _is_narrow(query: Query) -> bool:
    """Whether no sum of the query needs more than 64 bits: of products they are of 2**24 steps at most."""
    return not isinstance(query, Total) or max(map(abs, query.steps)) <= _FEW_STEPS
