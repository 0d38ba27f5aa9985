"""Reading elements as keyed 64-bit words."""

import re
from typing import Final

import duckdb
import numpy as np

from chary.data.columns import Schema, TypeClass, classify
from chary.data.engines.duckdb.database import ROWS, Database
from chary.data.engines.duckdb.duck_dialect import DUCK
from chary.data.engines.duckdb.growing.growth import growing
from chary.data.engines.duckdb.reading.loading import Loader
from chary.data.engines.expressions.dialect import QueryPlace
from chary.data.engines.expressions.element_rows import element_column, element_rows
from chary.data.queries.elements import Elements, Mark, Words
from chary.errors import InvalidQuery

_UNREAD: Final = "chary_unread"
# A letter for the kind keeps the number 1 and the text '1' apart; adding 0.0 makes -0.0 and 0.0 one value.
_TEXTS: Final = {
    TypeClass.BOOLEAN: "'i' || CAST(CAST(element AS BIGINT) AS VARCHAR)",
    TypeClass.INTEGER: "'i' || CAST(element AS VARCHAR)",
    TypeClass.STRING: "'s' || element",
    TypeClass.FLOAT: "'f' || CAST(element + 0.0 AS VARCHAR)",
    TypeClass.DATE: "'d' || CAST(element AS VARCHAR)",
    TypeClass.TIMESTAMP: "'t' || CAST(element AS VARCHAR)",
}
# Types of the engine that two different values never share a text in, and that have no class of their own.
_TOLD_APART: Final = re.compile(r"uuid|ubigint|u?hugeint|decimal.*|timestamp_(s|ms|ns)")


class ElementReader:
    """Reads the words of elements; made by `Table.elements`. `run` returns the reader itself: nothing is read yet."""

    def __init__(self, database: Database, loader: Loader, asked: Elements, table: str) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as texts."""
        self._database, self._loader, self._table = database, loader, table
        self._sql = {name: _sql(asked, loader.schema, loader.unit, name) for name in (ROWS, _UNREAD)}

    def run(self) -> "ElementReader":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read. Both are secret, as is the key.

        With the mark of an earlier reading of the same table, only rows appended since are read, where they are kept
        in this process; otherwise all rows are, which changes no sketch of the same key. `EngineFailure`, naming
        neither values nor the key, when the engine fails.
        """
        found: tuple[Words, Mark] = self._database.ask(
            lambda connection: self._read(connection, key, since), "read the elements"
        )
        return found

    def _read(self, connection: duckdb.DuckDBPyConnection, key: str, since: Mark | None) -> tuple[Words, Mark]:
        place, grown = ROWS, growing(connection, self._loader)
        if grown is not None and since is not None and since.table == self._table:
            unread = f"SELECT * FROM {grown} WHERE rowid >= {since.upto}"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_UNREAD} AS {unread}")
            place = _UNREAD
        upto = 0
        if grown is not None:
            [(upto,)] = connection.execute(f"SELECT coalesce(max(rowid), -1) + 1 FROM {grown}").fetchall()
        columns = connection.execute(self._sql[place], [key]).fetchnumpy()
        return np.asarray(columns["word"], dtype=np.uint64), Mark(self._table, int(upto))

    def __repr__(self) -> str:
        return "ElementReader()"


def _sql(asked: Elements, schema: Schema, unit: str | None, rows: str) -> str:
    """SQL with the key as its parameter; `word` is the first 64 bits of SHA-256 of key, kind and text."""
    text = _text(schema, element_column(asked, unit))
    place = QueryPlace(rows, "", DUCK)
    chosen = place.sql(element_rows(asked, schema, unit, place))
    return f"SELECT CAST('0x' || substr(sha256($1 || {text}), 1, 16) AS UBIGINT) AS word FROM ({chosen})"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind in _TEXTS:
        return _TEXTS[kind]
    if not _TOLD_APART.fullmatch(schema[column]):
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements")
    return "'o' || CAST(element AS VARCHAR)"
