"""What only who owns the rows is told at an opening: cells that are not read, and another ledger of the same rows."""

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from chary.data import Rows, RowTable
from chary.data.files.sources import is_address
from chary.errors import OwnerWarning
from chary.ledger.postgresql.address import is_address as is_url
from chary.ledger.sqlite.layout import file_of
from chary.ledger.sqlite.ledger_files import datasets_in
from chary.session.place import IN_MEMORY, Place

_ENDING: Final = ".ledger"


def warn_of_cells(rows: Rows) -> None:
    """Warn of columns of new rows in which cells are not of the type that was declared: they are NULL from now on."""
    for name, (kind, cells, of) in (rows.unparsed if isinstance(rows, RowTable) else {}).items():
        _warn(
            f"column {name}: {cells:,} of {of:,} cells are not {kind}, and are NULL. This is not private: for who owns "
            "the rows alone; see chary check"
        )


def warn_of_ledgers(source: Any, place: Place, dataset: str) -> None:
    """Warn of other ledgers, beside the rows or beside their ledger, that keep a budget of the same dataset.

    They are looked at without a lock. Rows that are no files, and throwaway ledgers, have nothing beside them.
    """
    if not isinstance(source, (str, Path)) or is_address(source) or not isinstance(place.ledger, (str, Path)):
        return
    if str(place.ledger) == IN_MEMORY:
        return
    rows, own = Path(source).absolute(), None if is_url(place.ledger) else file_of(place.ledger).absolute()
    folders = {rows.parent, rows if rows.is_dir() else rows.parent, rows.parent if own is None else own.parent}
    for other in _ledgers(folders):
        if (own is None or other.resolve() != own.resolve()) and dataset in datasets_in(other):
            _warn(
                f"{other} keeps a budget of {dataset!r} too: what is charged to one ledger is not charged to the "
                "other. Go on with one of them (ledger=, --ledger), and move the other elsewhere"
            )


def _ledgers(folders: set[Path]) -> list[Path]:
    found = list[Path]()
    for folder in sorted(folders):
        with suppress(OSError):
            found += [Path(each.path) for each in os.scandir(folder) if each.name.endswith(_ENDING)]
    return sorted(found)


def _warn(told: str) -> None:
    # Of _warn, warn_of_..., _session and open: the line that opened the data.
    warnings.warn(told, OwnerWarning, stacklevel=5)
