"""A session whose rows and ledger are elsewhere: the same questions, the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote as in_path

import httpx

from chary.answers import Spending, handed_out
from chary.calls.answers import Conditional
from chary.calls.call import AnswerT, Call
from chary.calls.run import Opening, OpenRun
from chary.calls.thresholds import Revise
from chary.core.quote import Alternative, compared_with
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number
from chary.service.client.remote_figures import RemoteFigures
from chary.service.client.remote_run import RemoteRun
from chary.service.client.said import call_said, words_said
from chary.service.client.sent_rows import sent_rows
from chary.service.client.transport import Transport
from chary.service.wire.typed_values import of_typed
from chary.session import Quote
from chary.session.session import Verbs

PATIENCE: Final = 60.0


def connect(
    url: str,
    token: str,
    *,
    dataset: str | None = None,
    patience: float = PATIENCE,
    on_step: Callable[[str], None] | None = None,
    client: httpx.Client | None = None,
) -> Remote:
    """Ask a service: `chary.connect("http://127.0.0.1:8321", token).ask(call)`, as a session is asked.

    `dataset` is needed where the token is for several. A request is sent again for `patience` seconds while the service
    does not answer; since each goes under a request key, nothing is paid twice. `on_step` is told the steps of calls
    that take long. `client` is an `httpx.Client` of yours, with the address, for proxies and certificates.

    Errors: those of sessions; `CharyError` for a token that is not valid.
    """
    transport = Transport(url, token, patience=patience, on_step=on_step or _quiet, client=client)
    try:
        return Remote(
            transport, _chosen([each["dataset"] for each in transport.read("/v1/datasets")["items"]], dataset)
        )
    except BaseException:
        transport.close()
        raise


@dataclass(frozen=True)
class Remote(Verbs, RemoteFigures):
    """Questions to one dataset of a service; made by `chary.connect`.

    What is asked, quoted, started and resumed, and every answer, is as in a `Session` by the name of the token's
    analyst; see there. A call without `request` has a key of its own. Calls that bring code, such as algorithms, are
    for sessions alone (`InvalidQuery`).
    """

    def ask(self, call: Call[AnswerT], *, request: str | None = None) -> AnswerT:
        """Ask any call; as `Session.ask`."""
        if isinstance(call, Opening):
            raise InvalidQuery("start what stays open, such as chary.calls.SparseVector(...)")
        answer: AnswerT = self._answered(self._transport.asked(self._at("calls"), call_said(call), request))
        return answer

    def quote(
        self,
        call: Call[Any],
        *,
        distance: Number | None = None,
        tests: int | None = None,
        truth: Number | None = None,
        hits: int | None = None,
        confidence: Number = "0.95",
    ) -> Quote:
        """What a call would cost and how accurate it would be; terms and figures as in `Session.quote`."""
        numbers = {"distance": distance, "truth": truth, "confidence": confidence}
        said = {name: None if value is None else str(value) for name, value in numbers.items()}
        body = {"call": call_said(call), "tests": tests, "hits": hits} | said
        return compared_with(self.quoted("quotes", body), partial(self._alternatives, body))

    def start(self, opening: Opening[Any], *, request: str | None = None, follow: bool = False) -> RemoteRun:
        """Open what stays open; as `Session.start`, but that nothing follows."""
        if follow:
            raise InvalidParameter("a service asks again by itself where a question stands: leave follow= out")
        if not isinstance(opening, Opening):
            raise InvalidQuery("start what stays open, such as chary.calls.SparseVector(...); ask other calls")
        return RemoteRun(self, self._transport.asked(self._at("runs"), call_said(opening), request))

    def resume(self, call: int) -> RemoteRun:
        """Go on with a run; `UnknownHeld` for a call that opened none, or one that is not yours."""
        return RemoteRun(self, self.told_run(call))

    @property
    def runs(self) -> list[OpenRun]:
        """The runs that can be gone on with, oldest first."""
        found = self._transport.pages(self._at("runs"))
        return [OpenRun(each["run"], each["kind"]) for each in found]

    def stand(
        self,
        call: Call[Any] | None = None,
        *,
        run: RemoteRun | None = None,
        question: Mapping[str, Any] | None = None,
        every: str,
        share: Number,
        tell: str = "hits",
        webhook: str | None = None,
        request: str | None = None,
    ) -> dict[str, Any]:
        """Let the service ask by itself: a call, or a `question` (its words) to a `run`; what stands then, as figures.

        `every` is "append" or a crontab in UTC, such as "0 6 * * mon". It is asked once about each version of the rows,
        and all its calls together are charged at most `share` of the budget. `tell="all"` tells of misses too. What it
        finds is in `news`, and is sent to a `webhook` that the service's chary.toml names. Under a `request` that came
        before, nothing is made: what stands under it is told again.
        """
        said: dict[str, Any] = {"every": every, "share": str(share), "tell": tell, "webhook": webhook}
        if call is not None:
            said["call"] = call_said(call)
        if run is not None:
            said |= {"run": run.call, "question": words_said(run.words, (), question or {})}
        found: dict[str, Any] = self._transport.keyed(self._at("standing"), request, json=said)
        return found

    def end(self, standing: str) -> None:
        """End a standing question of your own."""
        self._transport.send("DELETE", self._at(f"standing/{in_path(standing, safe='')}"), None)

    def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows: a frame, an Arrow table, a CSV or Parquet files, which are read here and sent.

        Its version. For custodians; as `Session.append`.
        """
        content, media = sent_rows(rows)
        body = {"content": content, "headers": {"Content-Type": media}}
        return int(self._transport.keyed(self._at("appends"), request, **body)["version"])

    def set_share(self, analyst: str, share: Number) -> None:
        """Cap one analyst at a share of the budget. For custodians."""
        self._transport.once("PUT", self._at(f"shares/{in_path(analyst, safe='')}"), {"share": str(share)})

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def question(self, run: int, body: Mapping[str, Any], request: str | None) -> Any:
        """Ask a run: `RemoteRun.ask`."""
        return self._answered(self._transport.asked(self._at(f"runs/{run}/questions"), body, request))

    def quoted(self, path: str, body: Mapping[str, Any]) -> Quote:
        """A quote, of a call without what else would do."""
        found: Quote = of_typed(self._transport.once("POST", self._at(path), body)["typed"])
        return found

    def told_run(self, run: int) -> dict[str, Any]:
        """What is public of a run now."""
        told: dict[str, Any] = self._transport.read(self._at(f"runs/{run}"), typed="true")
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _answered(self, told: Mapping[str, Any]) -> Any:
        answer = of_typed(told["typed"])
        if isinstance(answer, Conditional):
            object.__setattr__(answer, "reviser", self._revised)
        return handed_out(answer, _RemoteCashier(of_typed(told["price"]["charged"]), self))

    def _revised(self, held: int, *, above: Number, request: str | None = None) -> Conditional:
        return self.ask(Revise(held, above=above), request=request)

    def _alternatives(self, body: Mapping[str, Any]) -> list[Alternative]:
        """What else would do, asked for when it is wanted; there is nothing else for a question to a run."""
        told = self._transport.once("POST", self._at("quotes"), dict(body) | {"alternatives": True})
        return [Alternative(**each) for each in told["alternatives"]]


@dataclass(frozen=True)
class _RemoteCashier:
    """Knows what an answer was charged, and asks what is left."""

    paid: Spending
    session: Remote

    def charged(self, calls: Sequence[int]) -> Spending:
        """What was told with the answer: it never changes."""
        return self.paid

    def remaining(self) -> Spending:
        """What is left now."""
        return self.session.remaining

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss."""
        return self.session.free_misses_ended


def _chosen(known: list[str], dataset: str | None) -> str:
    if dataset is None and len(known) == 1:
        return known[0]
    if dataset not in known:
        raise InvalidParameter(f"name a dataset of this token: {', '.join(known) or 'it has none'}")
    return dataset


def _quiet(step: str) -> None:
    """Nobody wants to know."""
