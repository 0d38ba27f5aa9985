"""DuckDB, the engine within this process: its dialect, plans of queries, sums over batches, and the engine itself."""

import re
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import duckdb
import ibis
import numpy as np
import pyarrow as pa

from chary.data.columns import Schema, TypeClass, Unparsed, classify, quote
from chary.data.engines import allowances, compiler
from chary.data.engines.duckdb import append, reader
from chary.data.engines.duckdb.connection import ROWS, Access, Database, Offered, fresh
from chary.data.queries.ordered import Elements, Mark, Occurring, Ordered, Words
from chary.data.queries.query import Query
from chary.data.queries.sums import Count, Sum
from chary.data.rows import Answer, Arrival, Batch, Deferred, EntryLimit, Rooms, StepColumns, Steps
from chary.data.source import RowSource
from chary.errors import InvalidQuery, SchemaMismatch, quietly

# What DuckDB says for itself.


# Ibis writes ROUND(x, 0), which takes DuckDB three times as long as ROUND(x).
@ibis.udf.scalar.builtin(name="round")  # type: ignore[untyped-decorator]
def _nearest(value: float) -> float:  # type: ignore[empty-body]
    """The nearest whole number as a double, halves away from zero; the engine's own function."""


@dataclass(frozen=True)
class DuckDialect:
    """See `Dialect`."""

    name: ClassVar[str] = "duckdb"
    namespace: ClassVar[Mapping[str, str]] = {"catalog": "temp", "database": "main"}

    def nearest(self, value: Any) -> Any:
        return _nearest(value)

    def tame(self, value: Any) -> Any:
        return value

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        return dividend // divisor

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        return value.ilike(pattern) if fold else value.like(pattern)

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        return compiler.arrays_in_parallel(line, columns)

    def sql(self, expression: Any) -> str:
        return compiler.usual_sql(expression, self.name)


DUCK: Final[compiler.Dialect] = DuckDialect()

# Answers that add up over batches of rows: after a batch, only that is read.

# Longer ones are not remembered: 256 plans are kept, so that at most 256 MB are.
MOST: Final = 2**17
# Two integers below it add up within 64 bits.
_SMALL: Final = 2**62
# An `Answer` of a query, or `Occurring`.
_Answer = Any
_Reads = Callable[[duckdb.DuckDBPyConnection], _Answer]


def adds_up(unit: str | None) -> bool:
    """Whether the answers of every query add up over disjoint sets of rows: where each row is a unit of its own.

    Proof. Then a query adds one term for each row (whether it counts, its value in steps, its products), for the key
    of that row alone, and the term follows from the row. Sums of integers over disjoint sets add up.

    With a column of units no query qualifies, whatever its limits: a unit counts once in each of two batches and once
    in both together, and which of its rows are kept, or how its sum is clipped, follows from all of them.
    """
    return unit is None


@dataclass(frozen=True)
class _Remembered:
    state: append.StateOfRows
    answer: _Answer

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


class Adding:
    """The last exact answer of one plan and the state of the rows it is of. Secret, in this process's memory alone.

    Guarantee: what `answer` returns is what reading all rows returns. The state is taken before and after reading, and
    only where both are one is the answer remembered; rows that changed otherwise than by growth are read again.

    How long an answer takes then follows from which questions were asked before and what came since, both of which are
    public, and as before from the rows that are read, which is not covered by the promise.
    """

    def __init__(self, loader: reader.Loader) -> None:
        """For the plan of one query where answers add up."""
        self._loader = loader
        self._last: _Remembered | None = None

    def answer(self, whole: _Reads, grown: _Reads, connection: duckdb.DuckDBPyConnection) -> _Answer:
        """By reading everything (`whole`), or what came since the last answer (`grown`), or nothing."""
        now, last = append.state_of(connection, self._loader), self._last
        if now is None:
            return whole(connection)
        if last is not None and last.state == now:
            return _copied(last.answer)
        if last is not None and append.look_at_growth(connection, self._loader, last.state, now):
            found = _sum(last.answer, grown(connection))
        else:
            found = whole(connection)
        self._last = (
            _Remembered(now, found)
            if _size(found) <= MOST and append.state_of(connection, self._loader) == now
            else None
        )
        return _copied(found)

    def __repr__(self) -> str:
        return "Adding(<secret>)"


def _size(answer: _Answer) -> int:
    return 1 if isinstance(answer, int) else len(answer.places if isinstance(answer, Occurring) else answer)


def _sum(one: _Answer, other: _Answer) -> _Answer:
    if isinstance(one, int):
        return one + int(other)
    if isinstance(one, Occurring):
        return _merged(one, other)
    if any(part.dtype == object or np.any(np.abs(part) >= _SMALL) for part in (one, other)):
        one, other = one.astype(object), other.astype(object)
    return one + other


def _merged(one: Occurring, other: Occurring) -> Occurring:
    places, where = np.unique(np.concatenate([one.places, other.places]), return_inverse=True)
    counts = np.zeros(len(places), np.int64)
    np.add.at(counts, where, np.concatenate([one.counts, other.counts]))
    return Occurring(places, counts)


def _copied(answer: _Answer) -> _Answer:
    if isinstance(answer, Occurring):
        return Occurring(answer.places.copy(), answer.counts.copy())
    return answer if isinstance(answer, int) else answer.copy()


# Running a compiled query on the engine.


class EnginePlan:
    """SQL compiled once from a query; each `run` is one scan under the lock of the database.

    Where answers add up (`Adding`) the last one is remembered, and a later run scans what came since.
    """

    def __init__(self, database: Database, loader: reader.Loader, query: Query) -> None:
        name = fresh("keys")
        self._place, self._loader = compiler.QueryPlace(ROWS, name, DUCK), loader
        evaluation = compiler.evaluate(query, loader.schema, loader.unit, self._place)
        self._query, self._database = query, database
        self._adding = Adding(loader) if adds_up(loader.unit) else None
        self._grown_sql: str | None = None
        self._keys = None if evaluation.keys is None else Offered(database, name, evaluation.keys)
        self._length = evaluation.positions
        if evaluation.keys is not None:
            self._length = len(evaluation.keys[compiler.POSITION][1])
        self.sql = _answer_sql(self._place.sql(evaluation.expression), self._length is not None)

    @property
    def query(self) -> Query:
        """The query it answers."""
        return self._query

    def run(self) -> Answer:
        """The exact answer: an int, or an int64 array in key order with 0 for keys without rows.

        The array holds Python integers instead when one does not fit into 64 bits. Any failure of the engine is an
        `EngineError` that names no value.
        """
        work = self._whole if self._adding is None else partial(self._adding.answer, self._whole, self._grown)
        answer: Answer = self._database.ask(work, "answered the query")
        return answer

    def _whole(self, connection: duckdb.DuckDBPyConnection) -> Answer:
        return self._run(connection, self.sql)

    def _grown(self, connection: duckdb.DuckDBPyConnection) -> Answer:
        if self._grown_sql is None:
            place = replace(self._place, rows=append.GROWN)
            found = compiler.evaluate(self._query, self._loader.schema, self._loader.unit, place).expression
            self._grown_sql = _answer_sql(place.sql(found), self._length is not None)
        return self._run(connection, self._grown_sql)

    def _run(self, connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
        if self._length is None:
            # DuckDB refuses other work on the connection until a result has been fetched to its end.
            [(answer,)] = connection.execute(sql).fetchall()
            return int(answer or 0)
        if self._keys is not None:
            self._keys.ready()
        return compiler.scattered(connection.execute(sql).fetchnumpy(), self._length)

    def __repr__(self) -> str:
        return f"EnginePlan({self._query.describe()})"


def _answer_sql(sql: str, keyed: bool) -> str:
    if not keyed:
        return sql
    return f"SELECT {compiler.POSITION}, {halves(compiler.ANSWER)} FROM ({sql})"


def halves(summed: str) -> str:
    """Sums are 128 bits wide in the engine and would come out as doubles; two halves of 64 bits are exact."""
    return f"CAST({summed} // {compiler.HALF} AS BIGINT) AS high, CAST({summed} % {compiler.HALF} AS BIGINT) AS low"


# Reading the values of a column in order.

_DOING: Final = "put the values in order"


def ordering(database: Database, asked: Ordered, loader: reader.Loader) -> Deferred:
    """Reads, in one scan, the values that occur; `InvalidQuery` when that does not fit the schema.

    Where each row is a unit of its own, how often each value occurs adds up over batches (`Adding`).
    """
    whole = partial(_occurring, asked, _order_sql(asked, loader, ROWS))
    if not adds_up(loader.unit):
        return Deferred(asked, lambda: database.ask(whole, _DOING))
    grown: list[str] = []

    def what_came(connection: Any) -> Any:
        if not grown:
            grown.append(_order_sql(asked, loader, append.GROWN))
        return _occurring(asked, grown[0], connection)

    added = partial(Adding(loader).answer, whole, what_came)
    return Deferred(asked, lambda: database.ask(added, _DOING))


def _occurring(asked: Ordered, sql: str, connection: Any) -> Any:
    found = connection.execute(sql).fetchnumpy()
    return compiler.in_order(asked, found["value"], found["times"])


def _order_sql(asked: Ordered, loader: reader.Loader, rows: str) -> str:
    place = compiler.QueryPlace(rows, "", DUCK)
    return place.sql(compiler.ordered_rows(asked, loader.schema, loader.unit, place))


# Reading elements as keyed 64-bit words.

_UNREAD: Final = "chary_unread"
# A letter for the kind keeps the number 1 and the text '1' apart; adding 0.0 makes -0.0 and 0.0 one value.
_TEXTS: Final = {
    TypeClass.BOOLEAN: "'i' || CAST(CAST(element AS BIGINT) AS VARCHAR)",
    TypeClass.INTEGER: "'i' || CAST(element AS VARCHAR)",
    TypeClass.STRING: "'s' || element",
    TypeClass.FLOAT: "'f' || CAST(element + 0.0 AS VARCHAR)",
    TypeClass.DATE: "'d' || CAST(element AS VARCHAR)",
    TypeClass.TIMESTAMP: "'t' || CAST(element AS VARCHAR)",
}
# Types of the engine that two different values never share a text in, and that have no class of their own.
_TOLD_APART: Final = re.compile(r"uuid|ubigint|u?hugeint|decimal.*|timestamp_(s|ms|ns)")


class ElementReader:
    """Reads the words of elements; made by `Table.elements`. `run` returns the reader itself: nothing is read yet."""

    def __init__(self, database: Database, loader: reader.Loader, asked: Elements, table: str) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as texts."""
        self._database, self._loader, self._table = database, loader, table
        self._sql = {name: _word_sql(asked, loader.schema, loader.unit, name) for name in (ROWS, _UNREAD)}

    def run(self) -> "ElementReader":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read. Both are secret, as is the key.

        With the mark of an earlier reading of the same table, only rows appended since are read, where they are kept
        in this process; otherwise all rows are, which changes no sketch of the same key. `EngineError`, naming
        neither values nor the key, when the engine fails.
        """
        found: tuple[Words, Mark] = self._database.ask(
            lambda connection: self._read(connection, key, since), "read the elements"
        )
        return found

    def _read(self, connection: duckdb.DuckDBPyConnection, key: str, since: Mark | None) -> tuple[Words, Mark]:
        place, grown = ROWS, append.growing(connection, self._loader)
        if grown is not None and since is not None and since.table == self._table:
            unread = f"SELECT * FROM {grown} WHERE rowid >= {since.upto}"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_UNREAD} AS {unread}")
            place = _UNREAD
        upto = 0
        if grown is not None:
            [(upto,)] = connection.execute(f"SELECT coalesce(max(rowid), -1) + 1 FROM {grown}").fetchall()
        columns = connection.execute(self._sql[place], [key]).fetchnumpy()
        return np.asarray(columns["word"], dtype=np.uint64), Mark(self._table, int(upto))

    def __repr__(self) -> str:
        return "ElementReader()"


def _word_sql(asked: Elements, schema: Schema, unit: str | None, rows: str) -> str:
    """SQL with the key as its parameter; `word` is the first 64 bits of SHA-256 of key, kind and text."""
    text = _text(schema, compiler.element_column(asked, unit))
    place = compiler.QueryPlace(rows, "", DUCK)
    chosen = place.sql(compiler.element_rows(asked, schema, unit, place))
    return f"SELECT CAST('0x' || substr(sha256($1 || {text}), 1, 16) AS UBIGINT) AS word FROM ({chosen})"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind in _TEXTS:
        return _TEXTS[kind]
    if not _TOLD_APART.fullmatch(schema[column]):
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements")
    return "'o' || CAST(element AS VARCHAR)"


# Counting the units that may still take part, or adding up what they contribute.

# Types of the engine whose texts differ for different values and stay the same whatever the session's settings.
_TEXTUAL = re.compile(r"boolean|date|timestamp(_s|_ms|_ns)?|uuid|u?hugeint|ubigint|decimal\(.*\)")
_COUNTED = "counted the units"


class OfferedRooms:
    """The rooms of units as temporary tables, each for as long as its `Rooms` live."""

    def __init__(self, database: Database) -> None:
        self.database = database
        # Weak, since a stream makes new rooms with each published answer and drops the old ones.
        self._offered: MutableMapping[Rooms, Offered] = weakref.WeakKeyDictionary()

    def ready(self, rooms: Rooms) -> str:
        """The name of the temporary table."""
        if rooms not in self._offered:
            self._offered[rooms] = Offered(self.database, fresh("rooms"), allowances.columns_of(rooms))
        return self._offered[rooms].ready()


class Living:
    """A compiled count or sum of living units: one number, or one for each key (see `LivingReading`)."""

    def __init__(self, rooms: OfferedRooms, query: Count | Sum, schema: Schema, unit: str) -> None:
        """Use `living`."""
        self._rooms, self._database = rooms, rooms.database
        place = compiler.QueryPlace(ROWS, fresh("living"), DUCK)
        self._plan = allowances.LivingPlan.of(query, schema, unit, place, identity(schema, unit), place.sql)
        self._keys = None if self._plan.keys is None else Offered(self._database, place.keys, self._plan.keys)

    def run(self) -> "Living":
        """Reading waits for `at`, since who is alive is known only then."""
        return self

    @contextmanager
    def at(self, rooms: Rooms) -> Iterator[allowances.LivingAnswers]:
        """One state of the rows, which cannot grow meanwhile; `EngineError`, naming no value, if the engine fails."""
        held: list[Offered] = []

        def named(positions: Sequence[int]) -> str:
            held[:] = [Offered(self._database, fresh("chosen"), {compiler.POSITION: ("int64", list(positions))})]
            return str(self._database.ask(lambda _: held[0].ready(), _COUNTED))

        with self._database.connection():
            table = self._database.ask(lambda _: self._offered(rooms), _COUNTED)
            yield allowances.LivingAnswers(self._plan, rooms, table, self._fetch, named, halves)

    def _offered(self, rooms: Rooms) -> str | None:
        """The tables of keys and of rooms; the name of the second, where there is one."""
        if self._keys is not None:
            self._keys.ready()
        return self._rooms.ready(rooms) if rooms.any else None

    def _fetch(self, sql: str) -> pa.Table:
        return self._database.ask(lambda connection: connection.sql(sql).to_arrow_table(), _COUNTED)

    def __repr__(self) -> str:
        return f"Living({self._plan.size} keys)"


def identity(schema: Schema, unit: str) -> str:
    """SQL that turns a unit into an integer or a text, different for different units and the same for ever."""
    kind = schema[unit]
    if kind in (TypeClass.INTEGER, TypeClass.STRING):
        return "unit"
    if kind == TypeClass.FLOAT:
        # 0.0 and -0.0 are one unit.
        return "CAST(unit + 0.0 AS VARCHAR)"
    if _TEXTUAL.fullmatch(kind):
        return "CAST(unit AS VARCHAR)"
    raise InvalidQuery(f"units of type {kind} cannot be recognised: use a column of integers or strings")


# DuckDB as an engine: what it opens, and the rows it holds.


class DuckRows:
    """Rows in DuckDB's memory, or in a file that it reads in place; see `EngineRows`."""

    def __init__(self, loader: reader.Loader) -> None:
        """Use `DuckDB.open`."""
        self.database, self._loader = Database(loader.access, loader.load), loader
        self._rooms = OfferedRooms(self.database)
        # Tells marks of these rows from marks of rows that another process, or this one earlier, had opened.
        self._name = uuid.uuid4().hex

    @property
    def schema(self) -> dict[str, str]:
        return self._loader.schema

    @property
    def reading(self) -> dict[str, Any]:
        return self._loader.reading

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        return self._loader.unparsed

    @property
    def keeps_batches(self) -> bool:
        return self._loader.path is not None

    def compile(self, query: Query) -> EnginePlan:
        return EnginePlan(self.database, self._loader, query)

    def snapshot(self, columns: Sequence[str]) -> Deferred:
        sql = f"SELECT {', '.join(map(quote, columns))} FROM temp.main.{ROWS}"
        return Deferred(
            ", ".join(columns), lambda: self.database.ask(lambda it: it.sql(sql).to_arrow_table(), "read the rows")
        )

    def ordered(self, asked: Ordered) -> Deferred:
        return ordering(self.database, asked, self._loader)

    def elements(self, asked: Elements) -> ElementReader:
        return ElementReader(self.database, self._loader, asked, self._name)

    def living(self, query: Count | Sum) -> Living:
        return Living(self._rooms, query, self.schema, str(self._loader.unit))

    @contextmanager
    def one_state(self) -> Iterator[None]:
        # Whoever adds rows takes the same lock; a file that is open for reading is written by no other process.
        with self.database.connection():
            yield

    def check_units(self) -> None:
        identity(self.schema, str(self._loader.unit))

    def append(self, source: RowSource, request: str | None, arrive: Arrival) -> Batch:
        return append.append(self.database, self._loader, source, request, arrive)

    def batches(self, after: int) -> list[Batch]:
        kept = append.batches_of(self._loader)
        found: list[Batch] = self.database.ask(lambda connection: kept.after(connection, after), "read the batches")
        return found

    def keep(self, limit: EntryLimit) -> None:
        """Hold these rows and all batches to a limit; `SchemaMismatch` if they break it."""
        if limit.of not in self.schema:
            raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
        self._loader.limit = limit
        everything = f"temp.main.{ROWS}"
        self.database.ask(
            lambda connection: append.check_entries(connection, limit, everything), "counted the entries of units"
        )

    def close(self) -> None:
        self.database.close()


class DuckDB:
    """The engine in this process; see `Engine`."""

    def open(
        self, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None, limit: EntryLimit | None
    ) -> DuckRows:
        reader.check_path(source)
        loader = reader.Loader(source, unit, unpivot)
        unreadable = SchemaMismatch(
            "the source cannot be read as a table with one type for each column; "
            "if it is a CSV, check the types that columns= declares"
        )
        rows = quietly(lambda: DuckRows(loader), unreadable)
        with ExitStack() as undo:
            undo.callback(rows.close)
            if limit is not None:
                rows.keep(limit)
            undo.pop_all()
        return rows

    def steps(self, source: RowSource, asked: StepColumns, types: Mapping[str, str] | None) -> Steps:
        return reader.read_steps(source, asked, types)

    def store(self, path: Path, table: str, rows: pa.Table) -> None:
        with Access(str(path)).connect(writing=True) as connection:
            connection.register("chary_first", rows)
            connection.execute(f"CREATE TABLE {quote(table)} AS SELECT * FROM chary_first")
