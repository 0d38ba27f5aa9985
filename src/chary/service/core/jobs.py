"""Calls under way: each runs in a thread to its end, whether or not a client waits; one that takes long becomes a job.

A job names an idempotency key. Its answer is in the ledger, for every process and after a restart.
"""

import asyncio
import json
import secrets
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from chary.client.problems import Refusal
from chary.errors import BudgetExceeded, InvalidInput, RequestConflict
from chary.ledger import RequestUnanswered
from chary.service.auth.tokens import Principal
from chary.service.core import calculations, datasets, requests
from chary.service.core.problems import problem
from chary.service.store import JOBS, ServiceStore

# Seconds between heartbeats of a process; after three missing ones its jobs are interrupted.
BEAT: Final = 5.0
_FORGOTTEN: Final = 86_400.0
# Errors of a ledger without the answer: it may lack the run, or have another one under its number.
_UNANSWERED: Final = (RequestUnanswered, RequestConflict, BudgetExceeded, InvalidInput)
_STOPS: Final = "the service stops; ask again later under the same key"


@dataclass
class Job:
    """One call under way: its name, its analyst, the request, its progress."""

    name: str
    who: Principal
    served: datasets.Served
    wish: requests.Wish
    request: str
    step: str = "waiting"
    future: "Future[Any]" = field(default_factory=Future, repr=False)

    def reached(self, step: str) -> None:
        """Record the progress that the spine reports."""
        self.step = step


@dataclass(frozen=True)
class JobState:
    """The public state of a job: "running", "done", "failed" or "interrupted"."""

    name: str
    dataset: str
    state: str
    step: str
    wish: requests.Wish
    request: str
    problem: dict[str, Any] | None


class Jobs:
    """Runs a limited number of calls at once, serving analysts in turn.

    Guarantee: a call that has started goes on when its client disconnects; only the ledger keeps its answer. Errors:
    `Refusal` with status 429 for more calls than one analyst may have, 503 for a full queue.
    """

    def __init__(self, store: ServiceStore, threads: int, each: int) -> None:
        self._store, self._closed = store, False
        self.answers = datasets.SharedAnswers(store)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="chary-call")
        self._turns = calculations.Turns[Job](threads * (calculations.WAITING + 1), each)
        self._running: dict[str, Job] = {}
        self._kept: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, who: Principal, served: datasets.Served, wish: requests.Wish, request: str) -> Job:
        """Queue a call."""
        job = Job(secrets.token_hex(8), who, served, wish, request)
        job.future.set_running_or_notify_cancel()  # a waiting client cannot cancel it any more
        job.future.add_done_callback(lambda _: self._ended(job))
        with self._lock:
            if self._closed:
                raise Refusal(503, _STOPS, Retry_After="2")
            self._turns.add(who.analyst, job)
            self._running[job.name] = job
            self._pool.submit(self._turn)
        return job

    async def settled(self, job: Job, seconds: float) -> bool:
        """Wait this long; returns whether the call ended. If not, it can be found as a job from now on."""
        waiting = asyncio.wrap_future(job.future)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
        if not done:
            await asyncio.to_thread(self._keep, job)
        return bool(done)

    def found(self, name: str, who: Principal) -> JobState:
        """A job of this analyst on a dataset that the token is for; `Refusal` with status 404 for any other."""
        rows = self._store.rows(select(JOBS).where(JOBS.c.job == name, JOBS.c.analyst == who.analyst))
        if not rows or not who.sees(rows[0].dataset):
            raise Refusal(404, "there is no job of that name")
        row, here = rows[0], self._kept.get(name)
        lost = here is None and row.state == "running" and self._store.now() - row.touched > 3 * BEAT
        state = "interrupted" if lost else row.state
        step = row.step if here is None else here.step
        told = None if row.problem is None else json.loads(row.problem)
        return JobState(name, row.dataset, state, step, requests.Wish.of_written(row.asked), row.request, told)

    def replayed(self, state: JobState, served: datasets.Served, who: Principal) -> tuple[JobState, Any]:
        """The state of a job that ended, with its answer from the ledger; "interrupted" if the ledger has none.

        Guarantee: nothing is asked or charged, even if the ledger or this database was restored to an older state.
        Errors: those of reading the ledger.
        """
        if state.state not in ("done", "interrupted"):
            return state, None
        try:
            found = requests.fulfilled(
                self.answers, served, who, served.replaying(who.analyst), state.wish, state.request
            )
        except _UNANSWERED:
            return replace(state, state="interrupted"), None
        return replace(state, state="done"), found

    def beat(self) -> None:
        """Record that the jobs of this process are alive, and drop those that ended a day ago."""
        for job in list(self._kept.values()):
            self._told(job, step=job.step)
        self._store.change(delete(JOBS).where(JOBS.c.touched < self._store.now() - _FORGOTTEN))

    def close(self, seconds: float) -> int:
        """Start nothing more, and wait this long for running calls; returns how many are still running."""
        with self._lock:
            self._closed = True
            waiting = self._turns.all()
        for job in waiting:
            job.future.set_exception(Refusal(503, _STOPS, Retry_After="2"))
        self._pool.shutdown(wait=False)
        with self._lock:
            futures = [job.future for job in self._running.values()]
        return len(wait(futures, timeout=seconds).not_done)

    def _turn(self) -> None:
        with self._lock:
            job = self._turns.next()
        if job is None:
            return  # the queue was emptied, since the service stops
        try:
            found = self._run(job)
        except BaseException as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(found)

    def _run(self, job: Job) -> Any:
        session = job.served.acting(job.who, job.reached)
        return requests.fulfilled(self.answers, job.served, job.who, session, job.wish, job.request)

    def _keep(self, job: Job) -> None:
        row = {"job": job.name, "analyst": job.who.analyst, "dataset": job.served.name, "request": job.request}
        row |= {"asked": json.dumps(job.wish.written()), "state": "running", "step": job.step}
        self._store.change(insert(JOBS).values(**row, touched=self._store.now()))
        with self._lock:
            self._kept[job.name] = job
        if job.future.done():
            self._ended(job)

    def _ended(self, job: Job) -> None:
        with self._lock:
            if self._running.pop(job.name, None) is not None:
                self._turns.ended(job.who.analyst)
            kept = self._kept.pop(job.name, None)
        if kept is None:
            return
        error = job.future.exception()
        given_back = isinstance(error, Refusal) and self._closed
        told = json.dumps(problem(error)) if isinstance(error, Exception) and not given_back else None
        state = "interrupted" if given_back else "done" if error is None else "failed"
        self._told(job, state=state, step=job.step, problem=told)

    def _told(self, job: Job, **row: Any) -> None:
        self._store.change(update(JOBS).where(JOBS.c.job == job.name).values(**row, touched=self._store.now()))
