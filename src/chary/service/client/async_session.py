"""The client for programs that wait for many things at once: every question is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import httpx

from chary.answers import Spending
from chary.calls.call import AnswerT, Call
from chary.calls.run import Opening
from chary.numbers import Number
from chary.report.public_report import PublicReport
from chary.service.client.remote_run import RemoteRun
from chary.service.client.remote_session import PATIENCE, Remote, connect
from chary.session import Entry, Quote

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def connect_async(
    url: str,
    token: str,
    *,
    dataset: str | None = None,
    patience: float = PATIENCE,
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
    request key finds the answer.
    """

    session: Remote

    async def ask(self, call: Call[AnswerT], *, request: str | None = None) -> AnswerT:
        """Ask any call."""
        answer: AnswerT = await self._done(self.session.ask, call, request=request)
        return answer

    async def quote(
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
        quote = partial(self.session.quote, call, distance=distance, tests=tests, truth=truth, hits=hits)
        return await self._done(quote, confidence=confidence)

    async def start(self, opening: Opening[Any], *, request: str | None = None) -> AsyncRun:
        """Open what stays open."""
        return AsyncRun(await self._done(self.session.start, opening, request=request))

    async def resume(self, call: int) -> AsyncRun:
        """Go on with a run."""
        return AsyncRun(await self._done(self.session.resume, call))

    async def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows; its version."""
        return await self._done(self.session.append, rows, request=request)

    async def history(self) -> list[Entry]:
        """The calls that are shown to this token."""
        return await asyncio.to_thread(lambda: self.session.history)

    async def remaining(self) -> Spending:
        """What the token's analyst could still spend."""
        return await asyncio.to_thread(lambda: self.session.remaining)

    async def statement(self) -> str:
        """One paragraph that says what was guaranteed so far."""
        return await self._done(self.session.statement)

    async def report(self, *, draft: bool = False) -> PublicReport:
        """The report that was published last."""
        return await self._done(self.session.report, draft=draft)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.session.close)

    async def _done(self, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
        return await asyncio.to_thread(work, *arguments, **options)


@dataclass(frozen=True)
class AsyncRun:
    """An open run, each question awaited; see `RemoteRun`."""

    run: RemoteRun

    async def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
        """As for any run."""
        return await asyncio.to_thread(partial(self.run.ask, *question, request=request, **options))

    async def quote(self, *question: Any, **options: Any) -> Quote:
        """What a question would cost now."""
        return await asyncio.to_thread(partial(self.run.quote, *question, **options))
