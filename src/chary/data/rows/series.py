"""A series of counts that somebody else aggregated: one public row for each time step."""

from collections.abc import Sequence
from typing import Any

from chary.data.columns import TypeClass, known_columns
from chary.data.engines.chosen import EMBEDDED, engine_of
from chary.data.files.dialect import CSV
from chary.data.files.sources import RowSource
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.rows.rows import Deferred, fingerprint_of
from chary.data.rows.series_values import ValueAt, Values
from chary.data.rows.steps import StepColumns, Steps
from chary.errors import EngineFailure, InvalidParameter, InvalidQuery
from chary.numbers import whole


class Series:
    """Already aggregated counts, one public time step a row; made by `Series.open`.

    >>> import pyarrow as pa
    >>> rentals = Series.open(pa.table({"day": ["Mo", "Tu"], "cnt": [5, 7]}), column="cnt", sensitivity=1, labels="day")
    >>> rentals.prepare(rentals.series()).run().tolist(), rentals.labels
    ([5, 7], ('Mo', 'Tu'))
    """

    def __init__(self, columns: StepColumns, sensitivity: int, csv: CSV | None, steps: Steps) -> None:
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
        csv: CSV | None = None,
        table: str | None = None,
    ) -> "Series":
        """Read a CSV, a Parquet file, a frame, or the `table` of a server; each value of `column` may change by at most
        `sensitivity`.

        Rows keep their order, or are sorted by `order_by`. `order_by` and `labels` (shown beside the positions) are
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
        """How a CSV is read, where that was said."""
        return {} if self._csv is None else self._csv.body()

    @property
    def neighbouring(self) -> Neighbouring:
        """Bounded change."""
        return Neighbouring(Relation.BOUNDED_CHANGE, None)

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
        return fingerprint_of(self.schema, self.neighbouring, self._sensitivity)

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
        """Forget the values; plans raise `EngineFailure` afterwards."""
        self._steps = None

    def _plan(self, query: Values | ValueAt) -> Deferred:
        if isinstance(query, ValueAt):
            return Deferred(query, lambda: int(self._now().counts[query.position]))
        # A copy, since who reads it may write into it.
        return Deferred(query, lambda: self._now().counts[query.start : query.length].copy())

    def _now(self) -> Steps:
        if self._steps is None:
            raise EngineFailure("the series is closed")
        return self._steps

    def __repr__(self) -> str:
        return f"Series({self._columns.column}: sensitivity {self._sensitivity})"


def _source(rows: Any, csv: CSV | None, table: str | None = None) -> RowSource:
    source = RowSource.of(rows, table, said=csv)
    if source.kind not in ("csv", "parquet", "frame", "postgresql"):
        raise InvalidParameter("a series is a CSV, a Parquet file, a frame or a table of a server")
    return source
