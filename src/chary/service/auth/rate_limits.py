"""Rate limits of log-ins and requests, also across processes, and limits of open streams."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from chary.client.problems import Refusal
from chary.service.store import RATES, ServiceStore

# Rate limits in one process: token buckets.

# The most buckets that are kept; beyond it the fullest go, which have not been used for longest.
_NAMES: Final = 10_000


@dataclass
class Rates:
    """Token buckets: each name may come `burst` times at once, and `each_second` times a second in the long run.

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
        """Take one and return 0; if there is none, return the seconds until there is."""
        with self._lock:
            left = self._left(name, now := self.clock())
            if left < 1:
                return (1 - left) / self.each_second
            self._put(name, left - 1, now)
            return 0.0

    def blocked(self, name: str) -> float:
        """The seconds until there is one; takes nothing."""
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


# Rate limits across processes: buckets in the service's database.

# The part of a bucket that a process takes at once, and the seconds until it expires.
_PART: Final = 20
_KEPT: Final = 1.0


@dataclass
class SharedRates:
    """Token buckets that all processes with one database share.

    Guarantee: together they let a name come at most `burst` times at once, and `each_second` times a second in the long
    run. A process takes several at once, so that not every request asks the database; those not used within a second
    expire.
    """

    store: ServiceStore
    kind: str
    each_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _fetched: dict[str, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)
    _refused: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def wait(self, name: str) -> float:
        """Take one and return 0; if there is none, return the seconds until there is."""
        with self._lock:
            if self._taken(name, now := self.clock()):
                return 0.0
            if (until := self._refused.get(name, now)) > now:
                return until - now
        found = self._fetch(name)
        with self._lock:
            if max(len(self._fetched), len(self._refused)) >= _NAMES:
                self._fetched.clear()
                self._refused.clear()
            if found < 1:
                wait = (1 - found) / self.each_second
                self._refused[name] = now + wait
                return wait
            self._fetched[name] = (found - 1, now)
            return 0.0

    def blocked(self, name: str) -> float:
        """The seconds until there is one; takes nothing."""
        with self.store.transaction() as connection:
            left = self._left(connection, name)
        return max(0.0, (1 - left) / self.each_second)

    def _taken(self, name: str, now: float) -> bool:
        left, then = self._fetched.get(name, (0.0, now))
        if left < 1 or now - then > _KEPT:
            return False
        self._fetched[name] = (left - 1, then)
        return True

    def _fetch(self, name: str) -> float:
        """Take a part of the bucket, or what is left of it; less than one if there is not a whole one."""
        with self.store.transaction(f"rate {self._row(name)}") as connection:
            left, now = self._left(connection, name), self.store.clock(connection)
            if left < 1:
                return left
            part = min(float(int(left)), max(1.0, self.burst // _PART))
            self._keep(connection, name, left - part, now)
        return part

    def _left(self, connection: Connection, name: str) -> float:
        now = self.store.clock(connection)
        row = connection.execute(select(RATES.c.left, RATES.c.at).where(RATES.c.name == self._row(name))).first()
        return self.burst if row is None else min(self.burst, row.left + max(0.0, now - row.at) * self.each_second)

    def _keep(self, connection: Connection, name: str, left: float, now: float) -> None:
        here = RATES.c.name == self._row(name)
        if not connection.execute(update(RATES).where(here).values(left=left, at=now)).rowcount:
            # Full buckets need no row.
            full = RATES.c.name.startswith(f"{self.kind} ") & (RATES.c.at < now - self.burst / self.each_second)
            connection.execute(delete(RATES).where(full))
            connection.execute(insert(RATES).values(name=self._row(name), left=left, at=now))

    def _row(self, name: str) -> str:
        return f"{self.kind} {name}"


# Event streams: so many at once for each token.

MOST: Final = 8


@dataclass
class OpenStreams:
    """Counts the open streams of each token. Used within the event loop only."""

    _open: Counter[str] = field(default_factory=Counter)

    def begin(self, token: str) -> None:
        """Count one more; `Refusal` with status 429 above `MOST`, so that no token takes all connections."""
        if self._open[token] >= MOST:
            raise Refusal(429, f"a token follows at most {MOST} streams at once", Retry_After="10")
        self._open[token] += 1

    def end(self, token: str) -> None:
        """Count one less."""
        self._open[token] -= 1
        self._open += Counter()  # so that the counter does not grow
