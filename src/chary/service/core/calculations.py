"""Work off the event loop: a fair queue among analysts, calculations with a deadline, background threads."""

import asyncio
import ctypes
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from chary.client.problems import Refusal

# A fair queue: first in, first out for each analyst, all analysts in turn.

_Item = TypeVar("_Item")
# Length of the queue for each thread; beyond it further items are refused.
WAITING: Final = 32
# Seconds after which a refused client may try again.
_AGAIN: Final = "2"


class Turns(Generic[_Item]):
    """A queue that serves analysts in turn, and counts the items of each that wait or run. Not locked.

    Guarantee: an analyst with few items waits for at most one item of each other analyst between two of his own. There
    are at most `most` items at once, and `each` of one analyst.

    >>> turns = Turns[str](most=5, each=3)
    >>> for analyst, item in [("ann", "a1"), ("ann", "a2"), ("ann", "a3"), ("bob", "b1")]:
    ...     turns.add(analyst, item)
    >>> [turns.next() for _ in range(5)]
    ['a1', 'b1', 'a2', 'a3', None]
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._waiting: dict[str, deque[_Item]] = {}
        self._there: Counter[str] = Counter()

    def add(self, analyst: str, item: _Item) -> None:
        """Queue an item; `Refusal` with status 429 above `each`, with 503 above `most`."""
        if self._there[analyst] >= self._each:
            told = f"{self._each} calls of this analyst wait or run already: ask again when some of them have ended"
            raise Refusal(429, told, Retry_After=_AGAIN)
        if self._there.total() >= self._most:
            raise Refusal(503, "too many calls wait already; ask again later under the same key", Retry_After=_AGAIN)
        self._there[analyst] += 1
        self._waiting.setdefault(analyst, deque()).append(item)

    def next(self) -> _Item | None:
        """Take the first item of the analyst whose turn it is; None if nothing waits."""
        if not self._waiting:
            return None
        analyst = next(iter(self._waiting))
        items = self._waiting.pop(analyst)
        item = items.popleft()
        if items:
            self._waiting[analyst] = items  # to the end of the line
        return item

    def ended(self, analyst: str) -> None:
        """An item has ended, and counts no more."""
        self._there[analyst] -= 1
        self._there += Counter()  # so that the counter does not grow

    def all(self) -> list[_Item]:
        """Take all waiting items."""
        found = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        return found


# Calculations such as quotes: a fair queue, and a deadline for each.
#
# A quote reads nothing, charges nothing and writes nothing, so nothing is lost when it is cut off. It is cut off in its
# own thread, by an exception that Python raises there between two instructions.

_Found = TypeVar("_Found")
# How often the clock is looked at, and how long after one exception the next is raised, should code have caught it.
_LOOK: Final = 0.05
_TRIED_AGAIN: Final = 1.0
# Seconds that running calculations have left when the service stops.
_LAST: Final = 2.0
# Code that may be between taking a lock, or half of a record, and the block that gives it back: it is never cut off.
_WHOLE: Final = (
    "chary.data.engines",
    "chary.ledger",
    "chary.service.store",
    "chary.session.opening",
    "concurrent.futures",
    "duckdb",
    "importlib",
    "logging",
    "psycopg",
    "queue",
    "sqlalchemy",
    "sqlite3",
    "threading",
)
_raise_in: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Overdue(BaseException):
    """Raised in the thread of an overdue calculation; not an `Exception`, so that no handler on the way catches it."""


class _Settled(BaseException):
    """Raised in place of a pending `Overdue`, and caught at once."""


@dataclass(eq=False)
class _Running:
    """A running calculation: its thread, its deadline, when it may be interrupted again, whether it has ended."""

    thread: int
    until: float
    again: float = 0.0
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> None:
        """Prevent further interruptions and drop a pending one; called in its own thread."""
        with self.lock:
            self.over = True
        if self.again:
            _settle(self.thread)

    def cut(self, now: float) -> None:
        """Raise `Overdue` in its thread, unless it has ended or is in code that must not be interrupted."""
        with self.lock:
            if not self.over and now >= self.again and not _whole(sys._current_frames().get(self.thread)):
                self.again = now + _TRIED_AGAIN
                _raise_in(ctypes.c_ulong(self.thread), ctypes.py_object(Overdue))


class Deadlines:
    """Interrupts calculations that take longer than this many seconds.

    Guarantee: `within` returns the result of the work, or raises `Refusal` with status 503 soon after the deadline.
    This holds for Python code whose single operations are short, as those on numbers of limited size are. Work inside a
    ledger, a database or an import is interrupted only after it. When the service stops, all calculations have two
    seconds.

    >>> Deadlines(lambda: False).within(5, lambda: 6 * 7)
    42
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping, self._stops = stopping, float("inf")
        self._running: set[_Running] = set()
        self._begun = threading.Event()
        self._lock = threading.Lock()
        self._watching = False

    def within(self, seconds: float, work: Callable[[], _Found]) -> _Found:
        """Do the work in this thread."""
        running = _Running(threading.get_ident(), time.monotonic() + seconds)
        try:
            try:
                self._watch(running)
                return work()
            finally:
                running.end()
        except Overdue:
            running.end()
        finally:
            with self._lock:
                self._running.discard(running)
        raise Refusal(503, f"this takes longer than {seconds:g} seconds: ask for less at once", Retry_After="60")

    def _watch(self, running: _Running) -> None:
        with self._lock:
            self._running.add(running)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._look, name="chary-deadlines", daemon=True).start()
        self._begun.set()

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK)
            now = time.monotonic()
            with self._lock:
                running = list(self._running)
                if not running:
                    self._begun.clear()
            if self._stopping():
                self._stops = min(self._stops, now + _LAST)
            for each in running:
                if now > min(each.until, self._stops):
                    each.cut(now)
            self._begun.wait()


class _Waiting(NamedTuple):
    analyst: str
    work: Callable[[], Any]
    future: "Future[Any]"


class Calculations:
    """Runs calculations on public figures, a limited number at once, serving analysts in turn.

    Guarantee: that of `Turns` and of `Deadlines`. Errors: `Refusal` with status 429 for more than one analyst may have
    under way; 503 for a full queue, an overdue calculation, and when the service stops.
    """

    def __init__(self, threads: int, each: int, seconds: float, stopping: Callable[[], bool]) -> None:
        self.deadlines, self.seconds = Deadlines(lambda: self._closed or stopping()), seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="chary-quote")
        self._turns = Turns[_Waiting](threads * (WAITING + 1), each)
        self._lock, self._closed = threading.Lock(), False

    async def of(self, analyst: str, work: Callable[[], _Found]) -> _Found:
        """The result of the work."""
        future: Future[_Found] = Future()
        with self._lock:
            if self._closed:
                raise Refusal(503, "the service stops", Retry_After="2")
            self._turns.add(analyst, _Waiting(analyst, work, future))
            self._pool.submit(self._turn)
        return await asyncio.wrap_future(future)

    def now(self, work: Callable[[], _Found]) -> _Found:
        """The result of the work, computed at once in this thread: for calculations of the service itself."""
        return self.deadlines.within(self.seconds, work)

    def close(self) -> None:
        """Start nothing more, and interrupt what is running."""
        with self._lock:
            self._closed = True
            waiting = self._turns.all()
        for each in waiting:
            if each.future.set_running_or_notify_cancel():
                each.future.set_exception(Refusal(503, "the service stops", Retry_After="2"))
        self._pool.shutdown(wait=False)

    def _turn(self) -> None:
        with self._lock:
            waiting = self._turns.next()
        if waiting is None:
            return  # the queue was emptied, since the service stops
        try:
            if waiting.future.set_running_or_notify_cancel():
                self._do(waiting)
        finally:
            with self._lock:
                self._turns.ended(waiting.analyst)

    def _do(self, waiting: _Waiting) -> None:
        try:
            found = self.deadlines.within(self.seconds, waiting.work)
        except BaseException as error:
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(found)


def _settle(thread: int) -> None:
    """Drop an exception that is pending for this thread. Setting it to none is not enough: the interpreter would look
    for it again at every call, and hang where calls are traced.
    """
    try:
        _raise_in(ctypes.c_ulong(thread), ctypes.py_object(_Settled))
        while True:
            pass
    except _Settled:
        return


def _whole(frame: FrameType | None) -> bool:
    """Whether a calculation is inside code that must not be interrupted; frames of its callers are ignored."""
    while frame is not None and frame.f_code is not Deadlines.within.__code__:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_WHOLE):
            return True
        frame = frame.f_back
    return False


# Background work of the service: in threads, one at a time for each name.


class Workers:
    """Background threads, at most one for each name.

    >>> workers = Workers(2)
    >>> found = [each.result() for each in workers.begin({"visits": lambda: 3})]
    >>> found, workers.close(1), workers.begin({"visits": int})
    ([3], 0, [])
    """

    def __init__(self, threads: int) -> None:
        self._pool, self._lock = ThreadPoolExecutor(threads), threading.Lock()
        self._busy, self._closing = set[str](), threading.Event()

    @property
    def closing(self) -> bool:
        """Whether the service stops; running work checks this, and returns soon."""
        return self._closing.is_set()

    def begin(self, work: Mapping[str, Callable[[], int]]) -> list[Future[int]]:
        """Start the work of each name that has none running; returns the futures."""
        with self._lock:
            free = [name for name in work if not (self.closing or name in self._busy)]
            self._busy.update(free)
            return [self._pool.submit(self._done, name, work[name]) for name in free]

    def close(self, seconds: float) -> int:
        """Start nothing more, and wait this long for running work; returns how many names are still running."""
        with self._lock:
            self._closing.set()
        self._pool.shutdown(wait=False)
        until = time.monotonic() + seconds
        while self._busy and time.monotonic() < until:
            time.sleep(_LOOK)
        return len(self._busy)

    def _done(self, name: str, work: Callable[[], int]) -> int:
        try:
            return 0 if self.closing else work()
        finally:
            with self._lock:
                self._busy.discard(name)
