"""Engines: what each must do for rows that it holds."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt
import pyarrow as pa

from chary.data.columns import Unparsed
from chary.data.partition import RowPart
from chary.data.queries.ordered import Elements, Mark, Ordered, Words
from chary.data.queries.query import Query
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Arrival, Batch, EntryLimit, Reading, ReadingPlan, Rooms, StepColumns, Steps
from chary.data.source import RowSource

# What an engine must do: all above asks for it by these names, and only an engine knows SQL or a connection.
#
# Every member of every engine keeps five promises; tests/data/engines holds an engine to them.
#
# - *Exact*: counts and sums are exact integers, however large; floats come only from the caller's own algorithms.
# - *Blind*: how rows are read follows from what was said of them (format, dialect, types, columns), never from a value,
#   but for types that the caller asked to have found in the values. What one row becomes follows from that row alone.
# - *Silent*: an error holds no value, no number of rows and no text of the engine, nor has it a cause that does.
#   An interruption stays a `KeyboardInterrupt`.
# - *Late*: making a plan checks and compiles, and touches no row; `run` reads. Whether making fails is public.
# - *Whole*: rows are added all or none, and one reading sees one state of them. Members are safe in several threads.


class ElementReading(Reading, Protocol):
    """Reads the words of elements, as often as it is asked; `run` returns the reader itself and reads nothing."""

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read. Both are secret, as is the key.

        A word is the first 64 bits of SHA-256 of key, kind and text of the element: the same in every engine, so that
        a sketch can go on elsewhere. With the mark of an earlier reading of the same table, rows read then may be left
        out, which changes no sketch of the same key. `EngineError`, naming neither values nor the key.
        """


class LivingUnits(Protocol):
    """The active units of one state of the rows. All of it is secret."""

    def answers(self) -> npt.NDArray[Any]:
        """How many units take part in each key, or what they add up to there in steps: 64 bits, or Python integers."""

    def of(self, positions: Sequence[int]) -> pa.Table:
        """The units that take part in the keys at these positions, and in how many of them (`used`).

        `EngineError` if they are not those of `answers`.
        """


class LivingReading(Reading, Protocol):
    """A compiled count or sum of active units; `run` returns the plan itself, since who is alive is known only later.

    A unit takes part in a key when it has a row there that satisfies the predicate. In a sum, what it adds there,
    as the query limits it, must not be 0. It takes part in at most its first `room` keys in the order of the list
    (and the first `max_groups_per_unit`). With a `room` of 0 it takes no part at all. So what a unit does follows
    from its own rows and its own `room`. Units are distinguished by id: rows that are appended for a unit with a
    `room` of 0 are ignored as well.
    """

    def at(self, rooms: Rooms) -> AbstractContextManager[LivingUnits]:
        """One state of the rows, which cannot grow meanwhile; `EngineError`, naming no value, if the engine fails."""


class EngineRows(Protocol):
    """Rows that an engine holds, with a unit column or without. `Table` asks it, and has checked what it asks."""

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types: boolean, int64, float64, string, date, timestamp, or the engine's own name."""

    @property
    def reading(self) -> dict[str, Any]:
        """How strings are read, of these rows and of batches alike: JSON-able, public, empty where there are none."""

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        """By column which cells of the first rows were strings and not of the declared type, where there are any.

        Secret: for who owns the rows, and in nothing that is reported to who asks. Engines whose columns have types of
        their own know of none.
        """

    @property
    def keeps_batches(self) -> bool:
        """Whether appended rows outlive this object."""

    @property
    def knows_arrival(self) -> bool:
        """Whether rows are known in the order in which they came, at this opening and at each later one.

        Each row has its place in it for good: what comes later is behind it.
        """

    def compile(self, query: Query, part: RowPart | None = None) -> ReadingPlan:
        """The plan of a query; `InvalidQuery` for an unknown column, a type that does not fit or another query.

        Of a `part` nothing but its rows is read, as if there were no others; so it is of all readings.
        """

    def snapshot(self, columns: Sequence[str], part: RowPart | None = None) -> Reading:
        """Reads these columns of all rows, in no particular order, into an Arrow table."""

    def ordered(self, asked: Ordered, part: RowPart | None = None) -> Reading:
        """Reads, in one scan, which values of the grid occur and how often: `Occurring`.

        Where values of a unit are drawn at random it reads them all, unit by unit: `UnitValues`. Engines draw nothing.
        """

    def elements(self, asked: Elements, part: RowPart | None = None) -> ElementReading:
        """Reads elements as words; `InvalidQuery` for a column whose values cannot be told apart."""

    def living(self, query: Count | Sum, part: RowPart | None = None) -> LivingReading:
        """Counts active units, or adds up what they contribute; only of rows with a unit column."""

    def one_state(self) -> AbstractContextManager[object]:
        """Within it, all that this thread reads is of one state of the rows, and nobody adds any."""

    def as_of(self, batch: int, size: int | None) -> "EngineRows":
        """The rows as they were after that batch, 0 for those before the first; or the first `size`, where it is given.

        All readings of it see these alone, it takes no rows, and closing it closes nothing. Which rows they are follows
        from numbers of batches and places of rows, never from values. `InvalidQuery` where rows of then cannot be
        distinguished from later ones, `EngineError` if there are fewer by now.
        """

    def check_units(self) -> None:
        """`InvalidQuery` where units are of a type that cannot be recognised when they are met again."""

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        """Add rows and remember their batch, in one transaction; nothing under a `request` key that came before.

        `SchemaMismatch` unless columns match by name and types by class; no value makes rows fail, and no constraint.
        `arrive` gets the batch: before the commit where rows live in memory, after it where they are kept.
        The batch that is returned counts its strings that became NULL.
        """

    def batches(self, after: int) -> list[Batch]:
        """The appended batches above a number, in order of arrival."""

    def close(self) -> None:
        """Release everything; plans raise `EngineError` afterwards. Closing twice is fine."""


class Engine(Protocol):
    """Opens sources. It reaches what is named and nothing else: no network, no other file, no pattern."""

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> EngineRows:
        """The rows of a file, several files or a frame: see `RowTable.open`.

        NaN is read as NULL, decimals and integers above 64 bits as floats (not in the unit column, where two units must
        never be merged), categories as strings. `SchemaMismatch` for a source that is no such table or breaks the
        limit, `InvalidParameter` for one that the engine cannot open.
        """

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        """All time steps of a source, in its order or sorted.
        Strings are read as the types of earlier steps, or else those of public columns as the types found in them.
        `SchemaMismatch` for NULL or what is no 64-bit integer.
        """

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        """Make a file in which the rows are a table that can be opened and can grow."""
