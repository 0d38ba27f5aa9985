"""Reading the time steps of a series from files and frames."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np

from chary.data.columns import SQL_TYPES, TypeClass, quote
from chary.data.engines.duckdb.connecting import Access
from chary.data.engines.duckdb.reading.attaching import attach, copied, describe, relation_of, texts_of, typed
from chary.data.engines.duckdb.reading.casting import inferred
from chary.data.engines.duckdb.reading.loading import read_columns, select
from chary.data.files.sources import RowSource
from chary.data.rows.steps import StepColumns, Steps, check_steps
from chary.data.silence import quietly
from chary.errors import SchemaMismatch

Types = Mapping[str, str]


def read_steps(source: RowSource, asked: StepColumns, types: Types | None) -> Steps:
    """All steps; texts are of the types of earlier steps, or those of public columns of the types found in them."""
    failure = SchemaMismatch("the source cannot be read as a table with one type for each column")
    with Access().connect() as connection:
        columns, types = quietly(lambda: _columns(connection, copied(source), asked, types), failure)
    check_steps(columns, asked)
    orders, labels = (None if name is None else tuple(columns[name]) for name in (asked.order_by, asked.labels))
    return Steps(np.array(columns[asked.column], dtype=np.int64), orders, labels, types)


def _columns(
    connection: duckdb.DuckDBPyConnection, source: RowSource, asked: StepColumns, types: Types | None
) -> tuple[dict[str, list[Any]], Types]:
    attach(connection, source)
    relation = _relation(connection, source, asked, types)
    known = {column.name: column for column in read_columns(describe(connection, relation), None)}
    for name in asked.names:
        if name not in known:
            raise SchemaMismatch(f"there is no column {name!r}")
    chosen = {name: known[name] for name in asked.names}
    if chosen[asked.column].type != TypeClass.INTEGER:
        raise SchemaMismatch(f"column {asked.column!r} is {chosen[asked.column].type}; a series needs whole numbers")
    order = "" if asked.order_by is None else f" ORDER BY {quote(asked.order_by)}"
    cells = connection.execute(select(tuple(chosen.values()), relation) + order).fetchall()
    kinds = {name: SQL_TYPES.get(column.type, "VARCHAR") for name, column in chosen.items()}
    return {name: [row[place] for row in cells] for place, name in enumerate(chosen)}, kinds


def _relation(connection: duckdb.DuckDBPyConnection, source: RowSource, asked: StepColumns, types: Types | None) -> str:
    texts = [name for name, is_text in texts_of(connection, source).items() if is_text]
    if types is None:
        # The counts are secret, so their type is said and not found.
        public = [name for name in asked.names if name != asked.column and name in texts]
        found = inferred(connection, public, relation_of(source), None, source.dialect)
        types = {asked.column: "BIGINT"} | found
    return typed(connection, replace(source, types={name: types[name] for name in texts if name in types}))
