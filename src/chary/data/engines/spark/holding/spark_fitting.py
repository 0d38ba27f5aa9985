"""Rows in the types that the files of a folder have."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chary.errors import SchemaMismatch


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with these columns; a value that a narrower type does not hold becomes NULL, and fails nothing.

    `SchemaMismatch` for a type of the files that such rows cannot be written in.
    """
    columns = [_fitted(rows[column.name], column) for column in schema]
    return pa.table(columns, pa.schema([column.with_nullable(True) for column in schema]))


def _fitted(cells: Any, column: Any) -> Any:
    kind = column.type
    if cells.type == kind:
        return cells
    if pa.types.is_integer(kind) and pa.types.is_integer(cells.type):
        least, most = _range(kind)
        inside = pc.and_(pc.greater_equal(cells, least), pc.less_equal(cells, most))
        return pc.if_else(inside, cells, pa.scalar(None, cells.type)).cast(kind)
    same = pa.types.is_floating, pa.types.is_timestamp, _is_text
    if any(group(kind) and group(cells.type) for group in same):
        return cells.cast(kind, safe=False)
    raise SchemaMismatch(
        f"rows cannot be appended: the files have column {column.name!r} as {kind}; nothing was written"
    )


def _range(kind: Any) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(kind)
    most = 2 ** (kind.bit_width - signed) - 1
    # Cells are of 64 bits with a sign.
    return (-most - 1 if signed else 0), min(most, 2**63 - 1)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
