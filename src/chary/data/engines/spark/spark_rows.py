"""Rows that Spark holds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from chary.data.columns import Unparsed
from chary.data.engines.spark.asking.spark_living import SparkLiving, SparkRooms, identity
from chary.data.engines.spark.asking.spark_ordering import ordering
from chary.data.engines.spark.asking.spark_plan import SparkPlan
from chary.data.engines.spark.asking.spark_words import SparkElements
from chary.data.engines.spark.holding.spark_holding import Holding, define
from chary.data.engines.spark.holding.spark_template import Template
from chary.data.engines.spark.holding.spark_types import backquoted
from chary.data.engines.spark.spark_work import BATCH, CANDIDATE, ROWS, SparkWork
from chary.data.files.sources import RowSource
from chary.data.queries.count import Count
from chary.data.queries.elements import Elements
from chary.data.queries.ordered_values import Ordered
from chary.data.queries.query import Query
from chary.data.queries.total import Total
from chary.data.rows.batch import Arrival, Batch
from chary.data.rows.entry_limit import EntryLimit
from chary.data.rows.rows import Deferred
from chary.errors import SchemaMismatch


class SparkRows:
    """See `EngineRows`."""

    def __init__(self, work: SparkWork, holding: Holding, schema: dict[str, str], unit: str | None) -> None:
        """Use `Spark.open`."""
        self.work, self.holding, self._schema, self.unit = work, holding, schema, unit
        self._template: Template | None = None
        self._limit: EntryLimit | None = None
        self._rooms = SparkRooms(work)
        self._defined = 0
        self._within = False

    @property
    def schema(self) -> dict[str, str]:
        return dict(self._schema)

    @property
    def reading(self) -> dict[str, Any]:
        return {} if self._template is None else self._template.reading

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return {}

    @property
    def keeps_batches(self) -> bool:
        return self.holding.keeps_batches

    def compile(self, query: Query) -> SparkPlan:
        return SparkPlan(self, query)

    def snapshot(self, columns: Sequence[str]) -> Deferred:
        sql = f"SELECT {', '.join(map(backquoted, columns))} FROM {ROWS}"
        return Deferred(", ".join(columns), lambda: self.read(sql, "read the rows"))

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering(self, asked)

    def elements(self, asked: Elements) -> SparkElements:
        return SparkElements(self, asked)

    def living(self, query: Count | Total) -> SparkLiving:
        return SparkLiving(self, self._rooms, query)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        with self.state():
            yield

    def check_units(self) -> None:
        identity(self.schema, str(self.unit))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        assert self._template is not None
        with self.state():
            held = [batch for batch in self.holding.batches() if request is not None and batch.request == request]
            if held:
                return held[0]
            rows = self._template.fitted(source)
            return self.holding.add(rows, request, self._size_with(rows), arrive)

    def batches(self, after: int) -> list[Batch]:
        with self.work.held():
            return [batch for batch in self.holding.batches() if batch.number > after]

    def begin(self, template: Template, limit: EntryLimit | None) -> None:
        """Let rows be added, and hold all to a limit; `SchemaMismatch` if they break it."""
        self._template, self._limit = template, limit
        if limit is not None:
            if limit.of not in self.schema:
                raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
            self._check_entries(ROWS, "")

    @contextmanager
    def state(self) -> Iterator[None]:
        """One state of the rows, which neither grow nor change meanwhile; within it, the same one."""
        with self.work.held():
            if self._within:
                yield
                return
            self.holding.check()
            known = len(self.holding.batches())
            if known != self._defined:
                self.work.ask(lambda session: define(session, self.holding.frames(session), self.unit), "read the rows")
                self._defined = known
            self._within = True
            try:
                yield
            finally:
                self._within = False
            self.holding.check()

    def read(self, sql: str, doing: str) -> pa.Table:
        """The rows of a query, of one state."""
        with self.state():
            return self.work.read(sql, doing)

    def close(self) -> None:
        self.work.close()

    def _size_with(self, rows: pa.Table) -> int:
        def offered(session: Any) -> None:
            more = session.createDataFrame(rows)
            define(session, [more], self.unit, BATCH)
            define(session, [*self.holding.frames(session), more], self.unit, CANDIDATE)

        self.work.ask(offered, "looked at the rows to add")
        if self._limit is not None:
            among = f"AND {backquoted(self._limit.of)} IN (SELECT {backquoted(self._limit.of)} FROM {BATCH})"
            self._check_entries(CANDIDATE, among)
        found = self.work.read(f"SELECT count(*) AS rows FROM {CANDIDATE}", "counted the rows")
        return int(found["rows"][0].as_py())

    def _check_entries(self, relation: str, among: str) -> None:
        assert self._limit is not None
        unit = backquoted(self._limit.of)
        # One row tells enough: which units they are, and how many, is nobody's business.
        crowded = (
            f"SELECT 1 AS one FROM {relation} WHERE {unit} IS NOT NULL {among} "
            f"GROUP BY {unit} HAVING count(*) > {self._limit.most} LIMIT 1"
        )
        if len(self.work.read(crowded, "counted the entries of units")):
            told = f"some {self._limit.of} would have more than {self._limit.most} entries; nothing was written"
            raise SchemaMismatch(told)
