"""Appending a million rows to a stream of public size, batch after batch: does a later batch take longer?

Run as `python benchmarks/append.py`. Every batch is checked, written in one transaction with its number and noted in a
durable ledger together with the size after it. A DuckDB file is opened for writing, committed and closed each time, so
`bare` is the same without chary: connect, insert in a transaction, close.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import chary
from chary import Budget, Session
from measuring import announce, duration, seconds, show

BATCH, BATCHES = 10_000, 100
LATEST = 20
Append = Callable[[pa.Table], object]


def batch(number: int) -> pa.Table:
    """The rows of one batch: when they arrived, of whom, and a measurement."""
    noise = np.random.default_rng(number)
    arrived = np.arange(number * BATCH, (number + 1) * BATCH)
    return pa.table({"arrived": arrived, "sensor": noise.integers(0, 5000, BATCH), "value": noise.normal(size=BATCH)})


def stored(folder: Path) -> Path:
    """A DuckDB file with the first batch."""
    path = folder / "stream.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("first", batch(0))
        connection.execute("CREATE TABLE stream AS FROM first")
    return path


def session(folder: Path, *, in_file: bool) -> Session:
    """A session on the first batch."""
    where = {"source": stored(folder), "table": "stream"} if in_file else {"source": batch(0), "dataset": "stream"}
    ledger = folder / "stream.ledger"
    return chary.open(**where, privacy_unit=None, relation="replace", ledger=ledger, budget=Budget(epsilon=1))


def bare(folder: Path) -> Append:
    """The engine's own append to a file."""
    path = stored(folder)

    def append(rows: pa.Table) -> None:
        with duckdb.connect(str(path)) as connection:
            connection.begin()
            connection.register("incoming", rows)
            connection.execute("INSERT INTO stream BY NAME FROM incoming")
            connection.commit()

    return append


def timed(append: Append) -> list[float]:
    """Seconds for each batch."""
    rows = map(batch, range(1, BATCHES + 1))
    return [seconds(partial(append, each)) for each in rows]


def measured() -> Iterator[tuple[str, list[float]]]:
    """The times of every batch, by where the rows are kept."""
    for name, in_file in (("in memory", False), ("DuckDB file", True)):
        with tempfile.TemporaryDirectory() as folder, closing(session(Path(folder), in_file=in_file)) as opened:
            yield name, timed(opened.append)
            assert opened.size == opened.versions[-1].size == (BATCHES + 1) * BATCH
    with tempfile.TemporaryDirectory() as folder:
        yield "DuckDB file, bare", timed(bare(Path(folder)))


def main() -> None:
    """Print the table."""
    announce()
    lines = []
    for name, times in measured():
        first, last = (statistics.median(part) for part in (times[:LATEST], times[-LATEST:]))
        per_second = f"{BATCHES * BATCH / sum(times):,.0f}"
        lines.append([name, duration(first), duration(last), f"{last / first:.2f}", duration(max(times)), per_second])
    headings = ["rows kept", f"first {LATEST}", f"last {LATEST}", "last / first", "longest", "rows/s"]
    show(f"{BATCHES} batches of {BATCH:,} rows, median time of a batch", headings, lines)


if __name__ == "__main__":
    main()
