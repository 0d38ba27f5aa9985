"""What a session needs of a dataset, whatever engine holds the rows."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chary.data.neighbouring import Neighbouring
from chary.data.query import Query

Answer = int | npt.NDArray[np.int64] | npt.NDArray[np.object_]


class Reading(Protocol):
    """Something that was checked and can be read. Making it touched no data; running it does."""

    def run(self) -> Any:
        """What was read, secret; `EngineFailure` without data in it."""
        ...


class Plan(Protocol):
    """A checked and compiled query. Making it touched no data; running it does."""

    @property
    def query(self) -> Query:
        """The query it answers."""
        ...

    def run(self) -> Answer:
        """The exact answer, secret: an int, or one for each key in key order; `EngineFailure` without data in it."""
        ...


class Rows(Protocol):
    """Rows of a dataset: `Table`, `Series` (aggregated counts) or `Ballots` (votes)."""

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types; public."""
        ...

    @property
    def neighbouring(self) -> Neighbouring:
        """The neighbouring relation and the privacy unit."""
        ...

    def fingerprint(self) -> str:
        """A hash of names, types, relation and unit, never of values: the identity of the dataset in a ledger."""
        ...

    def prepare(self, query: Any) -> Plan:
        """Check and compile a query without touching data; `InvalidQuery` when it does not fit."""
        ...

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        """A plan that reads the columns of all rows, for algorithms that users bring; `InvalidQuery` if unknown."""
        ...

    def append(self, rows: Any) -> object:
        """Add rows, all or none; `SchemaMismatch` when they do not fit."""
        ...

    def close(self) -> None:
        """Release the engine; running a plan afterwards raises `EngineFailure`."""
        ...
