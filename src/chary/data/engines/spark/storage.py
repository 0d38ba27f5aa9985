"""Where Spark's rows are: frames of a session, tables, and folders of Parquet files with their batches."""

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chary.data.columns import SQL_TYPES, TypeClass, Unparsed
from chary.data.engines.protocol import Engine
from chary.data.engines.sql import ROWS, Column
from chary.data.rows import Arrival, Batch, unheard
from chary.data.source import NOTES, OURS, RowSource, notes_after
from chary.errors import EngineError, SchemaMismatch, quietly

# How every type of Spark is brought to one of the few that chary computes with.

_LOSSLESS: Final = {
    "boolean": TypeClass.BOOLEAN,
    "bigint": TypeClass.INTEGER,
    "date": TypeClass.DATE,
    "timestamp_ntz": TypeClass.TIMESTAMP,
}
_NARROW: Final = ("tinyint", "smallint", "int")
_TEXT: Final = re.compile(r"string( collate .*)?|(var)?char\([0-9]+\)")


def column_of(name: str, spark_type: str, *, is_unit: bool) -> Column:
    """Choose the class of a type; no value of the column can make the SQL fail.

    NaN becomes NULL. Decimals become floats, except in the unit column, where two units must never be merged. Strings
    are compared by their bytes whatever their collation, and are NULL where those are no text. Moments with a zone are
    read as the clock in UTC shows them.

    >>> column_of("age", "int", is_unit=False)
    Column(name='age', type='int64', sql='CAST(`age` AS BIGINT)')
    """
    quoted = backquoted(name)
    kind, sql = _exact(spark_type, quoted)
    if kind is None and not is_unit and spark_type.startswith("decimal"):
        kind, sql = TypeClass.FLOAT, f"CAST({quoted} AS DOUBLE)"
    return Column(name, spark_type if kind is None else str(kind), sql)


def read_columns(frame: Any, unit: str | None) -> tuple[Column, ...]:
    """The columns of a data frame."""
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    return tuple(column_of(name, kind, is_unit=name == unit) for name, kind in found)


def backquoted(name: str) -> str:
    """A column name as a quoted identifier of Spark's.

    >>> backquoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def _exact(kind: str, quoted: str) -> tuple[TypeClass | None, str]:
    if kind in _LOSSLESS:
        return _LOSSLESS[kind], quoted
    if kind in _NARROW:
        return TypeClass.INTEGER, f"CAST({quoted} AS BIGINT)"
    if _TEXT.fullmatch(kind):
        text = f"collate({quoted}, 'UTF8_BINARY')" if "collate" in kind else quoted
        return TypeClass.STRING, f"try_validate_utf8({text})"
    if kind in ("float", "double"):
        return TypeClass.FLOAT, f"CASE WHEN isnan({quoted}) THEN NULL ELSE CAST({quoted} AS DOUBLE) END"
    if kind == "timestamp":
        return TypeClass.TIMESTAMP, f"CAST({quoted} AS TIMESTAMP_NTZ)"
    return None, quoted


# Tables of a catalog, as they are when they are opened.

# What says which version of a table is its newest, where a table has versions.
_NEWEST: Final = {
    "delta": ("DESCRIBE HISTORY {table} LIMIT 1", "version"),
    "iceberg": ("SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1", "snapshot_id"),
}
_VIEWS: Final = ("VIEW", "TEMPORARY", "METRIC_VIEW")


def table_frame(session: Any, name: str) -> Any:
    """The rows of a table; of its newest version, for good, where it has versions.

    `SchemaMismatch` for a table that is not there, and for a view, which a row may make fail.
    """
    quoted = ".".join(backquoted(part) for part in name.split("."))
    if not session.catalog.tableExists(name):
        raise SchemaMismatch(f"the session knows no table {name!r}")
    if session.catalog.getTable(name).tableType in _VIEWS:
        raise SchemaMismatch(f"{name!r} is a view, which a row may make fail: copy it into a table")
    provider = _provider(session, quoted)
    if provider in _NEWEST:
        asked, column = _NEWEST[provider]
        for newest in session.sql(asked.format(table=quoted)).collect():
            return session.sql(f"SELECT * FROM {quoted} VERSION AS OF {int(newest[column])}")
    return session.table(quoted)


def _provider(session: Any, quoted: str) -> str:
    told = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    return next((str(row[1]).lower() for row in told if row[0] == "Provider"), "")


# Parquet files that Spark reads in place: which they are, and whether they are still what they were.

# What has a meaning in a name of files for Spark.
_PATTERN: Final = frozenset("*?[]{}\\")
_UNREADABLE: Final = SchemaMismatch("the files cannot be read as Parquet files with the same columns")


@dataclass(frozen=True)
class SeenFile:
    """A file as it was: Parquet files are never changed in place, but others may be put in theirs."""

    path: str
    size: int
    written: int

    @classmethod
    def of(cls, path: str) -> "SeenFile":
        """As it is now; `OSError` if it is not there."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)


def check_unchanged(files: Sequence[SeenFile]) -> None:
    """`EngineError` unless all are there and as they were: a reading would mix two states of the rows."""
    failure = EngineError("files of the rows are gone, or were changed from outside: open them anew")
    if quietly(lambda: any(SeenFile.of(file.path) != file for file in files), failure):
        raise failure


def shared_schema(paths: Sequence[str]) -> pa.Schema:
    """The columns of all files; `SchemaMismatch` unless they are the same, of the same types."""
    schemas: list[Any] = quietly(lambda: [pq.read_schema(path).remove_metadata() for path in paths], _UNREADABLE)
    if any(_kinds(schema) != _kinds(schemas[0]) for schema in schemas):
        raise SchemaMismatch("the files do not have the same columns of the same types")
    return schemas[0]


def on_this_machine(path: str) -> str:
    r"""How Spark is given this one file, whatever characters its name is made of.

    >>> on_this_machine("/data/visits[1].parquet")
    'file:/data/visits\\[1\\].parquet'
    """
    return "file:" + "".join(f"\\{sign}" if sign in _PATTERN else sign for sign in os.path.abspath(path))


def _kinds(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in schema]


# Rows in the types that the files of a folder have.


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with these columns; a value that a narrower type does not hold becomes NULL, and fails nothing.

    `SchemaMismatch` for a type of the files that such rows cannot be written in.
    """
    columns = [_fitted(rows[column.name], column) for column in schema]
    return pa.table(columns, pa.schema([column.with_nullable(True) for column in schema]))


def _fitted(cells: Any, column: Any) -> Any:
    kind = column.type
    if cells.type == kind:
        return cells
    if pa.types.is_integer(kind) and pa.types.is_integer(cells.type):
        least, most = _range(kind)
        inside = pc.and_(pc.greater_equal(cells, least), pc.less_equal(cells, most))
        return pc.if_else(inside, cells, pa.scalar(None, cells.type)).cast(kind)
    same = pa.types.is_floating, pa.types.is_timestamp, _is_text
    if any(group(kind) and group(cells.type) for group in same):
        return cells.cast(kind, safe=False)
    raise SchemaMismatch(
        f"rows cannot be appended: the files have column {column.name!r} as {kind}; nothing was written"
    )


def _range(kind: Any) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(kind)
    most = 2 ** (kind.bit_width - signed) - 1
    # Cells are of 64 bits with a sign.
    return (-most - 1 if signed else 0), min(most, 2**63 - 1)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# An empty copy of the rows in the embedded engine: what is added goes through it, so that all engines read alike.


class Template:
    """Reads batches with the checks, types and messages of the embedded engine."""

    def __init__(
        self, embedded: Engine, source: RowSource, schema: dict[str, str], unit: str | None, empty: pa.Table
    ) -> None:
        """For rows of this schema that `source` brought; `empty` has their columns as Arrow types."""
        self._embedded, self.schema = embedded, schema
        # Decimals would become doubles, which merge units.
        self._unit = unit if unit is not None and schema[unit].startswith("decimal") else None
        texts = frozenset(schema) & (frozenset(schema) if source.kind == "csv" else source.objects)
        known = {name: kind for name, kind in schema.items() if kind in SQL_TYPES and kind != TypeClass.STRING}
        types = {name: source.types.get(name) or SQL_TYPES[kind] for name, kind in known.items()}
        columns = {
            name: pa.array([], pa.string() if name in texts else empty.schema.field(name).type) for name in schema
        }
        said = source.dialect if source.kind == "csv" else source.said
        declared = {name: kind for name, kind in types.items() if name in texts}
        self._source = RowSource("frame", types=declared, frame=pa.table(columns), objects=texts, said=said)

    @property
    def reading(self) -> dict[str, Any]:
        """How strings are read, of these rows and of batches alike."""
        with closing(self._embedded.open(self._source, self._unit, None, None)) as opened:
            return opened.reading

    def fitted(self, batch: RowSource) -> tuple[pa.Table, Mapping[str, Unparsed]]:
        """The rows of a batch, and by column which strings became NULL; `SchemaMismatch` if they do not fit."""
        with closing(self._embedded.open(self._source, self._unit, None, None)) as opened:
            unparsed = opened.append(batch, None, unheard).unparsed
            return opened.snapshot(list(opened.schema)).run(), unparsed


def local_rows(embedded: Engine, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None) -> pa.Table:
    """The rows of a source that the embedded engine reads."""
    with closing(embedded.open(source, unit, unpivot, None)) as opened:
        return opened.snapshot(list(opened.schema)).run()


def sendable(rows: pa.Table) -> pa.Table:
    """The same rows in the types of Arrow that Spark knows: integers of 64 bits without a sign are decimals."""
    kinds = [pa.decimal128(20, 0) if column.type == pa.uint64() else column.type for column in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))))


# Where the rows are that Spark reads, and where those are that are added.


class RowsInSession:
    """Rows of files, of a table or of a frame, none of which is written: what is added lives as long as the session."""

    keeps_batches = False

    def __init__(self, first: Any, files: Sequence[SeenFile] = ()) -> None:
        """Of a data frame, and the files it reads."""
        self._frames, self._files = [first], files
        self._batches: list[Batch] = []
        self._added: list[pa.Table] = []

    def check(self) -> None:
        check_unchanged(self._files)

    def frames(self, session: Any) -> Sequence[Any]:
        while len(self._frames) <= len(self._added):
            self._frames.append(session.createDataFrame(self._added[len(self._frames) - 1]))
        return self._frames

    def batches(self) -> Sequence[Batch]:
        return self._batches

    def add(self, rows: pa.Table, request: str | None, size: int, arrive: Arrival) -> Batch:
        batch = Batch(len(self._batches) + 1, request, size)
        arrive(batch)
        self._added.append(rows)
        self._batches.append(batch)
        return batch


def define(session: Any, frames: Sequence[Any], unit: str | None, name: str = ROWS) -> None:
    """Make a temporary view of the rows, each column brought to its class."""
    parts = [_classed(frame, unit) for frame in frames]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    whole.createOrReplaceTempView(name)


def _classed(frame: Any, unit: str | None) -> Any:
    return frame.selectExpr(*(f"{column.sql} AS {backquoted(column.name)}" for column in read_columns(frame, unit)))


# A folder of Parquet files that can grow: each batch is a file and a note, and the note decides.

_HIDDEN: Final = ("_", ".")
_ENDINGS: Final = (".parquet", ".pq")


class RowsInFolder:
    """The rows of all Parquet files that a folder held when it was opened, and of the batches that were added by chary.

    A batch is there from the moment its note is, `_chary_batches/<number>.json`. The note is made at once or not at
    all, and by one process only. A file of chary without a note is nobody's: what wrote it was stopped. Files that
    others put there later are seen when the folder is opened anew.
    """

    keeps_batches = True

    def __init__(self, folder: str) -> None:
        """`SchemaMismatch` for a folder without Parquet files, with others, or with folders in it."""
        self._folder, self._notes = Path(folder), Path(folder, NOTES)
        names = sorted(name for name in os.listdir(folder) if not name.startswith(_HIDDEN))
        self._first = [SeenFile.of(str(self._folder / name)) for name in names if not name.startswith(OURS)]
        self._added: list[SeenFile] = []
        self._batches: list[Batch] = []
        self._follow()
        paths = [file.path for file in self._files]
        if not paths or any(not path.endswith(_ENDINGS) or not os.path.isfile(path) for path in paths):
            raise SchemaMismatch("a folder holds Parquet files and nothing else: give the files, or make it a table")
        self._schema = shared_schema(paths)

    def check(self) -> None:
        failure = EngineError("the notes of the batches in the folder cannot be read")
        quietly(self._follow, failure)
        check_unchanged(self._files)

    def frames(self, session: Any) -> Sequence[Any]:
        return [session.read.parquet(*(on_this_machine(file.path) for file in self._files))]

    def batches(self) -> Sequence[Batch]:
        quietly(self._follow, EngineError("the notes of the batches in the folder cannot be read"))
        return self._batches

    def add(self, rows: pa.Table, request: str | None, size: int, arrive: Arrival) -> Batch:
        name = f"{OURS}{uuid.uuid4().hex}.parquet"
        failure = EngineError("the rows could not be written into the folder; nothing was added")
        quietly(lambda: self._write(name, fitted(rows, self._schema)), failure)
        batch = Batch(len(self._batches) + 1, request, size)
        said = {"number": batch.number, "request": request, "rows": size, "file": name}
        if not quietly(lambda: self._note(batch.number, said), failure):
            raise EngineError("another process added rows meanwhile; nothing was added")
        self._follow()
        arrive(batch)
        return batch

    @property
    def _files(self) -> list[SeenFile]:
        return self._first + self._added

    def _follow(self) -> None:
        """Take in the notes that are there by now."""
        for said in notes_after(self._folder, len(self._batches)):
            self._added.append(SeenFile.of(str(self._folder / said["file"])))
            self._batches.append(Batch(said["number"], said["request"], said["rows"]))

    def _write(self, name: str, rows: pa.Table) -> None:
        hidden = self._folder / f".{name}.tmp"
        with hidden.open("xb") as file:
            pq.write_table(rows, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(hidden, self._folder / name)

    def _note(self, number: int, said: dict[str, Any]) -> bool:
        """Whether the note was made: the only one of that number."""
        self._notes.mkdir(exist_ok=True)
        hidden = self._notes / f".{uuid.uuid4().hex}.tmp"
        with hidden.open("x", encoding="utf-8") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(hidden, self._notes / f"{number}.json")
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        for folder in (self._folder, self._notes):
            _settle(folder)
        return True


def _settle(folder: Path) -> None:
    """Make the names in a folder outlive a loss of power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


Holding = RowsInSession | RowsInFolder
"""Rows in Spark's hands. Their members are called by one thread at a time. `check` raises `EngineError` if the rows are
not those that were there. `frames` are data frames that together hold all rows. `add` adds rows, after which there are
`size`, or none if it fails.
"""
