"""HTTP requests of a client: encoded calls, and rows that are sent."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from chary import errors
from chary.calls.call import Call, asked, read
from chary.client.wire import Refusal, error_of
from chary.data import Mean, Predicate, Query
from chary.data.queries.bodies import body_of
from chary.data.source import RowSource

# Requests to a service: sent again while that is safe; long calls waited for; problems raised as chary's errors.

_AGAIN: Final = frozenset({429, 503})
_SHORTEST, _LONGEST = 0.05, 2.0
# How long the service is asked to wait for an answer before it makes a job of the call.
_WAIT: Final = 20


class Transport:
    """A connection to a service under one token.

    Guarantee: what could be charged twice is sent under a request key, again and again under the same one until it is
    answered or `patience` seconds have passed: then `LedgerLocked`, and the same key goes on later. Nothing else is
    repeated but reading.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: float,
        on_step: Callable[[str], None],
        client: httpx.Client | None = None,
    ) -> None:
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise errors.InvalidParameter("a token is the text that chary token new has shown")
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._client = client or httpx.Client(base_url=url, timeout=_WAIT + 10, follow_redirects=False)
        self._client.headers.update(headers)
        self._patience, self._on_step = patience, on_step

    def read(self, path: str, **query: Any) -> Any:
        """What is there."""
        return self._repeated("GET", path, query, {})

    def pages(self, path: str) -> list[dict[str, Any]]:
        """All items of a list that comes in pages."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.read(path, after=after, limit=500)
            found += page["items"]
            after = page["next"]
        return found

    def once(self, method: str, path: str, body: Any) -> Any:
        """Do something that is the same done twice, or free."""
        return self._repeated(method, path, {"typed": "true"}, {}, json=body)

    def send(self, method: str, path: str, body: Any) -> Any:
        """Do something that two times are not the same: sent once, whatever becomes of it."""
        return self._repeated(method, path, {}, {}, patience=0, **({} if body is None else {"json": body}))

    def asked(self, path: str, body: Any, request: str | None) -> dict[str, Any]:
        """Ask under a request key, until there is an answer."""
        return self.keyed(path, request, json=body)

    def keyed(self, path: str, request: str | None, **body: Any) -> dict[str, Any]:
        """Send a body under a request key, one of its own where none is given."""
        key = f"client {secrets.token_hex(16)}" if request is None else request
        headers = {"Idempotency-Key": _key(key), "Prefer": f"wait={_WAIT}"} | body.pop("headers", {})
        until = time.monotonic() + self._patience
        while True:
            told: dict[str, Any] = self._repeated("POST", path, {"typed": "true"}, headers, **body)
            found = told if "job" not in told else self._waited(told["job"])
            if found is not None:
                return found
            if time.monotonic() > until:
                raise errors.LedgerLocked("the call was interrupted again and again: ask again under its request key")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _waited(self, job: str) -> dict[str, Any] | None:
        """The result of a job; None for one that was interrupted."""
        pause, step = _SHORTEST, ""
        while True:
            state = self.read(f"/v1/jobs/{job}", typed="true")
            if state["step"] != step:
                step = state["step"]
                self._on_step(step)
            if state["state"] == "failed":
                raise error_of(state["problem"], state["problem"].get("status", 500))
            if state["state"] != "running":
                result: dict[str, Any] | None = state.get("result")
                return result
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _repeated(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, Any],
        patience: float | None = None,
        **body: Any,
    ) -> Any:
        until, pause = time.monotonic() + (self._patience if patience is None else patience), _SHORTEST
        while True:
            try:
                response = self._client.request(method, path, params=dict(query), headers=dict(headers), **body)
            except httpx.TransportError:
                error: Exception = errors.LedgerError(
                    "the service does not answer; what was asked goes on under its key"
                )
            else:
                if response.is_success:
                    return _parsed(response)
                error = error_of(_parsed(response), response.status_code)
                if response.status_code not in _AGAIN and not isinstance(error, errors.RequestInFlight):
                    raise error
            if time.monotonic() + pause > until:
                raise error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)


def _parsed(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise Refusal(response.status_code, "this is no answer of a chary service") from None


def _key(request: str) -> bytes:
    if not isinstance(request, str) or not request or not request.isprintable():
        raise errors.InvalidParameter("a request key for a service is a printable text")
    quoted = request.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'.encode()


# What is asked, as JSON that a service reads.


def call_said(call: Any) -> dict[str, Any]:
    """The body of a call; `InvalidQuery` for what brings code of its author's, which no service runs."""
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


# Rows as they are sent: one Arrow stream, or the text of a CSV.

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
        mismatch = errors.SchemaMismatch("the files cannot be read as Parquet files with the same columns")
        # The names of folders are no columns.
        read = errors.quietly(
            lambda: pa.concat_tables([pq.ParquetFile(path).read() for path in source.paths]), mismatch
        )
        return _arrow_stream(read), ARROW
    if source.kind != "csv" or len(source.paths) > 1:
        raise errors.InvalidParameter("send one CSV at a time, Parquet files, or a frame")
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
    raise errors.InvalidParameter("send rows of a file, an Arrow table, or a pandas or Polars frame")
