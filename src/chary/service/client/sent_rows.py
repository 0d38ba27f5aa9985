"""Rows as they are sent: one Arrow stream, or the text of a CSV."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chary.data.failures import quietly
from chary.data.source import RowSource
from chary.errors import InvalidParameter, SchemaMismatch

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV_TEXT: Final = "text/csv"
TSV_TEXT: Final = "text/tab-separated-values"


def sent_rows(rows: Any) -> tuple[bytes, str]:
    """A frame, an Arrow table or files as the body of a request, and its media type.

    A CSV goes as it is written, unpacked, since the dataset's dialect and types read it; Parquet files go as Arrow.
    `InvalidParameter` for anything else, and for several CSVs.

    >>> body, media = sent_rows(pa.table({"age": [70]}))
    >>> len(body) > 100, media
    (True, 'application/vnd.apache.arrow.stream')
    """
    listed = isinstance(rows, (list, tuple)) and all(isinstance(each, (str, Path)) for each in rows)
    if not listed and not isinstance(rows, (str, Path)):
        return _arrow_stream(_table(rows)), ARROW
    source = RowSource.of(rows)
    if source.kind == "parquet":
        mismatch = SchemaMismatch("the files cannot be read as Parquet files with the same columns")
        # The names of folders are no columns.
        read = quietly(lambda: pa.concat_tables([pq.ParquetFile(path).read() for path in source.paths]), mismatch)
        return _arrow_stream(read), ARROW
    if source.kind != "csv" or len(source.paths) > 1:
        raise InvalidParameter("send one CSV at a time, Parquet files, or a frame")
    return _unpacked(source.paths[0]), TSV_TEXT if source.dialect.delimiter == "\t" else CSV_TEXT


def _unpacked(path: str) -> bytes:
    with pa.input_stream(path, compression="detect") as stream:
        found: bytes = stream.read()
    return found


def _arrow_stream(table: pa.Table) -> bytes:
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
    raise InvalidParameter("send rows of a file, an Arrow table, or a pandas or Polars frame")
