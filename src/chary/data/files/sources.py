"""Where rows come from, validated: files and frames, and what was said of them."""

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chary.data.files.dialect import CSV
from chary.data.files.folders import PARQUET, Folder
from chary.data.files.frames import arrow
from chary.data.silence import quietly
from chary.errors import InvalidParameter, SchemaMismatch

DUCKDB: Final = (".duckdb", ".ddb", ".db")
SESSION: Final = "SparkSession"
_ENDINGS: Final = {
    "csv": (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz"),
    "parquet": PARQUET,
    "duckdb": DUCKDB,
}
_SERVERS: Final = ("postgresql://", "postgres://")
# A name with at most two numbers: whatever else an engine takes for a type could carry SQL.
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?")


@dataclass(frozen=True)
class RowSource:
    """A validated source of rows: `kind` is csv, parquet, duckdb, frame, folder, table or postgresql.

    `address` is that of a server, and may hold a password: it is in no representation and in no message.

    `types` are declared, or `infers` tells that they are to be found in the values; both concern columns of texts,
    which are all of a CSV and the object columns (`objects`) of pandas. `said` is the dialect if one was given.
    `engine` is what was named to read it, if anything was: tables that a session of Spark's knows need one.
    `folder` is where further files may be read in place, when that was named and not each file.
    """

    kind: str
    paths: tuple[str, ...] = ()
    table: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    frame: Any = field(default=None, repr=False)
    objects: frozenset[str] = frozenset()
    said: CSV | None = None
    infers: bool = False
    engine: Any = field(default=None, repr=False)
    address: str = field(default="", repr=False)
    folder: Folder | None = None

    @classmethod
    def of(
        cls,
        source: Any,
        table: str | None = None,
        types: Mapping[str, str] | None = None,
        *,
        said: CSV | None = None,
        infers: bool = False,
        engine: Any = None,
    ) -> "RowSource":
        """Recognise a path, a list of paths, a folder or pattern of Parquet files, a server's URL, or a pandas, Polars
        or Arrow table; with an engine also a session that knows the table.

        `InvalidParameter` for missing files, unknown endings, mixed kinds, and options that the kind does not have;
        `SchemaMismatch` for a frame whose columns have no single type.
        """
        if type(source).__name__ == SESSION:
            return cls._of_session(source, table, said)
        if is_address(source) and engine is not None:
            raise InvalidParameter("a table of a server is asked there: leave engine= out")
        if is_address(source):
            return cls._of_address(source, table, types, said)
        folder = Folder.named(source) if engine is None and isinstance(source, (str, Path)) else None
        listed = _paths(source if folder is None else folder.files(), engine)
        kind, frame, objects = "frame", None, frozenset[str]()
        paths: tuple[str, ...] = ()
        if listed and all(isinstance(path, (str, Path)) for path in listed):
            kind, paths = _kind(listed, engine), tuple(str(path) for path in listed)
        else:
            failure = SchemaMismatch("the frame could not be read as a table with one type for each column")
            frame, objects = quietly(lambda: arrow(source), failure)
        _check_options(kind, paths, table)
        _check_texts(kind, objects, types, said, infers)
        found = infers and (kind == "csv" or bool(objects))
        return cls(kind, paths, table, _checked_types(types), frame, objects, said, found, engine, folder=folder)

    @classmethod
    def _of_session(cls, session: Any, table: str | None, said: CSV | None) -> "RowSource":
        if not isinstance(table, str) or not table:
            raise InvalidParameter('a session knows many tables: say which one, such as table="lake.visits"')
        return cls("table", table=table, said=said, engine=session)

    @classmethod
    def _of_address(
        cls, address: str, table: str | None, types: Mapping[str, str] | None, said: CSV | None
    ) -> "RowSource":
        if not isinstance(table, str) or not table:
            raise InvalidParameter('a server holds many tables: say which one, such as table="clinic.visits"')
        _check_texts("postgresql", frozenset(), types, said, False)
        return cls("postgresql", table=table, said=said, address=address)

    @property
    def dialect(self) -> CSV:
        """How this CSV is written."""
        return self.said or (CSV.of(self.paths[0]) if self.kind == "csv" else CSV())


def is_address(source: object) -> bool:
    """Whether a source is named by the URL of a server, rather than by a path.

    >>> is_address("postgresql://reader@db.example/clinic"), is_address("visits.csv"), is_address(Path("visits.csv"))
    (True, False, False)
    """
    return isinstance(source, str) and source.startswith(_SERVERS)


def _paths(source: Any, engine: Any) -> list[Any]:
    if engine is not None and isinstance(source, str) and not Path(source).exists() and glob.has_magic(source):
        return sorted(glob.glob(source)) or [source]
    return list(source) if isinstance(source, (list, tuple)) else [source]


def _kind(paths: Sequence[str | Path], engine: Any) -> str:
    if engine is not None and len(paths) == 1 and Path(paths[0]).is_dir():
        return "folder"
    kinds = set()
    for path in paths:
        name = Path(path).name.lower()
        if not Path(path).is_file():
            raise InvalidParameter(f"there is no file {str(path)!r}")
        kinds.add(next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), None))
    kind = kinds.pop()
    if kinds or kind is None:
        raise InvalidParameter("a source is a .csv, .csv.gz, .parquet or .duckdb file, or a list of files of one kind")
    return kind


def _check_options(kind: str, paths: tuple[str, ...], table: str | None) -> None:
    if (table is not None) != (kind == "duckdb"):
        raise InvalidParameter("a DuckDB file, and nothing else, needs table='name'")
    if kind == "duckdb" and len(paths) > 1:
        raise InvalidParameter("one DuckDB file makes one table")


def _check_texts(
    kind: str, objects: frozenset[str], types: Mapping[str, str] | None, said: CSV | None, infers: bool
) -> None:
    if said is not None and not isinstance(said, CSV):
        raise InvalidParameter('csv= says how a CSV is written, such as csv=chary.CSV(delimiter=";")')
    if not isinstance(infers, bool):
        raise InvalidParameter("infer_types is True or False")
    if kind != "csv" and not objects and types is not None:
        raise InvalidParameter("columns= declares the types of a CSV; other sources carry their own")
    if kind == "csv" and said is not None and not said.header and not types:
        raise InvalidParameter("a CSV without a header needs columns= to name all of its columns, in order")


def _checked_types(types: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, kind in (types or {}).items():
        if not isinstance(name, str) or not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise InvalidParameter("columns= maps column names to types, such as columns={'age': 'BIGINT'}")
    return dict(types or {})
