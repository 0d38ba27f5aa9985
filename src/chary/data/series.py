"""A series of counts that somebody else aggregated: one public row for each time step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from chary.data.columns import TypeClass, quote
from chary.data.contribution import Contribution
from chary.data.engine import quietly
from chary.data.loading import read_columns, select
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.query import Query
from chary.data.rows import Answer
from chary.data.snapshot import known_columns
from chary.data.sources import Source, describe
from chary.data.table import fingerprint
from chary.errors import EngineFailure, InvalidParameter, InvalidQuery, SchemaMismatch
from chary.numbers import whole

_READ = "chary_series"


@dataclass(frozen=True)
class Values(Query):
    """The first `length` values of a series, each of which may change by `step`; built by `Series.series`."""

    length: int
    step: int

    @property
    def grid(self) -> Fraction:
        """One."""
        return Fraction(1)

    @property
    def keys(self) -> tuple[tuple[int], ...]:
        """The positions 0, 1, ..., length - 1."""
        return tuple((position,) for position in range(self.length))

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """A bounded change is no contribution of a unit: `InvalidQuery`; see `sensitivity`, `reach` and `l1`."""
        raise InvalidQuery("a series of counts has no privacy unit; its neighbours differ by a bounded change")

    def sensitivity(self, neighbouring: Neighbouring) -> int:
        """`step`, which is what the relation says of one value."""
        _check_relation(neighbouring)
        return self.step

    def reach(self, neighbouring: Neighbouring) -> int:
        """Every value may change at once."""
        _check_relation(neighbouring)
        return self.length

    def l1(self, neighbouring: Neighbouring) -> int:
        """`step` for each of the values."""
        return self.sensitivity(neighbouring) * self.length

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        return {"kind": "series", "length": self.length, "step": self.step}

    def describe(self) -> str:
        """Such as `series of 731 values, each within 1`."""
        return f"series of {self.length} values, each within {self.step}"


class SeriesPlan:
    """A checked query on a series."""

    def __init__(self, series: "Series", query: Values) -> None:
        self._series, self._query = series, query

    @property
    def query(self) -> Values:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """An int64 array of the first `length` values; `EngineFailure` once the series is closed."""
        return self._series._first(self._query.length)

    def __repr__(self) -> str:
        return f"SeriesPlan({self._query.describe()})"


class Series:
    """Already aggregated counts, one public time step a row; made by `Series.open`.

    >>> import pyarrow as pa
    >>> rentals = Series.open(pa.table({"day": ["Mo", "Tu"], "cnt": [5, 7]}), column="cnt", sensitivity=1, labels="day")
    >>> rentals.prepare(rentals.series()).run().tolist(), rentals.labels
    ([5, 7], ('Mo', 'Tu'))
    """

    def __init__(self, reader: "_Reader", sensitivity: int, steps: "_Steps") -> None:
        """Use `Series.open`."""
        self._reader, self._sensitivity = reader, sensitivity
        self._steps: _Steps | None = steps

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        column: str,
        sensitivity: int,
        order_by: str | None = None,
        labels: str | None = None,
    ) -> "Series":
        """Read a CSV, a Parquet file or a frame; each value of `column` may change by at most `sensitivity`.

        Rows keep their order, or are sorted by `order_by`. `order_by` and `labels` (shown beside the positions) are
        public columns; so is the number of rows. `SchemaMismatch` for a missing column, or a value that is NULL or no
        64-bit integer; `InvalidParameter` for a sensitivity below 1.
        """
        step = whole(sensitivity, "sensitivity")
        reader = _Reader(column, order_by, labels)
        return cls(reader, step, reader.read(Source.of(source)))

    @property
    def schema(self) -> dict[str, str]:
        """The one column of counts."""
        return {self._reader.column: str(TypeClass.INTEGER)}

    @property
    def neighbouring(self) -> Neighbouring:
        """Bounded change."""
        return Neighbouring(Relation.BOUNDED_CHANGE, None)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The public label of each position, or None."""
        return self._now().labels

    def series(self) -> Values:
        """The query for all values there are now; values appended later need a new query."""
        return Values(len(self._now().counts), self._sensitivity)

    def fingerprint(self) -> str:
        """A hash of the column's name and the sensitivity, never of values or their number."""
        return fingerprint(self.schema, self.neighbouring, self._sensitivity)

    def prepare(self, query: Any) -> SeriesPlan:
        """Check that a query is of this series; `InvalidQuery` otherwise."""
        if not isinstance(query, Values):
            raise InvalidQuery("a series answers source.series() only")
        if query.step != self._sensitivity or not 1 <= query.length <= len(self._now().counts):
            raise InvalidQuery(f"this query is of another series; ask {self.series().describe()}")
        return SeriesPlan(self, query)

    def snapshot(self, columns: Sequence[str] | None = None) -> "SeriesPlan":
        """A plan that reads all values there are now, as an int64 array."""
        known_columns(columns, self.schema)
        return SeriesPlan(self, self.series())

    def append(self, rows: Any) -> None:
        """Add time steps at the end, for as long as this object lives; the source is not written.

        With `order_by`, all of them must come after the last step there is, else `SchemaMismatch`.
        """
        self._steps = self._now().then(self._reader.read(Source.of(rows)))

    def close(self) -> None:
        """Forget the values; plans raise `EngineFailure` afterwards."""
        self._steps = None

    def _first(self, length: int) -> npt.NDArray[np.int64]:
        return self._now().counts[:length].copy()

    def _now(self) -> "_Steps":
        if self._steps is None:
            raise EngineFailure("the series is closed")
        return self._steps

    def __repr__(self) -> str:
        return f"Series({self._reader.column}: sensitivity {self._sensitivity})"


@dataclass(frozen=True, repr=False)
class _Steps:
    counts: npt.NDArray[np.int64]
    orders: tuple[Any, ...] | None
    labels: tuple[Any, ...] | None

    def then(self, later: "_Steps") -> "_Steps":
        if self.orders and later.orders and not self.orders[-1] < later.orders[0]:
            raise SchemaMismatch("appended time steps must come after those there are; nothing was written")
        counts = np.concatenate([self.counts, later.counts])
        return _Steps(counts, _joined(self.orders, later.orders), _joined(self.labels, later.labels))


@dataclass(frozen=True)
class _Reader:
    column: str
    order_by: str | None
    labels: str | None

    def read(self, source: Source) -> _Steps:
        if source.kind == "duckdb":
            raise InvalidParameter("a series is a CSV, a Parquet file or a frame")
        failure = SchemaMismatch("the source cannot be read as a table with one type for each column")
        with duckdb.connect() as connection:
            columns: Mapping[str, list[Any]] = quietly(lambda: self._columns(connection, source), failure)
        if any(value is None for values in columns.values() for value in values):
            raise SchemaMismatch(f"the columns {', '.join(map(repr, columns))} must not hold NULL")
        orders = None if self.order_by is None else tuple(columns[self.order_by])
        labels = None if self.labels is None else tuple(columns[self.labels])
        return _Steps(np.array(columns[self.column], dtype=np.int64), orders, labels)

    def _columns(self, connection: duckdb.DuckDBPyConnection, source: Source) -> dict[str, list[Any]]:
        source.attach(connection)
        connection.execute(f"CREATE TEMP TABLE {_READ} AS SELECT * FROM {source.relation}")
        known = {column.name: column for column in read_columns(describe(connection, _READ), None)}
        names = [name for name in dict.fromkeys((self.column, self.order_by, self.labels)) if name is not None]
        for name in names:
            if name not in known:
                raise SchemaMismatch(f"there is no column {name!r}")
        if known[self.column].type != TypeClass.INTEGER:
            raise SchemaMismatch(f"column {self.column!r} is {known[self.column].type}; a series needs whole numbers")
        order = "" if self.order_by is None else f" ORDER BY {quote(self.order_by)}"
        chosen = select(tuple(known[name] for name in names), _READ)
        cells = connection.execute(chosen + order).fetchall()
        return {name: [row[index] for row in cells] for index, name in enumerate(names)}


def _joined(first: tuple[Any, ...] | None, second: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if first is None or second is None else first + second


def _check_relation(neighbouring: Neighbouring) -> None:
    if neighbouring.relation is not Relation.BOUNDED_CHANGE:
        raise InvalidQuery("a series of counts needs Neighbouring('bounded change', None)")
