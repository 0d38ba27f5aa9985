"""A folder of Parquet files that can grow: each batch is a file and a note, and the note decides."""

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chary.data.engines.spark.holding.spark_files import SeenFile, check_unchanged, on_this_machine, shared_schema
from chary.data.engines.spark.holding.spark_fitting import fitted
from chary.data.files.folder_notes import NOTES, OURS, notes_after
from chary.data.rows.batch import Arrival, Batch
from chary.data.silence import quietly
from chary.errors import EngineFailure, SchemaMismatch

_HIDDEN: Final = ("_", ".")
_ENDINGS: Final = (".parquet", ".pq")


class RowsInFolder:
    """The rows of all Parquet files that a folder held when it was opened, and of the batches that were added by chary.

    A batch is there from the moment its note is, `_chary_batches/<number>.json`, which is made at once or not at all,
    and by one process only. A file of ours without a note is nobody's: what wrote it was stopped. Files that others
    put there later are seen when the folder is opened anew.
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
        failure = EngineFailure("the notes of the batches in the folder cannot be read")
        quietly(self._follow, failure)
        check_unchanged(self._files)

    def frames(self, session: Any) -> Sequence[Any]:
        return [session.read.parquet(*(on_this_machine(file.path) for file in self._files))]

    def batches(self) -> Sequence[Batch]:
        quietly(self._follow, EngineFailure("the notes of the batches in the folder cannot be read"))
        return self._batches

    def add(self, rows: pa.Table, request: str | None, size: int, arrive: Arrival) -> Batch:
        name = f"{OURS}{uuid.uuid4().hex}.parquet"
        failure = EngineFailure("the rows could not be written into the folder; nothing was added")
        quietly(lambda: self._write(name, fitted(rows, self._schema)), failure)
        batch = Batch(len(self._batches) + 1, request, size)
        said = {"number": batch.number, "request": request, "rows": size, "file": name}
        if not quietly(lambda: self._note(batch.number, said), failure):
            raise EngineFailure("another process added rows meanwhile; nothing was added")
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
