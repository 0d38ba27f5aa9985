"""Making `chary_rows`: a view or a temporary table whose columns are of the few types chary computes with."""

from dataclasses import dataclass, replace

import duckdb

from chary.data.batches import KEPT
from chary.data.columns import Column, TypeClass, listed, quote
from chary.data.engine import ROWS
from chary.data.entry_limit import EntryLimit
from chary.data.sources import Source, describe, text
from chary.errors import InvalidParameter, SchemaMismatch

_RAW = "chary_raw"
_NUMBERS = {"int64", "float64"}
_SQL_TYPES = {
    TypeClass.BOOLEAN: "BOOLEAN",
    TypeClass.INTEGER: "BIGINT",
    TypeClass.FLOAT: "DOUBLE",
    TypeClass.STRING: "VARCHAR",
    TypeClass.DATE: "DATE",
    TypeClass.TIMESTAMP: "TIMESTAMP",
}


@dataclass
class Loader:
    """Makes `chary_rows` from a source, again after each reconnection; knows the columns after the first time.

    Parquet and DuckDB tables stay where they are, behind a view; everything else, and all unpivoted rows, are copied
    into the engine's memory.
    """

    source: Source
    unit: str | None
    unpivot: tuple[str, str] | None = None
    columns: tuple[Column, ...] = ()
    limit: EntryLimit | None = None

    @property
    def path(self) -> str | None:
        """The DuckDB file to connect to; None when rows are read into or from an engine in memory."""
        return self.source.paths[0] if self.source.kind == "duckdb" and self.unpivot is None else None

    @property
    def is_view(self) -> bool:
        """Whether queries read the source itself and not a copy."""
        return self.unpivot is None and self.source.kind in ("parquet", "duckdb")

    @property
    def schema(self) -> dict[str, str]:
        """Names and types of the columns of `chary_rows`."""
        return {column.name: column.type for column in self.columns}

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make `chary_rows`; `SchemaMismatch` when the unit column is missing or unpivoting is impossible."""
        relation = self._raw(connection)
        found = describe(connection, relation)
        if self.unit is not None and self.unit not in found:
            raise SchemaMismatch(f"there is no column {self.unit!r} to be the privacy unit")
        if self.unpivot is not None:
            relation, found = self._long(relation, found)
        self.columns = read_columns(found, self.unit)
        kind = "VIEW" if self.is_view else "TABLE"
        connection.execute(f"CREATE TEMP {kind} {ROWS} AS {select(self.columns, relation)}")
        if self.is_view and self.source.kind == "parquet":
            # Text that is no UTF-8 would fail in a query, and so tell of its row: read every cell once.
            connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {ROWS}").fetchall()
        if not self.is_view:
            self._drop_raw(connection)

    def _raw(self, connection: duckdb.DuckDBPyConnection) -> str:
        source = self.source
        if source.kind == "csv":
            # The sniffer would read the file once more for DESCRIBE; a raw copy is read once.
            types = {name: kind for name, kind in source.types.items() if name != self._value}
            connection.execute(f"CREATE TEMP TABLE {_RAW} AS SELECT * FROM {replace(source, types=types).relation}")
            self._as_written(connection, types)
            return _RAW
        if source.kind == "duckdb":
            return self._stored(connection)
        source.attach(connection)
        return source.relation

    def _as_written(self, connection: duckdb.DuckDBPyConnection, types: dict[str, str]) -> None:
        """Read a unit column that was sniffed as something lossy as text: "1" and "1.0" are two people."""
        found = describe(connection, _RAW)
        if self.unit in types or self.unit not in found or found[str(self.unit)] in ("BIGINT", "VARCHAR"):
            return
        again = replace(self.source, types=types | {str(self.unit): "VARCHAR"})
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {_RAW} AS SELECT * FROM {again.relation}")

    def _stored(self, connection: duckdb.DuckDBPyConnection) -> str:
        """The table of a DuckDB file. A view is refused: a row may make it fail, and the failure would tell of it."""
        name = str(self.source.table)
        if self.path is None:
            connection.execute(f"ATTACH {text(self.source.paths[0])} AS chary_file (READ_ONLY)")
        views = connection.execute(
            "SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal AND NOT temporary"
        ).fetchall()
        if (name.lower(),) in views:
            raise SchemaMismatch(f"{name!r} is a view, which a row may make fail: copy it into a table")
        self._check_stored(connection, name)
        return self.source.relation if self.path is not None else f"chary_file.{self.source.relation}"

    def _check_stored(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        found = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary AND schema_name = 'main' "
            f"AND table_name <> {text(KEPT)} ORDER BY table_name"
        ).fetchall()
        names = [known for (known,) in found]
        if name.lower() not in map(str.lower, names):
            raise SchemaMismatch(f"no table {name!r} in this file; there are: {listed(names) or 'none'}")

    def _drop_raw(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.source.detach(connection)
        connection.execute(f"DROP TABLE IF EXISTS {_RAW}")
        if self.source.kind == "duckdb":
            connection.execute("DETACH chary_file")

    @property
    def _value(self) -> str | None:
        return None if self.unpivot is None else self.unpivot[1]

    def _long(self, relation: str, found: dict[str, str]) -> tuple[str, dict[str, str]]:
        unit, (name, value) = str(self.unit), self.unpivot or ("", "")
        wide = [Column.of(column, kind, is_unit=False) for column, kind in found.items() if column != unit]
        kind = self.source.types.get(value) or _shared_type(wide, value)
        cells = ", ".join(f"CAST({column.sql} AS {kind}) AS {quote(column.name)}" for column in wide)
        rows = f"SELECT {quote(unit)}, {cells} FROM {relation}"
        long = f"UNPIVOT ({rows}) ON COLUMNS(* EXCLUDE ({quote(unit)})) INTO NAME {quote(name)} VALUE {quote(value)}"
        return f"({long})", {unit: found[unit], name: "VARCHAR", value: kind.upper()}


def check_unpivot(unpivot: tuple[str, str] | None, unit: str | None) -> tuple[str, str] | None:
    """A pair of new column names, both unlike the unit's; unpivoting needs a unit column."""
    if unpivot is None:
        return None
    names = tuple(unpivot) if isinstance(unpivot, (tuple, list)) else ()
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise InvalidParameter("unpivot needs two new column names, such as unpivot=('day', 'kwh')")
    if unit is None or len({name.lower() for name in (*names, unit)}) < 3:
        raise InvalidParameter("unpivot needs a unit column, and new names unlike it and unlike each other")
    return names[0], names[1]


def read_columns(found: dict[str, str], unit: str | None) -> tuple[Column, ...]:
    """The columns of a relation, each with the SQL that brings it to its class."""
    return tuple(Column.of(name, kind, is_unit=name == unit) for name, kind in found.items())


def select(columns: tuple[Column, ...], relation: str) -> str:
    """The query that brings every column of a relation to its class."""
    return f"SELECT {', '.join(f'{column.sql} AS {quote(column.name)}' for column in columns)} FROM {relation}"


def csv_types(schema: dict[str, str]) -> dict[str, str]:
    """The engine types with which rows for this schema are read from a CSV."""
    known = {str(kind): sql for kind, sql in _SQL_TYPES.items()}
    return {name: known.get(kind, kind) for name, kind in schema.items()}


def _shared_type(wide: list[Column], value: str) -> str:
    types = {column.type for column in wide}
    if types and types <= _NUMBERS:
        return "DOUBLE" if "float64" in types else "BIGINT"
    if len(types) == 1 and types <= set(_SQL_TYPES):
        return _SQL_TYPES[TypeClass(types.pop())]
    raise SchemaMismatch(
        f"the columns to unpivot have no one type; if a CSV, declare it: columns={{{value!r}: 'DOUBLE'}}"
    )
