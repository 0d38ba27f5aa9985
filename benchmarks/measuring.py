"""Shared by the benchmarks: the best time of several rounds, one line about the machine, and tables."""

import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from recording import Against, Slot

WIDTH = 120
FULL, UNFINISHED = "--full", " (unfinished)"
LIBRARIES = ("numpy", "scipy", "duckdb", "sqlalchemy")
Work = Callable[[], object]


def seconds(work: Work) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best(work: Work, rounds: int = 5, repeats: int = 1) -> float:
    """The best time of a call over several rounds of `repeats` calls each, after one call to warm up."""
    return side_by_side([work], rounds, repeats)[0]


def side_by_side(works: Sequence[Work], rounds: int = 5, repeats: int = 1) -> list[float]:
    """The best time of each call; rounds of all take turns, so that a busy spell of the machine meets them all."""
    for work in works:
        work()
    times = [[seconds(lambda: _repeat(work, repeats)) for work in works] for _ in range(rounds)]  # noqa: B023
    return [min(column) / repeats for column in zip(*times, strict=True)]


class QueryClock:
    """Given to a session as `on_step`, it adds up the time that calls spend in their bare queries."""

    def __init__(self) -> None:
        self.spent, self._since = 0.0, 0.0

    def __call__(self, step: str) -> None:
        now = time.perf_counter()
        if step == "reserved":
            self._since = now
        elif step == "evaluated":
            self.spent += now - self._since

    def split(self, call: Work) -> tuple[float, float]:
        """The time of one call, and what it took apart from its query."""
        before = self.spent
        whole = seconds(call)
        return whole, whole - (self.spent - before)


def machine(load: str | None = None) -> str:
    """Cores, load, processor and versions; `load=""` leaves the load out, for what does not change."""
    told = f" (load {os.getloadavg()[0]:.1f})" if load is None else load
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    python = f"Python {platform.python_version()}, {libraries}, SQLite {sqlite3.sqlite_version}"
    return f"{os.cpu_count()} cores{told}, {processor()}, {python}"


def processor() -> str:
    """The name of the processor, where the system tells it, and its architecture."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return ", ".join([*names[:1], platform.machine()])


def announce() -> None:
    """Print the line about the machine."""
    Console(width=WIDTH, highlight=False).print(machine(), style="dim")


def show(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str | None = None,
    against: Sequence[Against] = (),
) -> None:
    """Print a table, and keep it for `make bench`; the first column is text, all others are numbers.

    `against` says which columns are ratios to a limit or to a peer. Rows are kept, and shown on a terminal, as they
    come, so what interrupts the making of rows (`make bench` does after some minutes) leaves those that are finished.
    """
    table = Table(title=f"{title}{UNFINISHED}", caption=caption, caption_justify="left")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=not index)
    cells: list[list[str]] = []
    slot = Slot(headings, caption, against)
    with Live(table, console=Console(width=WIDTH), auto_refresh=False) as shown:
        for row in rows:
            cells.append(list(row))
            table.add_row(*row)
            slot.keep(f"{title}{UNFINISHED}", cells)
            shown.refresh()
        table.title = title
        slot.keep(title, cells)


def full() -> bool:
    """Whether `--full` asks for the large sizes too, which `make bench` leaves out."""
    return FULL in sys.argv


def duration(time_taken: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(4.2e-6), duration(2)
    ('12.3 ms', '4.2 us', '2.00 s')
    """
    if time_taken >= 1:
        return f"{time_taken:.2f} s"
    return f"{time_taken * 1e3:.1f} ms" if time_taken >= 1e-3 else f"{time_taken * 1e6:.1f} us"


def _repeat(work: Work, repeats: int) -> None:
    for _ in range(repeats):
        work()
