"""Reading elements as keyed 64-bit words, hashed by the server: only words leave it."""

from typing import Final

import numpy as np

from chary.data.columns import Schema, TypeClass, classify
from chary.data.engines.expressions.element_rows import element_column, element_rows
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.server import Server
from chary.data.engines.postgresql.server_plan import place_of
from chary.data.engines.postgresql.server_texts import of_double, of_moment
from chary.data.engines.postgresql.statement import Statement
from chary.data.engines.postgresql.tables.stored_rows import StoredRows
from chary.data.queries.elements import Elements, Mark, Words
from chary.errors import InvalidQuery

# A letter for the kind keeps the number 1 and the text '1' apart; adding 0.0 makes -0.0 and 0.0 one value.
_TEXTS: Final = {
    TypeClass.BOOLEAN: "'i' || CAST(CAST(element AS integer) AS text)",
    TypeClass.INTEGER: "'i' || CAST(element AS text)",
    TypeClass.STRING: "'s' || element",
    TypeClass.FLOAT: f"'f' || {of_double('element')}",
    TypeClass.DATE: f"'d' || {of_moment('element')}",
    TypeClass.TIMESTAMP: f"'t' || {of_moment('element')}",
}
_TOLD_APART: Final = ("uuid", "numeric")


class ServerWords:
    """Reads the words of elements (see `ElementReading`); all rows are read each time, which changes no sketch."""

    def __init__(self, server: Server, rows: StoredRows, asked: Elements, table: str) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as texts."""
        self._server, self._statement, self._table = server, Statement(rows.sql), table
        text, place = _text(rows.schema, element_column(asked, rows.unit)), place_of()
        chosen = place.sql(element_rows(asked, rows.schema, rows.unit, place))
        digits = f"encode(sha256(convert_to(CAST($1 AS text) || {text}, 'UTF8')), 'hex')"
        self._sql = f"SELECT CAST(CAST('x' || left({digits}, 16) AS bit(64)) AS bigint) FROM ({chosen}) AS chosen"

    def run(self) -> "ServerWords":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The words of all elements there are; `since` spares nothing here."""

        def read(cursor: Cursor) -> Words:
            rows = self._statement.execute(cursor, self._sql, more=[key])
            return np.array(rows, dtype=np.int64).reshape(len(rows)).view(np.uint64)

        return self._server.ask(read, "read the elements"), Mark(self._table, 0)

    def __repr__(self) -> str:
        return "ServerWords()"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind in _TEXTS:
        return _TEXTS[kind]
    if schema[column] not in _TOLD_APART:
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements")
    return "'o' || CAST(element AS text)"
