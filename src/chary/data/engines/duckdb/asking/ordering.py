"""Reading the values of a column in order."""

from functools import partial
from typing import Any, Final

from chary.data.engines.duckdb.asking.adding import Adding, adds_up
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.engines.duckdb.duck_dialect import DUCK
from chary.data.engines.duckdb.growing.growth import GROWN
from chary.data.engines.duckdb.reading.loading import Loader
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.value_order import in_order, ordered_rows
from chary.data.queries.ordered_values import Ordered
from chary.data.rows.rows import Deferred

_DOING: Final = "put the values in order"


def ordering(database: Database, asked: Ordered, loader: Loader) -> Deferred:
    """Reads, in one scan, the values that occur; `InvalidQuery` when that does not fit the schema.

    Where each row is a unit of its own, how often each value occurs adds up over batches (`Adding`).
    """
    whole = partial(_occurring, asked, _sql(asked, loader, ROWS))
    if not adds_up(loader.unit):
        return Deferred(asked, lambda: database.ask(whole, _DOING))
    grown: list[str] = []

    def what_came(connection: Any) -> Any:
        if not grown:
            grown.append(_sql(asked, loader, GROWN))
        return _occurring(asked, grown[0], connection)

    added = partial(Adding(loader).answer, whole, what_came)
    return Deferred(asked, lambda: database.ask(added, _DOING))


def _occurring(asked: Ordered, sql: str, connection: Any) -> Any:
    found = connection.execute(sql).fetchnumpy()
    return in_order(asked, found["value"], found["times"])


def _sql(asked: Ordered, loader: Loader, rows: str) -> str:
    place = QueryPlace(rows, "", DUCK)
    return place.sql(ordered_rows(asked, loader.schema, loader.unit, place))
