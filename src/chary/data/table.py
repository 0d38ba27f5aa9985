"""Rows on DuckDB, asked through prepared queries."""

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from chary.data.appending import append, batches_of
from chary.data.batches import Arrival, Batch
from chary.data.elements import ElementReader, Elements
from chary.data.engine import ROWS, Engine, quietly
from chary.data.entry_limit import EntryLimit
from chary.data.loading import Loader, check_unpivot
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.plan import EnginePlan
from chary.data.quantile import Ordered, OrderedPlan
from chary.data.query import Query
from chary.data.snapshot import Snapshot, known_columns
from chary.data.sources import Source
from chary.errors import EngineFailure, InvalidParameter, InvalidQuery, SchemaMismatch

_PLANS = 256


def _unheard(batch: Batch) -> None:
    """Nobody waits for it."""


class Table:
    """A table of rows with a neighbouring relation; made by `Table.open`. Safe to use from several threads.

    >>> import pyarrow as pa
    >>> from chary.data.count import count
    >>> rows = pa.table({"patient": [1, 1, 2], "age": [70, 70, 30]})
    >>> table = Table.open(rows, neighbouring=Neighbouring("add/remove", "patient"))
    >>> table.prepare(count("age >= 65")).run()
    1
    """

    def __init__(self, engine: Engine, loader: Loader, neighbouring: Neighbouring) -> None:
        """Use `Table.open`."""
        self._engine, self._loader, self._neighbouring = engine, loader, neighbouring
        self._plans: OrderedDict[Query, EnginePlan] = OrderedDict()
        self._name = uuid.uuid4().hex
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
        limit: EntryLimit | None = None,
    ) -> "Table":
        """Open a CSV (also .gz), a Parquet file, a list of either, a DuckDB file, or a pandas, Polars or Arrow table.

        - A CSV has a header line and is read whole at once, so that a malformed line fails here. Its types are sniffed
          from all values, and are public; declare some with `columns={"age": "BIGINT"}` where that matters.
        - Parquet and DuckDB files stay in place and are opened read-only; a DuckDB file needs `table="name"`.
        - `unpivot=("day", "kwh")` turns a wide table (the unit column and one column a day) into rows of unit, day and
          kwh, without empty cells. `columns={"kwh": "DOUBLE"}` declares the type of all cells of a CSV.

        - `limit=EntryLimit("patient", 3)` refuses rows of a unit beyond its limit, here and in `append`.

        NaN is read as NULL, decimals and integers above 64 bits as floats (not in the unit column), categories as
        strings. `InvalidParameter` for a source or option that does not exist, `SchemaMismatch` when the source cannot
        be read as such a table; neither shows a value.
        """
        if not isinstance(neighbouring, Neighbouring) or neighbouring.relation is Relation.BOUNDED_CHANGE:
            raise InvalidParameter("a table needs neighbouring=Neighbouring('add/remove' or 'replace', unit)")
        pair = check_unpivot(unpivot, neighbouring.unit)
        loader = Loader(Source.of(source, table, columns), neighbouring.unit, pair)
        unreadable = SchemaMismatch(
            "the source cannot be read as a table with one type for each column; "
            "if it is a CSV, check its lines or declare types with columns={'name': 'VARCHAR'}"
        )
        table_ = cls(quietly(lambda: Engine(loader.path, loader.load), unreadable), loader, neighbouring)
        with ExitStack() as undo:
            undo.callback(table_.close)
            table_._check_limit(limit)
            undo.pop_all()
        return table_

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types: boolean, int64, float64, string, date, timestamp, or the engine's own name."""
        return self._loader.schema

    @property
    def neighbouring(self) -> Neighbouring:
        """The neighbouring relation and the privacy unit."""
        return self._neighbouring

    @property
    def limit(self) -> EntryLimit | None:
        """The limit on the entries of a unit, if there is one; public."""
        return self._loader.limit

    def fingerprint(self) -> str:
        """A hash of column names and types, relation and unit; the same whatever the rows, and after appends."""
        limit = self._loader.limit
        return fingerprint(self.schema, self._neighbouring, *(() if limit is None else (limit.of, limit.most)))

    def prepare(self, query: Any) -> EnginePlan:
        """Check a query against schema and unit and compile it; plans of recent queries are kept. No data is touched.

        `InvalidQuery` for an unknown column, a type that does not fit, or a missing limit on the rows of a unit.
        """
        if not isinstance(query, Query):
            evident = "ask for query.parts(neighbouring)" if hasattr(query, "parts") else "build one with count()"
            raise InvalidQuery(f"{type(query).__name__} is not a query with an exact integer answer; {evident}")
        with self._lock:
            plan = self._plans.pop(query, None) or self._compile(query)
            self._plans[query] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return plan

    def snapshot(self, columns: Sequence[str] | None = None) -> Snapshot:
        """A plan that reads some or all columns of all rows into an Arrow table; `InvalidQuery` if one is unknown."""
        return Snapshot(self._engine, known_columns(columns, self.schema))

    def elements(self, asked: Elements) -> ElementReader:
        """A plan that reads elements as keyed words, for sketches; `InvalidQuery` when it does not fit the schema."""
        return ElementReader(self._engine, self._loader, self._neighbouring, asked, self._name)

    def ordered(self, asked: Ordered) -> OrderedPlan:
        """A plan that reads the values of a column in order; `InvalidQuery` when it does not fit schema or unit."""
        return OrderedPlan(self._engine, asked, self.schema, self._neighbouring)

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
        return append(self._engine, self._loader, rows, request, arrive)

    @property
    def keeps_batches(self) -> bool:
        """Whether appended rows outlive this object: those of a DuckDB file."""
        return self._loader.path is not None

    def batches(self, after: int = 0) -> list[Batch]:
        """The appended batches above a number, in order of arrival; `EngineFailure`, without data, if it fails."""
        with self._engine.connection() as connection:
            kept, failure = batches_of(self._loader), EngineFailure("the engine failed while it read the batches")
            found: list[Batch] = quietly(lambda: kept.after(connection, after), failure)
        return found

    def close(self) -> None:
        """Release the engine; plans raise `EngineFailure` afterwards. Closing twice is fine."""
        self._engine.close()

    def _check_limit(self, limit: EntryLimit | None) -> None:
        self._loader.limit = limit
        if limit is None:
            return
        if limit.of not in self.schema:
            raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
        failure = EngineFailure("the engine failed while it counted the entries of units")
        with self._engine.connection() as connection:
            quietly(lambda: limit.check(connection, f"temp.main.{ROWS}"), failure)

    def _compile(self, query: Query) -> EnginePlan:
        query.contribution(self._neighbouring)
        return EnginePlan(self._engine, query, self.schema, self._neighbouring.unit)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.schema.items())
        return f"Table({columns}; {self._neighbouring.describe()})"


def fingerprint(schema: Mapping[str, str], neighbouring: Neighbouring, *more: str | int | None) -> str:
    """The SHA-256 of names, types, relation, unit and whatever else is public and fixed; in hexadecimal digits."""
    terms = [list(schema.items()), str(neighbouring.relation), neighbouring.unit, *more]
    return hashlib.sha256(json.dumps(terms, ensure_ascii=True).encode()).hexdigest()
