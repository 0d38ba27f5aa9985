"""Where rows come from: files and frames, brought to one relation that an engine can read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from chary.data.columns import quote
from chary.data.engine import quietly
from chary.errors import InvalidParameter, SchemaMismatch

DUCKDB = (".duckdb", ".ddb", ".db")
_SUFFIXES = {
    "csv": (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "duckdb": DUCKDB,
}
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?")


@dataclass(frozen=True)
class Source:
    """A validated source of rows: `kind` is csv, parquet, duckdb or frame.

    `relation` is the SQL that names the rows once `attach` has run on a connection.
    """

    kind: str
    paths: tuple[str, ...] = ()
    table: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    frame: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Any, table: str | None = None, types: Mapping[str, str] | None = None) -> "Source":
        """Recognise a path, a list of paths, or a pandas, Polars or Arrow table.

        `InvalidParameter` for missing files, unknown endings, mixed kinds, and options that the kind does not have;
        `SchemaMismatch` for a frame whose columns have no single type.
        """
        listed = list(source) if isinstance(source, (list, tuple)) else [source]
        if listed and all(isinstance(path, (str, Path)) for path in listed):
            kind, paths = _kind(listed), tuple(str(path) for path in listed)
        else:
            kind, paths = "frame", ()
        _check_options(kind, paths, table, types)
        return cls(kind, paths, table, _checked_types(types), _arrow(source) if kind == "frame" else None)

    @property
    def relation(self) -> str:
        """What to write after FROM."""
        listed = ", ".join(text(re.sub(r"([*?\[])", r"[\1]", path)) for path in self.paths)
        match self.kind:
            case "csv":
                types = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in self.types.items())
                declared = f", types = {{{types}}}" if types else ""
                return f"read_csv([{listed}], header = true, sample_size = -1, hive_partitioning = false{declared})"
            case "parquet":
                return f"read_parquet([{listed}], hive_partitioning = false)"
            case "duckdb":
                return quote(str(self.table))
            case _:
                return "chary_source"

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make a frame visible under the name that `relation` uses."""
        if self.kind == "frame":
            connection.register("chary_source", self.frame)

    def detach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Undo `attach`."""
        if self.kind == "frame":
            connection.unregister("chary_source")


def describe(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """Column names and engine types of a relation, in order."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {row[0]: row[1] for row in rows}


def text(value: str) -> str:
    """A string as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def _kind(paths: Sequence[str | Path]) -> str:
    kinds = set()
    for path in paths:
        name = Path(path).name.lower()
        if not Path(path).is_file():
            raise InvalidParameter(f"there is no file {str(path)!r}")
        kinds.add(next((kind for kind, endings in _SUFFIXES.items() if name.endswith(endings)), None))
    kind = kinds.pop()
    if kinds or kind is None:
        raise InvalidParameter("a source is a .csv, .csv.gz, .parquet or .duckdb file, or a list of files of one kind")
    return kind


def _check_options(kind: str, paths: tuple[str, ...], table: str | None, types: Mapping[str, str] | None) -> None:
    if (table is not None) != (kind == "duckdb"):
        raise InvalidParameter("a DuckDB file, and nothing else, needs table='name'")
    if kind == "duckdb" and len(paths) > 1:
        raise InvalidParameter("one DuckDB file makes one table")
    if types is not None and kind != "csv":
        raise InvalidParameter("columns= declares the types of a CSV; other sources carry their own")


def _checked_types(types: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, kind in (types or {}).items():
        if not isinstance(name, str) or not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise InvalidParameter("columns= maps column names to types, such as columns={'age': 'BIGINT'}")
    return dict(types or {})


def _arrow(source: Any) -> pa.Table:
    failure = SchemaMismatch("the frame could not be read as a table with one type for each column")
    if type(source).__module__.partition(".")[0] == "pandas":
        return quietly(lambda: pa.Table.from_pandas(source, preserve_index=False), failure)
    if not hasattr(source, "__arrow_c_stream__"):
        raise InvalidParameter(
            f"a source is a path, a list of paths, or a pandas, Polars or Arrow table, not {type(source).__name__}"
        )
    return quietly(lambda: pa.table(source), failure)
