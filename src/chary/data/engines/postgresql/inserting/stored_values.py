"""Values that arrive, as values of the columns of a table: what does not fit there is NULL, and nothing fails."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from chary.data.engines.postgresql.tables.relation import Stored
from chary.data.engines.postgresql.tables.stored_types import ReadColumn
from chary.errors import SchemaMismatch

# As which array the values of a class are sent; moments as numbers, since Python's calendar ends before the server's.
ARRAYS: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int64": "bigint",
    "float64": "double precision",
    "string": "text",
    "date": "integer",
    "timestamp": "bigint",
}
_DAYS: Final = (-2_440_588, 2_145_042_905)
_ENDLESS: Final = 2**31 - 1
_ENDLESS_MICROSECONDS: Final = 2**63 - 1
_DAY: Final = 86_400_000_000
_INTEGERS: Final = {"int2": 2**15, "int4": 2**31}


def arrays_of(rows: pa.Table, types: Mapping[str, str]) -> dict[str, list[Any]]:
    """The columns as lists that can be sent; texts with NUL, which the server does not have, are NULL."""
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


def fitted(column: Stored, read: ReadColumn, cell: str) -> str:
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
