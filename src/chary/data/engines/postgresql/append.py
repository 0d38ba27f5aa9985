"""Batches appended to a table of a PostgreSQL server: all of the rows, or none."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from chary.data.columns import SQL_TYPES, TypeClass, Unparsed, listed, quote
from chary.data.engines import batches
from chary.data.engines.batches import KEPT, KEPT_COLUMNS, Notes, Run
from chary.data.engines.postgresql import catalog, connection
from chary.data.engines.protocol import Engine
from chary.data.engines.sql import ROWS, Column, SmallTable
from chary.data.rows import Arrival, Batch, EntryLimit
from chary.data.source import RowSource
from chary.errors import EngineError, SchemaMismatch, quietly

# Tables that can grow without a row that makes that fail, and the rights that it takes.

_RIGHT: Final = "SELECT has_table_privilege($1::oid, 'INSERT')"
# An index takes any value if it has no condition and no expression, is not unique, and its columns are of one length.
_LIMITS: Final = """
SELECT 'constraint' FROM pg_constraint WHERE conrelid = $1 UNION
SELECT 'not null' FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attnotnull UNION
SELECT 'cast of an enumeration' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_cast k ON t.oid IN (k.castsource, k.casttarget) WHERE a.attrelid = $1 AND t.typtype = 'e' UNION
SELECT 'trigger' FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal UNION
SELECT 'rule' FROM pg_rewrite WHERE ev_class = $1 UNION
SELECT 'partition' FROM pg_class WHERE oid = $1 AND (relispartition OR relkind <> 'r') UNION
SELECT 'column that the role may not read' FROM pg_attribute
WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND NOT has_column_privilege(attrelid, attnum, 'SELECT') UNION
SELECT 'index' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  OR m.amname NOT IN ('btree', 'hash', 'brin')
  OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attlen < 0))
ORDER BY 1
"""


def check_growable(cursor: connection.Cursor, relation: catalog.FoundRelation) -> None:
    """`EngineError` for a missing right, `SchemaMismatch` for a table that may refuse a row.

    It would because of others, which it would tell of, or of itself.
    """
    [(may,)] = cursor.execute(_RIGHT, [relation.oid]).fetchall()
    if not may:
        raise EngineError("rows cannot be appended: the role lacks the right to INSERT; nothing was written")
    found = {what for (what,) in cursor.execute(_LIMITS, [relation.oid]).fetchall()}
    found |= {"domain" for column in relation.columns if column.domain}
    found |= {"generated column" for column in relation.columns if column.generated}
    if found:
        raise SchemaMismatch(
            f"rows cannot be appended to {relation.schema}.{relation.name}, which has: {listed(sorted(found))}. "
            "Whether it takes a row may follow from the rows, and a refusal would tell of them; copy it into a table "
            "without them. Nothing was written"
        )


# Values that arrive, as values of the columns of a table: what does not fit there is NULL, and nothing fails.

# As which array the values of a class are sent; moments as numbers, since Python's calendar ends before the server's.
ARRAYS: Final = catalog.SERVER_TYPES | {TypeClass.DATE: "integer", TypeClass.TIMESTAMP: "bigint"}
_DAYS: Final = (-2_440_588, 2_145_042_905)
_ENDLESS: Final = 2**31 - 1
_ENDLESS_MICROSECONDS: Final = 2**63 - 1
_DAY: Final = 86_400_000_000
_INTEGERS: Final = {"int2": 2**15, "int4": 2**31}


def arrays_of(rows: pa.Table, types: Mapping[str, str]) -> dict[str, list[Any]]:
    """The columns as lists that can be sent; strings with NUL, which the server does not have, are NULL."""
    return {name: _sendable(rows[name], kind) for name, kind in types.items()}


def _sendable(column: Any, kind: str) -> list[Any]:
    if pa.types.is_null(column.type):
        return [None] * len(column)
    if kind == "string":
        texts = column.cast(pa.string())
        column = pc.if_else(pc.match_substring(texts, "\0"), pa.scalar(None, pa.string()), texts)
    elif kind in ("date", "timestamp"):
        column = column.combine_chunks().view(pa.int32() if kind == "date" else pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def fitted(column: catalog.Stored, read: Column, cell: str) -> str:
    """SQL that makes a value of the column's type of a cell of its class; `SchemaMismatch` for a type without one."""
    kind, modifier = column.type, column.modifier
    if read.type not in ARRAYS:
        raise SchemaMismatch(f"column {column.name!r} is of type {column.shown}, for which no rows can be appended")
    if kind in _INTEGERS:
        return f"CASE WHEN {cell} >= -{_INTEGERS[kind]} AND {cell} < {_INTEGERS[kind]} THEN CAST({cell} AS {kind}) END"
    if kind == "float4":
        small = f"WHEN {cell} <> 0 AND abs({cell}) < 1.5e-45 THEN 0"
        large = f"WHEN abs({cell}) > 3.4028235e38 AND abs({cell}) < CAST('Infinity' AS double precision) THEN NULL"
        return f"CASE {small} {large} ELSE CAST({cell} AS real) END"
    if kind == "numeric":
        return _numeric(cell, modifier)
    if kind in ("varchar", "bpchar") and modifier >= 0:
        return f"CASE WHEN char_length({cell}) <= {modifier - 4} THEN {cell} END"
    if column.kind == "e":
        labels = f"CAST(enum_range(CAST(NULL AS {column.shown})) AS text[])"
        return f"CASE WHEN {cell} = ANY ({labels}) THEN CAST({cell} AS {column.shown}) END"
    return {"date": _date, "timestamp": _timestamp}.get(kind, lambda plain: plain)(cell)


def _numeric(cell: str, modifier: int) -> str:
    finite = f"WHEN abs({cell}) = CAST('Infinity' AS double precision) THEN NULL"
    if modifier < 0:
        return f"CASE {finite} ELSE CAST({cell} AS numeric) END"
    digits, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    # The scale has eleven bits, of which the highest is a sign.
    scale -= 2 * (scale & 0x400)
    rounded = f"round(CAST({cell} AS numeric), {scale})"
    return f"CASE {finite} WHEN abs({rounded}) < CAST('1e{digits - scale}' AS numeric) THEN {rounded} END"


def _date(cell: str) -> str:
    ends = f"WHEN {cell} >= {_ENDLESS} THEN 'infinity' WHEN {cell} <= -{_ENDLESS} THEN '-infinity'"
    first, last = _DAYS
    there = f"WHEN {cell} >= {first} AND {cell} <= {last} THEN CAST('1970-01-01' AS date) + {cell}"
    return f"CASE {ends} {there} END"


def _timestamp(cell: str) -> str:
    most = _ENDLESS_MICROSECONDS
    ends = f"WHEN {cell} >= {most} THEN 'infinity' WHEN {cell} <= -{most} THEN '-infinity'"
    # Whole days and the rest of one: a product with an interval is a double, which does not hold all microseconds.
    day, rest = f"floor({cell} / CAST({_DAY} AS numeric))", f"mod(mod({cell}, {_DAY}) + {_DAY}, {_DAY})"
    moment = (
        f"CAST(CAST('1970-01-01' AS date) + CAST({day} AS integer) AS timestamp) + {rest} * interval '1 microsecond'"
    )
    first, last = (edge * _DAY for edge in (_DAYS[0], 106751990))
    return f"CASE {ends} WHEN {cell} >= {first} AND {cell} < {last} THEN {moment} END"


# Which batches of rows were appended: kept in a table beside the rows and written in their transaction.

_THERE = """
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
"""
_MAY_CREATE = "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1"


@dataclass(frozen=True)
class ServerBatches(Notes):
    """See `Notes`: they are in the same schema."""

    schema: str = ""

    @classmethod
    def of(cls, relation: catalog.FoundRelation) -> "ServerBatches":
        """Those of a relation."""
        return cls(f"{quote(relation.schema)}.{KEPT}", relation.name, relation.sql, schema=relation.schema)

    def readable(self, run: Run) -> bool:
        rights = run(_THERE, [self.schema, KEPT])
        return bool(rights and rights[0][0])

    def prepare(self, run: Run) -> None:
        """Let one writer in at a time, and make the table where there is none; `EngineError` for a missing right."""
        run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [f"{self.table} {self.name}"])
        rights = run(_THERE, [self.schema, KEPT])
        if not rights:
            [(may,)] = run(_MAY_CREATE, [self.schema])
            if not may:
                raise _lacking(f"CREATE on the schema {self.schema!r}, or a table {KEPT} there {KEPT_COLUMNS}")
            run(f"CREATE TABLE {self.table} {KEPT_COLUMNS}", ())
        elif not all(rights[0]):
            raise _lacking(f"SELECT and INSERT on {self.schema}.{KEPT}")


def _lacking(right: str) -> EngineError:
    return EngineError(f"rows cannot be appended: the role lacks the right to {right}; nothing was written")


# Looking for units with too many rows, at the server.

_AMONG = "chary_entered"
_COUNTED = (TypeClass.INTEGER, TypeClass.STRING)


def check_entry_counts(
    cursor: connection.Cursor, rows: catalog.StoredRows, limit: EntryLimit, among: Sequence[Any] | None = None
) -> None:
    """`SchemaMismatch`, naming nobody, if a unit (one of `among`, if given) is in too many rows."""
    kind = rows.schema.get(limit.of, _COUNTED[0])
    if kind not in _COUNTED:
        raise SchemaMismatch(f"the units of entries in {limit.of!r} are no integers or strings")
    sent, chosen = list[SmallTable](), None
    if among is not None:
        sent = [SmallTable(_AMONG, {"unit": (kind, [each for each in among if each is not None])})]
        chosen = f"SELECT unit FROM {_AMONG}"
    found = partial(rows.execute, cursor, sent=sent)
    batches.check_entries(limit, rows.schema, ROWS, quote(limit.of), chosen, found)


# Adding rows to a table of a server: all of them, or none.

# Rows a statement: its arrays stay far below what one parameter may hold.
_ROWS: Final = 50_000
# The type of a column of nothing but NULL in an Arrow table: it fits every column.
_UNTYPED: Final = '"null"'


def append(
    embedded: Engine,
    server: connection.Server,
    rows: catalog.StoredRows,
    limit: EntryLimit | None,
    source: RowSource,
    request: str | None,
    arrive: Arrival,
) -> Batch:
    """Check the rows here, in the engine of this process, and write them and their batch in one transaction.

    One writer writes at a time; `arrive` is reported after the commit.
    """
    if rows.long:
        raise SchemaMismatch("rows cannot be appended to a table that was unpivoted; nothing was written")
    arrived, unparsed = _read(embedded, source, rows)
    kept = ServerBatches.of(rows.relation)

    def write(cursor: connection.Cursor) -> Batch:
        run = partial(connection.fetched, cursor)
        kept.prepare(run)
        held = kept.asked(run, request)
        if held is not None:
            return held
        _insert(cursor, rows, arrived)
        if limit is not None:
            units = arrays_of(arrived, {limit.of: rows.schema[limit.of]})
            check_entry_counts(cursor, rows, limit, units[limit.of])
        return replace(kept.add(run, request), unparsed=unparsed)

    batch = quietly(lambda: server.write(write), batches.undone())
    arrive(batch)
    return batch


def _insert(cursor: connection.Cursor, rows: catalog.StoredRows, arrived: pa.Table) -> None:
    check_growable(cursor, rows.relation)
    sql = _insertion(rows)
    for start in range(0, len(arrived), _ROWS):
        cursor.execute(sql, list(arrays_of(arrived.slice(start, _ROWS), rows.schema).values()))


def _read(embedded: Engine, source: RowSource, rows: catalog.StoredRows) -> tuple[pa.Table, Mapping[str, Unparsed]]:
    """The rows that arrive as an Arrow table of the classes' types, and by column which strings are not of them.

    `SchemaMismatch` unless they fit the table."""
    names = quietly(lambda: _names(embedded, source), batches.unfit())
    batches.check_names(rows.schema, names, source.kind == "csv")
    types = {name: SQL_TYPES[kind] for name, kind in rows.schema.items() if kind in SQL_TYPES}
    read = {name: kind for name, kind in types.items() if source.kind == "csv" or name in source.objects}
    with closing(
        quietly(lambda: embedded.open(replace(source, types=read), rows.unit, None, None), batches.unfit())
    ) as held:
        untyped = {name for name, kind in held.schema.items() if kind == _UNTYPED}
        batches.check_types(rows.schema, held.schema, untyped)
        return _as(held.snapshot(list(rows.schema)).run(), rows.schema, untyped), held.unparsed


def _names(embedded: Engine, source: RowSource) -> list[str]:
    if source.kind == "frame":
        return list(source.frame.column_names)
    with closing(embedded.open(replace(source, types={}), None, None, None)) as held:
        return list(held.schema)


def _as(arrived: pa.Table, schema: dict[str, str], untyped: set[str]) -> pa.Table:
    """With columns of nothing as such, and integers as floats where the table has floats."""
    for place, (name, kind) in enumerate(schema.items()):
        if name in untyped:
            arrived = arrived.set_column(place, name, pa.nulls(len(arrived)))
        elif kind == "float64" and pa.types.is_integer(arrived[name].type):
            arrived = arrived.set_column(place, name, arrived[name].cast(pa.float64(), safe=False))
    return arrived


def _insertion(rows: catalog.StoredRows) -> str:
    names = list(rows.schema)
    columns = zip(rows.relation.columns, rows.columns, strict=True)
    values = ", ".join(fitted(stored, read, f"sent.c{place}") for place, (stored, read) in enumerate(columns))
    arrays = ", ".join(
        f"CAST(${place + 1} AS {ARRAYS[TypeClass(kind)]}[])" for place, kind in enumerate(rows.schema.values())
    )
    cells = ", ".join(f"c{place}" for place in range(len(names)))
    into = f"{rows.relation.sql} ({', '.join(map(quote, names))})"
    return f"INSERT INTO {into} SELECT {values} FROM unnest({arrays}) AS sent({cells})"
