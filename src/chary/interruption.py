"""Ctrl-C: what it must not tear, and what libraries tell of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

# What they say instead; the second is the end of whatever they say of a Python function that they called.
_STOPPED: Final = "Query interrupted"
_CALLED: Final = ": KeyboardInterrupt: "


class Uninterrupted:
    """A block that Ctrl-C does not tear: the interrupt is handed to its handler right after the block.

    Python delivers interrupts to the main thread between any two instructions, those of a clean-up included, so no
    `try` could be trusted to give a lock back. In other threads there is nothing to hold up. `arrived` is whether an
    interrupt waits: anyone who waits for something inside of the block looks at it and gives up.

    >>> with Uninterrupted() as block:
    ...     block.arrived
    False
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, FrameType | None]] = []
        self._handler: Callable[[int, FrameType | None], object] | None = None

    @property
    def arrived(self) -> bool:
        """Whether an interrupt waits for the end of the block."""
        return bool(self._kept)

    def torn(self) -> Torn:
        """A part of the block that interrupts may tear, beginning with one that waits."""
        return Torn(self.hold, self.hand_over)

    def __enter__(self) -> Uninterrupted:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            self._handler = handler if callable(handler) else None
        self.hold()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hand_over()

    def hold(self) -> None:
        """Keep interrupts from here on."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._keep)

    def hand_over(self) -> None:
        """Give the handler what was kept, and let it hear by itself what comes."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            while self._kept:
                self._handler(*self._kept.pop(0))

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._kept.append((number, frame))


class Torn:
    """A part of an uninterrupted block in which interrupts come through; none tears what deals with one.

    No generator: one that an interrupt ends at its border would hold interrupts back whenever it is collected.
    """

    def __init__(self, hold: Callable[[], None], hand_over: Callable[[], None]) -> None:
        self._hold, self._hand_over = hold, hand_over

    def __enter__(self) -> None:
        try:
            self._hand_over()
        except BaseException:
            self._hold()
            raise

    def __exit__(self, *raised: object) -> None:
        self._hold()


def interrupted(error: Exception) -> bool:
    """Whether an error stands for a Ctrl-C that a library reported as an error of its own.

    >>> interrupted(RuntimeError("Query interrupted")), interrupted(ValueError("reading failed: KeyboardInterrupt: "))
    (True, True)
    >>> interrupted(ValueError("a value"))
    False
    """
    # By name: no engine may be imported here.
    named = type(error).__name__ == "InterruptException"
    return named or (type(error), error.args) == (RuntimeError, (_STOPPED,)) or str(error).endswith(_CALLED)
