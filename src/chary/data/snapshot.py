"""Whole rows, for algorithms that users bring."""

from collections.abc import Sequence

import pyarrow as pa

from chary.data.columns import Schema, quote
from chary.data.engine import ROWS, Engine, quietly
from chary.errors import EngineFailure, InvalidQuery


class Snapshot:
    """A plan that reads the named columns of all rows, in no particular order, into an Arrow table."""

    def __init__(self, engine: Engine, columns: Sequence[str]) -> None:
        """Use `Table.snapshot`."""
        self._engine, self._columns = engine, columns

    def run(self) -> pa.Table:
        """All rows there are now; `EngineFailure`, naming no value, when the engine fails."""
        names = ", ".join(quote(column) for column in self._columns)
        failure = EngineFailure("the engine failed while it read the rows")
        with self._engine.connection() as connection:
            table = quietly(lambda: connection.sql(f"SELECT {names} FROM temp.main.{ROWS}").to_arrow_table(), failure)
        assert isinstance(table, pa.Table)
        return table

    def __repr__(self) -> str:
        return f"Snapshot({', '.join(self._columns)})"


def known_columns(columns: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The columns asked for, or all of them; `InvalidQuery` for one that is not there or for none at all."""
    if isinstance(columns, str):
        raise InvalidQuery(f'give a list of columns, such as ["{columns}"]')
    names = tuple(schema) if columns is None else tuple(dict.fromkeys(columns))
    missing = [name for name in names if name not in schema]
    if missing or not names:
        told = f"there is no column {missing[0]!r}" if missing else "name at least one column"
        raise InvalidQuery(f"{told}; there are {', '.join(schema)}")
    return names
