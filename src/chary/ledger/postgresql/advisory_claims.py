"""Claims on running calls as advisory locks of a session: they end with the process, or with its connection."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psycopg

from chary.errors import LedgerBusy
from chary.ledger.claims import Claim
from chary.ledger.postgresql.postgres_errors import translated
from chary.ledger.postgresql.wire import Wire

_TAKE, _GIVE, _HELD = (
    "SELECT pg_try_advisory_lock(%s)",
    "SELECT pg_advisory_unlock(%s)",
    "SELECT pg_try_advisory_xact_lock(%s)",
)


class AdvisoryClaims:
    """See `Claims`: here a claim is an advisory lock, by 64 bits of the entry's hash, of a connection made for claims.

    Guarantee: inside of a writing transaction, `held` says whether any thread or process runs the call, as far as the
    server can know. When the connection is lost while a call runs, so is its claim, although the call goes on, and
    another process may reserve the same key. Nothing is overspent or answered twice by that:

    1. Both calls were charged their worst price before they read anything: `reserve` charges each of them anew,
       whatever became of a claim. So what is spent covers both, and it is at most the capacity.
    2. Each is settled in a transaction that holds the ledger against every other, and that looks whether another call
       under the key is settled (`sql_writes.unanswered`, and the function `append` of the server once more). Of two
       such transactions one comes first; the other sees what it did and is refused with `RequestAnswered`.
    3. No answer is handed out, and no secret is kept, before its settle was committed. So under one key at most one
       answer is ever handed out or replayed: that of the call which was settled first. The other stays charged.
    """

    def __init__(self, connect: Callable[[], Wire], asking: Callable[[], Wire]) -> None:
        """`connect` makes a connection for claims, `asking` is that of the transaction that asks."""
        self._connect, self._asking = connect, asking
        self._wire: Wire | None = None
        self._live: set[int] = set()
        self._ended: deque[int] = deque()
        self._lock = threading.Lock()
        _all.add(self)

    def take(self, sealed: str) -> Claim:
        """The claim on a call that is being reserved, before others can see its entry."""
        key = _key(sealed)
        with self._lock, translated():
            try:
                taken = self._try(key)
            except psycopg.OperationalError:
                self._reconnect()
                taken = self._try(key)
            if not taken:
                raise LedgerBusy("the claim on this call is held by somebody else: try again")
            self._live.add(key)
        return Claim(partial(self._end, key))

    def held(self, sealed: str) -> bool:
        """Whether somebody runs the call."""
        with translated():
            found = self._asking().driver.execute(_HELD, (_key(sealed),)).fetchone()
        return found != (True,)

    def close(self) -> None:
        """End every claim."""
        with self._lock:
            wire, self._wire = self._wire, None
            self._live.clear()
            if wire is not None:
                wire.close()

    def adopt(self) -> None:
        """In a forked child: it runs none of the calls of its parent."""
        self._lock = threading.Lock()
        self._wire = None
        self._live, self._ended = set(), deque()

    def _try(self, key: int) -> bool:
        if self._wire is None:
            self._wire = self._connect()
        return self._wire.driver.execute(_TAKE, (key,)).fetchone() == (True,)

    def _reconnect(self) -> None:
        """A new connection; calls that still run claim their keys again where nobody else has taken them."""
        if self._wire is not None:
            self._wire.close()
        self._wire = self._connect()
        for key in self._live:
            self._try(key)

    def _end(self, key: int) -> None:
        """Called from anywhere, by the collector of garbage too: it never waits."""
        self._ended.append(key)
        while self._ended and self._lock.acquire(blocking=False):
            try:
                self._give_back()
            finally:
                self._lock.release()

    def _give_back(self) -> None:
        while self._ended:
            with suppress(IndexError, psycopg.Error):
                key = self._ended.popleft()
                if key in self._live and self._wire is not None:
                    self._live.discard(key)
                    self._wire.driver.execute(_GIVE, (key,))


def _key(sealed: str) -> int:
    return int.from_bytes(bytes.fromhex(sealed[:16]), signed=True)


_all: weakref.WeakSet[AdvisoryClaims] = weakref.WeakSet()


def _adopt_claims() -> None:
    for claims in list(_all):
        claims.adopt()


os.register_at_fork(after_in_child=_adopt_claims)
