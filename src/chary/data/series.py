"""Series of counts, the queries for their values, and datasets whose number of rows is public."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.columns import TypeClass, known_columns
from chary.data.csv_reader import CSVFormat
from chary.data.engines.registry import EMBEDDED, engine_of
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.queries.query import AnsweredT, Contribution, Query
from chary.data.queries.sums import count
from chary.data.rows import Deferred, Rows, StepColumns, Steps, fingerprint_of
from chary.data.source import RowSource
from chary.errors import EngineError, InvalidParameter, InvalidQuery
from chary.numbers import whole

# What a series is asked: its values from one public position to another, or one of them.


class OfSeries(Query[AnsweredT]):
    """What all queries of a series share: neighbours are series whose every value may differ by `step`."""

    step: int

    @property
    def grid(self) -> Fraction:
        """One."""
        return Fraction(1)

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """A bounded change is no contribution of a unit: `InvalidQuery`; see `sensitivity`, `reach` and `l1`."""
        raise InvalidQuery("a series of counts has no privacy unit; its neighbours differ by a bounded change")

    def known_range(self, neighbor_relation: NeighborRelation) -> tuple[None, None]:
        """None for both ends: nothing bounds the values."""
        return None, None

    def sensitivity(self, neighbor_relation: NeighborRelation) -> int:
        """`step`: neighbours differ by at most that in each value."""
        _check_neighbors(neighbor_relation)
        return self.step

    def reach(self, neighbor_relation: NeighborRelation) -> int:
        """Every value may change at once."""
        _check_neighbors(neighbor_relation)
        return len(self.keys or ((),))

    def l1(self, neighbor_relation: NeighborRelation) -> int:
        """`step` for each of the values."""
        return self.sensitivity(neighbor_relation) * self.reach(neighbor_relation)

    def one_direction(self, neighbor_relation: NeighborRelation) -> bool:
        """Each value may rise or fall."""
        return self.reach(neighbor_relation) == 1

    def together(self, neighbor_relation: NeighborRelation) -> int:
        """`step` for each of the values."""
        return self.l1(neighbor_relation)


@dataclass(frozen=True)
class Values(OfSeries[NoisyNumbers]):
    """The values of a series before position `length`, from `start` on; built by `Series.series`, and parts by `since`.

    >>> last = Values(731, 1).since(700)
    >>> last.keys[0], len(last.keys), last.at(710).describe()
    ((700,), 31, 'value 710 of a series, within 1')
    """

    length: int
    step: int
    start: int = 0

    def __post_init__(self) -> None:
        if self.start and not 0 < self.start < self.length:
            raise InvalidQuery(f"a series of {self.length} values has none at position {self.start}")

    @property
    def keys(self) -> tuple[tuple[int], ...]:
        """The positions, from 0 on where nothing is left out."""
        return tuple((position,) for position in range(self.start, self.length))

    def since(self, day: int) -> "Values":
        """Those from this position on; `InvalidQuery` where there are none (yet)."""
        return replace(self, start=whole(day, "day", least=self.start))

    def at(self, day: int) -> "ValueAt":
        """The one at this position."""
        if whole(day, "day", least=self.start) >= self.length:
            raise InvalidQuery(f"a series of {self.length} values has none at position {day}")
        return ValueAt(day, self.step)

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        started = {"start": self.start} if self.start else {}
        return {"kind": "series", "length": self.length, "step": self.step} | started

    def describe(self) -> str:
        """Such as `series of 731 values, each within 1`."""
        since = f", from {self.start} on" if self.start else ""
        return f"series of {self.length} values{since}, each within {self.step}"


@dataclass(frozen=True)
class ValueAt(OfSeries[NoisyNumber]):
    """One value of a series, at a public position; built by `Values.at`."""

    position: int
    step: int

    def __post_init__(self) -> None:
        if self.position < 0:
            raise InvalidQuery("positions of a series begin with 0")

    @property
    def keys(self) -> None:
        """One value has none."""
        return None

    @property
    def length(self) -> int:
        """How many values there must be."""
        return self.position + 1

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        return {"kind": "series_value", "position": self.position, "step": self.step}

    def describe(self) -> str:
        """Such as `value 710 of a series, within 1`."""
        return f"value {self.position} of a series, within {self.step}"


def _check_neighbors(neighbor_relation: NeighborRelation) -> None:
    if neighbor_relation.neighbors is not Neighbors.BOUNDED_CHANGE:
        raise InvalidQuery("a series of counts needs NeighborRelation('bounded_change', None)")


# A series of counts that somebody else aggregated: one public row for each time step.


class Series:
    """Already aggregated counts, one public time step a row; made by `Series.open`.

    >>> import pyarrow as pa
    >>> rentals = Series.open(pa.table({"day": ["Mo", "Tu"], "cnt": [5, 7]}), column="cnt", sensitivity=1, labels="day")
    >>> rentals.prepare(rentals.series()).run().tolist(), rentals.labels
    ([5, 7], ('Mo', 'Tu'))
    """

    def __init__(self, columns: StepColumns, sensitivity: int, csv: CSVFormat | None, steps: Steps) -> None:
        """Use `Series.open`."""
        self._columns, self._sensitivity, self._csv = columns, sensitivity, csv
        self._steps: Steps | None = steps

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        column: str,
        sensitivity: int,
        order_by: str | None = None,
        labels: str | None = None,
        csv: CSVFormat | None = None,
        table: str | None = None,
    ) -> "Series":
        """Read a CSV, a Parquet file, a frame, or the `table` of a server; each value of `column` may change by at most
        `sensitivity`.

        Rows keep their order, or are sorted by `order_by`. `order_by` and `labels` (shown next to the positions) are
        public columns; so is the number of rows. A CSV is read as `csv` says; the types of the public columns are
        found in their values. `SchemaMismatch` for a missing column, or a value that is NULL or no
        64-bit integer; `InvalidParameter` for a sensitivity below 1.
        """
        step = whole(sensitivity, "sensitivity")
        asked = StepColumns(column, order_by, labels)
        found = _source(source, csv, table)
        return cls(asked, step, csv, engine_of(found).steps(found, asked, None))

    @property
    def schema(self) -> dict[str, str]:
        """The one column of counts."""
        return {self._columns.column: str(TypeClass.INTEGER)}

    @property
    def reading(self) -> dict[str, Any]:
        """How a CSV is read; empty where no dialect was given."""
        return {} if self._csv is None else self._csv.body()

    @property
    def neighbor_relation(self) -> NeighborRelation:
        """Bounded change."""
        return NeighborRelation(Neighbors.BOUNDED_CHANGE, None)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The public label of each position, or None."""
        return self._now().labels

    def series(self) -> Values:
        """The query for all values there are now; values appended later need a new query.

        `series().since(day)` are those from a position on, `series().at(day)` is one of them.
        """
        return Values(len(self._now().counts), self._sensitivity)

    def fingerprint(self) -> str:
        """A hash of the column's name and the sensitivity, never of values or their number."""
        return fingerprint_of(self.schema, self.neighbor_relation, self._sensitivity)

    def prepare(self, query: Any) -> Deferred:
        """Check that a query is of this series; `InvalidQuery` otherwise."""
        if not isinstance(query, (Values, ValueAt)):
            raise InvalidQuery("a series answers source.series() and parts of it only")
        if query.step != self._sensitivity or not 1 <= query.length <= len(self._now().counts):
            raise InvalidQuery(f"this query is of another series; ask {self.series().describe()}")
        return self._plan(query)

    def snapshot(self, columns: Sequence[str] | None = None) -> Deferred:
        """A plan that reads all values there are now, as an int64 array."""
        known_columns(columns, self.schema)
        return self._plan(self.series())

    def append(self, rows: Any) -> None:
        """Add time steps at the end, for as long as this object lives; the source is not written.

        With `order_by`, all of them must come after the last step there is, else `SchemaMismatch`.
        """
        now = self._now()
        self._steps = now.then(EMBEDDED.steps(_source(rows, self._csv), self._columns, now.types))

    def close(self) -> None:
        """Forget the values; plans raise `EngineError` afterwards."""
        self._steps = None

    def _plan(self, query: Values | ValueAt) -> Deferred:
        if isinstance(query, ValueAt):
            return Deferred(query, lambda: int(self._now().counts[query.position]))
        # A copy, since who reads it may write into it.
        return Deferred(query, lambda: self._now().counts[query.start : query.length].copy())

    def _now(self) -> Steps:
        if self._steps is None:
            raise EngineError("the series is closed")
        return self._steps

    def __repr__(self) -> str:
        return f"Series({self._columns.column}: sensitivity {self._sensitivity})"


def _source(rows: Any, csv: CSVFormat | None, table: str | None = None) -> RowSource:
    source = RowSource.of(rows, table, said=csv)
    if source.kind not in ("csv", "parquet", "frame", "postgresql"):
        raise InvalidParameter("a series is a CSV, a Parquet file, a frame or a table of a server")
    return source


# The number of rows, where neighbours agree on it.


def has_public_size(neighbor_relation: NeighborRelation) -> bool:
    """Whether neighbours have as many rows: when each row is a unit and one is replaced, and for a series of counts.

    >>> has_public_size(NeighborRelation("replace", None)), has_public_size(NeighborRelation("replace", "patient"))
    (True, False)
    """
    each_row = neighbor_relation.public_units and neighbor_relation.unit is None
    return each_row or neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE


def public_size(rows: Rows) -> int:
    """How many rows there are now: the same number for neighbours, hence public and free.

    `InvalidQuery`, with nothing read, when neighbours may differ in it.

    >>> import pyarrow as pa
    >>> from chary.data.table import RowTable
    >>> public_size(RowTable.open(pa.table({"age": [70, 80, 20]}), neighbor_relation=NeighborRelation("replace", None)))
    3
    """
    if not has_public_size(rows.neighbor_relation):
        raise InvalidQuery(
            f"the number of rows is secret when neighbours are {rows.neighbor_relation.describe()}; "
            'it is public when each row is a unit and one is replaced: open with privacy_unit=None, neighbors="replace"'
        )
    return len(rows.series().keys) if isinstance(rows, Series) else int(rows.prepare(count()).run())
