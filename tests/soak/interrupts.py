"""Ctrl-C at random bytecodes of calls, and at random moments inside the engine.

It must surface as itself, and the ledger must be usable at once.
"""

import dis
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, FrameType

import pyarrow as pa

from chary import BudgetExceeded, Session
from chary.errors import InvalidInput
from chary.ledger import open_ledger
from tests.soak.figures import Figures, Until
from tests.soak.replay import Replay
from tests.soak.rooms import APPEND, BUDGETS, ROOMS, VISITS, Room, of_frame

CALLS_OF_ONE = 30
# Shorter than the wait of the ledger's usual users, so that a lock left behind shows as an error and not as a pause.
LEDGER_SECONDS = 2.0
# The interpreter looks for signals after a call, where a function begins and where a loop turns.
AFTER = {"CALL", "CALL_FUNCTION_EX"}
AT = {"RESUME", "JUMP_BACKWARD"}
Ask = Callable[[], object]
# So many rows that a call spends most of its time in the engine, where no bytecode runs.
LARGE = "many rows"
_MANY = pa.concat_tables([VISITS] * 3000)
_SLOW = (
    "release of keys",
    "watch",
    "histogram",
    "marginal",
    "quantiles",
    "between",
    "sketch_release_if",
    "most_common",
)
DESKS = {**ROOMS, LARGE: Room(_SLOW, of_frame(_MANY, privacy_unit="patient"))}


class Alarm:
    """The signal of Ctrl-C after so many seconds, wherever the process is then."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.raised, self.ignored, self.passed = seconds, False, False, 0

    def __enter__(self) -> "Alarm":
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._handler = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.seconds, 1e-6))
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        signal.signal(signal.SIGINT, self._usual)
        sys.unraisablehook = self._hook

    def _unraisable(self, told: object) -> None:
        self.ignored = True

    def _ring(self, *_: object) -> None:
        self.raised = True
        signal.raise_signal(signal.SIGINT)


class CtrlC:
    """A tracer that sends the signal of Ctrl-C at the chosen one of the points where one can arrive."""

    def __init__(self, point: int | None) -> None:
        self.point, self.passed, self.raised, self.ignored = point, 0, False, False
        self._last: dict[FrameType, int] = {}

    def __enter__(self) -> "CtrlC":
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        signal.signal(signal.SIGINT, self._usual)
        sys.unraisablehook = self._hook
        self._last.clear()

    def _unraisable(self, told: object) -> None:
        """Python itself drops what is raised in a finalizer."""
        self.ignored = True

    def _trace(self, frame: FrameType, event: str, _: object):
        if self.raised or frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self._is_point(frame):
            self.passed += 1
            if self.passed - 1 == self.point:
                self.raised = True
                self._last.clear()
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def _is_point(self, frame: FrameType) -> bool:
        names = operations(frame.f_code)
        last, self._last[frame] = self._last.get(frame), frame.f_lasti
        if names.get(frame.f_lasti) == "RETURN_VALUE":
            del self._last[frame]
        return names.get(frame.f_lasti) in AT or names.get(last) in AFTER


_operations: dict[CodeType, dict[int, str]] = {}


def operations(code: CodeType) -> dict[int, str]:
    """The operations of some code by their offset."""
    if code not in _operations:
        _operations[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
    return _operations[code]


@dataclass
class Desk:
    """A session whose calls are interrupted, and how many points a call of each kind has."""

    room: str
    folder: Path
    session: Session
    points: dict[str, float]
    turn: int = 0

    @property
    def ledger(self) -> Path:
        return self.folder / "soak.ledger"

    def asked(self, random: Random) -> tuple[str, Ask]:
        """Another call, prepared."""
        room = DESKS[self.room]
        kind = random.choice([kind for kind in room.kinds if kind != APPEND])
        self.turn += 1
        ask = room.prepare(self.session, kind, f"{self.turn} {kind}")
        return kind, lambda: ask(f"asked {self.turn}")


def interrupts(until: Until, random: Random, wrapped: Callable[[Ask], Ask] = lambda ask: ask) -> Figures:
    """The attack; `wrapped` changes each call, to see that one that swallows interrupts or keeps locks is caught."""
    figures, desk, points = Figures(), None, {}
    for number in until:
        if number % CALLS_OF_ONE == 0:
            _close(desk)
            desk = _desk(random, points)
        _one(figures, desk, random, wrapped)
    _close(desk)
    return figures


def _desk(random: Random, points: dict[str, float]) -> Desk:
    room, folder = random.choice([*sorted(ROOMS), LARGE, LARGE]), Path(tempfile.mkdtemp(prefix="soak-"))
    DESKS[room].make(folder)
    ledger = open_ledger(folder / "soak.ledger", timeout=LEDGER_SECONDS)
    return Desk(room, folder, DESKS[room].open(folder, ledger=ledger, **BUDGETS[0]), points)


def _close(desk: Desk | None) -> None:
    if desk is not None:
        desk.session.close()
        desk.session.spine.ledger.close()
        shutil.rmtree(desk.folder)


def _one(figures: Figures, desk: Desk, random: Random, wrapped: Callable[[Ask], Ask]) -> None:
    try:
        kind, ask = desk.asked(random)
    except (BudgetExceeded, InvalidInput):
        figures.count("refused")
        return
    except Exception as error:
        figures.violation(f"{desk.room}: cannot prepare a call: {type(error).__name__}: {error}"[:300])
        return
    size = f"{desk.room}, {kind}"
    most = desk.points.get(size) or _measured(desk, ask)
    desk.points[size] = most
    point = random.uniform(0, most) if desk.room == LARGE else random.randrange(max(int(most), 1))
    where = f"{size}, {point:.4g} of {most:.4g}"
    # The error stays referenced, as it does at a prompt: nothing may wait until it is collected.
    error, stop = _interrupted(wrapped(ask), Alarm(point) if desk.room == LARGE else CtrlC(point))
    if not stop.raised:
        # What was compiled meanwhile need not be compiled again: the call has become shorter.
        desk.points[size] = stop.passed or most * 0.9
        figures.count("ended before")
        return
    figures.count("signals" if desk.room == LARGE else "interrupts")
    _check(figures, desk, ask, where, error, stop)
    del error


def _check(
    figures: Figures, desk: Desk, ask: Ask, where: str, error: BaseException | None, stop: "Alarm | CtrlC"
) -> None:
    if stop.ignored:
        figures.count("in finalizers, where Python drops it")
    elif not isinstance(error, KeyboardInterrupt):
        figures.violation(f"{where}: it surfaced as {type(error).__name__}", desk.room)
    with _at_once(figures, where):
        usable(desk.ledger)
    with _at_once(figures, f"{where}, asked again"):
        _again(ask)
    for problem in Replay(desk.ledger).problems:
        figures.violation(f"{where}: {problem}")


def _measured(desk: Desk, ask: Ask) -> float:
    """How many points a call has, or how many seconds it takes."""
    begun = time.monotonic()
    if desk.room == LARGE:
        _again(ask)
        return time.monotonic() - begun
    with CtrlC(None) as tracer:
        _again(ask)
    return tracer.passed


def _interrupted(ask: Ask, stop: "Alarm | CtrlC") -> tuple[BaseException | None, "Alarm | CtrlC"]:
    try:
        with stop:
            ask()
    except BaseException as error:
        return error, stop
    return None, stop


def _again(ask: Ask) -> None:
    try:
        ask()
    except (BudgetExceeded, InvalidInput):
        # Also right: the interrupted call stays charged, and what it held may be gone.
        return


def usable(ledger: Path) -> None:
    """Another connection may write without waiting."""
    connection = sqlite3.connect(ledger, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@contextmanager
def _at_once(figures: Figures, where: str):
    try:
        yield
    except Exception as error:
        figures.violation(f"{where}: afterwards {type(error).__name__}: {error}"[:300])
