"""Every connection to DuckDB: to what was named and to nothing else."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from chary.errors import EngineFailure

ATTACHED: Final = "chary_file"
_OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
# Once set, nothing can be reached that was not named before, and no setting can be changed.
_SEALED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "lock_configuration": "true",
}

_HELD: Final = "another connection of this process holds the file: close it first"
_HELD_FOR_WRITING: Final = "the file cannot be opened for writing: another connection holds it"


@dataclass(frozen=True)
class Access:
    """What a connection may touch: a DuckDB file, or else memory with `files`, those in a `folder` that come later, and
    an attached DuckDB file to read.

    `lossless`: Arrow tables that come out of it keep the types of the engine.

    Guarantee: the engine loads and downloads no extension, reads no other file, and lets nothing of this be changed.
    Paths name one file each, whatever characters they are made of.
    """

    path: str | None = None
    files: tuple[str, ...] = ()
    attached: str | None = None
    lossless: bool = False
    folder: str | None = None

    def connect(self, *, writing: bool = False) -> duckdb.DuckDBPyConnection:
        """Open a connection; `EngineFailure` if this process holds the file open by a connection of its own.

        >>> Access().connect().execute("SELECT current_setting('enable_external_access')").fetchall()
        [(False,)]
        """
        if self.path is not None:
            return _on_file(os.path.abspath(self.path), writing)
        lossless = {"arrow_lossless_conversion": str(self.lossless).lower()}
        connection = duckdb.connect(":memory:", config=_OFFLINE | lossless)
        if self.attached is not None:
            connection.execute(f"ATTACH {text(os.path.abspath(self.attached))} AS {ATTACHED} (TYPE duckdb, READ_ONLY)")
        allowed = ", ".join(text(path) for name in self.files for path in (os.path.abspath(name), as_pattern(name)))
        connection.execute(f"SET allowed_paths = [{allowed}]")
        if self.folder is not None:
            connection.execute(f"SET allowed_directories = [{text(os.path.abspath(self.folder))}]")
        for setting, value in _SEALED.items():
            connection.execute(f"SET {setting} = {value}")
        return connection


def as_pattern(path: str) -> str:
    """The pattern that matches this path alone: the engine reads the names of files as patterns.

    >>> as_pattern("/data/visits[1].parquet")
    '/data/visits[[]1].parquet'
    """
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in os.path.abspath(path))


def text(value: str) -> str:
    """A string as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def literals(values: Sequence[str]) -> str:
    """Strings as an SQL list."""
    return f"[{', '.join(map(text, values))}]"


def _on_file(path: str, writing: bool) -> duckdb.DuckDBPyConnection:
    # Connections of one process to one file share an instance, which must be configured when it is made.
    try:
        return duckdb.connect(path, read_only=not writing, config=_OFFLINE | _SEALED)
    except duckdb.ConnectionException:
        failure = EngineFailure(_HELD_FOR_WRITING if writing else _HELD)
    raise failure
