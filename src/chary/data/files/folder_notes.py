"""Notes of the batches that were added to a folder of Parquet files: a file of ours is there once its note is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# These names are in folders that were written: they must never change. Engines overlook what begins with an underscore.
NOTES: Final = "_chary_batches"
OURS: Final = "chary-"


def notes_after(folder: Path, number: int) -> Iterator[dict[str, Any]]:
    """The notes of batches number + 1, number + 2 and so on, as far as there are any by now.

    A note tells the batch's number, its request, its rows and the name of its file.
    """
    while (note := folder / NOTES / f"{number + 1}.json").exists():
        yield json.loads(note.read_text("utf-8"))
        number += 1


def left_by_an_append(folder: Path, names: list[str]) -> frozenset[str]:
    """Those of a folder's files which an append wrote that was stopped before its note: nobody's rows."""
    ours = {name for name in names if name.startswith(OURS)}
    return frozenset(ours - {note["file"] for note in notes_after(folder, 0)}) if ours else frozenset()
