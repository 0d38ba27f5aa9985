"""Whether calls can be asked, looked at now and then, however often somebody wants to know."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_KEPT: Final = 1.0


@dataclass
class Readiness:
    """What was found last, for a second: who asks without a token makes no work.

    >>> readiness = Readiness(clock=iter([5.0, 5.5, 7.0]).__next__)
    >>> looks = iter([False, True])
    >>> [readiness.found(looks.__next__) for _ in range(3)]
    [False, False, True]
    """

    clock: Callable[[], float] = time.monotonic
    _found: bool = field(default=False, init=False)
    _until: float = field(default=float("-inf"), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def found(self, look: Callable[[], bool]) -> bool:
        """Whether they can; `look` is called where that was not found out within the last second."""
        with self._lock:
            if (now := self.clock()) >= self._until:
                self._found, self._until = look(), now + _KEPT
            return self._found
