"""Appending 400,000 rows or a million to a stream of public size in batches: does a later batch take longer?

Run as `python benchmarks/append.py [--full]`. Every batch is checked, written in one transaction with its number and
noted in a durable ledger together with the size after it. A DuckDB file is opened for writing, committed and closed
each time, so `bare` is the same without chary: connect, insert in a transaction, close.

A second table has questions in between: after each append a `watch` of 100 keys and an `ask` of a public histogram.
Their scans grow with the rows. `own` is a turn without the append and the two queries, `bare` the engine's two counts.
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
from chary import Bins, Budget, Session, count
from chary.calls import PMW
from measuring import QueryClock, announce, duration, full, seconds, show
from recording import Against

BATCH, BATCHES = 10_000, 100 if full() else 40
LATEST = 20
SENSORS = 100
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


def session(folder: Path, *, in_file: bool, **more: object) -> Session:
    """A session on the first batch."""
    where = {"source": stored(folder), "table": "stream"} if in_file else {"source": batch(0), "dataset": "stream"}
    terms = {
        "privacy_unit": None,
        "neighbors": "replace",
        "ledger": folder / "stream.ledger",
        "budget": Budget(epsilon=1),
    }
    return chary.open(**where, **(terms | more))


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


def turns(folder: Path, *, in_file: bool) -> tuple[list[float], list[float]]:
    """Seconds of each append, watch and ask together; and without the append and the two queries."""
    clock, whole, own = QueryClock(), [], []
    budget = {"budget": Budget(epsilon=1, delta=1e-6), "grain": "0.001", "on_step": clock}
    with closing(session(folder, in_file=in_file, **budget)) as opened:
        cells = {"value": Bins([-9, -1, 0, 1, 9]), "sensor": Bins(range(0, 5001, 500))}
        weights = opened.start(PMW(universe=cells, alpha="0.05", epsilon="0.005"))
        keyed = count("value > 0").by("sensor", range(SENSORS))
        for number in range(1, BATCHES + 1):
            rows = batch(number)
            appending = seconds(partial(opened.append, rows))
            watched = clock.split(lambda: opened.release_if(keyed, above=10**6, epsilon="0.001"))
            asked = clock.split(partial(weights.ask, f"value >= 0 AND sensor < {500 * (1 + number % 9)}"))
            whole.append(appending + watched[0] + asked[0])
            own.append(watched[1] + asked[1])
    return whole, own


def bare_counts(folder: Path, *, in_file: bool) -> list[float]:
    """Seconds of the engine's own two counts after each batch; of a file with a new connection, as a session does."""
    append, path = bare(folder), str(folder / "stream.duckdb")
    kept = None if in_file else duckdb.connect()
    if kept is not None:
        kept.register("first", batch(0))
        kept.execute("CREATE TABLE stream AS FROM first")
    times = []
    for number in range(1, BATCHES + 1):
        rows = batch(number)
        if kept is None:
            append(rows)
        else:
            kept.register("incoming", rows)
            kept.execute("INSERT INTO stream BY NAME FROM incoming")
        times.append(seconds(partial(_counts, kept, path, number)))
    return times


def _counts(kept: duckdb.DuckDBPyConnection | None, path: str, number: int) -> None:
    connection = kept or duckdb.connect(path, read_only=True)
    keyed = f"SELECT sensor, count(*) FROM stream WHERE value > 0 AND sensor < {SENSORS} GROUP BY sensor"
    connection.execute(keyed).fetchall()
    connection.execute(f"SELECT count(*) FROM stream WHERE value >= 0 AND sensor < {500 * (1 + number % 9)}").fetchall()
    if kept is None:
        connection.close()


def asked() -> Iterator[tuple[str, list[float]]]:
    """The times of every turn, by where the rows are kept."""
    for name, in_file in (("in memory", False), ("DuckDB file", True)):
        with tempfile.TemporaryDirectory() as folder:
            whole, own = turns(Path(folder), in_file=in_file)
        with tempfile.TemporaryDirectory() as folder:
            counts = bare_counts(Path(folder), in_file=in_file)
        yield from ((f"{name}, whole", whole), (f"{name}, own", own), (f"{name}, bare", counts))


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
    last = f"last {LATEST}"
    headings = ["rows kept", f"first {LATEST}", last, "last / first", "longest", "rows/s", "bare", f"{last} / bare"]
    titles = {"median time of a batch": measured(), "append, watch and ask after each, median time": asked()}
    for title, found in titles.items():
        named = dict(found)
        lines = [line(name, times, named.get(f"{name.partition(',')[0]}, bare")) for name, times in named.items()]
        against = Against(title, last, "bare", headings[-1])
        show(f"{BATCHES} batches of {BATCH:,} rows, {title}", headings, lines, against=[against])


def line(name: str, times: list[float], bare: list[float] | None) -> list[str]:
    """The first and the last ones, how much longer the last ones took, the longest, and the last ones without chary."""
    first, last = (statistics.median(part) for part in (times[:LATEST], times[-LATEST:]))
    told = [duration(first), duration(last), f"{last / first:.2f}", duration(max(times))]
    told.append(f"{BATCHES * BATCH / sum(times):,.0f}")
    if bare is None or bare is times:
        return [name, *told, "-", "-"]
    limit = statistics.median(bare[-LATEST:])
    return [name, *told, duration(limit), f"{last / limit:.2f}"]


if __name__ == "__main__":
    main()
