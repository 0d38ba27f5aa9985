"""The rows that are asked, as SQL on the server's own table: nothing is copied, and nothing is made there."""

from dataclasses import dataclass
from typing import Final

from chary.data.columns import TypeClass, quote
from chary.data.engines.postgresql.reaching import Cursor
from chary.data.engines.postgresql.tables.relation import FoundRelation
from chary.data.engines.postgresql.tables.stored_types import ReadColumn
from chary.errors import EngineFailure, SchemaMismatch

# The server cuts off what is behind them, so that two names may become one.
_LONGEST: Final = 63
_NUMBERS: Final = {"int64", "float64"}
SERVER_TYPES: Final = {
    TypeClass.BOOLEAN: "boolean",
    TypeClass.INTEGER: "bigint",
    TypeClass.FLOAT: "double precision",
    TypeClass.STRING: "text",
    TypeClass.DATE: "date",
    TypeClass.TIMESTAMP: "timestamp",
}


@dataclass(frozen=True)
class StoredRows:
    """A table of the server, the columns that are asked of it, and the SQL that selects them."""

    table: str
    relation: FoundRelation
    columns: tuple[ReadColumn, ...]
    sql: str
    unit: str | None
    long: bool

    @classmethod
    def find(cls, cursor: Cursor, table: str, unit: str | None, unpivot: tuple[str, str] | None) -> "StoredRows":
        """Look the table up; `SchemaMismatch` where it, its unit or its unpivoting is not possible. No row is read."""
        relation = FoundRelation.find(cursor, table)
        if unit is not None and unit not in {column.name for column in relation.columns}:
            raise SchemaMismatch(f"there is no column {unit!r} to be the privacy unit")
        columns = tuple(ReadColumn.of(column, is_unit=column.name == unit) for column in relation.columns)
        if unpivot is not None:
            columns, sql = _unpivoted(columns, relation, str(unit), unpivot)
            return cls(table, relation, columns, sql, unit, True)
        chosen = ", ".join(f"{column.sql} AS {quote(column.name)}" for column in columns)
        return cls(table, relation, columns, f"SELECT {chosen} FROM {relation.sql}", unit, False)

    @property
    def schema(self) -> dict[str, str]:
        """Names and types of the columns."""
        return {column.name: column.type for column in self.columns}

    def check(self, cursor: Cursor) -> None:
        """`EngineFailure` unless the table is still what was found: types, rights, policies, the making of a view."""
        try:
            same = FoundRelation.find(cursor, self.table) == self.relation
        except SchemaMismatch:
            same = False
        if not same:
            raise EngineFailure(
                "the table is no longer the one that was opened, or may no longer be read: open it again"
            )


def _unpivoted(
    columns: tuple[ReadColumn, ...], relation: FoundRelation, unit: str, unpivot: tuple[str, str]
) -> tuple[tuple[ReadColumn, ...], str]:
    key, value = unpivot
    if any(len(name.encode()) > _LONGEST for name in unpivot):
        raise SchemaMismatch(f"the server knows names of at most {_LONGEST} bytes: give shorter ones")
    [whose] = [column for column in columns if column.name == unit]
    wide = [column for column in columns if column.name != unit]
    kind = _shared(wide)
    cast = SERVER_TYPES[kind]
    # The columns of the table are named in nothing but the cells, where no name of the cells is known yet.
    cells = ", ".join(f"({whose.sql}, {_text(column.name)}, CAST({column.sql} AS {cast}))" for column in wide)
    ordered = ' COLLATE "C"' if kind is TypeClass.STRING else ""
    chosen = f'cell.unit AS {quote(unit)}, cell.key COLLATE "C" AS {quote(key)}, cell.value{ordered} AS {quote(value)}'
    sql = f"SELECT {chosen} FROM {relation.sql} AS wide CROSS JOIN LATERAL (VALUES {cells}) AS cell(unit, key, value)"
    made = (whose, ReadColumn(key, TypeClass.STRING, ""), ReadColumn(value, kind, ""))
    return made, f"{sql} WHERE cell.value IS NOT NULL"


def _shared(wide: list[ReadColumn]) -> TypeClass:
    types = {column.type for column in wide}
    if types and types <= _NUMBERS:
        return TypeClass.FLOAT if "float64" in types else TypeClass.INTEGER
    if len(types) == 1 and types <= set(SERVER_TYPES):
        return TypeClass(types.pop())
    raise SchemaMismatch("the columns to unpivot have no one type")


def _text(value: str) -> str:
    return "CAST('" + value.replace("'", "''") + "' AS text)"
