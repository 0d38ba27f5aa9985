"""Units that may still take part: counts and totals of units each of which is used up after so many hits."""

from chary.data.engines.engine import LivingReading
from chary.data.queries.count import Count
from chary.data.queries.query import Query
from chary.data.queries.total import Total
from chary.data.rows.rows import Rows
from chary.data.rows.table import RowTable
from chary.errors import InvalidQuery


def living(rows: Rows, query: Query) -> LivingReading:
    """Compile a count or total of living units; `InvalidQuery` for other queries, and rows that are no table of units.

    >>> import pyarrow as pa
    >>> from chary.data import Neighbouring, count
    >>> from chary.data.rows.rooms import Rooms
    >>> rows = pa.table({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> table = RowTable.open(rows, neighbouring=Neighbouring("add/remove", "patient"))
    >>> with living(table, count("age >= 65")).at(Rooms(pa.table({"unit": [2], "room": [0]}), hits=3)) as units:
    ...     int(units.answers()[0]), units.of([0])["unit"].to_pylist()
    (1, [1])
    """
    table = table_of_units(rows)
    if not isinstance(query, (Count, Total)):
        raise InvalidQuery('living units are counted or added up: ask count("age >= 65") or total("cost", ...)')
    return table.held.living(query)


def table_of_units(rows: Rows) -> RowTable:
    """The rows; `InvalidQuery` where units cannot be recognised when they are met again."""
    if not isinstance(rows, RowTable) or rows.neighbouring.unit is None:
        raise InvalidQuery(
            "individual charging recognises each unit by its id: open a table with privacy_unit='column' "
            "(rows without an id cannot be told apart)"
        )
    rows.held.check_units()
    return rows
