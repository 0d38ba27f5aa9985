"""Remote sessions and runs, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial, update_wrapper
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote as in_path

import httpx

from chary.answers import Answer, Spending, handed_out
from chary.calls.call import Call
from chary.calls.history import Lesson, Taught
from chary.calls.run import Opening, OpenRun, Run
from chary.calls.weights import ends_of
from chary.client.bodies import call_said, sent_rows, words_said
from chary.client.transport import Transport, place
from chary.client.wire import of_typed
from chary.core.plan import AnswerT
from chary.core.quote import Alternative, compared_with
from chary.data.queries.bodies import query_of
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number
from chary.report.public_report import PublicReport
from chary.session import Entry, Quote, Version
from chary.session.session import Verbs

# The public properties of a dataset, as those of a session.


@dataclass(frozen=True)
class RemoteFigures:
    """The public properties of a dataset of a service: everything that is read without a call."""

    _transport: Transport = field(repr=False)
    dataset: str
    _ends: Mapping[str, str] | None = field(default=None, repr=False)

    def series(self) -> Any:
        """The question for all values of a series; only datasets that are series have one."""
        body = self._transport.read(self._at())["series"]
        if body is None:
            raise InvalidQuery("this session asks a table: use count, sum or mean")
        return query_of(body)

    @property
    def size(self) -> int:
        """How many rows there are; `InvalidQuery` where that is secret."""
        size = self._transport.read(self._at())["size"]
        if size is None:
            raise InvalidQuery("the number of rows of this dataset is secret")
        return int(size)

    @property
    def versions(self) -> list[Version]:
        """Every batch in order of arrival."""
        return [Version(**each) for each in self._transport.pages(self._at("versions"))]

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types."""
        found: dict[str, str] = self._transport.read(self._at("schema"))["schema"]
        return found

    @property
    def spent(self) -> Spending:
        """What all analysts have spent of the whole budget together; what one analyst has spent is in `history`."""
        return self._budget("spent")

    @property
    def remaining(self) -> Spending:
        """What the token's analyst could still spend: what is left of the budget, or of the analyst's quota if that is
        less. With quotas, `spent` and `remaining` do not add up to the budget."""
        return self._budget("left")

    @property
    def spent_by_block(self) -> dict[str, float]:
        """What each block holds, as a fraction of its budget; empty where the budget does not renew."""
        return dict(self._transport.read(self._at("budget")).get("blocks", {}))

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss; False from an old service, which does not
        tell.
        """
        return bool(self._transport.read(self._at("budget")).get("free_misses_ended"))

    @property
    def history(self) -> list[Entry]:
        """The calls that are shown to this token, oldest first."""
        return [Entry(**each) for each in self._transport.pages(self._at("calls"))]

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far."""
        return str(self._transport.read(self._at("statement"))["statement"])

    def report(self, *, draft: bool = False) -> PublicReport:
        """The report that was published last; for custodians, the `draft` of now."""
        place = "report/draft" if draft else "report"
        found: PublicReport = of_typed(self._transport.read(self._at(place), form="typed"))
        return found

    @property
    def standing(self) -> list[dict[str, Any]]:
        """The subscriptions that this token may see, oldest first, with their charges."""
        return self._transport.pages(self._at("standing"))

    @property
    def news(self) -> list[dict[str, Any]]:
        """The events of subscriptions, oldest first: each names its call, whose answer is in `history`."""
        return self._transport.pages(self._at("feed"))

    def _at(self, path: str = "") -> str:
        return place(self.dataset, path)

    def _budget(self, name: str) -> Spending:
        told = self._transport.read(self._at("budget"), typed="true", **(self._ends or {}))
        found: Spending = of_typed(told["typed"][name])
        return found


# A run of a service: asked in the same words as one of a session.


class RemoteRun(Taught, Run[Any, Any]):
    """An open run: made by `Remote.start`, and again by `Remote.resume`. It is asked, quoted and closed as any run,
    and taught as a public histogram of a session; `InvalidQuery` where it is none.

    `state` has the figures of what is public of it, by name; `words` are the names of what a question says.
    """

    def __init__(self, session: Remote, told: Mapping[str, Any]) -> None:
        """Use `Remote.start` or `Remote.resume`."""
        self.call, self.kind, self._session, self._closed = int(told["run"]), str(told["kind"]), session, False
        self._words = tuple(told["words"])

    def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
        """As for any run. Without `request` it has a key of its own, so that trying again pays nothing twice."""
        self._open()
        return self._session.question(self.call, words_said(self._words, question, options), request)

    def learn(self, where: Any, told: Answer | tuple[Number, Number], *, request: str | None = None) -> Any:
        """Teach it what is known of a fraction; as `HistogramRun.learn`."""
        self._open()
        low, high = ends_of(told, self.state["size"] if isinstance(told, Answer) else 1)
        return self._session.lesson(self.call, words_said(("where", "low", "high"), (where, low, high), {}), request)

    def lessons(self) -> list[Lesson]:
        """What published answers that are shown to this token would teach it now."""
        self._open()
        return [Lesson(**each) for each in self._session.lessons(self.call)]

    def quote(self, *question: Any, **options: Any) -> Quote:
        """What a question would cost now, and how accurate it would be; nothing is charged or read."""
        self._open()
        return self._session.quoted(f"runs/{self.call}/quotes", words_said(self._words, question, options))

    @property
    def state(self) -> Mapping[str, Any]:
        """The figures of what is public of the run now."""
        return MappingProxyType(self._session.told_run(self.call)["state"])

    @property
    def words(self) -> Any:
        """The names of what a question to the run may say."""
        return self._words

    @property
    def spent(self) -> Spending:
        """What the opening and all questions of the run were charged together."""
        spent: Spending = of_typed(self._session.told_run(self.call)["price"]["charged"])
        return spent

    def follow(self) -> Callable[[], object]:
        """A service asks again by subscriptions: `InvalidParameter`."""
        raise InvalidParameter("a service asks again by itself where a question stands: leave follow= out")


# A session whose rows and ledger are elsewhere: the same questions, the same answers.


def connect(
    url: str,
    token: str,
    *,
    dataset: str | None = None,
    patience: float | None = None,
    on_step: Callable[[str], None] | None = None,
    client: httpx.Client | None = None,
) -> Remote:
    """Ask a service: `chary.connect("http://127.0.0.1:8321", token).ask(call)`, as a session is asked.

    `dataset` is needed where the token is for several. A request is sent again for `patience` seconds while the service
    does not answer, by default for 60, and for 5 where the address has not yet taken a connection. Each goes under an
    idempotency key, so nothing is paid twice. `on_step` is reported the steps of calls that take long. `client` is an
    `httpx.Client` of yours, with the address, for proxies and certificates.

    Errors: those of sessions; `CharyError` for a token that is not valid. `LedgerError` where the address takes
    no connection.
    """
    transport = Transport(url, token, patience=patience, on_step=on_step, client=client)
    return Remote(transport, transport.chosen(dataset))


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
        answer: AnswerT = self._answered(self._transport.keyed(self._at("calls"), request, json=self._said(call)))
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
        queries: Sequence[Any] = (),
        like: Any = None,
    ) -> Quote:
        """What a call would cost and how accurate it would be; terms and figures as in `Session.quote`.

        No example goes to a service: `queries` and `like` are for sessions (`InvalidParameter`), on rows of one's own.
        """
        if queries or like is not None:
            raise InvalidParameter("a service simulates nothing: give queries= and like= to a session's quote")
        numbers = {"distance": distance, "truth": truth, "confidence": confidence}
        said = {name: None if value is None else str(value) for name, value in numbers.items()}
        body = {"call": call_said(call), "tests": tests, "hits": hits} | said | self._of_blocks
        return compared_with(self.quoted("quotes", body), partial(self._alternatives, body))

    def start(self, opening: Opening[Any], *, request: str | None = None, follow: bool = False) -> RemoteRun:
        """Open what stays open; as `Session.start`, but that nothing follows."""
        if follow:
            raise InvalidParameter("a service asks again by itself where a question stands: leave follow= out")
        if not isinstance(opening, Opening):
            raise InvalidQuery("start what stays open, such as chary.calls.SparseVector(...); ask other calls")
        return RemoteRun(self, self._transport.keyed(self._at("runs"), request, json=self._said(opening)))

    def blocks(self, since: str | date | None = None, until: str | date | None = None) -> Remote:
        """The same, of the blocks from one to another alone; as `Session.blocks`. What stands reads all blocks."""
        ends = {name: str(end) for name, end in (("since", since), ("until", until)) if end is not None}
        return replace(self, _ends=ends)

    def resume(self, call: int) -> RemoteRun:
        """Go on with a run; `NotWithheld` for a call that opened none, or one that is not yours."""
        return RemoteRun(self, self.told_run(call))

    @property
    def runs(self) -> list[OpenRun]:
        """The runs that can be continued, oldest first."""
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

        An `Alert` is opened as well, which is free: what stands is the question to its run. The window of one ends at
        the present time in UTC, so it sees no rows of earlier years; its quote has the days. `every` is "append" or a
        crontab in UTC, such as "0 6 * * mon". It is asked once about each version of the rows, and all its calls
        together are charged at most `share` of the budget. `tell="all"` reports misses too. What it finds is
        in `news`, and is sent to a `webhook`, which is one, or a mail, that the service's chary.toml names. Under a
        `request` that came before, nothing is made: what stands under it is replayed.
        """
        if self._ends is not None:
            raise InvalidParameter("what stands reads all blocks up to today's: stand it in the session of all")
        said: dict[str, Any] = {"every": every, "share": str(share), "tell": tell, "webhook": webhook}
        if call is not None:
            said["call"] = call_said(call)
        if run is not None:
            said |= {"run": run.call, "question": words_said(run.words, (), question or {})}
        return self._transport.keyed(self._at("standing"), request, json=said)

    def silence(self, standing: str, *, hours: Number | None = None, until: str | None = None) -> dict[str, Any]:
        """Send nothing of what a subscription of your own finds, for this many hours or until a time in UTC.

        It is asked and charged, and its events are reported in `news`, all the same; `hours=0` ends a silence.
        """
        body = {"silence_until": until} if hours is None else {"silence_hours": str(hours)}
        return self._transport.once("PUT", self._at(f"standing/{in_path(standing, safe='')}"), body)

    def acknowledge(self, number: int) -> dict[str, Any]:
        """Say that you take care of events that fired, by their `number`: they are sent no more; the events as they
        are."""
        return self._transport.once("PUT", self._at(f"feed/{number}"), {"acknowledged": True})

    def end(self, standing: str) -> None:
        """End a subscription of your own."""
        self._transport.send("DELETE", self._at(f"standing/{in_path(standing, safe='')}"), None)

    def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows: a frame, an Arrow table, or a file by its path (CSV, TSV, Parquet, Arrow). Its version.

        A file is sent while it is read. Without `request`, its key is made of its name, its contents and the token. The
        same file under the same token is added once, and the version of then is returned. Anyone who lacks the token
        learns nothing of the rows from that key, which a ledger may show. To add the same file once more, say a
        `request` of your own; frames have a new key each time. For custodians; as `Session.append`. An `OwnerWarning`
        says that a key came before, so that nothing was added, and that the service does not keep appended rows.

        Errors: `InvalidParameter` for a path without a file, or of another kind of file.
        """
        return self._transport.append(self._at("appends"), request, *sent_rows(rows))

    def set_quota(self, analyst: str, quota: Number) -> None:
        """Cap one analyst at a fraction of the budget, its quota. For custodians."""
        self._transport.once("PUT", self._at(f"shares/{in_path(analyst, safe='')}"), {"share": str(quota)})

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def question(self, run: int, body: Mapping[str, Any], request: str | None) -> Any:
        """Ask a run: `RemoteRun.ask`."""
        return self._answered(self._transport.keyed(self._at(f"runs/{run}/questions"), request, json=body))

    def lesson(self, run: int, body: Mapping[str, Any], request: str | None) -> Any:
        """Teach a run: `RemoteRun.learn`."""
        return self._answered(self._transport.keyed(self._at(f"runs/{run}/lessons"), request, json=body))

    def lessons(self, run: int) -> list[dict[str, Any]]:
        """What a run can be taught."""
        found: list[dict[str, Any]] = self._transport.read(self._at(f"runs/{run}/lessons"))
        return found

    def quoted(self, path: str, body: Mapping[str, Any]) -> Quote:
        """A quote of a call, without alternatives."""
        found: Quote = of_typed(self._transport.once("POST", self._at(path), body)["typed"])
        return found

    def told_run(self, run: int) -> dict[str, Any]:
        """The public state of a run."""
        told: dict[str, Any] = self._transport.read(self._at(f"runs/{run}"), typed="true")
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _said(self, call: Call[Any]) -> dict[str, Any]:
        return call_said(call) | self._of_blocks

    @property
    def _of_blocks(self) -> dict[str, Any]:
        return {} if self._ends is None else {"blocks": self._ends}

    def _answered(self, told: Mapping[str, Any]) -> Any:
        return handed_out(of_typed(told["typed"]), _RemoteCashier(of_typed(told["price"]["charged"]), self))

    def _alternatives(self, body: Mapping[str, Any]) -> list[Alternative]:
        """What else would do, asked for when it is wanted; there is nothing else for a question to a run."""
        told = self._transport.once("POST", self._at("quotes"), dict(body) | {"alternatives": True})
        return [Alternative(**each) for each in told["alternatives"]]


@dataclass(frozen=True)
class _RemoteCashier:
    """Returns what an answer was charged, and requests what is left."""

    paid: Spending
    session: Remote

    def charged(self, calls: Sequence[int]) -> Spending:
        """The charge that came with the answer; it never changes."""
        return self.paid

    def remaining(self) -> Spending:
        """What is left now."""
        return self.session.remaining

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss."""
        return self.session.free_misses_ended

    def asked(self, call: Call[Any], request: str | None) -> Any:
        """The answer to a further call."""
        return self.session.ask(call, request=request)

    def asked_before(self, call: int) -> int | None:
        """Not known here: the service is asked under idempotency keys alone."""
        return None


# The asynchronous client.

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[Any, _P], _T], of: str = "session"
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """The method of that name of the object in this field, run in a thread, with its docstring and signature."""

    async def later(self: Any, /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, getattr(self, of), *arguments, **options)

    update_wrapper(later, method)
    return later


async def connect_async(
    url: str,
    token: str,
    *,
    dataset: str | None = None,
    patience: float | None = None,
    on_step: Callable[[str], None] | None = None,
    client: httpx.Client | None = None,
) -> AsyncRemote:
    """As `chary.connect`, awaited: `session = await connect_async(url, token)`."""
    made = partial(connect, url, token, dataset=dataset, patience=patience, on_step=on_step, client=client)
    return AsyncRemote(await asyncio.to_thread(made))


@dataclass(frozen=True)
class AsyncRemote:
    """Questions to one dataset of a service, each awaited; see `Remote`.

    Requests run in threads: many may be under way at once, and one that is cancelled goes on in the service, where its
    idempotency key finds the answer.
    """

    session: Remote
    ask = _awaited(Remote.ask)
    quote = _awaited(Remote.quote)
    release = _awaited(Remote.release)
    test = _awaited(Remote.test)
    release_if = _awaited(Remote.release_if)
    append = _awaited(Remote.append)
    statement = _awaited(Remote.statement)
    report = _awaited(Remote.report)

    def blocks(self, since: str | date | None = None, until: str | date | None = None) -> AsyncRemote:
        """The same, of the blocks from one to another alone; nothing is awaited."""
        return AsyncRemote(self.session.blocks(since, until))

    async def start(self, opening: Opening[Any], *, request: str | None = None) -> AsyncRun:
        """Open what stays open."""
        return AsyncRun(await asyncio.to_thread(self.session.start, opening, request=request))

    async def resume(self, call: int) -> AsyncRun:
        """Go on with a run."""
        return AsyncRun(await asyncio.to_thread(self.session.resume, call))

    async def history(self) -> list[Entry]:
        """The calls that are shown to this token."""
        return await asyncio.to_thread(lambda: self.session.history)

    async def remaining(self) -> Spending:
        """What the token's analyst could still spend; as `Remote.remaining`."""
        return await asyncio.to_thread(lambda: self.session.remaining)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.session.close)


@dataclass(frozen=True)
class AsyncRun:
    """An open run, each question awaited; see `RemoteRun`."""

    run: RemoteRun
    quote = _awaited(RemoteRun.quote, "run")
    learn = _awaited(RemoteRun.learn, "run")
    learn_published = _awaited(RemoteRun.learn_published, "run")

    async def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
        """As for any run."""
        return await asyncio.to_thread(partial(self.run.ask, *question, request=request, **options))
