"""Which ledger a word of a command line names: a ledger itself, the rows whose ledger it is, or a dataset by name."""

from pathlib import Path
from typing import Final

from chary.cli.asking.toml import NAME, said
from chary.data.source import Folder, is_address
from chary.errors import InvalidParameter
from chary.ledger import Ledger, Terms, ledger_exists, whereabouts

_SQLITE: Final = b"SQLite format 3\0"


def is_ledger(named: str) -> bool:
    """Whether a word names a ledger, and not rows: a file of SQLite, or the URL of a schema of a server."""
    if "://" in named:
        return "?" in named and "schema=" in named
    try:
        with Path(named).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def ledger_at(named: str) -> str | Path:
    """The ledger that a word names; where nothing else is found, the file of that name, whether it is there or not."""
    if "://" in named or is_ledger(named):
        return whereabouts(named)
    kept = said(None, named, off=False)
    if (place := kept.options.get("ledger")) is not None:
        return whereabouts(str(place))
    beside = Path(f"{kept.file or named}.ledger")
    return beside if kept.file is not None or ledger_exists(beside) else Path(named)


def one_dataset(ledger: Ledger, named: str | None) -> Terms:
    """The dataset of a ledger that is named, or its only one."""
    held = ledger.datasets()
    found = [terms for terms in held if named in (None, terms.name)]
    if len(found) != 1:
        names = ", ".join(terms.name for terms in held) or "none"
        raise InvalidParameter(f"name one dataset of this ledger by --dataset; it holds {names}")
    return found[0]


def check_rows(named: str, known: tuple[str, ...]) -> None:
    """Refuse a word that names no rows, with the datasets that a chary.toml does name."""
    if is_ledger(named):
        rows = named.removesuffix(".ledger")
        raise InvalidParameter(f"{named} is a ledger: name the rows it is of" + (f", {rows}" if rows != named else ""))
    if "://" in named or is_address(named) or Path(named).exists() or Folder.named(named) is not None:
        return
    told = f"{NAME} names {', '.join(known)}" if known else f"there is no {NAME} that names datasets"
    raise InvalidParameter(f"there is no file and no dataset {named!r}; {told}")
