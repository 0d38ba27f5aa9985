"""Making `chary_rows`: a view or a temporary table whose columns are of the few types chary computes with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from chary.data.columns import SQL_TYPES, TypeClass, Unparsed, quote
from chary.data.engines.duckdb.connecting import ATTACHED, Access
from chary.data.engines.duckdb.database import ROWS
from chary.data.engines.duckdb.reading.attaching import (
    attach,
    check_alike,
    describe,
    detach,
    relation_of,
    texts_of,
    typed,
)
from chary.data.engines.duckdb.reading.casting import canonical
from chary.data.engines.duckdb.reading.column_types import Column
from chary.data.engines.duckdb.reading.stored import stored_relation
from chary.data.files.sources import RowSource
from chary.data.rows.entry_limit import EntryLimit
from chary.errors import SchemaMismatch

_NUMBERS = {"int64", "float64"}


@dataclass
class Loader:
    """Makes `chary_rows` from a source, again after each reconnection; knows the columns after the first time.

    Parquet and DuckDB tables stay where they are, behind a view; everything else, and all unpivoted rows, are copied
    into the engine's memory. `stored` is the SQL for the table of a DuckDB file.
    """

    source: RowSource
    unit: str | None
    unpivot: tuple[str, str] | None = None
    columns: tuple[Column, ...] = ()
    limit: EntryLimit | None = None
    stored: str = ""
    unparsed: Mapping[str, Unparsed] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> str | None:
        """The DuckDB file to connect to; None when rows are read into or from an engine in memory."""
        return self.source.paths[0] if self.source.kind == "duckdb" and self.unpivot is None else None

    @property
    def access(self) -> Access:
        """What the engine may touch to read these rows."""
        paths, kind = self.source.paths, self.source.kind
        attached = paths[0] if kind == "duckdb" and self.path is None else None
        folder = None if self.source.folder is None or self.unpivot is not None else self.source.folder.path
        return Access(self.path, paths if kind == "parquet" else (), attached, folder=folder)

    @property
    def is_view(self) -> bool:
        """Whether queries read the source itself and not a copy."""
        return self.unpivot is None and self.source.kind in ("parquet", "duckdb")

    @property
    def schema(self) -> dict[str, str]:
        """Names and types of the columns of `chary_rows`."""
        return {column.name: column.type for column in self.columns}

    @property
    def reading(self) -> dict[str, Any]:
        """The dialect, and the declared types that do not follow from the schema."""
        source, usual = self.source, self._usual()
        if source.kind != "csv" and source.said is None:
            return {}
        types = {name: kind for name, kind in source.types.items() if kind != usual.get(name)}
        return source.dialect.body() | ({"types": types} if types else {})

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make `chary_rows`; `SchemaMismatch` when the unit column is missing or unpivoting is impossible."""
        declared = {name: canonical(connection, kind) for name, kind in self.source.types.items()}
        self.source = replace(self.source, types=declared)
        relation = self._raw(connection)
        found = describe(connection, relation)
        if self.unit is not None and self.unit not in found:
            raise SchemaMismatch(f"there is no column {self.unit!r} to be the privacy unit")
        if self.unpivot is not None:
            relation = self._long(relation, found)
            found = describe(connection, relation)
        self.columns = read_columns(found, self.unit)
        kind = "VIEW" if self.is_view else "TABLE"
        connection.execute(f"CREATE TEMP {kind} {ROWS} AS {select(self.columns, relation)}")
        if self.is_view and self.source.kind == "parquet":
            check_cells(connection, ROWS)
        self.unparsed = self._unparsed(connection)
        detach(connection, self.source)

    def types(self, batch: RowSource) -> dict[str, str]:
        """The engine types with which the texts of a batch are read: those of the first rows, as they were declared."""
        usual = self._usual()
        types = usual | {name: kind for name, kind in self.source.types.items() if name in usual}
        return {name: kind for name, kind in types.items() if batch.kind == "csv" or name in batch.objects}

    def _usual(self) -> dict[str, str]:
        return {name: SQL_TYPES.get(kind, kind) for name, kind in self.schema.items()}

    def _raw(self, connection: duckdb.DuckDBPyConnection) -> str:
        if self.source.kind == "duckdb":
            catalog = (
                ATTACHED if self.path is None else connection.execute("SELECT current_database()").fetchall()[0][0]
            )
            self.stored = stored_relation(connection, str(self.source.table), catalog)
            return self.stored
        check_alike(connection, self.source)
        attach(connection, self.source)
        return typed(connection, self.source, self.unit, None if self.unpivot is None else self.unpivot[1])

    def _unparsed(self, connection: duckdb.DuckDBPyConnection) -> dict[str, Unparsed]:
        """What of the texts, which are attached still, was declared to be of a type and is not."""
        if not self.source.types:
            return {}
        texts = [name for name, is_text in texts_of(connection, self.source).items() if is_text]
        cells = {name: [name] for name in texts}
        if self.unpivot is not None:
            cells = {self.unpivot[1]: [name for name in texts if name != self.unit]}
        types = {name: kind for name, kind in self.source.types.items() if kind != "VARCHAR" and name in cells}
        return {
            name: found
            for name, kind in types.items()
            if (found := _counted(connection, relation_of(self.source), cells[name], name, kind)).cells
        }

    def _long(self, relation: str, found: dict[str, str]) -> str:
        unit, (name, value) = str(self.unit), self.unpivot or ("", "")
        wide = [Column.of(column, kind, is_unit=False) for column, kind in found.items() if column != unit]
        kind = self.source.types.get(value) or _shared_type(wide, value)
        cells = ", ".join(f"CAST({column.sql} AS {kind}) AS {quote(column.name)}" for column in wide)
        rows = f"SELECT {quote(unit)}, {cells} FROM {relation}"
        long = f"UNPIVOT ({rows}) ON COLUMNS(* EXCLUDE ({quote(unit)})) INTO NAME {quote(name)} VALUE {quote(value)}"
        return f"({long})"


def _counted(connection: duckdb.DuckDBPyConnection, texts: str, cells: list[str], name: str, kind: str) -> Unparsed:
    """How many of the cells of some columns are no values of the one that was made of them.

    Nothing is parsed again: what is not NULL was counted before and is counted after. Blank cells are looked for only
    where something is missing.
    """

    def count(each: str, relation: str) -> int:
        [(found,)] = connection.execute(f"SELECT {each} FROM {relation}").fetchall()
        return int(found)

    values = count(f"count({quote(name)})", ROWS)
    if count(" + ".join(f"count({quote(cell)})" for cell in cells), texts) == values:
        return Unparsed(kind, 0, values)
    there = count(" + ".join(f"count(nullif(trim({quote(cell)}, ' '), ''))" for cell in cells), texts)
    return Unparsed(kind, there - values, there)


def check_cells(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Read every cell once: text that is no UTF-8 would fail in a query later, and so tell of its row."""
    connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {relation}").fetchall()


def read_columns(found: dict[str, str], unit: str | None) -> tuple[Column, ...]:
    """The columns of a relation, each with the SQL that brings it to its class."""
    return tuple(Column.of(name, kind, is_unit=name == unit) for name, kind in found.items())


def select(columns: tuple[Column, ...], relation: str) -> str:
    """The query that brings every column of a relation to its class."""
    return f"SELECT {', '.join(f'{column.sql} AS {quote(column.name)}' for column in columns)} FROM {relation}"


def _shared_type(wide: list[Column], value: str) -> str:
    types = {column.type for column in wide}
    if types and types <= _NUMBERS:
        return "DOUBLE" if "float64" in types else "BIGINT"
    if len(types) == 1 and types <= set(SQL_TYPES):
        return SQL_TYPES[TypeClass(types.pop())]
    raise SchemaMismatch(
        f"the columns to unpivot have no one type; if a CSV, declare it: columns={{{value!r}: 'DOUBLE'}}"
    )
