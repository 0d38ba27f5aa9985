"""Opening, charging and verifying a ledger of 0, 10,000 and 1,000,000 entries: the size must not matter to a charge.

Run as `python benchmarks/ledger.py [ENTRIES ...]`. Every call is reserved and settled: two transactions, each of which
waits for the disk. The row "disk alone" is what two bare writes and syncs allow.
"""

import os
import runpy
import sys
import tempfile
import time
from pathlib import Path

from chary.ledger import Amount, Ledger, MemoryLedger, SqlLedger
from measuring import announce, duration, show

# The generator of large ledgers belongs to the tests, which also prove that what it builds is right.
BULK = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "ledger" / "bulk.py"))
SIZES = (0, 10_000, 1_000_000)
CHARGES = 500


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
    ledger = SqlLedger(path)
    opening = time.perf_counter() - started
    ledger.open(BULK["TERMS"])
    charges_per_second(ledger, 20)
    rate = charges_per_second(ledger, CHARGES)
    started = time.perf_counter()
    assert ledger.verify().ok
    verifying = time.perf_counter() - started
    ledger.close()
    return f"SQLite, {size:,}", duration(opening), f"{rate:,.0f}", duration(verifying)


def in_memory() -> tuple[str, ...]:
    """The same calls without a file."""
    ledger = MemoryLedger()
    ledger.open(BULK["TERMS"])
    return "memory", "-", f"{charges_per_second(ledger, 20_000):,.0f}", "-"


def main(sizes: list[int]) -> None:
    announce()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Path(folder) / f"{size}.ledger", size) for size in sizes]
        rows.append(("disk alone", "-", f"{syncs_per_second(Path(folder)) / 2:,.0f}", "-"))
    show("The ledger", ["entries before", "opening", "calls per second", "verifying all"], [*rows, in_memory()])


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(SIZES))
