"""Threads of one process that change the same held state take turns, so that none is overtaken again and again."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

_Held = tuple[str, int]
# While somebody waits, so often is looked whether an interrupt arrived.
_LOOK_EVERY: Final = 0.1
_guard = threading.Lock()
# Each lives as long as somebody works on what it is for, or waits.
_turns: WeakValueDictionary[_Held, threading.RLock] = WeakValueDictionary()


@contextmanager
def turn(dataset: str, held: int | None, patience: float, given_up: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other thread works on what that call holds, at most so many seconds and until it is given up; for
    None nothing is waited for.

    A courtesy and no guarantee: other processes do not see it, and after that the block runs all the same. What was
    drawn on a state that moved meanwhile is thrown away by the ledger, whoever waited for whom. To be entered where no
    interrupt can tear it: one between taking and giving back would leave others waiting.
    """
    if held is None:
        yield
        return
    lock = _lock_of((dataset, held))
    taken = _taken(lock, time.monotonic() + patience, given_up)
    try:
        yield
    finally:
        if taken:
            lock.release()


def _lock_of(held: _Held) -> threading.RLock:
    with _guard:
        return _turns.setdefault(held, threading.RLock())


def _taken(lock: threading.RLock, until: float, given_up: Callable[[], bool]) -> bool:
    while not lock.acquire(timeout=max(0.0, min(_LOOK_EVERY, until - time.monotonic()))):
        if given_up() or time.monotonic() >= until:
            return False
    return True


def _turns_after_fork() -> None:
    """Whoever had a turn in the parent is not here to give it back."""
    global _guard, _turns
    _guard, _turns = threading.Lock(), WeakValueDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turns_after_fork)
