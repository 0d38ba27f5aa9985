"""Spark as an engine: plans of queries, elements, units and orders, rows that it holds, and the engine itself."""

import weakref
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chary.data.columns import Schema, TypeClass, Unparsed, classify
from chary.data.engines import allowances, compiler, protocol
from chary.data.engines.spark import dialect, storage
from chary.data.engines.spark.session import BATCH, CANDIDATE, ROWS, Columns, SparkWork, fresh, session_of
from chary.data.queries.ordered import Elements, Mark, Ordered, Words
from chary.data.queries.query import Query
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Answer, Arrival, Batch, Deferred, EntryLimit, Rooms, StepColumns, Steps
from chary.data.source import RowSource
from chary.errors import EngineError, InvalidParameter, InvalidQuery, SchemaMismatch, quietly

# Running a compiled query on Spark.

# Sums of 2**40 rows of so many steps fit into 64 bits.
_FEW_STEPS: Final = 2**22


class SparkKeys:
    """The keys of a query as a small view: made when it is first needed, gone after this object."""

    def __init__(self, work: SparkWork, name: str, columns: Columns) -> None:
        self._work, self._name, self._columns = work, name, columns
        self._made = False
        weakref.finalize(self, work.retire, name)

    def ready(self) -> str:
        """Its name, once it is there."""
        if not self._made:
            self._work.offer(self._name, self._columns)
            self._made = True
        return self._name


class SparkPlan:
    """SQL compiled once from a query; each `run` is one query of Spark's."""

    def __init__(self, rows: "SparkRows", query: Query) -> None:
        place = compiler.QueryPlace(ROWS, fresh("keys"), dialect.SparkDialect(wide=not _is_narrow(query)))
        evaluation = compiler.evaluate(query, rows.schema, rows.unit, place)
        self._rows, self._query, keys = rows, query, evaluation.keys
        self._keys = None if keys is None else SparkKeys(rows.work, place.keys, keys)
        self._length = evaluation.positions if keys is None else len(keys[compiler.POSITION][1])
        sql = place.sql(evaluation.expression)
        self.sql = (
            sql if self._length is None else f"SELECT {compiler.POSITION}, {halves(compiler.ANSWER)} FROM ({sql})"
        )

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: see `ReadingPlan`."""
        with self._rows.state():
            if self._keys is not None:
                self._keys.ready()
            found = self._rows.work.read(self.sql, "answered the query")
        if self._length is None:
            return int(found[compiler.ANSWER][0].as_py() or 0)
        return compiler.scattered({name: found[name].to_numpy() for name in found.column_names}, self._length)

    def __repr__(self) -> str:
        return f"SparkPlan({self._query.describe()})"


def halves(summed: str) -> str:
    """Sums have up to 38 digits; two halves of 64 bits are quickly read."""
    return f"CAST({summed} DIV {compiler.HALF} AS BIGINT) AS high, CAST({summed} % {compiler.HALF} AS BIGINT) AS low"


def _is_narrow(query: Query) -> bool:
    """Whether no sum of the query needs more than 64 bits: of products they are of 2**24 steps at most."""
    return not isinstance(query, Sum) or max(map(abs, query.steps)) <= _FEW_STEPS


# Reading the values of a column in order, by Spark.

_PLACE: Final = compiler.QueryPlace(ROWS, "", dialect.SPARK)


def ordering(rows: "SparkRows", asked: Ordered) -> Deferred:
    """Reads, in one query, the values that occur; `InvalidQuery` when that does not fit the schema."""
    inner = _PLACE.sql(compiler.ordered_rows(asked, rows.schema, rows.unit, _PLACE))
    sql = f"SELECT CAST(value AS BIGINT) AS value, CAST(times AS BIGINT) AS times FROM ({inner})"

    def occurring() -> Any:
        found = rows.read(sql, "put the values in order")
        return compiler.in_order(asked, found["value"].to_numpy(), found["times"].to_numpy())

    return Deferred(asked, occurring)


# Values as texts by which units and elements are met again, whatever engine reads them.

_WRITTEN = (TypeClass.BOOLEAN, TypeClass.INTEGER, TypeClass.STRING, TypeClass.DATE, TypeClass.TIMESTAMP)


def has_text(schema: Schema, column: str) -> bool:
    """Whether every value of a column has a text of its own that stays the same.

    Not so doubles: the last digit of some differs from one version of Java to another, and what is met again under
    another name would be counted twice.

    >>> has_text({"x": "float64"}, "x"), has_text({"id": "decimal(20,0)"}, "id")
    (False, True)
    """
    return classify(schema, column) in _WRITTEN or schema[column].startswith("decimal")


def text_of(value: str, kind: str) -> str:
    """SQL for the text of a value of that class: the one that the embedded engine writes, for years from 1 to 9999."""
    return value if kind == TypeClass.STRING else f"CAST({value} AS STRING)"


# Reading elements as keyed 64-bit words, by Spark.

# A letter for the kind keeps the number 1 and the text '1' apart.
_LETTERS: Final = {
    TypeClass.INTEGER: "i",
    TypeClass.STRING: "s",
    TypeClass.DATE: "d",
    TypeClass.TIMESTAMP: "t",
    TypeClass.OTHER: "o",
}
_DOING: Final = "read the elements"


class SparkElements:
    """See `ElementReading`; all rows are read each time."""

    def __init__(self, rows: "SparkRows", asked: Elements) -> None:
        self._rows, self._name = rows, fresh("elements")
        text = _text(rows.schema, compiler.element_column(asked, rows.unit))
        place = compiler.QueryPlace(ROWS, "", dialect.SPARK)
        chosen = place.sql(compiler.element_rows(asked, rows.schema, rows.unit, place))
        self._texts = f"SELECT {text} AS text FROM ({chosen})"

    def run(self) -> "SparkElements":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read: see `ElementReading`."""
        # The key is a row and no literal: what Spark shows of a query to whoever looks at its pages holds literals.
        name, work = fresh("key"), self._rows.work
        hashed = f"SELECT sha2(concat(secret, text), 256) AS word FROM ({self._texts}) CROSS JOIN {name}"
        halves = ", ".join(f"CAST(conv(substr(word, {at}, 8), 16, 10) AS BIGINT) AS w{at}" for at in (1, 9))
        with self._rows.state():
            work.offer(name, {"secret": ("string", [key])})
            found = work.read(f"SELECT {halves} FROM ({hashed})", _DOING)
            work.retire(name)
        high, low = (found[half].to_numpy().astype(np.uint64) for half in ("w1", "w9"))
        return (high << np.uint64(32)) | low, Mark(self._name, 0)

    def __repr__(self) -> str:
        return "SparkElements()"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind is TypeClass.BOOLEAN:
        return "concat('i', CAST(CAST(element AS BIGINT) AS STRING))"
    if not has_text(schema, column):
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements by Spark")
    return f"concat('{_LETTERS[kind]}', {text_of('element', kind)})"


# Counts and sums of living units, by Spark.

_COUNTED: Final = "counted the units"


class SparkRooms:
    """The rooms of units as small views, each for as long as its `Rooms` live."""

    def __init__(self, work: SparkWork) -> None:
        self._work = work
        # Weak, since a stream makes new rooms with each published answer and drops the old ones.
        self._offered: MutableMapping[Rooms, SparkKeys] = weakref.WeakKeyDictionary()

    def ready(self, rooms: Rooms) -> str:
        """The name of the view."""
        if rooms not in self._offered:
            self._offered[rooms] = SparkKeys(self._work, fresh("rooms"), allowances.columns_of(rooms))
        return self._offered[rooms].ready()


class SparkLiving:
    """A compiled count or sum of living units: see `LivingReading`."""

    def __init__(self, rows: "SparkRows", rooms: SparkRooms, query: Count | Sum) -> None:
        """Use `SparkRows.living`."""
        self._rows, self._rooms, unit = rows, rooms, str(rows.unit)
        place = compiler.QueryPlace(ROWS, fresh("living"), dialect.SPARK)
        self._plan = allowances.LivingPlan.of(query, rows.schema, unit, place, identity(rows.schema, unit), place.sql)
        self._keys = None if self._plan.keys is None else SparkKeys(rows.work, place.keys, self._plan.keys)

    def run(self) -> "SparkLiving":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[allowances.LivingAnswers]:
        """One state of the rows: see `LivingReading`."""
        held: list[SparkKeys] = []

        def named(positions: Sequence[int]) -> str:
            held[:] = [SparkKeys(self._rows.work, fresh("chosen"), {compiler.POSITION: ("int64", list(positions))})]
            return held[0].ready()

        with self._rows.state():
            if self._keys is not None:
                self._keys.ready()
            table = self._rooms.ready(rooms) if rooms.any else None
            yield allowances.LivingAnswers(self._plan, rooms, table, self._fetch, named, halves)

    def _fetch(self, sql: str) -> pa.Table:
        return self._rows.work.read(sql, _COUNTED)

    def __repr__(self) -> str:
        return f"SparkLiving({self._plan.size} keys)"


def identity(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = classify(schema, unit)
    if kind is TypeClass.INTEGER:
        return "unit"
    if not has_text(schema, unit):
        raise InvalidQuery(
            f"units of type {schema[unit]} cannot be recognised by Spark: use a column of integers or strings"
        )
    return text_of("unit", kind)


# Rows that Spark holds.


class SparkRows:
    """See `EngineRows`."""

    def __init__(self, work: SparkWork, holding: storage.Holding, schema: dict[str, str], unit: str | None) -> None:
        """Use `Spark.open`."""
        self.work, self.holding, self._schema, self.unit = work, holding, schema, unit
        self._template: storage.Template | None = None
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
        sql = f"SELECT {', '.join(map(storage.backquoted, columns))} FROM {ROWS}"
        return Deferred(", ".join(columns), lambda: self.read(sql, "read the rows"))

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering(self, asked)

    def elements(self, asked: Elements) -> SparkElements:
        return SparkElements(self, asked)

    def living(self, query: Count | Sum) -> SparkLiving:
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

    def begin(self, template: storage.Template, limit: EntryLimit | None) -> None:
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
                self.work.ask(
                    lambda session: storage.define(session, self.holding.frames(session), self.unit), "read the rows"
                )
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
            storage.define(session, [more], self.unit, BATCH)
            storage.define(session, [*self.holding.frames(session), more], self.unit, CANDIDATE)

        self.work.ask(offered, "looked at the rows to add")
        if self._limit is not None:
            of = storage.backquoted(self._limit.of)
            among = f"AND {of} IN (SELECT {of} FROM {BATCH})"
            self._check_entries(CANDIDATE, among)
        found = self.work.read(f"SELECT count(*) AS rows FROM {CANDIDATE}", "counted the rows")
        return int(found["rows"][0].as_py())

    def _check_entries(self, relation: str, among: str) -> None:
        assert self._limit is not None
        unit = storage.backquoted(self._limit.of)
        # One row tells enough: which units they are, and how many, is nobody's business.
        crowded = (
            f"SELECT 1 AS one FROM {relation} WHERE {unit} IS NOT NULL {among} "
            f"GROUP BY {unit} HAVING count(*) > {self._limit.most} LIMIT 1"
        )
        if len(self.work.read(crowded, "counted the entries of units")):
            told = f"some {self._limit.of} would have more than {self._limit.most} entries; nothing was written"
            raise SchemaMismatch(told)


# Spark as an engine: what it opens.

_UNREADABLE: Final = "the source cannot be read as a table with one type for each column"
_READING: Final = "read the source"


class Spark:
    """Spark, in this process or elsewhere; see `Engine`.

    Parquet files, folders of them and tables are read where they are. Whatever else there is the embedded engine reads,
    and Spark gets its rows.
    """

    def __init__(self, embedded: protocol.Engine, named: Any) -> None:
        """`named` is the name of an engine or a session."""
        self._embedded, self._named = embedded, named

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> SparkRows:
        if source.kind == "duckdb":
            raise InvalidParameter("Spark reads no DuckDB file: leave out engine=, or give Parquet files or a table")
        if unpivot is not None and source.kind in ("folder", "table"):
            raise InvalidParameter("Spark unpivots what it is given as a file or a frame")
        session = session_of(self._named)
        work = quietly(lambda: SparkWork(session), EngineError("the session of Spark cannot be used: has it ended?"))
        with ExitStack() as undo:
            undo.callback(work.close)
            rows = quietly(lambda: self._rows(work, source, unit, unpivot), SchemaMismatch(_UNREADABLE))
            empty = work.read(f"SELECT * FROM {ROWS} LIMIT 0", "looked at the columns")
            rows.begin(storage.Template(self._embedded, source, rows.schema, empty), limit)
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return self._embedded.steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        path.mkdir()
        pq.write_table(rows, path / "first.parquet")

    def _rows(self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None) -> SparkRows:
        holding = self._held(work, source, unit, unpivot)
        first = work.ask(lambda session: holding.frames(session)[0], _READING)
        columns = storage.read_columns(first, unit)
        schema = {column.name: column.type for column in columns}
        if unit is not None and unit not in schema:
            raise SchemaMismatch(f"there is no column {unit!r} to be the privacy unit")
        work.ask(lambda session: storage.define(session, holding.frames(session), unit), _READING)
        return SparkRows(work, holding, schema, unit)

    def _held(
        self, work: SparkWork, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None
    ) -> storage.Holding:
        if source.kind == "folder":
            return storage.RowsInFolder(source.paths[0])
        if source.kind == "table":
            return storage.RowsInSession(
                work.ask(lambda session: storage.table_frame(session, str(source.table)), _READING)
            )
        if source.kind == "parquet" and unpivot is None:
            files = [storage.SeenFile.of(path) for path in source.paths]
            storage.shared_schema(source.paths)
            told = [storage.on_this_machine(path) for path in source.paths]
            return storage.RowsInSession(work.ask(lambda session: session.read.parquet(*told), _READING), files)
        found = storage.sendable(storage.local_rows(self._embedded, source, unit, unpivot))
        return storage.RowsInSession(work.ask(lambda session: session.createDataFrame(found), _READING))
