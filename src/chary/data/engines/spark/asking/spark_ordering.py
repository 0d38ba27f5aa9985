"""Reading the values of a column in order, by Spark."""

from typing import TYPE_CHECKING, Any, Final

from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.value_order import in_order, ordered_rows
from chary.data.engines.spark.spark_dialect import SPARK
from chary.data.engines.spark.spark_work import ROWS
from chary.data.queries.ordered_values import Ordered
from chary.data.rows.rows import Deferred

if TYPE_CHECKING:
    from chary.data.engines.spark.spark_rows import SparkRows

_PLACE: Final = QueryPlace(ROWS, "", SPARK)


def ordering(rows: "SparkRows", asked: Ordered) -> Deferred:
    """Reads, in one query, the values that occur; `InvalidQuery` when that does not fit the schema."""
    inner = _PLACE.sql(ordered_rows(asked, rows.schema, rows.unit, _PLACE))
    sql = f"SELECT CAST(value AS BIGINT) AS value, CAST(times AS BIGINT) AS times FROM ({inner})"

    def occurring() -> Any:
        found = rows.read(sql, "put the values in order")
        return in_order(asked, found["value"].to_numpy(), found["times"].to_numpy())

    return Deferred(asked, occurring)
