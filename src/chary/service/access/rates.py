"""How often somebody may come: buckets that fill again with time."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

# Of so many names at once the fullest buckets are forgotten: those belong to whoever has not come for long.
_NAMES: Final = 10_000


@dataclass
class Rates:
    """Each name may come `burst` times at once and `each_second` times a second in the long run.

    >>> rates = Rates(each_second=1, burst=2, clock=iter([0.0, 0.0, 0.0, 1.0]).__next__)
    >>> [rates.wait("alice") for _ in range(4)]
    [0.0, 0.0, 1.0, 0.0]
    """

    each_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _full: dict[str, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def wait(self, name: str) -> float:
        """Take one; 0 if there was one, otherwise the seconds until there is (and nothing was taken)."""
        with self._lock:
            left = self._left(name, now := self.clock())
            if left < 1:
                return (1 - left) / self.each_second
            self._put(name, left - 1, now)
            return 0.0

    def blocked(self, name: str) -> float:
        """The seconds until there is one; nothing is taken."""
        with self._lock:
            return max(0.0, (1 - self._left(name, self.clock())) / self.each_second)

    def _left(self, name: str, now: float) -> float:
        left, then = self._full.get(name, (self.burst, now))
        return min(self.burst, left + (now - then) * self.each_second)

    def _put(self, name: str, left: float, now: float) -> None:
        if name not in self._full and len(self._full) >= _NAMES:
            for fullest in sorted(self._full, key=lambda each: self._left(each, now))[_NAMES // 2 :]:
                del self._full[fullest]
        self._full[name] = (left, now)
