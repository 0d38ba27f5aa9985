"""Opening, charging and verifying a ledger of up to 50,000 entries, or a million: the size must not matter to a charge.

Run as `python benchmarks/ledger.py [ENTRIES ...] [--full]`. Every call is reserved and settled: two transactions, each
of which waits for the disk. "Disk alone" is what two bare writes and syncs allow, measured right after the calls.
"""

import os
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from chary.ledger import Amount, Ledger, open_ledger
from measuring import FULL, announce, duration, full, show
from recording import Against

# The generator of large ledgers belongs to the tests, which also prove that what it builds is right.
BULK = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "ledger" / "bulk.py"))
SIZES = (0, 10_000, 1_000_000) if full() else (0, 10_000, 50_000)
CHARGES = 500
HEADINGS = ["entries before", "opening", "calls per second", "disk alone", "disk / ours", "verifying all"]


def charges_per_second(ledger: Ledger, charges: int) -> float:
    """Whole calls, reserved and settled, in a second."""
    body = '{"above":500,"epsilon":"0.02","where":"age >= 65 AND smoker"}'
    started = time.perf_counter()
    for _ in range(charges):
        call = ledger.reserve("visits", "ann", "test", body, Amount(20, 3))
        ledger.settle(call, Amount(1), hits=1, tests=1, answer="true")
    return charges / (time.perf_counter() - started)


def syncs_per_second(folder: Path) -> float:
    """How often in a second the disk takes ten pages of a file that is already there."""
    pages, sync = bytes(10 * 4096), getattr(os, "fdatasync", os.fsync)
    with (folder / "sync").open("wb", buffering=0) as file:
        file.write(pages * 100)
        os.fsync(file.fileno())
        started = time.perf_counter()
        for number in range(2 * CHARGES):
            file.seek(number % 100 * len(pages))
            file.write(pages)
            sync(file.fileno())
        return 2 * CHARGES / (time.perf_counter() - started)


def measure(path: Path, size: int) -> tuple[str, ...]:
    """One row: opening, charging, verifying."""
    if size:
        BULK["build"](path, size)
    started = time.perf_counter()
    ledger = open_ledger(path)
    opening = time.perf_counter() - started
    ledger.open(BULK["TERMS"])
    charges_per_second(ledger, 20)
    rate = charges_per_second(ledger, CHARGES)
    started = time.perf_counter()
    assert ledger.verify().ok
    verifying = time.perf_counter() - started
    ledger.close()
    limit = syncs_per_second(path.parent) / 2
    charged = f"{rate:,.0f}", f"{limit:,.0f}", f"{limit / rate:.2f}"
    return f"SQLite, {size:,}", duration(opening), *charged, duration(verifying)


def in_memory() -> tuple[str, ...]:
    """The same calls without a file."""
    ledger = open_ledger(":memory:")
    ledger.open(BULK["TERMS"])
    return "memory", "-", f"{charges_per_second(ledger, 20_000):,.0f}", "-", "-", "-"


def rows(folder: Path, sizes: list[int]) -> Iterator[tuple[str, ...]]:
    """All lines of the table."""
    yield in_memory()
    yield from (measure(folder / f"{size}.ledger", size) for size in sizes)


def main(sizes: list[int]) -> None:
    announce()
    limit = Against("calls a second over the disk alone", "calls per second", "disk alone", "disk / ours", rates=True)
    with tempfile.TemporaryDirectory() as folder:
        show("The ledger", HEADINGS, rows(Path(folder), sizes), against=[limit])


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:] if size != FULL] or list(SIZES))
