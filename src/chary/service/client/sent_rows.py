"""Rows as they are sent: one Arrow stream."""

from typing import Any, Final

import pyarrow as pa

from chary.errors import InvalidParameter

ARROW: Final = "application/vnd.apache.arrow.stream"


def arrow_stream(rows: Any) -> bytes:
    """A frame or an Arrow table as a stream; `InvalidParameter` for anything else, such as the name of a file.

    >>> len(arrow_stream(pa.table({"age": [70]}))) > 100
    True
    """
    table = _table(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _table(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    raise InvalidParameter("send rows of an Arrow table, or of a pandas or Polars frame")
