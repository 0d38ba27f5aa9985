"""Processes that measure pieces side by side."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Final

# Processes that share the cores would only wait for each other's threads. Read when numpy is imported.
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextmanager
def workers(jobs: int) -> Iterator[Executor | None]:
    """So many processes for `reproduce`; None for one job, which needs no process of its own.

    They start when they are first asked, with one thread each for linear algebra. An interrupt lets them finish, and
    keep, the pieces they are at; no other begins.

    >>> with workers(1) as pool:
    ...     pool is None
    True
    """
    if jobs == 1:
        yield None
        return
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_patient)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            _restore(name, value)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _patient() -> None:
    """The terminal interrupts all processes; what is to stop is told by the one that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
