"""One statement: what is asked, behind the rows it is asked of and the tables that go with it as parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chary.data.columns import TypeClass
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.tables.stored_rows import SERVER_TYPES

ROWS: Final = "chary_rows"
_WITH: Final = "WITH "
_COLLATED: Final = ' COLLATE "C"'


class Sent:
    """A table that is sent with each statement that needs it: its columns by name, each as type and values.

    The role need make no temporary table for it, and nothing of it stays at the server.
    """

    def __init__(self, name: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        self.name = name
        self._kinds = {column: SERVER_TYPES[TypeClass(kind)] for column, (kind, _) in columns.items()}
        self.values = [list(values) for _, values in columns.values()]

    def sql(self, first: int) -> str:
        """The table as SQL whose parameters begin with that number."""
        arrays = ", ".join(f"CAST(${first + place} AS {kind}[])" for place, kind in enumerate(self._kinds.values()))
        cells = ", ".join(
            f'sent."{column}"{_COLLATED if kind == "text" else ""} AS "{column}"'
            for column, kind in self._kinds.items()
        )
        names = ", ".join(f'"{column}"' for column in self._kinds)
        return f"{self.name} AS (SELECT {cells} FROM unnest({arrays}) AS sent({names}))"

    def __repr__(self) -> str:
        return f"Sent({self.name})"


class Statement:
    """Runs SQL in which `chary_rows` are the rows, and other tables are those that are sent with it."""

    def __init__(self, rows: str) -> None:
        self._rows = f"{ROWS} AS NOT MATERIALIZED ({rows})"

    def execute(self, cursor: Cursor, sql: str, sent: Sequence[Sent] = (), more: Sequence[Any] = ()) -> list[Any]:
        """All rows of the answer; `more` are the first parameters."""
        tables, values = [self._rows], list(more)
        for each in sent:
            tables.append(each.sql(len(values) + 1))
            values += each.values
        rest = f", {sql.removeprefix(_WITH)}" if sql.startswith(_WITH) else f" {sql}"
        return cursor.execute(f"{_WITH}{', '.join(tables)}{rest}", values).fetchall()
