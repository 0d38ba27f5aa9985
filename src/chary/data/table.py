"""Tables of rows: opened, asked, appended to, and read in one version; exact checks for who owns them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

import pyarrow.compute as pc

from chary.data.blocks import Blocks
from chary.data.columns import SQL_TYPES, TypeClass, Unparsed, known_columns
from chary.data.csv_reader import CSVFormat, read_texts
from chary.data.engines import protocol, registry
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.partition import RowPart
from chary.data.queries.ordered import Elements, Ordered
from chary.data.queries.query import Query
from chary.data.queries.statistic import Statistic
from chary.data.queries.sums import Count, Sum, count
from chary.data.rows import Arrival, Batch, EntryLimit, Reading, ReadingPlan, Rows, fingerprint_of, unheard
from chary.data.source import RowSource
from chary.errors import CharyError, InvalidParameter, InvalidQuery, SchemaMismatch

# Rows of a table, whatever engine holds them, asked through prepared queries.

# Compiling a query takes longer than answering it from a small table. A plan holds its keys, so not all are kept.
_PLANS: Final = 256
# Of that many ranges of blocks the plans are kept.
_RANGES: Final = 16
_Asked = TypeVar("_Asked")
_Plan = TypeVar("_Plan")


class RowTable:
    """A table of rows with a neighbouring relation; made by `RowTable.open`. Safe to use from several threads.

    `held` are the rows as an engine holds them.

    >>> import pyarrow as pa
    >>> from chary.data.queries.sums import count
    >>> rows = pa.table({"patient": [1, 1, 2], "age": [70, 70, 30]})
    >>> table = RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", "patient"))
    >>> table.prepare(count("age >= 65")).run()
    1
    """

    def __init__(
        self,
        held: protocol.EngineRows,
        source: RowSource,
        neighbor_relation: NeighborRelation,
        limit: EntryLimit | None,
        part: RowPart | None = None,
        *,
        brought: dict[int, int] | None = None,
        closes: bool = True,
        blocks: Blocks | None = None,
        whole: "RowTable | None" = None,
    ) -> None:
        """Use `RowTable.open`, `RowTable.of_part` for a part, `RowTable.as_of` for an earlier state, and
        `RowTable.in_blocks` for rows that are in blocks.

        `whole` are the rows of all parts.
        """
        self.held, self._source = held, source
        self.neighbor_relation = neighbor_relation
        """The neighbouring relation and the privacy unit."""
        self.limit = limit
        """The limit on the entries of a unit, if there is one; public."""
        self.part, self.blocks, self._closes = part, blocks, closes
        # None for all rows: a table in a circle would be let go late, by a collector that may run in a forked child.
        self._whole = whole
        self.brought: dict[int, int] = {} if brought is None else brought
        """The version that each batch of this process brought, where rows live in memory; 0 is the opening."""
        self._ranges: OrderedDict[tuple[str, ...], OrderedDict[Any, Any]] = OrderedDict()
        self._plans: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        neighbor_relation: NeighborRelation,
        table: str | None = None,
        unpivot: tuple[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        csv: CSVFormat | None = None,
        infer_types: bool = False,
        limit: EntryLimit | None = None,
        engine: Any = None,
    ) -> "RowTable":
        """Open a CSV (also .gz), a Parquet file, a list of either, a folder or pattern of Parquet files, a DuckDB file,
        or a pandas, Polars or Arrow table.

        - A CSV is read line by line as its dialect says (`csv=CSVFormat(delimiter=";")`, see there), the batches that
          are appended too. Its columns are strings but for those declared, as in `columns={"age": "BIGINT"}`; so are
          the object columns of pandas. `infer_types=True` finds the other types in all values, which makes them public.
        - Parquet and DuckDB files stay in place and are opened read-only; a DuckDB file needs `table="name"`.
        - A folder ("visits/") stands for the Parquet files in it, a pattern ("visits/2026-*.parquet") for those of such
          names. They are the ones there are at the opening, in the order of their names. A file that comes later is no
          row until it is appended; then it is read in place too.
        - `unpivot=("day", "kwh")` turns a wide table (the unit column and one column a day) into rows of unit, day and
          kwh, without empty cells. `columns={"kwh": "DOUBLE"}` declares the type of all cells of a CSV.
        - `engine="spark"`, or an open session of Spark's, reads them there, also a folder or a pattern of Parquet files
          (see docs/howto/sources.md#spark); a session as the source needs `table="name"`.
        - `limit=EntryLimit("patient", 3)` refuses rows of a unit beyond its limit, here and in `append`.

        NaN is read as NULL, decimals and integers above 64 bits as floats (not in the unit column), categories as
        strings. `InvalidParameter` for a source or option that does not exist, `SchemaMismatch` when the source cannot
        be read as such a table; neither shows a value.
        """
        if (
            not isinstance(neighbor_relation, NeighborRelation)
            or neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE
        ):
            raise InvalidParameter("a table needs neighbor_relation=NeighborRelation('add_remove' or 'replace', unit)")
        pair = _checked_unpivot(unpivot, neighbor_relation.unit)
        if pair is not None and pair[0] in (columns or {}):
            raise InvalidParameter(
                f"the type of {pair[0]!r} follows from the headers: declare that of {pair[1]!r} alone"
            )
        found = RowSource.of(source, table, columns, said=csv, infers=infer_types, engine=engine)
        return cls(
            registry.engine_of(found).open(found, neighbor_relation.unit, pair, limit), found, neighbor_relation, limit
        )

    def of_part(self, part: RowPart) -> "RowTable":
        """The rows of a part as a table, as if there were no others; it ends with this one.

        `InvalidQuery` where the first parts of units are kept, and the order in which rows came is not known.
        """
        if part.first is not None and not self.held.knows_arrival:
            raise InvalidQuery(
                "max_parts_per_unit keeps the parts that a unit was in first, and these rows have no order of arrival. "
                f"Say assumed_parts_per_unit={part.first.kept}, if you assert that, or open frames, CSV files, listed "
                "Parquet files or a DuckDB file, whose rows stay in their order"
            )
        near = self.neighbor_relation
        return self._of(self.held, NeighborRelation(near.neighbors, near.unit, True, near.block), part, self.whole)

    def as_of(self, batch: int, size: int | None = None) -> "RowTable":
        """The rows as they were after an appended batch (0: before the first) as a table, as if none had come since;
        or the first `size` of them. It takes no rows, and ends with this one.

        Rows are only added, behind those that there were: that is taken for granted. Errors: `InvalidQuery` where rows
        of then cannot be distinguished from later ones.

        >>> import pyarrow as pa
        >>> from chary.data.queries.sums import count
        >>> table = RowTable.open(pa.table({"age": [70]}), neighbor_relation=NeighborRelation("add_remove", None))
        >>> _ = table.append(pa.table({"age": [80, 90]}))
        >>> [table.as_of(batch).prepare(count()).run() for batch in (0, 1)]
        [1, 3]
        """
        held, near = self.held.as_of(batch, size), self.neighbor_relation
        whole = self._of(held, near, None)
        return whole if self.part is None else self._of(held, near, self.part, whole)

    def _of(
        self,
        held: protocol.EngineRows,
        near: NeighborRelation,
        part: RowPart | None,
        whole: "RowTable | None" = None,
        *,
        closes: bool = False,
        blocks: Blocks | None = None,
    ) -> "RowTable":
        more: dict[str, Any] = {"brought": self.brought, "closes": closes, "whole": whole}
        return RowTable(held, self._source, near, self.limit, part, blocks=blocks or self.blocks, **more)

    def in_blocks(self, blocks: Blocks) -> "RowTable":
        """The rows as ones that are in blocks, in one of which neighbours differ; nothing is read but some of those.

        `InvalidParameter` unless the column of the blocks is one of days or times, and where entries are limited.
        """
        blocks.check(self.schema)
        if self.limit is not None:
            raise InvalidParameter("entries_per_unit limits the rows of a unit in all blocks: leave it or blocks= out")
        near = self.neighbor_relation
        within = NeighborRelation(near.neighbors, near.unit, block=blocks.every)
        return self._of(self.held, within, None, closes=self._closes, blocks=blocks)

    def of_blocks(self, names: tuple[str, ...]) -> "RowTable":
        """The rows of these blocks, which follow one another, as if there were no others."""
        assert self.blocks is not None
        whole = self.whole
        found = whole.of_part(self.blocks.part(names))
        with whole._lock:
            found._lock, found._plans = whole._lock, whole._ranges.pop(names, found._plans)
            whole._ranges[names] = found._plans
            if len(whole._ranges) > _RANGES:
                whole._ranges.popitem(last=False)
        return found

    @property
    def whole(self) -> "RowTable":
        """The rows of all parts."""
        return self._whole or self

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types: boolean, int64, float64, string, date, timestamp, or the engine's own name."""
        return self.held.schema

    @property
    def reading(self) -> dict[str, Any]:
        """How the strings of a CSV are read, in the rows and in batches alike; empty where no CSV is read and no
        dialect was given. JSON-able and public."""
        return self.held.reading

    @property
    def unparsed(self) -> Mapping[str, Unparsed]:
        """By column which cells of the first rows were not of the declared type; secret, for who owns the rows."""
        return self.held.unparsed

    @property
    def infers(self) -> bool:
        """Whether types were found in the values, which makes them public."""
        return self._source.infers

    @property
    def undecided(self) -> bool:
        """Whether nobody said what the types of a CSV are, not even that all are text."""
        return self._source.undecided

    def fingerprint(self) -> str:
        """A hash of column names and types, relation and unit; the same whatever the rows, and after appends."""
        limit = () if self.limit is None else (self.limit.of, self.limit.most)
        return fingerprint_of(self.schema, self.neighbor_relation, *limit)

    def prepare(self, query: Any) -> ReadingPlan:
        """Check a query against schema and unit and compile it; plans of recent queries are kept. No data is touched.

        `InvalidQuery` for an unknown column, a type that does not fit, or a missing limit on the rows of a unit.
        """
        if not isinstance(query, Query):
            evident = "ask for query.parts(neighbor_relation)" if hasattr(query, "parts") else "build one with count()"
            raise InvalidQuery(f"{type(query).__name__} is not a query with an exact integer answer; {evident}")
        return query.reading(self) if isinstance(query, Statistic) else self._kept(query, self._compile)

    def snapshot(self, columns: Sequence[str] | None = None) -> Reading:
        """A plan that reads some or all columns of all rows into an Arrow table; `InvalidQuery` if one is unknown, and
        in a part where a unit is replaced."""
        near = self.neighbor_relation
        if near.in_part and near.neighbors is Neighbors.REPLACE:
            raise InvalidQuery(
                "a unit that is replaced may leave a part, and what is asserted of your own code is of tables of one "
                "size. Ask it of all rows, or open the rows with neighbors='add_remove'"
            )
        self._asked_in_blocks()
        if self.blocks is not None and self.part and self.part.within and near.unit is not None:
            raise InvalidQuery(
                f"one {near.unit} has rows in several blocks, of which neighbours differ in one, and what is asserted "
                "of your own code is of all rows of a unit. Ask it of one block, by session.blocks(...)"
            )
        return self.held.snapshot(known_columns(columns, self.schema), self.part)

    def elements(self, asked: Elements) -> protocol.ElementReading:
        """A plan that reads elements as keyed words, for sketches; `InvalidQuery` when it does not fit the schema."""
        self._asked_in_blocks()
        return self.held.elements(asked, self.part)

    def ordered(self, asked: Ordered) -> Reading:
        """A plan that reads the values of a column in order; `InvalidQuery` when it does not fit schema or unit."""
        asked.moves(self.neighbor_relation)
        self._asked_in_blocks()
        return self._kept(asked, lambda asked: self.held.ordered(asked, self.part))

    def append(self, rows: Any, *, request: str | None = None, arrive: Arrival = unheard) -> Batch:
        """Add rows from a pandas, Polars or Arrow table, or a CSV or Parquet file: all of them, or none.

        Columns are matched by name, and types by class; integers may be added to a float column. Anything else raises
        `SchemaMismatch` and writes nothing. Rows for a DuckDB file are written into the file's table (an
        `EngineError` if another connection holds it); for every other source they live as long as this object.

        Returns the batch, which is kept where the rows are, in one transaction with them. Under a `request` key that
        came before nothing is added and the batch of then is returned. `arrive` gets the batch. Where rows live in
        memory it gets it before the commit, so that they are not added if it raises. For a DuckDB file it gets it after
        the commit; the `batches` of the file include those of which nobody learnt.
        """
        if self.part is not None:
            raise InvalidParameter("append rows in the session that was divided, not in one of its parts")
        source = RowSource.of(rows, said=self._source.said)
        if source.kind == "duckdb":
            raise SchemaMismatch("append rows from a CSV, a Parquet file or a frame")
        return self.held.append(source, request, arrive)

    def unread(self, rows: Any) -> int:
        """How many rows of a batch are in no block that may be read, where rows are in blocks; 0 where that is not
        known.
        It is not private: it is for the owner of the rows."""
        blocks = self.blocks
        if blocks is None:
            return 0
        types = {blocks.column: SQL_TYPES[self.schema[blocks.column]]}
        near = NeighborRelation(Neighbors.REPLACE, None)
        with suppress(CharyError):
            is_csv = RowSource.of(rows, said=self._source.said).kind == "csv"
            asked: dict[str, Any] = {"columns": types if is_csv else None, "csv": self._source.said}
            with closing(RowTable.open(rows, neighbor_relation=near, **asked)) as batch:
                return int(batch.prepare(count(blocks.unread())).run())
        return 0

    def one_state(self) -> AbstractContextManager[object]:
        """Within it, all that this thread reads is of one state of the rows; `EngineError` once they are closed."""
        return self.held.one_state()

    @property
    def keeps_batches(self) -> bool:
        """Whether appended rows outlive this object: those of a DuckDB file."""
        return self.held.keeps_batches

    def batches(self, after: int = 0) -> list[Batch]:
        """The appended batches above a number, in order of arrival; `EngineError`, without data, if it fails."""
        return self.held.batches(after)

    def close(self) -> None:
        """Release the engine; plans raise `EngineError` afterwards. Closing twice is fine. A part, or an earlier state,
        leaves it to all rows."""
        if self._closes:
            self.held.close()

    def _kept(self, asked: _Asked, compiled: Callable[[_Asked], _Plan]) -> _Plan:
        with self._lock:
            plan: _Plan = self._plans.pop(asked, None) or compiled(asked)
            self._plans[asked] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return plan

    def _compile(self, query: Query) -> ReadingPlan:
        query.contribution(self.neighbor_relation)
        self._asked_in_blocks()
        return self.held.compile(query, self.part)

    def _asked_in_blocks(self) -> None:
        """Refuse to read rows of all blocks at once, the closed ones among them."""
        if self.blocks is not None and self.part is None:
            raise InvalidQuery("rows in blocks are read in some of those: ask a session, or session.blocks(...)")

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.schema.items())
        return f"RowTable({columns}; {self.neighbor_relation.describe()})"


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


# Reading several things of one version of the rows.


def read_one_version(rows: Rows, plans: Sequence[Reading]) -> list[Any]:
    """What each plan reads, secret; no row is added in between, so that the parts of one question belong together.

    >>> import pyarrow as pa
    >>> from chary.data import NeighborRelation, count
    >>> table = RowTable.open(pa.table({"age": [70, 80]}), neighbor_relation=NeighborRelation("replace", None))
    >>> read_one_version(table, [table.prepare(count("age > 75")), table.prepare(count())])
    [1, 2]
    """
    with rows.one_state() if isinstance(rows, RowTable) and len(plans) > 1 else nullcontext():
        return [plan.run() for plan in plans]


# Units that may still take part: counts and sums of units each of which is exhausted after that many hits.


def living(rows: Rows, query: Query) -> protocol.LivingReading:
    """Compile a count or sum of active units; `InvalidQuery` for other queries, and rows that are no table of units.

    >>> import pyarrow as pa
    >>> from chary.data import NeighborRelation, count
    >>> from chary.data.rows import Rooms
    >>> rows = pa.table({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> table = RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", "patient"))
    >>> with living(table, count("age >= 65")).at(Rooms(pa.table({"unit": [2], "room": [0]}), hits=3)) as units:
    ...     int(units.answers()[0]), units.of([0])["unit"].to_pylist()
    (1, [1])
    """
    table = table_of_units(rows)
    if not isinstance(query, (Count, Sum)):
        raise InvalidQuery('active units are counted or added up: ask count("age >= 65") or sum("cost", ...)')
    table._asked_in_blocks()
    return table.held.living(query, table.part)


def table_of_units(rows: Rows) -> RowTable:
    """The rows; `InvalidQuery` where units cannot be recognised when they are met again."""
    if not isinstance(rows, RowTable) or rows.neighbor_relation.unit is None:
        raise InvalidQuery(
            "individual privacy accounting recognises each unit by its id: open a table with privacy_unit='column' "
            "(rows without an id cannot be told apart)"
        )
    rows.held.check_units()
    return rows


# What a custodian looks at before rows are opened for questions: what of them cannot be read. It is not private.

NOT_PRIVATE: Final = (
    "NOT PRIVATE. These are exact figures of the rows, for who owns them. Show them to no analyst, and publish none."
)


@dataclass(frozen=True)
class Units:
    """How many units there are, the rows of a usual one (the median) and of the largest, and the rows of none."""

    units: int
    usual: int
    largest: int
    rows_without: int

    @classmethod
    def of(cls, column: Any) -> "Units":
        """Those that a column of an Arrow table names."""
        sizes = sorted(pc.value_counts(column.drop_null()).field("counts").to_pylist())
        return cls(len(sizes), sizes[(len(sizes) - 1) // 2] if sizes else 0, max(sizes, default=0), column.null_count)


@dataclass(frozen=True)
class Check:
    """How rows are read: exact figures, which no privacy protects. Made by `check`.

    `types` are by column, as declared where they are. `unparsed` are the columns in which cells are not of their type.
    `lengths` are the fewest and most characters of a cell, for each column of strings that holds any. `units` are those
    of the column that was named for them, if one was.
    """

    rows: int
    types: Mapping[str, str]
    unparsed: Mapping[str, Unparsed]
    lengths: Mapping[str, tuple[int, int]]
    units: Units | None = None

    def as_dict(self) -> dict[str, Any]:
        """Rows, and of each column its type and how many cells are not of it; units where their column was named."""
        columns = {name: {"type": kind, "unparsed": self._missed(name)} for name, kind in self.types.items()}
        return {"rows": self.rows, "columns": columns} | ({} if self.units is None else {"units": asdict(self.units)})

    def _missed(self, name: str) -> int:
        return self.unparsed[name].cells if name in self.unparsed else 0


def check(
    source: Any,
    *,
    columns: dict[str, str] | None = None,
    csv: CSVFormat | None = None,
    infer_types: bool = False,
    table: str | None = None,
    unit: str | None = None,
    unpivot: tuple[str, str] | None = None,
) -> Check:
    """How many rows there are, and by column how many cells are not of the type declared for it.

    This is for who owns the rows, before others ask about them: **the figures are exact and not private**. A session
    and a service tell an analyst nothing of it. The parameters are those of `open`, which reads the rows in the same
    way. Cells that are empty, blank or NULL are of every type. Sources with types of their own, such as Parquet and
    DuckDB files, have no such cells. Of the column of the `unit`, units and their rows are counted: one with few units,
    or a unit with many of the rows, names nobody to protect. With `unpivot` too, a wide table is checked as it will be
    asked. Nothing is charged and no ledger is made.

    Errors: those of `open` for the source, `InvalidQuery` for a unit that is no column.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"day": ["2017-01-01", "1/2/2017", None], "age": ["70", "81", "old"]}, dtype=object)
    >>> check(visits, columns={"day": "DATE"}).as_dict()
    {'rows': 3, 'columns': {'day': {'type': 'DATE', 'unparsed': 1}, 'age': {'type': 'VARCHAR', 'unparsed': 0}}}
    """
    # Neighbours do not matter where nothing is asked privately.
    read: dict[str, Any] = {"columns": columns, "csv": csv, "infer_types": infer_types, "table": table}
    by = None if unpivot is None else unit
    rows = RowTable.open(source, neighbor_relation=NeighborRelation(Neighbors.REPLACE, by), unpivot=unpivot, **read)
    with closing(rows):
        if unpivot is None:
            found = int(rows.prepare(count()).run())
            texts = _texts(RowSource.of(source, table, columns, said=csv, infers=infer_types), rows)
        else:
            held = rows.snapshot(list(unpivot)).run()
            found = len(held[unpivot[0]])
            texts = {name: held[name] for name in unpivot if rows.schema[name] == TypeClass.STRING}
        units = None if unit is None else Units.of(rows.snapshot([unit]).run()[unit])
    lengths = {name: ends for name in texts if (ends := _ends(texts[name])) is not None}
    types = {name: SQL_TYPES.get(kind, kind.upper()) for name, kind in rows.schema.items()}
    return Check(found, types | (columns or {}), rows.unparsed, lengths, units)


def _texts(source: RowSource, rows: RowTable) -> dict[str, Any]:
    """The columns of strings, as they are written."""
    if source.kind == "csv":
        written = read_texts(source.paths, source.dialect, list(source.types))
        return dict(zip(written.column_names, written.columns, strict=True))
    objects = {name: source.frame[name] for name in source.objects}
    names = [name for name, kind in rows.schema.items() if kind == TypeClass.STRING and name not in objects]
    held = rows.snapshot(names).run() if names else {}
    return {
        name: objects[name] if name in objects else held[name] for name in rows.schema if name in {*objects, *names}
    }


def _ends(cells: Any) -> tuple[int, int] | None:
    found = pc.min_max(pc.utf8_length(cells)).as_py()
    return None if found["min"] is None else (found["min"], found["max"])
