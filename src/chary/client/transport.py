"""HTTP requests of a client, sent again while that is safe."""

import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote as in_path

import httpx

from chary import errors
from chary.client.files import RowFile
from chary.client.problems import Refusal, error_of

_PATIENCE: Final = 60.0
_AGAIN: Final = frozenset({429, 503})
_SHORTEST, _LONGEST = 0.05, 2.0
# Seconds for which an address is tried where nothing has answered yet, and for one connection to it.
_FIRST: Final = 5.0
# Seconds that the service waits for an answer before the call becomes a job.
_WAIT: Final = 20


class Transport:
    """A connection to a service with one token.

    Guarantee: a request that could be charged is sent under an idempotency key, and repeated under the same key until
    it is answered. After `patience` seconds it raises `LedgerLocked`, and the same key can continue later. Apart from
    these only reads are repeated. Without a `patience` it is 60 seconds, but 5 where the address has answered nothing
    yet and takes no connection: nothing was sent to it.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: float | None,
        on_step: Callable[[str], None] | None,
        client: httpx.Client | None = None,
        typed: bool = True,
    ) -> None:
        """With `typed`, values come with the names of their classes, to rebuild equal ones."""
        if not isinstance(token, str) or not token.strip() or not token.isascii() or not token.isprintable():
            raise errors.InvalidParameter("a token is the text that chary token new has shown, and not empty")
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        timeout = httpx.Timeout(_WAIT + 10, connect=_FIRST)
        self._client = client or httpx.Client(base_url=url, timeout=timeout, follow_redirects=False)
        self._client.headers.update(headers)
        self._secret = token.encode()
        self._patience = _PATIENCE if patience is None else patience
        # Until something answers, an address may be a wrong one; whoever says a patience waits for it all the same.
        self._first = _FIRST if patience is None else patience
        self._answered, self._on_step = False, on_step
        self._form = {"typed": "true"} if typed else {}

    def read(self, path: str, **query: Any) -> Any:
        """Read a resource."""
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

    def once(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """Send a request that is idempotent or free."""
        told: dict[str, Any] = self._repeated(method, path, self._form, {}, json=body)
        return told

    def send(self, method: str, path: str, body: Any) -> Any:
        """Send a request that must not be repeated, once."""
        return self._repeated(method, path, {}, {}, patience=0, **({} if body is None else {"json": body}))

    def keyed(self, path: str, request: str | None, **body: Any) -> dict[str, Any]:
        """Send a body under an idempotency key (a new one if none is given) until it is answered."""
        key = f"client {secrets.token_hex(16)}" if request is None else request
        headers = {"Idempotency-Key": _key(key), "Prefer": f"wait={_WAIT}"} | body.pop("headers", {})
        until = time.monotonic() + self._patience
        while True:
            told: dict[str, Any] = self._repeated("POST", path, self._form, headers, **body)
            found = told if "job" not in told else self._waited(told["job"])
            if found is not None:
                return found
            if time.monotonic() > until:
                raise errors.LedgerLocked("the call was interrupted several times: ask again under its idempotency key")

    def append(self, path: str, request: str | None, rows: bytes | RowFile, media: str) -> int:
        """Send rows and return the version. Warn of cells that became NULL, of a key that came before, and of rows that
        the service does not keep.

        A file without an idempotency key has one of its name and contents.
        """
        if request is None and isinstance(rows, RowFile):
            request = rows.key(self._secret)
        told = self.keyed(path, request, content=rows, headers={"Content-Type": media})
        for warning in _of_appended(told):
            warnings.warn(f"version {told['version']}{warning}", errors.OwnerWarning, stacklevel=3)
        return int(told["version"])

    def chosen(self, dataset: str | None) -> str:
        """The named dataset, or the only one of the token; if there is none, the connection is closed."""
        try:
            known = [each["dataset"] for each in self.read("/v1/datasets")["items"]]
            if dataset is None and len(known) == 1:
                return str(known[0])
            if dataset not in known:
                raise errors.InvalidParameter(f"name a dataset of this token: {', '.join(known) or 'it has none'}")
        except BaseException:
            self.close()
            raise
        return str(dataset)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _waited(self, job: str) -> dict[str, Any] | None:
        """The result of a job; None if it was interrupted."""
        pause, step = _SHORTEST, ""
        while True:
            state = self._repeated("GET", f"/v1/jobs/{job}", self._form, {}, keyed=True)
            if state["step"] != step:
                step = state["step"]
                if self._on_step is not None:
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
        *,
        keyed: bool = False,
        **body: Any,
    ) -> Any:
        """The answer, at the latest after `patience` seconds; `keyed` where it is about a call that was sent before."""
        began, pause, sent = time.monotonic(), _SHORTEST, keyed
        patience = self._patience if patience is None else patience
        silent = errors.LedgerError(
            "the service does not answer"
            + ("; what was asked goes on under its key" if keyed or "Idempotency-Key" in headers else "")
        )
        while True:
            most = patience
            try:
                response = self._client.request(method, path, params=dict(query), headers=dict(headers), **body)
            except httpx.UnsupportedProtocol:
                raise errors.InvalidParameter(
                    "the address of a service begins with http:// or https://, such as http://127.0.0.1:8321"
                ) from None
            except (httpx.ConnectError, httpx.ConnectTimeout) as refused:
                # A service that has answered before may only be starting again.
                most = patience if self._answered else min(patience, self._first)
                error: Exception = silent if sent else self._nobody(refused)
            except httpx.TransportError:
                sent, error = True, silent
            else:
                sent = self._answered = True
                if response.is_success:
                    return _parsed(response)
                error = error_of(_parsed(response), response.status_code)
                if response.status_code not in _AGAIN and not isinstance(error, errors.RequestInFlight):
                    raise error
            if time.monotonic() + pause > began + most:
                raise error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _nobody(self, refused: httpx.TransportError) -> errors.LedgerError:
        """No connection could be made, so that nothing was sent. The message has the address without a password."""
        address = str(self._client.base_url.copy_with(userinfo=b"")).rstrip("/")
        told = "is the address right, and does the service run?"
        return errors.LedgerError(f"no service answers at {address} ({refused}): {told}")


def place(dataset: str, path: str = "") -> str:
    """The path of a part of a dataset."""
    return f"/v1/datasets/{in_path(dataset, safe='')}{path and '/'}{path}"


def _of_appended(told: Mapping[str, Any]) -> Iterator[str]:
    """What an answer to an append warns of; an earlier service says nothing of keys and of rows that do not stay."""
    if not told.get("new", True):
        yield " was there before under this key: nothing was added now"
    if not told.get("kept", True):
        yield " is gone when the service stops, since its appended rows live in memory: append it again then"
    for name, cells in told.get("unparsed", {}).items():
        told_cells = f"{cells:,} cells are not of its type, and are NULL"
        yield f", column {name}: {told_cells}. This is not private: for who owns the rows alone"


def _parsed(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise Refusal(response.status_code, "this is no answer of a chary service") from None


def _key(request: str) -> bytes:
    if not isinstance(request, str) or not request or not request.isprintable():
        raise errors.InvalidParameter("an idempotency key for a service is a printable string")
    quoted = request.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'.encode()
