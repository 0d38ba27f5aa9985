"""Bodies of requests: encoded calls, and rows that are sent."""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chary import errors
from chary.calls.call import Call, asked, read
from chary.client.files import ARROW, RowFile
from chary.data import Mean, Predicate, Query
from chary.data.queries.bodies import body_of
from chary.data.source import Folder, RowSource

# Calls and questions as JSON.


def call_said(call: Any) -> dict[str, Any]:
    """The JSON of a call; `InvalidQuery` for a call that contains code, which no service runs."""
    made = asked(call)
    try:
        body = made.body()
        read(body)
    except errors.CharyError:
        raise errors.InvalidQuery(
            f"a service runs no code of yours, so that this {made.name} is asked of a session"
        ) from None
    return body


def words_said(words: Sequence[str], question: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a question to a run, by name."""
    if len(question) > len(words):
        raise errors.InvalidQuery(f"this run is asked with {', '.join(words) or 'no words'}")
    return {name: _said(value) for name, value in [*zip(words, question, strict=False), *options.items()]}


def _said(value: Any) -> Any:
    if isinstance(value, (Query, Mean)):
        return body_of(value)
    if isinstance(value, Call):
        return call_said(value)
    if isinstance(value, Predicate):
        return value.text
    if isinstance(value, (Fraction, Decimal)):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _said(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_said(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str, date)):
        return value
    raise errors.InvalidQuery("a service runs no code of yours: ask this of a session")


# Rows as they are sent: one Arrow stream, or files as they are.


def sent_rows(rows: Any) -> tuple[bytes | RowFile, str]:
    """A frame, an Arrow table or files as the body of a request, and its media type.

    One file goes as it is, since the dataset's dialect and types read it; several Parquet files go as Arrow.
    `InvalidParameter` for anything else, and for several CSVs.

    >>> body, media = sent_rows(pa.table({"age": [70]}))
    >>> len(body) > 100, media
    (True, 'application/vnd.apache.arrow.stream')
    """
    listed = isinstance(rows, (list, tuple)) and all(isinstance(each, (str, Path)) for each in rows)
    if not listed and not isinstance(rows, (str, Path)):
        return _arrow_stream(_table(rows)), ARROW
    if not listed and Folder.named(rows) is None:
        file = RowFile.of(rows)
        return file, file.media
    source = RowSource.of(rows)
    if source.kind == "parquet":
        mismatch = errors.SchemaMismatch("the files cannot be read as Parquet files with the same columns")
        # The names of folders are no columns.
        read = errors.quietly(
            lambda: pa.concat_tables([pq.ParquetFile(path).read() for path in source.paths]), mismatch
        )
        return _arrow_stream(read), ARROW
    if len(source.paths) > 1:
        raise errors.InvalidParameter("send one CSV at a time, Parquet files, or a frame")
    return sent_rows(source.paths[0])


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
    raise errors.InvalidParameter("send rows of a file, an Arrow table, or a pandas or Polars frame")
