"""Rows of a table, whatever engine holds them, asked through prepared queries."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from chary.data.columns import Unparsed, known_columns
from chary.data.engines.chosen import engine_of
from chary.data.engines.engine import ElementReading, EngineRows
from chary.data.files.dialect import CSV
from chary.data.files.sources import RowSource
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.queries.elements import Elements
from chary.data.queries.ordered_values import Ordered
from chary.data.queries.query import Query
from chary.data.rows.batch import Arrival, Batch
from chary.data.rows.entry_limit import EntryLimit
from chary.data.rows.rows import Reading, ReadingPlan, fingerprint_of
from chary.errors import InvalidParameter, InvalidQuery, SchemaMismatch

# Compiling a query takes longer than answering it from a small table. A plan holds its keys, so not all are kept.
_PLANS: Final = 256
_Asked = TypeVar("_Asked")
_Plan = TypeVar("_Plan")


def _unheard(batch: Batch) -> None:
    """Nobody waits for it."""


class RowTable:
    """A table of rows with a neighbouring relation; made by `RowTable.open`. Safe to use from several threads.

    `held` are the rows as an engine holds them.

    >>> import pyarrow as pa
    >>> from chary.data.queries.count import count
    >>> rows = pa.table({"patient": [1, 1, 2], "age": [70, 70, 30]})
    >>> table = RowTable.open(rows, neighbouring=Neighbouring("add/remove", "patient"))
    >>> table.prepare(count("age >= 65")).run()
    1
    """

    def __init__(
        self, held: EngineRows, source: RowSource, neighbouring: Neighbouring, limit: EntryLimit | None
    ) -> None:
        """Use `RowTable.open`."""
        self.held, self._source, self._neighbouring, self._limit = held, source, neighbouring, limit
        self._plans: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        neighbouring: Neighbouring,
        table: str | None = None,
        unpivot: tuple[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        csv: CSV | None = None,
        infer_types: bool = False,
        limit: EntryLimit | None = None,
        engine: Any = None,
    ) -> "RowTable":
        """Open a CSV (also .gz), a Parquet file, a list of either, a folder or pattern of Parquet files, a DuckDB file,
        or a pandas, Polars or Arrow table.

        - A CSV is read line by line as its dialect says (`csv=CSV(delimiter=";")`, see there), the batches that are
          appended too. Its columns are texts but for those declared, as in `columns={"age": "BIGINT"}`; so are the
          object columns of pandas. `infer_types=True` finds the other types in all values, which makes them public.
        - Parquet and DuckDB files stay in place and are opened read-only; a DuckDB file needs `table="name"`.
        - A folder ("visits/") stands for the Parquet files in it, a pattern ("visits/2026-*.parquet") for those of such
          names: the ones there are at the opening, in the order of their names. A file that comes later is no row until
          it is appended; then it is read in place too.
        - `unpivot=("day", "kwh")` turns a wide table (the unit column and one column a day) into rows of unit, day and
          kwh, without empty cells. `columns={"kwh": "DOUBLE"}` declares the type of all cells of a CSV.
        - `engine="spark"`, or an open session of Spark's, reads them there, also a folder or a pattern of Parquet files
          (see docs/spark.md); a session as the source needs `table="name"`.
        - `limit=EntryLimit("patient", 3)` refuses rows of a unit beyond its limit, here and in `append`.

        NaN is read as NULL, decimals and integers above 64 bits as floats (not in the unit column), categories as
        strings. `InvalidParameter` for a source or option that does not exist, `SchemaMismatch` when the source cannot
        be read as such a table; neither shows a value.
        """
        if not isinstance(neighbouring, Neighbouring) or neighbouring.relation is Relation.BOUNDED_CHANGE:
            raise InvalidParameter("a table needs neighbouring=Neighbouring('add/remove' or 'replace', unit)")
        pair = _checked_unpivot(unpivot, neighbouring.unit)
        found = RowSource.of(source, table, columns, said=csv, infers=infer_types, engine=engine)
        return cls(engine_of(found).open(found, neighbouring.unit, pair, limit), found, neighbouring, limit)

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types: boolean, int64, float64, string, date, timestamp, or the engine's own name."""
        return self.held.schema

    @property
    def neighbouring(self) -> Neighbouring:
        """The neighbouring relation and the privacy unit."""
        return self._neighbouring

    @property
    def limit(self) -> EntryLimit | None:
        """The limit on the entries of a unit, if there is one; public."""
        return self._limit

    @property
    def reading(self) -> dict[str, Any]:
        """How the texts of a CSV are read, of the rows and of batches alike; empty where there is no CSV and none is
        said to come. JSON-able and public."""
        return self.held.reading

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        """By column which cells of the first rows were not of the declared type; secret, for who owns the rows."""
        return self.held.unparsed

    @property
    def infers(self) -> bool:
        """Whether types were found in the values, which makes them public."""
        return self._source.infers

    def fingerprint(self) -> str:
        """A hash of column names and types, relation and unit; the same whatever the rows, and after appends."""
        limit = () if self._limit is None else (self._limit.of, self._limit.most)
        return fingerprint_of(self.schema, self._neighbouring, *limit)

    def prepare(self, query: Any) -> ReadingPlan:
        """Check a query against schema and unit and compile it; plans of recent queries are kept. No data is touched.

        `InvalidQuery` for an unknown column, a type that does not fit, or a missing limit on the rows of a unit.
        """
        if not isinstance(query, Query):
            evident = "ask for query.parts(neighbouring)" if hasattr(query, "parts") else "build one with count()"
            raise InvalidQuery(f"{type(query).__name__} is not a query with an exact integer answer; {evident}")
        return self._kept(query, self._compile)

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        """A plan that reads some or all columns of all rows into an Arrow table; `InvalidQuery` if one is unknown."""
        return self.held.snapshot(known_columns(columns, self.schema))

    def elements(self, asked: Elements) -> ElementReading:
        """A plan that reads elements as keyed words, for sketches; `InvalidQuery` when it does not fit the schema."""
        return self.held.elements(asked)

    def ordered(self, asked: Ordered) -> Reading:
        """A plan that reads the values of a column in order; `InvalidQuery` when it does not fit schema or unit."""
        asked.moves(self._neighbouring)
        return self._kept(asked, self.held.ordered)

    def append(self, rows: Any, *, request: str | None = None, arrive: Arrival = _unheard) -> Batch:
        """Add rows from a pandas, Polars or Arrow table, or a CSV or Parquet file: all of them, or none.

        Columns are matched by name, and types by class; integers may be added to a float column. Anything else raises
        `SchemaMismatch` and writes nothing. Rows for a DuckDB file are written into the file's table (an
        `EngineFailure` if another connection holds it); for every other source they live as long as this object.

        Returns the batch, which is kept where the rows are, in one transaction with them; under a `request` key that
        came before nothing is added and the batch of then is returned. `arrive` is told of the batch: before the
        commit where rows live in memory, so that they are not added if it raises; after it for a DuckDB file, whose
        `batches` tell of those of which nobody was told.
        """
        source = RowSource.of(rows, said=self._source.said)
        if source.kind == "duckdb":
            raise SchemaMismatch("append rows from a CSV, a Parquet file or a frame")
        return self.held.append(source, request, arrive)

    def one_state(self) -> AbstractContextManager[None]:
        """Within it, all that this thread reads is of one state of the rows; `EngineFailure` once they are closed."""
        return self.held.one_state()

    @property
    def keeps_batches(self) -> bool:
        """Whether appended rows outlive this object: those of a DuckDB file."""
        return self.held.keeps_batches

    def batches(self, after: int = 0) -> list[Batch]:
        """The appended batches above a number, in order of arrival; `EngineFailure`, without data, if it fails."""
        return self.held.batches(after)

    def close(self) -> None:
        """Release the engine; plans raise `EngineFailure` afterwards. Closing twice is fine."""
        self.held.close()

    def _kept(self, asked: _Asked, compiled: Callable[[_Asked], _Plan]) -> _Plan:
        with self._lock:
            plan: _Plan = self._plans.pop(asked, None) or compiled(asked)
            self._plans[asked] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return plan

    def _compile(self, query: Query) -> ReadingPlan:
        query.contribution(self._neighbouring)
        return self.held.compile(query)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.schema.items())
        return f"RowTable({columns}; {self._neighbouring.describe()})"


def _checked_unpivot(unpivot: tuple[str, str] | None, unit: str | None) -> tuple[str, str] | None:
    """A pair of new column names, both unlike the unit's; unpivoting needs a unit column."""
    if unpivot is None:
        return None
    names = tuple(unpivot) if isinstance(unpivot, (tuple, list)) else ()
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise InvalidParameter("unpivot needs two new column names, such as unpivot=('day', 'kwh')")
    if unit is None or len({name.lower() for name in (*names, unit)}) < 3:
        raise InvalidParameter("unpivot needs a unit column, and new names unlike it and unlike each other")
    return names[0], names[1]
