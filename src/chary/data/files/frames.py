"""Frames of other libraries as Arrow tables, so that what a column is does not follow from its cells."""

from datetime import date
from decimal import Decimal
from numbers import Number
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chary.errors import InvalidParameter, SchemaMismatch

_PLAIN: Final = (str, Number, np.generic, Decimal, date, UUID)
_PER_SECOND: Final = {"s": 1, "ms": 10**3}
# Microseconds in 64 bits with a sign.
_LARGEST: Final = 2**63 - 1


def arrow(source: Any) -> tuple[pa.Table, frozenset[str]]:
    """A pandas, Polars or Arrow table as an Arrow table, and the names of its columns that are texts without a type.

    Those are the object columns of pandas, which may hold anything: each text, number, date or UUID is read as its own
    text, any other cell is NULL. `InvalidParameter` for what is no table.
    """
    if type(source).__module__.partition(".")[0] == "pandas":
        return _pandas(source)
    if not hasattr(source, "__arrow_c_stream__"):
        raise InvalidParameter(
            f"a source is a path, a list of paths, or a pandas, Polars or Arrow table, not {type(source).__name__}"
        )
    return _in_range(pa.table(source)), frozenset()


def _pandas(source: Any) -> tuple[pa.Table, frozenset[str]]:
    names = {name: str(name) for name in source.columns}
    if len(set(names.values())) < len(source.columns):
        raise SchemaMismatch("two columns of the frame have the same name")
    objects = [name for name in names if source[name].dtype == object]
    rest = pa.Table.from_pandas(source.drop(columns=objects), preserve_index=False)
    columns = {told: rest.column(told) if name not in objects else _texts(source[name]) for name, told in names.items()}
    return _in_range(pa.table(columns)), frozenset(names[name] for name in objects)


def _texts(cells: Any) -> Any:
    return pa.array([_text(cell) for cell in cells], pa.string())


def _text(cell: Any) -> str | None:
    # Missing numbers and moments differ from themselves; a decimal may refuse to be compared.
    if not isinstance(cell, _PLAIN) or (not isinstance(cell, Decimal) and cell != cell):
        return None
    told = str(cell)
    return told if told.isascii() or told.encode("utf-8", "ignore").decode() == told else None


def _in_range(table: pa.Table) -> pa.Table:
    """Moments and durations that the engine cannot count in microseconds become NULL; it would fail on them."""
    for place, column in enumerate(table.schema):
        kind = column.type
        if _coarse(kind):
            cells = _fitting(table.column(place), _LARGEST // (10**6 // _PER_SECOND[kind.unit]))
            table = table.set_column(place, column.with_nullable(True), cells)
    return table


def _coarse(kind: Any) -> bool:
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return (zoned or pa.types.is_duration(kind)) and kind.unit in _PER_SECOND


def _fitting(cells: Any, most: int) -> Any:
    numbers = pc.fill_null(cells.cast(pa.int64()), most + 1).to_numpy()
    missing = (numbers > most) | (numbers < -most)
    # The engine also converts what lies, unseen, in the place of a NULL.
    return pa.array(np.where(missing, 0, numbers), mask=missing).view(cells.type)
