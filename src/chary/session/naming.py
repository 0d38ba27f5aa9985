"""What a dataset is called in its ledger."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chary.data.files.folders import Folder
from chary.data.files.sources import is_address
from chary.errors import InvalidParameter, LedgerMismatch
from chary.ledger import Terms


def usual_name(source: Any, table: str | None) -> str:
    """The first file's stem, the name of a folder of files or of a server's database (and of the table), or "data".

    A table that is named as its file or its database is, is not named twice.

    >>> usual_name("postgresql://ann:pw@db.example/clinic?sslmode=require", "visits"), usual_name("a/visits.csv", None)
    ('clinic.visits', 'visits')
    >>> usual_name("stops.duckdb", "stops"), usual_name("stops.duckdb", "days")
    ('stops', 'stops.days')
    """
    if is_address(source):
        return _with_table(urlsplit(source).path.strip("/") or "server", table)
    folder = Folder.named(source) if isinstance(source, (str, Path)) else None
    source = source if folder is None else Path(folder.path).resolve()
    path = min(map(str, source)) if isinstance(source, (list, tuple)) and source else source
    stem = Path(path).name.split(".")[0] if isinstance(path, (str, Path)) else "data"
    return _with_table(stem, table)


def _with_table(stem: str, table: str | None) -> str:
    return stem if table in (None, stem) else f"{stem}.{table}"


def kept_as(known: Collection[str], usual: str) -> str:
    """The usual name as a ledger has it: earlier ones name a table twice whose file is named as it is."""
    twice = f"{usual}.{usual}"
    return twice if usual not in known and twice in known else usual


def usual_ledger(source: Any) -> str:
    """Where the ledger of files is kept unless it is said: beside the file or the folder, `visits.csv.ledger`.

    Errors: `InvalidParameter` for rows beside which there is no place: of a server, a frame, or several files.

    >>> usual_ledger("a/visits.csv"), usual_ledger("visits/"), usual_ledger("visits/2026-*.parquet")
    ('a/visits.csv.ledger', 'visits.ledger', 'visits.ledger')
    """
    if not isinstance(source, (str, Path)) or is_address(source):
        raise InvalidParameter(
            "beside these rows there is no place for a ledger: say where it is, such as ledger='visits.ledger'"
        )
    folder = Folder.named(source)
    return f"{os.path.normpath(source if folder is None else folder.path)}.ledger"


def chosen(known: Mapping[str, Terms], asked: str | None, usual: str) -> str:
    """The dataset's name; a second one in a ledger has a budget of its own, so it must be named by the caller."""
    usual = kept_as(known, usual)
    if asked is None and known and usual not in known:
        names = ", ".join(map(repr, sorted(known)))
        raise LedgerMismatch(
            f"the ledger holds {names}; say dataset= if these rows are one of them (under another file name), or name "
            "a new dataset, which gets a budget of its own"
        )
    return asked or usual
