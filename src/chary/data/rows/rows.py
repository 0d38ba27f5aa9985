"""What a session needs of a dataset, whatever engine holds the rows."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chary.data.columns import Schema
from chary.data.neighbouring import Neighbouring
from chary.data.queries.query import Query

Answer = int | npt.NDArray[np.int64] | npt.NDArray[np.object_]


class Reading(Protocol):
    """Something that was checked and can be read. Making it touched no data; running it does."""

    def run(self) -> Any:
        """What was read, secret; `EngineFailure` without data in it."""
        ...


class ReadingPlan(Protocol):
    """A checked and compiled query. Making it touched no data; running it does."""

    @property
    def query(self) -> Query:
        """The query it answers."""
        ...

    def run(self) -> Answer:
        """The exact answer, secret: an int, or one for each key in key order; `EngineFailure` without data in it."""
        ...


@dataclass(frozen=True, repr=False)
class Deferred:
    """A reading of rows that were checked: what is asked, and what reads it."""

    query: Any
    read: Callable[[], Any]

    def run(self) -> Any:
        """What was read, secret."""
        return self.read()

    def __repr__(self) -> str:
        return f"Deferred({self.query if isinstance(self.query, str) else self.query.describe()})"


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

    def prepare(self, query: Any) -> ReadingPlan:
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


def fingerprint_of(schema: Schema, neighbouring: Neighbouring, *more: str | int) -> str:
    """That of columns, relation and unit, and whatever else is public and fixed."""
    return fingerprint(list(schema.items()), str(neighbouring.relation), neighbouring.unit, *more)


def fingerprint(*terms: Any) -> str:
    """The SHA-256 of what is public and fixed about a dataset, as JSON; in hexadecimal digits."""
    # Ledgers hold it for ever: neither the form of the text nor what rows put into it may change.
    return hashlib.sha256(json.dumps(terms, ensure_ascii=True).encode()).hexdigest()
