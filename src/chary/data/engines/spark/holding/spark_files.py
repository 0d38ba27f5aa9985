"""Parquet files that Spark reads in place: which they are, and whether they are still what they were."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chary.data.silence import quietly
from chary.errors import EngineFailure, SchemaMismatch

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
    """`EngineFailure` unless all are there and as they were: a reading would mix two states of the rows."""
    failure = EngineFailure("files of the rows are gone, or were changed from outside: open them anew")
    if quietly(lambda: any(SeenFile.of(file.path) != file for file in files), failure):
        raise failure


def shared_schema(paths: Sequence[str]) -> pa.Schema:
    """The columns of all files; `SchemaMismatch` unless they are the same, of the same types."""
    schemas: list[Any] = quietly(lambda: [pq.read_schema(path).remove_metadata() for path in paths], _UNREADABLE)
    if any(_kinds(schema) != _kinds(schemas[0]) for schema in schemas):
        raise SchemaMismatch("the files do not have the same columns of the same types")
    return schemas[0]


def on_this_machine(path: str) -> str:
    r"""How Spark is told of this one file, whatever characters its name is made of.

    >>> on_this_machine("/data/visits[1].parquet")
    'file:/data/visits\\[1\\].parquet'
    """
    return "file:" + "".join(f"\\{sign}" if sign in _PATTERN else sign for sign in os.path.abspath(path))


def _kinds(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in schema]
