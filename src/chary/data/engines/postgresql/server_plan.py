"""Running compiled queries on the server."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.evaluation import ANSWER, evaluate
from chary.data.engines.expressions.positions import POSITION, scattered
from chary.data.engines.expressions.value_order import in_order, ordered_rows
from chary.data.engines.postgresql.postgres_dialect import POSTGRES, halves
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.statement import ROWS, Sent, Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.queries.ordered_values import Ordered
from chary.data.queries.query import Query
from chary.data.rows.rows import Answer, Deferred

_numbers = itertools.count()


def place_of(keys: str = "") -> QueryPlace:
    """Where queries find their rows, and the table of keys of that name."""
    return QueryPlace(ROWS, keys, POSTGRES)


def fresh(kind: str) -> str:
    """A name that no other table that is sent has."""
    return f"chary_{kind}_{next(_numbers)}"


class ServerPlan:
    """SQL compiled once from a query; each `run` is one statement in a transaction that only reads."""

    def __init__(self, server: Server, rows: StoredRows, query: Query) -> None:
        place = place_of(fresh("keys"))
        found = evaluate(query, rows.schema, rows.unit, place)
        self._query, self._server, self._statement = query, server, Statement(rows.sql)
        self._keys = [] if found.keys is None else [Sent(place.keys, found.keys)]
        self._length = found.positions if found.keys is None else len(found.keys[POSITION][1])
        self.sql = place.sql(found.expression)
        if self._length is not None:
            self.sql = f"SELECT {POSITION}, {halves(ANSWER)} FROM ({self.sql}) AS answered"

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer, as `ReadingPlan` says; any failure of the server is an `EngineFailure` without a value."""
        return self._server.ask(self._read, "answered the query")

    def _read(self, cursor: Cursor) -> Answer:
        rows = self._statement.execute(cursor, self.sql, self._keys)
        if self._length is None:
            [(answer,)] = rows
            return int(answer or 0)
        return scattered(columns_of(rows, (POSITION, "high", "low")), self._length)

    def __repr__(self) -> str:
        return f"ServerPlan({self._query.describe()})"


def columns_of(rows: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Rows of 64-bit integers as columns."""
    cells = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
    return {name: cells[:, place] for place, name in enumerate(names)}


def ordering_of(server: Server, rows: StoredRows, asked: Ordered) -> Deferred:
    """Reads the values that occur; `InvalidQuery` when that does not fit the schema."""
    place, statement = place_of(), Statement(rows.sql)
    sql = place.sql(ordered_rows(asked, rows.schema, rows.unit, place))

    def read(cursor: Cursor) -> Any:
        found = columns_of(statement.execute(cursor, sql), ("value", "times"))
        return in_order(asked, found["value"], found["times"])

    return Deferred(asked, lambda: server.ask(read, "put the values in order"))
