"""How the files of a dataset are read: fixed in its ledger at the first opening, so that every row is read alike."""

from typing import Any, Final

from chary.data import Rows, RowTable, Series
from chary.errors import LedgerMismatch
from chary.ledger import Ledger, Terms
from chary.ledger.checks import parsed

# Keys of conditions that old ledgers hold, so they may never change.
_DIALECT: Final = "csv "
_INFERRED: Final = "types"


def read_as(rows: Rows, held: Terms | None) -> dict[str, Any]:
    """The conditions that say how texts are read, to be compared with those of the ledger.

    A ledger that says nothing of it (of frames, or written before dialects were kept) takes any dialect, as long as
    columns and types are the same; rows that are no CSV take what the ledger says. Types that were found in the values
    once may be declared later, but not the other way round: an opening that fails would tell of the values.
    """
    before = {} if held is None else _kept(held)
    said = rows.reading if isinstance(rows, (RowTable, Series)) else {}
    asked = {f"{_DIALECT}{name}": value for name, value in said.items()}
    dialect = {name: value for name, value in before.items() if name != _INFERRED}
    if held is not None and (not dialect or not asked):
        asked = dialect
    inferred = {_INFERRED: "inferred"} if _infers(rows) and (held is None or dialect) else {}
    return asked | {name: value for name, value in before.items() if name == _INFERRED} | inferred


def check_types(rows: Rows, held: Terms) -> None:
    """`LedgerMismatch` that says what to declare, where a CSV differs from the ledger's rows in columns or types."""
    conditions = parsed(held.conditions, "conditions")
    neighbours = (conditions.get("unit"), conditions.get("relation"))
    same = neighbours == (rows.neighbouring.unit, str(rows.neighbouring.relation))
    if same and isinstance(rows, RowTable) and rows.reading and rows.fingerprint() != held.fingerprint:
        raise LedgerMismatch(
            f"the ledger holds {held.name!r} with other columns or other types, and they stay as they were at first: "
            "declare the same, such as columns={'age': 'BIGINT'}, or let them be found in the values if they "
            "once were, by infer_types=True; if no type was declared then, all columns are texts: declare none"
        )


def types_told(rows: Rows, ledger: Ledger, dataset: str) -> str:
    """The sentence of a statement about types that were found in values; empty where there are none."""
    held = next(terms for terms in ledger.datasets() if terms.name == dataset)
    if _INFERRED not in _kept(held) and not _infers(rows):
        return ""
    return (
        " The types of columns were found in the values, by the wish of who opened the data: they are taken for "
        "public, and the promise holds between datasets in which they are the same."
    )


def _infers(rows: Rows) -> bool:
    return isinstance(rows, RowTable) and rows.infers


def _kept(terms: Terms) -> dict[str, Any]:
    conditions = parsed(terms.conditions, "conditions")
    return {key: value for key, value in conditions.items() if key == _INFERRED or key.startswith(_DIALECT)}
