"""Work of several names in threads, of one name never two pieces at once: what takes long holds up no other name."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

# How often is looked whether what still runs has ended.
_LOOK: Final = 0.05


class Turns:
    """Threads that work for names in turn.

    >>> turns = Turns(2)
    >>> [each.result() for each in turns.begin({"visits": lambda: 3})], turns.close(1), turns.begin({"visits": int})
    ([3], 0, [])
    """

    def __init__(self, threads: int) -> None:
        self._pool, self._lock = ThreadPoolExecutor(threads), threading.Lock()
        self._busy, self._closing = set[str](), threading.Event()

    @property
    def closing(self) -> bool:
        """Whether nothing more is begun: what runs looks at it, and ends soon."""
        return self._closing.is_set()

    def begin(self, work: Mapping[str, Callable[[], int]]) -> list[Future[int]]:
        """Begin the work of each name of which none is under way; what comes of it."""
        with self._lock:
            free = [name for name in work if not (self.closing or name in self._busy)]
            self._busy.update(free)
            return [self._pool.submit(self._done, name, work[name]) for name in free]

    def close(self, seconds: float) -> int:
        """Begin nothing more and wait so long for what runs; of how many names something still does."""
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
