"""Sources of rows: files, folders, frames and tables of servers, as they were named; nothing is read yet."""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from numbers import Number
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chary.addresses import is_server, server_url
from chary.data.csv_reader import CSVFormat
from chary.errors import InvalidParameter, SchemaMismatch, quietly
from chary.numbers import flag

# Folders and patterns of Parquet files: which files are meant, found once and in the order of their names.

PARQUET: Final = (".parquet", ".pq")
_SIGNS: Final = frozenset("*?[")


@dataclass(frozen=True)
class Folder:
    """The Parquet files of a folder whose names fit a pattern; those that begin with a dot or an underscore are none.

    `*` stands for any letters, `?` for one, `[ab]` for one of these. What is in a folder is public: names of files are
    read, and nothing else of them.
    """

    path: str
    pattern: str = "*"

    @classmethod
    def named(cls, path: str | Path) -> "Folder | None":
        """The folder or pattern that a path stands for; None for a path of one file, also of one with such a name.

        >>> Folder.named("visits/2026-*.parquet")
        Folder(path='visits', pattern='2026-*.parquet')

        `InvalidParameter` for a pattern among the names of folders.
        """
        place = Path(path)
        if place.is_dir():
            return cls(str(place))
        if place.is_file() or not (_SIGNS & set(str(path)) and place.name.lower().endswith(PARQUET)):
            return None
        if _SIGNS & set(str(place.parent)) and not place.parent.is_dir():
            raise InvalidParameter("a pattern is for the names of files in one folder, such as 'visits/2026-*.parquet'")
        return cls(str(place.parent), place.name)

    def files(self) -> tuple[str, ...]:
        """The files there are now, by name, but for what an interrupted append through Spark left.

        `InvalidParameter` if there are none, or folders that might hold more.
        """
        try:
            found = sorted(os.scandir(self.path), key=lambda each: each.name)
        except OSError:
            raise InvalidParameter(f"the folder {self.path!r} cannot be read") from None
        if self.pattern == "*" and any(each.is_dir() and not _hidden(each.name) for each in found):
            raise InvalidParameter(
                f"there are folders in {self.path!r}: name the files, in a list, or a folder of files"
            )
        names = self._living([each.name for each in found if each.is_file() and self._fits(each.name)])
        if not names:
            raise InvalidParameter(f"there is no file {str(Path(self.path, self.pattern))!r} that is Parquet")
        return tuple(str(Path(self.path, name)) for name in names)

    def _living(self, names: list[str]) -> list[str]:
        failure = InvalidParameter(f"the notes of the batches in {self.path!r} cannot be read")
        left = quietly(lambda: left_by_an_append(Path(self.path), names), failure)
        return [name for name in names if name not in left]

    def holds(self, path: str | Path) -> bool:
        """Whether a file is one that `files` finds, or would."""
        return Path(path).resolve().parent == Path(self.path).resolve() and self._fits(Path(path).name)

    def _fits(self, name: str) -> bool:
        return name.lower().endswith(PARQUET) and not _hidden(name) and fnmatchcase(name, self.pattern)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


# Where rows come from, validated: files and frames, and the options given with them.

DUCKDB: Final = (".duckdb", ".ddb", ".db")
SESSION: Final = "SparkSession"
ENDINGS: Final = {"csv": (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz"), "parquet": PARQUET, "duckdb": DUCKDB}
# A name with at most two numbers: whatever else an engine takes for a type could carry SQL.
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?")


UNDECIDED: Final = (
    "say the types of the columns of {!r}, since its ledger keeps them: numbers and dates, such as "
    "columns={{'age': 'BIGINT', 'day': 'DATE'}}, or columns={{}} if all are text"
)


@dataclass(frozen=True)
class RowSource:
    """A validated source of rows: `kind` is csv, parquet, duckdb, frame, folder, table or postgresql.

    `address` is that of a server, and may hold a password: it is in no representation and in no message.

    `types` are declared, or `infers` says that they are to be found in the values. Both concern columns of strings,
    which are all of a CSV and the object columns (`objects`) of pandas. `undecided` is a CSV of which neither was said.
    `said` is the dialect if one was given.
    `engine` is what was named to read it, if anything was: tables that a session of Spark's knows need one. `folder` is
    where further files may be read in place, when that was named and not each file.
    """

    kind: str
    paths: tuple[str, ...] = ()
    table: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    frame: Any = field(default=None, repr=False)
    objects: frozenset[str] = frozenset()
    said: CSVFormat | None = None
    infers: bool = False
    undecided: bool = False
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
        said: CSVFormat | None = None,
        infers: bool = False,
        engine: Any = None,
    ) -> "RowSource":
        """Recognise a path, a list of paths, a folder or pattern of Parquet files, a server's URL, or a table.
        A table is one of pandas, Polars or Arrow; with an engine also a session that knows the table.

        `InvalidParameter` for missing files, unknown endings, mixed kinds, and options that the kind does not have;
        `SchemaMismatch` for a frame whose columns have no single type.
        """
        if type(source).__name__ == SESSION:
            return cls._of_session(source, table, said)
        if is_server(source) and engine is not None:
            raise InvalidParameter("a table of a server is asked there: leave engine= out")
        if is_server(source):
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
        found, undecided = infers and (kind == "csv" or bool(objects)), kind == "csv" and types is None and not infers
        declared = _checked_types(types)
        return cls(kind, paths, table, declared, frame, objects, said, found, undecided, engine, folder=folder)

    @classmethod
    def _of_session(cls, session: Any, table: str | None, said: CSVFormat | None) -> "RowSource":
        if not isinstance(table, str) or not table:
            raise InvalidParameter('a session knows many tables: say which one, such as table="lake.visits"')
        return cls("table", table=table, said=said, engine=session)

    @classmethod
    def _of_address(
        cls, address: str, table: str | None, types: Mapping[str, str] | None, said: CSVFormat | None
    ) -> "RowSource":
        if not isinstance(table, str) or not table:
            raise InvalidParameter('a server holds many tables: say which one, such as table="clinic.visits"')
        _check_texts("postgresql", frozenset(), types, said, False)
        return cls("postgresql", table=table, said=said, address=server_url(address))

    @property
    def dialect(self) -> CSVFormat:
        """How this CSV is written."""
        return self.said or (CSVFormat.of(self.paths[0]) if self.kind == "csv" else CSVFormat())


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
        kinds.add(next((kind for kind, endings in ENDINGS.items() if name.endswith(endings)), None))
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
    kind: str, objects: frozenset[str], types: Mapping[str, str] | None, said: CSVFormat | None, infers: bool
) -> None:
    if said is not None and not isinstance(said, CSVFormat):
        raise InvalidParameter('csv= says how a CSV is written, such as csv=chary.CSVFormat(delimiter=";")')
    flag(infers, "infer_types")
    if kind != "csv" and not objects and types is not None:
        raise InvalidParameter("columns= declares the types of a CSV; other sources carry their own")
    if kind == "csv" and said is not None and not said.header and not types:
        raise InvalidParameter("a CSV without a header needs columns= to name all of its columns, in order")


def _checked_types(types: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, kind in (types or {}).items():
        if not isinstance(name, str) or not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise InvalidParameter("columns= maps column names to types, such as columns={'age': 'BIGINT'}")
    return dict(types or {})


# Notes of the batches that were added to a folder of Parquet files: a file of ours is there once its note is.

# These names are in folders that were written: they must never change. Engines overlook what begins with an underscore.
NOTES: Final = "_chary_batches"
OURS: Final = "chary-"


def notes_after(folder: Path, number: int) -> Iterator[dict[str, Any]]:
    """The notes of batches number + 1, number + 2 and so on, as far as there are any by now.

    A note holds the batch's number, its request, its rows and the name of its file.
    """
    while (note := folder / NOTES / f"{number + 1}.json").exists():
        yield json.loads(note.read_text("utf-8"))
        number += 1


def left_by_an_append(folder: Path, names: list[str]) -> frozenset[str]:
    """Those of a folder's files which an append wrote that was stopped before its note: nobody's rows."""
    ours = {name for name in names if name.startswith(OURS)}
    return frozenset(ours - {note["file"] for note in notes_after(folder, 0)}) if ours else frozenset()


# Frames of other libraries as Arrow tables, so that what a column is does not follow from its cells.

_PLAIN: Final = (str, Number, np.generic, Decimal, date, UUID)
_PER_SECOND: Final = {"s": 1, "ms": 10**3}
# Microseconds in 64 bits with a sign.
_LARGEST: Final = 2**63 - 1


def arrow(source: Any) -> tuple[pa.Table, frozenset[str]]:
    """A pandas, Polars or Arrow table as an Arrow table, and the names of its columns that are strings without a type.

    Those are the object columns of pandas, which may hold anything: each text, number, date or UUID is read as its own
    text, any other cell is NULL. `InvalidParameter` for what is no table.
    """
    if type(source).__module__.partition(".")[0] == "pandas":
        return _pandas(source)
    if not hasattr(source, "__arrow_c_stream__"):
        raise InvalidParameter(
            f"a source is a path, a list of paths, or a pandas, Polars or Arrow table, not {type(source).__name__}"
        )
    # The library looks for pandas, which takes a third of a second to import, to make a table of what is one.
    return _in_range(source if isinstance(source, pa.Table) else pa.table(source)), frozenset()


def _pandas(source: Any) -> tuple[pa.Table, frozenset[str]]:
    names = {name: str(name) for name in source.columns}
    if len(set(names.values())) < len(source.columns):
        raise SchemaMismatch("two columns of the frame have the same name")
    objects = [name for name in names if source[name].dtype == object]
    rest = pa.Table.from_pandas(source.drop(columns=objects), preserve_index=False)
    columns = {told: rest.column(told) if name not in objects else _texts(source[name]) for name, told in names.items()}
    return _in_range(pa.table(columns)), frozenset(names[name] for name in objects)


def _texts(cells: Any) -> Any:
    return pa.array([_text(cell) for cell in cells], pa.string())


def _text(cell: Any) -> str | None:
    # Missing numbers and moments differ from themselves; a decimal may refuse to be compared.
    if not isinstance(cell, _PLAIN) or (not isinstance(cell, Decimal) and cell != cell):
        return None
    told = str(cell)
    return told if told.isascii() or told.encode("utf-8", "ignore").decode() == told else None


def _in_range(table: pa.Table) -> pa.Table:
    """Moments and durations that the engine cannot count in microseconds become NULL; it would fail on them."""
    for place, column in enumerate(table.schema):
        kind = column.type
        if _coarse(kind):
            cells = _fitting(table.column(place), _LARGEST // (10**6 // _PER_SECOND[kind.unit]))
            table = table.set_column(place, column.with_nullable(True), cells)
    return table


def _coarse(kind: Any) -> bool:
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return (zoned or pa.types.is_duration(kind)) and kind.unit in _PER_SECOND


def _fitting(cells: Any, most: int) -> Any:
    numbers = pc.fill_null(cells.cast(pa.int64()), most + 1).to_numpy()
    missing = (numbers > most) | (numbers < -most)
    # The engine also converts what lies, unseen, in the place of a NULL.
    return pa.array(np.where(missing, 0, numbers), mask=missing).view(cells.type)
