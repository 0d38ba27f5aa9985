"""An empty copy of the rows in the embedded engine: what is added goes through it, so that all engines read alike."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from chary.data.columns import TypeClass
from chary.data.engines.engine import Engine
from chary.data.files.sources import RowSource
from chary.data.rows.batch import Batch

_NAMES: Final[Mapping[str, str]] = {
    TypeClass.BOOLEAN: "BOOLEAN",
    TypeClass.INTEGER: "BIGINT",
    TypeClass.FLOAT: "DOUBLE",
    TypeClass.DATE: "DATE",
    TypeClass.TIMESTAMP: "TIMESTAMP",
}


class Template:
    """Reads batches with the checks, types and messages of the embedded engine."""

    def __init__(self, embedded: Engine, source: RowSource, schema: Mapping[str, str], empty: pa.Table) -> None:
        """For rows of this schema that `source` brought; `empty` has their columns as Arrow types."""
        self._embedded = embedded
        texts = frozenset(schema) & (frozenset(schema) if source.kind == "csv" else source.objects)
        types = {name: source.types.get(name) or _NAMES[kind] for name, kind in schema.items() if kind in _NAMES}
        columns = {
            name: pa.array([], pa.string() if name in texts else empty.schema.field(name).type) for name in schema
        }
        said = source.dialect if source.kind == "csv" else source.said
        declared = {name: kind for name, kind in types.items() if name in texts}
        self._source = RowSource("frame", types=declared, frame=pa.table(columns), objects=texts, said=said)

    @property
    def reading(self) -> dict[str, Any]:
        """How texts are read, of these rows and of batches alike."""
        opened = self._embedded.open(self._source, None, None, None)
        opened.close()
        return opened.reading

    def fitted(self, batch: RowSource) -> pa.Table:
        """The rows of a batch; `SchemaMismatch` if they do not fit."""
        opened = self._embedded.open(self._source, None, None, None)
        try:
            opened.append(batch, None, _unheard)
            found: pa.Table = opened.snapshot(list(opened.schema)).run()
        finally:
            opened.close()
        return found


def local_rows(embedded: Engine, source: RowSource, unit: str | None, unpivot: tuple[str, str] | None) -> pa.Table:
    """The rows of a source that the embedded engine reads."""
    opened = embedded.open(source, unit, unpivot, None)
    try:
        found: pa.Table = opened.snapshot(list(opened.schema)).run()
    finally:
        opened.close()
    return found


def sendable(rows: pa.Table) -> pa.Table:
    """The same rows in the types of Arrow that Spark knows: whole numbers of 64 bits without a sign are decimals."""
    kinds = [pa.decimal128(20, 0) if column.type == pa.uint64() else column.type for column in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))))


def _unheard(batch: Batch) -> None:
    """Nobody waits for it."""
