"""Sources read into DuckDB: types of columns, casts of strings, attached files, notes of batches, whole loads."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import duckdb
import numpy as np

from chary.data.columns import DAY, OFFSET, SQL_TYPES, TIME, TypeClass, Unparsed, listed, quote
from chary.data.csv_reader import CSVFormat, read_texts
from chary.data.engines.batches import KEPT, KEPT_COLUMNS, Notes, Run
from chary.data.engines.compiler import ARRIVAL, ARRIVALS
from chary.data.engines.duckdb.connection import ATTACHED, Access, as_pattern, literals, text
from chary.data.engines.sql import ROWS, Column, select, shared_class
from chary.data.rows import Batch, EntryLimit, StepColumns, Steps, check_steps
from chary.data.source import RowSource
from chary.errors import InvalidParameter, SchemaMismatch, quietly

# How every type of the engine is brought to one of the few that chary computes with.

_LOSSLESS = {
    "BOOLEAN": TypeClass.BOOLEAN,
    "BIGINT": TypeClass.INTEGER,
    "DATE": TypeClass.DATE,
    "TIMESTAMP": TypeClass.TIMESTAMP,
}
# 32 bits and fewer, which 64 hold.
_NARROW = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
# What 64 bits with a sign do not hold; a double holds the nearest number.
_LOSSY = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_CLOCKS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}


def column_of(name: str, engine_type: str, *, is_unit: bool) -> Column:
    """Choose the class of an engine type; no value of the column can make the SQL fail.

    NaN becomes NULL. Decimals, unsigned 64-bit and 128-bit integers become floats, and fine or coarse timestamps
    microseconds. In the unit column they stay as they are, since two units must never be merged.

    >>> column_of("age", "INTEGER", is_unit=False)
    Column(name='age', type='int64', sql='CAST("age" AS BIGINT)')
    """
    quoted = quote(name)
    kind, sql = _exact(engine_type, quoted)
    if kind is None and not is_unit:
        kind, sql = _rounded(engine_type, quoted)
    return Column(name, engine_type.lower() if kind is None else str(kind), sql)


def _exact(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type == "VARCHAR":
        return TypeClass.STRING, f'{quoted} COLLATE "C"'
    if engine_type in _LOSSLESS:
        return _LOSSLESS[engine_type], quoted
    if engine_type in _NARROW:
        return TypeClass.INTEGER, f"CAST({quoted} AS BIGINT)"
    if engine_type.startswith("ENUM"):
        return TypeClass.STRING, f"CAST({quoted} AS VARCHAR)"
    if engine_type in ("FLOAT", "DOUBLE"):
        return TypeClass.FLOAT, f"CASE WHEN isnan({quoted}) THEN NULL ELSE CAST({quoted} AS DOUBLE) END"
    return None, quoted


def _rounded(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type in _LOSSY or engine_type.startswith("DECIMAL"):
        return TypeClass.FLOAT, f"CAST({quoted} AS DOUBLE)"
    if engine_type in _CLOCKS:
        return TypeClass.TIMESTAMP, f"TRY_CAST({quoted} AS TIMESTAMP)"
    return None, quoted


# Strings as values of a declared type, each by itself: what does not parse is NULL.

_SIGNED: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_WHOLE: Final = _SIGNED | {f"U{kind}" for kind in _SIGNED}
_MOMENTS: Final = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_TRUE: Final = ("true", "t", "yes", "y", "1")
_FALSE: Final = ("false", "f", "no", "n", "0")
# Digits and single letters are rather numbers and codes, unless they are declared to be booleans.
_SURE: Final = ("true", "t", "yes", "false", "f", "no")
# The first that fits is taken.
INFERRED: Final = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")
# Ledgers hold types that were found, so what they are found by may never change.
_FOUND_TIME: Final = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"


@dataclass(frozen=True)
class Casting:
    """The declared types of columns of strings; a column without a declared type stays text.

    `types`, by the engine's own names, are by column; `others` is the type of all columns but `unit`, if there is one.
    """

    dialect: CSVFormat
    types: Mapping[str, str] = field(default_factory=dict)
    others: str | None = None
    unit: str | None = None

    def select(self, texts: Mapping[str, bool], relation: str) -> str:
        """SQL for the columns of a relation, of which `texts` says whether they are strings to be read.

        `SchemaMismatch` where a type is declared for a column that is not there or not a text.
        """
        if unknown := [name for name in self.types if not texts.get(name, False)]:
            if unknown[0] in texts:
                raise SchemaMismatch(f"column {unknown[0]!r} has a type of its own: none can be declared for it")
            # Names of columns are not listed: in a CSV without its header they are cells of a row.
            raise SchemaMismatch(f"there is no column {unknown[0]!r} to declare a type of")
        cells = [f"{self._cell(name) if is_text else quote(name)} AS {quote(name)}" for name, is_text in texts.items()]
        return f"(SELECT {', '.join(cells)} FROM {relation})"

    def _cell(self, name: str) -> str:
        declared = self.types.get(name) or (None if name == self.unit else self.others)
        return quote(name) if declared is None else parsed(quote(name), declared, self.dialect)


def canonical(connection: duckdb.DuckDBPyConnection, declared: str) -> str:
    """The engine's own name of a type; `SchemaMismatch` where it has no such type.

    >>> canonical(duckdb.connect(), "int8")
    'BIGINT'
    """
    try:
        [(name,)] = connection.execute(f"SELECT typeof(CAST(NULL AS {declared}))").fetchall()
        return str(name)
    except (duckdb.CatalogException, duckdb.ParserException):
        pass
    raise SchemaMismatch(f"{declared!r} is no type of a column; types are BIGINT, DOUBLE, DATE and others")


def parsed(cell: str, kind: str, dialect: CSVFormat) -> str:
    """SQL that reads a text as a value, and never fails."""
    trimmed, point = f"trim({cell}, ' ')", "\\" + dialect.decimal
    if kind in _WHOLE:
        return _if(f"[+-]?[0-9]+({point}0*)?", trimmed, f"split_part({trimmed}, {text(dialect.decimal)}, 1)", kind)
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        number = f"[+-]?([0-9]+{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?"
        return _if(number, trimmed, f"replace({trimmed}, {text(dialect.decimal)}, '.')", kind)
    if kind == "BOOLEAN":
        return _boolean(trimmed)
    if kind == "DATE":
        return _formatted(trimmed, dialect.date_format, kind) if dialect.date_format else _day(trimmed)
    if kind in _MOMENTS:
        return _formatted(trimmed, dialect.timestamp_format, kind) if dialect.timestamp_format else _time(trimmed, kind)
    return cell if kind == "VARCHAR" else f"TRY_CAST({cell} AS {kind})"


def inferred(
    connection: duckdb.DuckDBPyConnection, names: list[str], relation: str, unit: str | None, dialect: CSVFormat
) -> dict[str, str]:
    """The first type that all cells of a column are of, for each column that has one; it depends on values.

    A unit is an integer only where each is written in the one usual way: two spellings are two units.
    """
    tests = [test for name in names for test in _tests(quote(name), name == unit, dialect)]
    if not tests:
        return {}
    [row] = connection.execute(f"SELECT {', '.join(tests)} FROM {relation}").fetchall()
    fits = [dict(zip(INFERRED, row[start:], strict=False)) for start in range(0, len(row), len(INFERRED))]
    first = [next((kind for kind, fit in fit_of.items() if fit), None) for fit_of in fits]
    return {name: kind for name, kind in zip(names, first, strict=True) if kind is not None}


def _tests(cell: str, is_unit: bool, dialect: CSVFormat) -> list[str]:
    """For each type to try whether all cells are of it, and any is there."""
    trimmed = f"trim({cell}, ' ')"
    own: dict[str, Callable[[str], str]] = {
        "BOOLEAN": lambda sql: f"lower({cell}) IN ({', '.join(map(text, _SURE))})",
        "BIGINT": lambda sql: f"regexp_full_match({cell}, '0|-?[1-9][0-9]*') AND {sql} IS NOT NULL",
        "DOUBLE": lambda sql: f"NOT regexp_matches({cell}, '^[ +-]*0[0-9]') AND {sql} IS NOT NULL",
    }
    if dialect.date_format is None:
        own["DATE"] = lambda sql: f"{_fits(trimmed, DAY)} AND {sql} IS NOT NULL"
    if dialect.timestamp_format is None:
        own["TIMESTAMP"] = lambda sql: f"{_fits(trimmed, DAY + _FOUND_TIME)} AND {sql} IS NOT NULL"
    made = []
    for kind in INFERRED:
        sql = parsed(cell, kind, dialect)
        fits = own.get(kind, "{} IS NOT NULL".format)(sql)
        made.append(
            "false"
            if is_unit and kind != "BIGINT"
            else f"coalesce(bool_and({fits}) FILTER ({cell} IS NOT NULL), false)"
        )
    return made


def _fits(cell: str, pattern: str) -> str:
    return f"regexp_full_match({cell}, {text(pattern)})"


def _if(pattern: str, cell: str, number: str, kind: str) -> str:
    return f"CASE WHEN {_fits(cell, pattern)} THEN TRY_CAST({number} AS {kind}) END"


def _boolean(cell: str) -> str:
    words = [f"WHEN lower({cell}) IN ({', '.join(map(text, some))}) THEN {some is _TRUE}" for some in (_TRUE, _FALSE)]
    return f"CASE {' '.join(words)} END"


def _formatted(cell: str, form: str, kind: str) -> str:
    # The engine takes words such as infinity for moments in any format.
    return f"CASE WHEN regexp_matches({cell}, '[0-9]') THEN TRY_CAST(TRY_STRPTIME({cell}, {text(form)}) AS {kind}) END"


def _day(cell: str) -> str:
    """The day that is written, whatever time and offset stand behind it, if there is such a time."""
    with_time = f"{_fits(cell, f'{DAY}{TIME}(Z|{OFFSET})?')} AND TRY_CAST({cell} AS TIMESTAMP) IS NOT NULL"
    written = f"WHEN {with_time} THEN TRY_CAST(left({cell}, 10) AS DATE)"
    return f"CASE WHEN {_fits(cell, DAY)} THEN TRY_CAST({cell} AS DATE) {written} END"


def _time(cell: str, kind: str) -> str:
    """The time that is written, in UTC where an offset stands behind it."""
    # Whatever zone the process is in: the engine counts microseconds since 1970 in UTC. A Z changes nothing.
    in_utc = f"TRY_CAST(make_timestamp(epoch_us(TRY_CAST({cell} AS TIMESTAMPTZ))) AS {kind})"
    offset = f"WHEN {_fits(cell, DAY + TIME + OFFSET)} THEN {in_utc}"
    return f"CASE WHEN {_fits(cell, f'{DAY}({TIME}Z?)?')} THEN TRY_CAST({cell} AS {kind}) {offset} END"


# Sources brought to one relation that the engine can read.

_SOURCE: Final = "chary_source"


def relation_of(source: RowSource) -> str:
    """What to write after FROM, in a connection that may read the source in place or had it attached."""
    match source.kind:
        case "parquet":
            return parquet(source.paths)
        case "duckdb":
            return quote(str(source.table))
        case _:
            return _SOURCE


def check_path(source: RowSource) -> None:
    """`InvalidParameter` for a DuckDB file that the engine would take for another one."""
    # The engine takes what follows a question mark for options, and a backslash for a slash.
    if source.kind == "duckdb" and any(sign in os.path.abspath(source.paths[0]) for sign in {"?", "\\"} - {os.sep}):
        raise InvalidParameter("the engine cannot open a DuckDB file with ? or \\ in its path: rename it")


def attach(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """Make rows that are not read in place visible under the name that `relation_of` uses."""
    if source.kind == "csv":
        connection.register(_SOURCE, read_texts(source.paths, source.dialect, list(source.types)))
    elif source.kind == "frame":
        connection.register(_SOURCE, source.frame)


def detach(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """Undo `attach`."""
    if source.kind in ("csv", "frame"):
        connection.unregister(_SOURCE)


def texts_of(connection: duckdb.DuckDBPyConnection, source: RowSource) -> dict[str, bool]:
    """Of each column of the attached rows whether its cells are strings without a type of their own."""
    return {name: source.kind == "csv" or name in source.objects for name in describe(connection, relation_of(source))}


def typed(
    connection: duckdb.DuckDBPyConnection, source: RowSource, unit: str | None = None, value: str | None = None
) -> str:
    """SQL for the attached rows with every cell of the type of its column.

    What is declared for `value` is the type of all columns of strings next to the unit's.
    """
    relation, are_texts = relation_of(source), texts_of(connection, source)
    if not any(are_texts.values()):
        return relation
    types = {name: kind for name, kind in source.types.items() if name != value}
    if source.infers:
        unsaid = [name for name, is_text in are_texts.items() if is_text and name not in types]
        types = inferred(connection, unsaid, relation, unit, source.dialect) | types
    return Casting(source.dialect, types, source.types.get(value or ""), unit).select(are_texts, relation)


def check_alike(connection: duckdb.DuckDBPyConnection, source: RowSource) -> None:
    """`SchemaMismatch` for Parquet files of different types: a value of one might not fit the type of another."""
    kinds = [describe(connection, parquet([path])) for path in source.paths] if source.kind == "parquet" else []
    if any(kind != kinds[0] for kind in kinds):
        raise SchemaMismatch("the files do not have the same columns of the same types")


def copied(source: RowSource) -> RowSource:
    """The same rows without a file: what a connection can read that may not read files."""
    if source.kind != "parquet":
        return source
    with Access(files=source.paths, lossless=True).connect() as connection:
        check_alike(connection, source)
        return RowSource("frame", frame=connection.sql(f"SELECT * FROM {relation_of(source)}").to_arrow_table())


def describe(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """Column names and engine types of a relation, in order."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {row[0]: row[1] for row in rows}


def parquet(paths: Sequence[str]) -> str:
    """What to write after FROM for Parquet files that the connection may read in place."""
    # Names of folders such as day=1 would become columns, and tell of rows what nobody declared.
    # Writers leave NaN out of the least and greatest value that they note. Told to expect it, the engine believes no
    # such note: what a row becomes must not follow from the others of its group.
    files = literals([as_pattern(path) for path in paths])
    return f"read_parquet({files}, hive_partitioning = false, can_have_nan = true)"


# Which batches of rows were appended: kept beside the rows and written in their transaction.


@dataclass(frozen=True)
class Batches(Notes):
    """See `Notes`: a DuckDB file keeps them; elsewhere they are gone with the engine."""

    # The engine finds a table in whatever case its name is written.
    ours: str = "lower(of_table) = lower($1)"
    in_file: bool = False

    def readable(self, run: Run) -> bool:
        there = f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{KEPT}' AND schema_name = 'main'"
        return bool(run(f"{there} AND temporary = {not self.in_file}", ()))

    def begin(self, run: Run) -> None:
        """Remember the rows before the first batch, as number 0, in the transaction that is about to write it."""
        run(f"CREATE {'' if self.in_file else 'TEMP '}TABLE IF NOT EXISTS {KEPT} {KEPT_COLUMNS}", ())
        if not self._found(run, "number >= $2 LIMIT 1", 0):
            [(rows,)] = run(f"SELECT count(*) FROM {self.relation}", ())
            run(f"INSERT INTO {self.table} VALUES ($1, 0, NULL, $2)", [self.name, rows])

    def of(self, run: Run, number: int) -> Batch | None:
        """The batch of that number, if it is known; the rows before all of them are number 0."""
        found = self._found(run, "number = $2", number)
        return found[0] if found else None


# Tables in DuckDB files: which can be read, and which can grow, without a row that makes that fail.

_LIMITS = {
    "duckdb_constraints()": "lower(replace(constraint_type, '_', ' '))",
    "duckdb_indexes()": "'index'",
    "duckdb_triggers()": "'trigger'",
}


def stored_relation(connection: duckdb.DuckDBPyConnection, name: str, catalog: str) -> str:
    """SQL for a table of the main schema; `SchemaMismatch` if there is none or if reading it may fail on a row.

    That is so of views and of generated columns, which are computed when they are read: a failure would tell of rows.
    """
    views = connection.execute(
        "SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal AND NOT temporary"
    ).fetchall()
    if (name.lower(),) in views:
        raise SchemaMismatch(f"{name!r} is a view, which a row may make fail: copy it into a table")
    found = connection.execute(
        "SELECT table_name, sql FROM duckdb_tables() WHERE NOT internal AND NOT temporary AND schema_name = 'main' "
        f"AND table_name <> {text(KEPT)} ORDER BY table_name"
    ).fetchall()
    made = {known.lower(): sql for known, sql in found}
    if name.lower() not in made:
        raise SchemaMismatch(f"no table {name!r} in this file; there are: {listed([k for k, _ in found]) or 'none'}")
    if "GENERATED ALWAYS AS" in made[name.lower()].upper():
        raise SchemaMismatch(f"{name!r} has generated columns, which a row may make fail: {_copied(name)}")
    return f"{quote(catalog)}.main.{quote(name)}"


def check_growable(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """`SchemaMismatch` for a table that may refuse a row: because of others, which it would tell of, or of itself."""
    ours = f"lower(table_name) = {text(name.lower())} AND schema_name = 'main' AND database_name = current_database()"
    asked = [f"SELECT {what} AS what FROM {where} WHERE {ours}" for where, what in _LIMITS.items()]
    found = connection.execute(f"SELECT DISTINCT what FROM ({' UNION ALL '.join(asked)}) ORDER BY what").fetchall()
    if found:
        raise SchemaMismatch(
            f"rows cannot be appended to {name!r}, which has: {listed([what for (what,) in found])}. Whether it "
            f"takes a row may follow from the rows, and a refusal would tell of them; {_copied(name)}. "
            "Nothing was written"
        )


def _copied(name: str) -> str:
    return f"copy it into a table without them, as in CREATE TABLE copied AS FROM {quote(name)}"


# Making `chary_rows`: a view or a temporary table whose columns are of the few types chary computes with.


@dataclass
class Loader:
    """Makes `chary_rows` from a source, again after each reconnection; knows the columns after the first time.

    Parquet and DuckDB tables stay where they are, behind a view; everything else, and all unpivoted rows, are copied
    into the engine's memory. `stored` is the SQL for the table of a DuckDB file.
    """

    source: RowSource
    unit: str | None
    unpivot: tuple[str, str] | None = None
    columns: tuple[Column, ...] = ()
    limit: EntryLimit | None = None
    stored: str = ""
    unparsed: Mapping[str, Unparsed] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> str | None:
        """The DuckDB file to connect to; None when rows are read into or from an engine in memory."""
        return self.source.paths[0] if self.source.kind == "duckdb" and self.unpivot is None else None

    @property
    def access(self) -> Access:
        """What the engine may touch to read these rows."""
        paths, kind = self.source.paths, self.source.kind
        attached = paths[0] if kind == "duckdb" and self.path is None else None
        folder = None if self.source.folder is None or self.unpivot is not None else self.source.folder.path
        return Access(self.path, paths if kind == "parquet" else (), attached, folder=folder)

    @property
    def is_view(self) -> bool:
        """Whether queries read the source itself and not a copy."""
        return self.unpivot is None and self.source.kind in ("parquet", "duckdb")

    @property
    def knows_arrival(self) -> bool:
        """Whether the order in which rows came is that of the source: files of a folder are in that of their names, and
        cells that were unpivoted in none. Columns may hide what numbers the rows."""
        hidden = {*_NUMBERS, ARRIVAL} & set(map(str.lower, self.schema))
        return self.unpivot is None and self.source.folder is None and not hidden

    @property
    def schema(self) -> dict[str, str]:
        """Names and types of the columns of `chary_rows`."""
        return {column.name: column.type for column in self.columns}

    @property
    def reading(self) -> dict[str, Any]:
        """The dialect, and the declared types that do not follow from the schema."""
        source, usual = self.source, self._usual()
        if source.kind != "csv" and source.said is None:
            return {}
        types = {name: kind for name, kind in source.types.items() if kind != usual.get(name)}
        return source.dialect.body() | ({"types": types} if types else {})

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make `chary_rows`; `SchemaMismatch` when the unit column is missing or unpivoting is impossible."""
        declared = {name: canonical(connection, kind) for name, kind in self.source.types.items()}
        self.source = replace(self.source, types=declared)
        relation = self._raw(connection)
        found = describe(connection, relation)
        if self.unit is not None and self.unit not in found:
            raise SchemaMismatch(f"there is no column {self.unit!r} to be the privacy unit")
        if self.unpivot is not None:
            relation = self._long(relation, found)
            found = describe(connection, relation)
        self.columns = read_columns(found, self.unit)
        kind = "VIEW" if self.is_view else "TABLE"
        connection.execute(f"CREATE TEMP {kind} {ROWS} AS {select(self.columns, relation)}")
        if self.is_view and self.source.kind == "parquet":
            check_cells(connection, ROWS)
        look_at_arrivals(connection, self)
        self.unparsed = self._unparsed(connection)
        detach(connection, self.source)

    def types(self, batch: RowSource) -> dict[str, str]:
        """The engine types with which the strings of a batch are read: those of the first rows, as they were
        declared."""
        usual = self._usual()
        types = usual | {name: kind for name, kind in self.source.types.items() if name in usual}
        return {name: kind for name, kind in types.items() if batch.kind == "csv" or name in batch.objects}

    def _usual(self) -> dict[str, str]:
        return {name: SQL_TYPES.get(kind, kind) for name, kind in self.schema.items()}

    def _raw(self, connection: duckdb.DuckDBPyConnection) -> str:
        if self.source.kind == "duckdb":
            catalog = (
                ATTACHED if self.path is None else connection.execute("SELECT current_database()").fetchall()[0][0]
            )
            self.stored = stored_relation(connection, str(self.source.table), catalog)
            return self.stored
        check_alike(connection, self.source)
        attach(connection, self.source)
        return typed(connection, self.source, self.unit, None if self.unpivot is None else self.unpivot[1])

    def _unparsed(self, connection: duckdb.DuckDBPyConnection) -> dict[str, Unparsed]:
        """What of the strings, which are attached still, was declared to be of a type and is not."""
        if not self.source.types:
            return {}
        texts = [name for name, is_text in texts_of(connection, self.source).items() if is_text]
        cells = {name: [name] for name in texts}
        if self.unpivot is not None:
            cells = {self.unpivot[1]: [name for name in texts if name != self.unit]}
        types = {name: kind for name, kind in self.source.types.items() if kind != "VARCHAR" and name in cells}
        typed = {name: cells[name] for name in types}
        return unparsed_in(connection, relation_of(self.source), typed, types, ROWS)

    def _long(self, relation: str, found: dict[str, str]) -> str:
        unit, (name, value) = str(self.unit), self.unpivot or ("", "")
        wide = [column_of(column, kind, is_unit=False) for column, kind in found.items() if column != unit]
        kind = self.source.types.get(value) or _shared_type(wide, value)
        cells = ", ".join(f"CAST({column.sql} AS {kind}) AS {quote(column.name)}" for column in wide)
        rows = f"SELECT {quote(unit)}, {cells} FROM {relation}"
        long = f"UNPIVOT ({rows}) ON COLUMNS(* EXCLUDE ({quote(unit)})) INTO NAME {quote(name)} VALUE {quote(value)}"
        return f"({long})"


# The rows in the order in which they came: that of a table, or that of files as they are named, each in its own.

_NUMBERS: Final = ("rowid", "file_index", "file_row_number")
# That many rows of one file, and behind all files what was appended in memory.
_OF_FILE: Final = 2**40
_BEHIND: Final = 2**62


def places_before(loader: "Loader", upto: int) -> str:
    """A condition in SQL for the `chary_arrivals` before the row of that number in the relation that grows."""
    return f"{ARRIVAL} < {upto + (_BEHIND if loader.is_view and loader.path is None else 0)}"


def look_at_arrivals(connection: duckdb.DuckDBPyConnection, loader: Loader, appended: str | None = None) -> None:
    """Make `chary_arrivals` the rows with their place in that order, where it is known; `appended` are those in memory
    next to files that are read in place."""
    if not loader.knows_arrival:
        return
    if not loader.is_view:
        sql = f"SELECT *, rowid AS {ARRIVAL} FROM temp.main.{ROWS}"
    elif loader.path is not None:
        sql = select((*loader.columns, Column(ARRIVAL, TypeClass.INTEGER, "rowid")), loader.stored)
    else:
        place = f"CAST(file_index AS BIGINT) * {_OF_FILE} + file_row_number"
        sql = select((*loader.columns, Column(ARRIVAL, TypeClass.INTEGER, place)), relation_of(loader.source))
    if appended is not None:
        sql += f" UNION ALL SELECT *, rowid + {_BEHIND} AS {ARRIVAL} FROM {appended}"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {ARRIVALS} AS {sql}")


# How many cells of a column of strings are neither NULL nor blank.
_THERE: Final = "count(nullif(trim({}, ' '), ''))"


def unparsed_in(
    connection: duckdb.DuckDBPyConnection,
    texts: str,
    typed: Mapping[str, list[str]],
    kinds: Mapping[str, str],
    values: str,
) -> dict[str, Unparsed]:
    """Of each column that was made of some columns of strings what is no value in another relation, if anything."""
    found = {name: _counted(connection, texts, cells, name, kinds[name], values) for name, cells in typed.items()}
    return {name: each for name, each in found.items() if each.cells}


def _counted(
    connection: duckdb.DuckDBPyConnection, texts: str, cells: list[str], name: str, kind: str, relation: str
) -> Unparsed:
    """How many of the cells of some columns are no values of the one of this relation that was made of them.

    Nothing is parsed again: what is not NULL was counted before and is counted after. Blank cells are looked for only
    where something is missing.
    """

    def count(each: str, rows: str) -> int:
        [(found,)] = connection.execute(f"SELECT {each} FROM {rows}").fetchall()
        return int(found)

    values = count(f"count({quote(name)})", relation)
    if count(" + ".join(f"count({quote(cell)})" for cell in cells), texts) == values:
        return Unparsed(kind, 0, values)
    there = count(" + ".join(_THERE.format(quote(cell)) for cell in cells), texts)
    return Unparsed(kind, there - values, there)


def check_cells(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Read every cell once: text that is no UTF-8 would fail in a query later, and so tell of its row."""
    connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {relation}").fetchall()


def read_columns(found: dict[str, str], unit: str | None) -> tuple[Column, ...]:
    """The columns of a relation, each with the SQL that brings it to its class."""
    return tuple(column_of(name, kind, is_unit=name == unit) for name, kind in found.items())


def _shared_type(wide: list[Column], value: str) -> str:
    if (shared := shared_class(wide)) is not None:
        return SQL_TYPES[shared]
    raise SchemaMismatch(
        f"the columns to unpivot have no one type; if a CSV, declare it: columns={{{value!r}: 'DOUBLE'}}"
    )


# Reading the time steps of a series from files and frames.

Types = Mapping[str, str]


def read_steps(source: RowSource, asked: StepColumns, types: Types | None) -> Steps:
    """All steps; strings are of the types of earlier steps, or those of public columns of the types found in them."""
    failure = SchemaMismatch("the source cannot be read as a table with one type for each column")
    with Access().connect() as connection:
        columns, types = quietly(lambda: _columns(connection, copied(source), asked, types), failure)
    check_steps(columns, asked)
    orders, labels = (None if name is None else tuple(columns[name]) for name in (asked.order_by, asked.labels))
    return Steps(np.array(columns[asked.column], dtype=np.int64), orders, labels, types)


def _columns(
    connection: duckdb.DuckDBPyConnection, source: RowSource, asked: StepColumns, types: Types | None
) -> tuple[dict[str, list[Any]], Types]:
    attach(connection, source)
    relation = _relation(connection, source, asked, types)
    known = {column.name: column for column in read_columns(describe(connection, relation), None)}
    for name in asked.names:
        if name not in known:
            raise SchemaMismatch(f"there is no column {name!r}")
    chosen = {name: known[name] for name in asked.names}
    if chosen[asked.column].type != TypeClass.INTEGER:
        raise SchemaMismatch(f"column {asked.column!r} is {chosen[asked.column].type}; a series needs integers")
    order = "" if asked.order_by is None else f" ORDER BY {quote(asked.order_by)}"
    cells = connection.execute(select(tuple(chosen.values()), relation) + order).fetchall()
    kinds = {name: SQL_TYPES.get(column.type, "VARCHAR") for name, column in chosen.items()}
    return {name: [row[place] for row in cells] for place, name in enumerate(chosen)}, kinds


def _relation(connection: duckdb.DuckDBPyConnection, source: RowSource, asked: StepColumns, types: Types | None) -> str:
    texts = [name for name, is_text in texts_of(connection, source).items() if is_text]
    if types is None:
        # The counts are secret, so their type is said and not found.
        public = [name for name in asked.names if name != asked.column and name in texts]
        found = inferred(connection, public, relation_of(source), None, source.dialect)
        types = {asked.column: "BIGINT"} | found
    return typed(connection, replace(source, types={name: types[name] for name in texts if name in types}))
