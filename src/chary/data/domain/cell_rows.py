"""In which cell of each column of a universe the rows lie."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chary.data.columns import Schema, TypeClass, classify
from chary.data.domain.axes import Axis, Bins, Categories, ends_of
from chary.data.domain.universe import Universe


@dataclass(frozen=True, eq=False)
class CellRows:
    """For each column of a universe, the cell of each row; secret."""

    codes: tuple[NDArray[np.intp], ...]
    size: int

    @classmethod
    def of(cls, table: pa.Table, universe: Universe, schema: Schema) -> "CellRows":
        """Where the rows of a table lie."""
        codes = [_codes(axis, classify(schema, name), table.column(name)) for name, axis in universe.columns]
        return cls(tuple(codes), table.num_rows)

    def __repr__(self) -> str:
        return "CellRows(<secret>)"


def _codes(axis: Axis, kind: TypeClass, column: pa.ChunkedArray) -> NDArray[np.intp]:
    """The cell of each value; the one after all declared ones for NULL and what is not declared."""
    if isinstance(axis, Bins):
        return _binned(axis, kind, column)
    assert isinstance(axis, Categories)
    values = pa.array(axis.values, pa.type_for_alias(kind))
    found = pc.index_in(column.cast(values.type), value_set=values).fill_null(axis.declared)
    return np.asarray(found.to_numpy(), np.intp)


def _binned(axis: Bins, kind: TypeClass, column: pa.ChunkedArray) -> NDArray[np.intp]:
    numbers = column.fill_null(0).to_numpy()
    edges = np.array(ends_of(axis, kind))
    codes = np.searchsorted(edges, numbers, side="right") - 1
    if axis.outside == "edges":
        codes = codes.clip(0, axis.declared - 1)
    return np.where((codes < 0) | (codes >= axis.declared) | column.is_null().to_numpy(), axis.declared, codes)
