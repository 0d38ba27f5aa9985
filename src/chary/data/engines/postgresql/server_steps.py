"""Reading the time steps of a series from a table of a server."""

from itertools import pairwise
from typing import Any, Final

import numpy as np

from chary.data.columns import TypeClass, quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.statement import ROWS, Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.rows.steps import StepColumns, Steps, check_steps
from chary.errors import InvalidParameter, SchemaMismatch

_DECLARED: Final = {
    TypeClass.BOOLEAN: "BOOLEAN",
    TypeClass.INTEGER: "BIGINT",
    TypeClass.FLOAT: "DOUBLE",
    TypeClass.DATE: "DATE",
    TypeClass.TIMESTAMP: "TIMESTAMP",
}


def read_server_steps(server: Server, table: str, asked: StepColumns) -> Steps:
    """All steps in the order of a column, which has to tell them apart: a table of a server has no order of its own.

    Steps that are equal there would be put in another order by each reading, or by their secret counts.
    """
    if asked.order_by is None:
        raise InvalidParameter("a table of a server has no order: name the column that orders the steps, order_by=")
    found = server.ask(lambda cursor: _columns(cursor, table, asked), "read the steps")
    schema, cells = found
    check_steps(cells, asked)
    orders = tuple(cells[asked.order_by])
    if any(first == second for first, second in pairwise(orders)):
        raise SchemaMismatch(f"two steps are equal in {asked.order_by!r}, so that they have no order")
    labels = None if asked.labels is None else tuple(cells[asked.labels])
    types = {name: _DECLARED.get(TypeClass(schema[name]), "VARCHAR") for name in asked.names}
    return Steps(np.array(cells[asked.column], dtype=np.int64), orders, labels, types)


def _columns(cursor: Cursor, table: str, asked: StepColumns) -> tuple[dict[str, str], dict[str, list[Any]]]:
    rows = StoredRows.find(cursor, table, None, None)
    for name in asked.names:
        if name not in rows.schema:
            raise SchemaMismatch(f"there is no column {name!r}")
        if rows.schema[name] not in set(TypeClass):
            raise SchemaMismatch(f"column {name!r} is {rows.schema[name]}, which no step has")
    if rows.schema[asked.column] != TypeClass.INTEGER:
        raise SchemaMismatch(f"column {asked.column!r} is {rows.schema[asked.column]}; a series needs whole numbers")
    names = ", ".join(map(quote, asked.names))
    sql = f"SELECT {names} FROM {ROWS} ORDER BY {quote(str(asked.order_by))}"
    found = Statement(rows.sql).execute(cursor, sql)
    return rows.schema, {name: [row[place] for row in found] for place, name in enumerate(asked.names)}
