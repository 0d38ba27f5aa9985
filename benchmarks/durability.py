"""What a durable call costs beside the two bare commits that it cannot do without, and what other journals would cost.

Run as `python benchmarks/durability.py [FOLDER]`. Everything takes turns one by one on the same disk, so that a busy
spell meets all alike; figures are medians. A bare commit inserts one small row. WAL with a checkpoint empties the log
in the main file at each commit, as would be needed for the main file alone to hold every charge.
"""

import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from chary.ledger import Amount, Terms, open_ledger
from measuring import Work, announce, duration, seconds, show
from recording import Against

ROUNDS = 60
BODY = '{"above":500,"epsilon":"0.02","where":"age >= 65 AND smoker"}'
OURS = ("DELETE", "EXTRA")
MODES = (OURS, ("TRUNCATE", "EXTRA"), ("PERSIST", "EXTRA"), ("WAL", "FULL"))
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"


@contextmanager
def charging(path: Path, checkpoint: Path | None = None) -> Iterator[Work]:
    """One call, reserved and settled."""
    with closing(open_ledger(path, checkpoint=checkpoint)) as ledger:
        ledger.open(Terms("visits", "ab12", '{"unit":"patient"}', Amount(2**62, 2**62)))

        def call() -> None:
            held = ledger.reserve("visits", "ann", "test", BODY, Amount(20, 3))
            ledger.settle(held, Amount(1), hits=1, tests=1, answer="true")

        yield call


@contextmanager
def committing(path: Path, journal: str, synchronous: str, after: str | None = None) -> Iterator[Work]:
    """Two commits of one small row each."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in (f"journal_mode={journal}", f"synchronous={synchronous}", "fullfsync=ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("CREATE TABLE floor (number INTEGER PRIMARY KEY, body TEXT)")

        def twice() -> None:
            for _ in range(2):
                connection.execute("INSERT INTO floor (body) VALUES (?)", ("x" * 200,))
                if after is not None:
                    connection.execute(after).fetchall()

        yield twice


def works(folder: Path, stack: ExitStack) -> dict[str, Work]:
    """Everything that is compared, by name."""
    found = {
        "a call": stack.enter_context(charging(folder / "plain.ledger")),
        "a call, with a checkpoint": stack.enter_context(charging(folder / "seen.ledger", folder / "checkpoint")),
    }
    for journal, synchronous in MODES:
        bare = committing(folder / f"{journal}.db", journal, synchronous)
        found[f"two bare commits, {journal} {synchronous}"] = stack.enter_context(bare)
    bare = committing(folder / "checkpoint.db", "WAL", "FULL", CHECKPOINT)
    return found | {"two bare commits, WAL FULL + checkpoint": stack.enter_context(bare)}


def main(where: str | None) -> None:
    announce()
    with tempfile.TemporaryDirectory(prefix="chary-bench-", dir=where) as folder, ExitStack() as stack:
        named = works(Path(folder), stack)
        for work in named.values():
            work()
        rounds = [[seconds(work) for work in named.values()] for _ in range(ROUNDS)]
    times = dict(zip(named, map(statistics.median, zip(*rounds, strict=True)), strict=True))
    limit = times[f"two bare commits, {' '.join(OURS)}"]
    rows = [(name, duration(time), duration(limit), f"{time / limit:.2f}") for name, time in times.items()]
    headings = ["what", "time", "two bare commits of our journal", "time / two commits"]
    show("Durable calls", headings, rows, against=[Against("time over two commits", headings[1], *headings[2:])])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
