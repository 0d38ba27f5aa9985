"""chary: interactive differential privacy for data that grow.

One privacy budget covers every call to a dataset. In most sessions, a test that finds nothing costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from chary.errors import (
    AlgorithmFailed,
    BudgetExceeded,
    CharyError,
    EngineError,
    ForkedSession,
    InvalidInput,
    InvalidParameter,
    InvalidQuery,
    LedgerCorrupted,
    LedgerError,
    LedgerLocked,
    LedgerMismatch,
    NotPriced,
    NotWithheld,
    RequestConflict,
    RequestInFlight,
    SchemaMismatch,
)

if TYPE_CHECKING:
    from chary.accounting import plan
    from chary.calls.algorithm import Algorithm
    from chary.client import connect as connect
    from chary.data import (
        Bins,
        Blocks,
        CSVFormat,
        NeighborRelation,
        Neighbors,
        Universe,
        Votes,
        check,
        count,
        histogram,
        mean,
        statistic,
        sum,
    )
    from chary.filters import Budget
    from chary.session import Session, open, open_counts, open_votes

__all__ = [
    "Algorithm",
    "AlgorithmFailed",
    "Bins",
    "Blocks",
    "Budget",
    "BudgetExceeded",
    "CSVFormat",
    "CharyError",
    "EngineError",
    "ForkedSession",
    "InvalidInput",
    "InvalidParameter",
    "InvalidQuery",
    "LedgerCorrupted",
    "LedgerError",
    "LedgerLocked",
    "LedgerMismatch",
    "NeighborRelation",
    "Neighbors",
    "NotPriced",
    "NotWithheld",
    "RequestConflict",
    "RequestInFlight",
    "SchemaMismatch",
    "Session",
    "Universe",
    "Votes",
    "check",
    "count",
    "histogram",
    "mean",
    "open",
    "open_counts",
    "open_votes",
    "plan",
    "statistic",
    "sum",
]
# Where names are, which are loaded with their engines when they are first used: opening a table needs a second of
# imports, and a script that only asks for help or the version should not wait for it.
_HOMES: Final = {
    "plan": "chary.accounting",
    "Algorithm": "chary.calls.algorithm",
    "CSVFormat": "chary.data",
    "Votes": "chary.data",
    "Bins": "chary.data",
    "Blocks": "chary.data",
    "NeighborRelation": "chary.data",
    "Neighbors": "chary.data",
    "Universe": "chary.data",
    "check": "chary.data",
    "count": "chary.data",
    "histogram": "chary.data",
    "mean": "chary.data",
    "statistic": "chary.data",
    "sum": "chary.data",
    "Budget": "chary.filters",
    "connect": "chary.client",
    "Session": "chary.session",
    "open": "chary.session",
    "open_votes": "chary.session",
    "open_counts": "chary.session",
}
_PACKAGES: Final = (
    "accounting",
    "advise",
    "audit",
    "calls",
    "client",
    "data",
    "filters",
    "growth",
    "learning",
    "ledger",
    "mechanisms",
    "noise",
    "report",
    "service",
    "session",
    "streaming",
)


if not TYPE_CHECKING:  # a checker would take every misspelt name for one that is found here

    def __getattr__(name: str) -> Any:
        """A public name, or a package, when it is first used."""
        if name in _HOMES:
            found = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return found
        if name in _PACKAGES:
            return import_module(f"chary.{name}")
        raise AttributeError(f"module 'chary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
