"""Rows that a custodian sends: an Arrow stream, JSON objects, a CSV. What is wrong with them is told without them."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from chary.data.predicates.conditions import read_date, read_timestamp
from chary.errors import SchemaMismatch
from chary.service.wire.strict_json import check_fields, parsed_body

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV_TEXT: Final = "text/csv"
TSV_TEXT: Final = "text/tab-separated-values"
# Of a dataset of which no dialect was said, the name of a batch tells whether tabs part its cells.
_FILES: Final = {CSV_TEXT: "rows.csv", TSV_TEXT: "rows.tsv"}
# What JSON has no word for comes as text.
_READ: Final[Mapping[str, Callable[[str], Any]]] = {"date": read_date, "timestamp": read_timestamp}


@contextmanager
def brought_rows(media: str, raw: bytes, schema: Mapping[str, str]) -> Iterator[pa.Table | str]:
    """The rows of a body, as what a session appends; `SchemaMismatch` for what is no table of these columns.

    A CSV is a file of this user alone while the block runs, and the session reads it as it reads every CSV: by the
    types and the dialect that its dataset was opened with.

    >>> with brought_rows("application/json", b'{"rows": [{"age": 70}]}', {"age": "int64"}) as rows:
    ...     rows.num_rows
    1
    """
    if media not in _FILES:
        yield _of_arrow(raw) if media == ARROW else _of_json(raw, schema)
        return
    with tempfile.TemporaryDirectory(prefix="chary-rows-") as folder:
        place = Path(folder) / _FILES[media]
        place.write_bytes(raw)
        yield str(place)


def _of_arrow(raw: bytes) -> pa.Table:
    try:
        with pa.ipc.open_stream(raw) as stream:
            table: pa.Table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        table = None
    if table is None:
        raise SchemaMismatch("the body is no Arrow stream of one table")
    return table


def _of_json(raw: bytes, schema: Mapping[str, str]) -> pa.Table:
    body = parsed_body(raw)
    rows = body.get("rows")
    check_fields(body, ["rows"], 'rows are sent as {"rows": [{...}, ...]}')
    if not isinstance(rows, list) or not rows:
        raise SchemaMismatch('rows are sent as {"rows": [{...}, ...]}')
    if not all(isinstance(row, dict) and row.keys() == schema.keys() for row in rows):
        raise SchemaMismatch(f"each row has the columns {', '.join(schema)}, and no other")
    try:
        table = pa.table({name: [_cell(row[name], kind) for row in rows] for name, kind in schema.items()})
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        table = None
    if table is None:
        raise SchemaMismatch("a column of these rows has values of several types, or of another one than declared")
    return table


def _cell(value: Any, kind: str) -> Any:
    read = _READ.get(kind)
    if read is None or value is None:
        return value
    if (found := read(value)) is None:
        raise ValueError
    return found
