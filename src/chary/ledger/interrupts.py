"""Interrupts that wait: Ctrl-C while a transaction runs is raised when it is over, and no lock is left behind."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Uninterrupted:
    """A block that Ctrl-C does not tear: the interrupt is handed to its handler right after the block.

    Python delivers interrupts to the main thread between any two instructions, those of a clean-up included, so no
    `try` could be trusted to give a lock back. In other threads there is nothing to hold up. `arrived` is whether an
    interrupt waits: whoever waits for something inside of the block looks at it and gives up.

    >>> with Uninterrupted() as block:
    ...     block.arrived
    False
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, FrameType | None]] = []
        self._handler: object = None

    @property
    def arrived(self) -> bool:
        """Whether an interrupt waits for the end of the block."""
        return bool(self._kept)

    def __enter__(self) -> Uninterrupted:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._keep)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        handler = self._handler
        if callable(handler):
            signal.signal(signal.SIGINT, handler)
            for number, frame in self._kept:
                handler(number, frame)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._kept.append((number, frame))
