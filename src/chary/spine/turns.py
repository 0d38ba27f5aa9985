"""Threads of one process that change the same held state take turns, so that none is overtaken again and again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TURNS: Final = tuple(threading.RLock() for _ in range(64))
_PATIENCE: Final = 1.0


@contextmanager
def turn(dataset: str, held: int | None) -> Iterator[None]:
    """Wait until no other thread works on what that call holds, at most a second; for None nothing is waited for.

    A courtesy and no guarantee: other processes do not see it, and after a second the block runs all the same. What was
    drawn on a state that moved meanwhile is thrown away by the ledger, whoever waited for whom.
    """
    if held is None:
        yield
        return
    lock = _TURNS[hash((dataset, held)) % len(_TURNS)]
    taken = lock.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if taken:
            lock.release()
