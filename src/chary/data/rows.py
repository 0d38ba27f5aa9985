"""Rows as sessions and engines know them: readings, batches, limits of entries, allowances of units, steps."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chary.data.columns import Schema, Unparsed
from chary.data.neighbors import NeighborRelation
from chary.data.queries.query import Query
from chary.errors import InvalidParameter, SchemaMismatch
from chary.numbers import whole

# What a session needs of a dataset, whatever engine holds the rows.

Answer = int | npt.NDArray[np.int64] | npt.NDArray[np.object_]


class Reading(Protocol):
    """Something that was checked and can be read. Making it touched no data; running it does."""

    def run(self) -> Any:
        """What was read, secret; `EngineError` without data in it."""


class ReadingPlan(Protocol):
    """A checked and compiled query. Making it touched no data; running it does."""

    @property
    def query(self) -> Query:
        """The query it answers."""

    def run(self) -> Answer:
        """The exact answer, secret: an int, or one for each key in key order; `EngineError` without data in it."""


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
    """Rows of a dataset: `Table`, `Series` (aggregated counts) or `Votes` (votes)."""

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types; public."""

    @property
    def neighbor_relation(self) -> NeighborRelation:
        """The neighbouring relation and the privacy unit."""

    def fingerprint(self) -> str:
        """A hash of names, types, relation and unit, never of values: the identity of the dataset in a ledger."""

    def prepare(self, query: Any) -> ReadingPlan:
        """Check and compile a query without touching data; `InvalidQuery` when it does not fit."""

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        """A plan that reads the columns of all rows, for algorithms that users bring; `InvalidQuery` if unknown."""

    def append(self, rows: Any) -> object:
        """Add rows, all or none; `SchemaMismatch` when they do not fit."""

    def close(self) -> None:
        """Release the engine; running a plan afterwards raises `EngineError`."""


def fingerprint_of(schema: Schema, neighbor_relation: NeighborRelation, *more: str | int) -> str:
    """The fingerprint of columns, relation and unit, and of whatever else is public and fixed."""
    return fingerprint(list(schema.items()), neighbor_relation.neighbors.stored, neighbor_relation.unit, *more)


def fingerprint(*terms: Any) -> str:
    """The SHA-256 of what is public and fixed about a dataset, as JSON; in hexadecimal digits."""
    # Ledgers hold it for ever: neither the form of the text nor what rows put into it may change.
    return hashlib.sha256(json.dumps(terms, ensure_ascii=True).encode()).hexdigest()


# Batches: rows that were appended together.


@dataclass(frozen=True)
class Batch:
    """One append: `number` counts the batches of these rows from 1. How many rows there are after it may be secret.

    `found` says that they were there before: a file of a folder that the opening had found. `unparsed` says which of
    its strings became NULL, as far as the engine knows; it is secret, kept nowhere, and for who owns the rows.
    """

    number: int
    request: str | None = None
    rows: int = field(default=0, repr=False)
    found: bool = False
    unparsed: Mapping[str, Unparsed] = field(default_factory=dict, repr=False, compare=False)


Arrival = Callable[[Batch], object]


def unheard(batch: Batch) -> None:
    """The `arrive` of an append to which none was given."""


# At most this many rows of one unit, in a table whose neighbours replace rows one by one.


@dataclass(frozen=True)
class EntryLimit:
    """No value of the column `of` is in more than `most` rows. Rows where it is NULL belong to nobody else's unit.

    That is checked of all rows at the opening and of the units in each appended batch; a batch that breaks it is
    refused whole. Guarantee: between streams that both keep the limit no refusal happens, so none distinguishes them. A
    refusal does reveal that some unit has more rows, to which the limit promises nothing.
    """

    of: str
    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or not self.of:
            raise InvalidParameter("a limit on entries needs the name of the column of their unit")
        whole(self.most, "the entries of a unit")


# How often units may still take part in answers, where each of them may do so a limited number of times.


class Rooms:
    """How often some units may still take part, all others `hits` times. Secret.

    `left` has a column `unit` (int64 or string) and a column `room`. Two objects are never equal, so that an engine may
    keep the table that it made of one for as long as that lives.
    """

    def __init__(self, left: pa.Table, hits: int) -> None:
        self.left, self.hits = left, hits
        rooms = left["room"].to_numpy() if len(left) else np.array([hits])
        self.any, self.any_spent = len(left) > 0, bool(np.any(rooms == 0))
        self.least = int(rooms[rooms > 0].min(initial=hits))

    def __repr__(self) -> str:
        return "Rooms(<secret>)"


# The time steps of a series.


@dataclass(frozen=True, repr=False)
class Steps:
    """The values in order, and the public columns next to them; `types` are those of the columns."""

    counts: npt.NDArray[np.int64]
    orders: tuple[Any, ...] | None
    labels: tuple[Any, ...] | None
    types: Mapping[str, str]

    def then(self, later: "Steps") -> "Steps":
        """With later steps at the end; `SchemaMismatch` if they do not come after these."""
        if self.orders and later.orders and not _before(self.orders[-1], later.orders[0]):
            raise SchemaMismatch("appended time steps must come after those there are; nothing was written")
        counts = np.concatenate([self.counts, later.counts])
        return Steps(counts, _joined(self.orders, later.orders), _joined(self.labels, later.labels), self.types)


@dataclass(frozen=True)
class StepColumns:
    """Which columns of a source make a series."""

    column: str
    order_by: str | None
    labels: str | None

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        return [name for name in dict.fromkeys((self.column, self.order_by, self.labels)) if name is not None]


def check_steps(cells: Mapping[str, Sequence[Any]], asked: StepColumns) -> None:
    """`SchemaMismatch` where a cell of a column is missing or of another type than the column needs."""
    for name, values in cells.items():
        if any(value is None for value in values):
            counted = "an integer of 64 bits: NULL or an empty cell is none, nor is a decimal such as 3.5"
            needed = counted if name == asked.column else "a value that is not NULL, and all of them one type"
            raise SchemaMismatch(f"each row must hold in column {name!r} {needed}")


def _before(first: Any, second: Any) -> bool:
    # Columns whose types were found may differ from file to file, and Python refuses to order two types.
    return type(first) is type(second) and bool(first < second)


def _joined(first: tuple[Any, ...] | None, second: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if first is None or second is None else first + second
