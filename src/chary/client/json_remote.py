"""A remote session whose calls and answers are JSON: it needs no library but httpx, and no other part of chary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from chary.client.files import CSV_TEXT, RowFile
from chary.client.transport import Transport, place


def connect_json(
    url: str,
    token: str,
    *,
    dataset: str | None = None,
    patience: float | None = None,
    on_step: Callable[[str], None] | None = None,
    client: httpx.Client | None = None,
) -> "JSONRemote":
    """Ask a service in JSON: `connect_json("http://127.0.0.1:8321", token).ask({"kind": "release", ...})`.

    Options and errors are those of `chary.connect`, and so are idempotency keys: nothing is paid twice.
    """
    transport = Transport(url, token, patience=patience, on_step=on_step, client=client, typed=False)
    return JSONRemote(transport, transport.chosen(dataset))


@dataclass(frozen=True)
class JSONRemote:
    """Questions to one dataset of a service, as JSON; made by `connect_json`.

    Calls are written as `GET /v1/kinds` of the service describes them, and answers come as its HTTP interface has
    them. A call without `request` has a key of its own.
    """

    _transport: Transport = field(repr=False)
    dataset: str

    def ask(self, call: Mapping[str, Any], *, request: str | None = None) -> dict[str, Any]:
        """Ask a call: the figures of its answer and their cost, as the command prints them with --json."""
        return self._transport.keyed(self._at("calls"), request, json=dict(call))

    def quote(self, call: Mapping[str, Any], **terms: Any) -> dict[str, Any]:
        """What a call would cost and how accurate it would be; `terms` as in `Session.quote`, numbers as strings."""
        return self._transport.once("POST", self._at("quotes"), {"call": dict(call)} | terms)

    def start(self, opening: Mapping[str, Any], *, request: str | None = None) -> dict[str, Any]:
        """Open a run: its number, `run`, and the `words` that a question says."""
        return self._transport.keyed(self._at("runs"), request, json=dict(opening))

    def question(self, run: int, words: Mapping[str, Any], *, request: str | None = None) -> dict[str, Any]:
        """Ask a run."""
        return self._transport.keyed(self._at(f"runs/{run}/questions"), request, json=dict(words))

    def learn(self, run: int, lesson: Mapping[str, Any], *, request: str | None = None) -> dict[str, Any]:
        """Teach a public histogram, for free: `{"where": "age >= 65", "low": "0.2", "high": "0.3"}`."""
        return self._transport.keyed(self._at(f"runs/{run}/lessons"), request, json=dict(lesson))

    def read(self, path: str = "", **query: Any) -> Any:
        """What is there, below the dataset: "schema", "budget", "statement", "report", "calls/7" or "runs/7"."""
        return self._transport.read(self._at(path), **query)

    def pages(self, path: str) -> list[dict[str, Any]]:
        """A whole list, below the dataset: "calls", "runs", "versions", "standing" or "feed"."""
        return self._transport.pages(self._at(path))

    def append(self, rows: bytes | str | Path, *, media: str | None = None, request: str | None = None) -> int:
        """Add a batch of rows: the path of a file (CSV, TSV, Parquet, Arrow), or the bytes of one. Its version.

        `media` is the type of bytes that are no CSV, and of a file whose ending does not say it. A file without
        `request` has a key of its name, its contents and the token, so that it is added once. For custodians; as
        `Remote.append`.
        """
        if isinstance(rows, bytes):
            return self._transport.append(self._at("appends"), request, rows, media or CSV_TEXT)
        file = RowFile.of(rows, media)
        return self._transport.append(self._at("appends"), request, file, file.media)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _at(self, path: str) -> str:
        return place(self.dataset, path)
