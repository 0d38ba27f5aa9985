"""Questions to tables of many rows, beside the engine's own queries: time, memory, growth, and a batch of one percent.

Run as `python benchmarks/scale.py [--rows 100000 1000000] [--rounds 2]`; between two sizes the exponent is told. By
default a folder of Parquet files is read by DuckDB; `--postgresql URL` takes a server, in which the table `chary_scale`
is made anew, and `--spark` a local Spark. Times are of the processor, of all threads, where the engine is in this
process, so that others on the machine do not count; else those of a clock.

Rows are narrow: a unit (ten rows each), one of 10,000 keys, and a cost. `ours` is a whole call, first asked: compiled,
read, with noise, and recorded in a ledger in memory. `bare` is the query that `BARE` holds for the engine. Each side of
each size is a process of its own, whose largest resident memory is told (of a server or of Spark, that of the client
alone). Then a batch of one percent is appended and the last question is asked again.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import duckdb

import chary
from chary import Bins, Budget, Session, count, total
from chary.calls import Quantile, Top, Weights
from measuring import announce, duration, show
from recording import Against

KEYS = 10_000
MOST = 5_000
TABLE = "chary_scale"
COLUMNS = f"""(hash(i) % greatest({{rows}} // 10, 1))::BIGINT AS unit,
    (hash(i + 1000000007) % {KEYS})::INTEGER AS k, (hash(i + 2000000011) % {MOST + 100})::INTEGER AS cost"""
HEADINGS = [
    "rows, question",
    "ours",
    "bare",
    "ours / bare",
    "exponent",
    "after 1 %",
    "of the first",
    "ours MB",
    "bare MB",
]
LIMITS = [Against("large tables over their bare queries", "ours", "bare", "ours / bare")]

_KEYED = "SELECT k, count(*) FROM {rows} WHERE cost >= {least} GROUP BY k"
_USUAL = {
    "count": "SELECT count(*) FROM {rows} WHERE cost >= {least}",
    "count of units": "SELECT count(DISTINCT unit) FROM {rows} WHERE cost >= {least}",
    "10,000 keys": _KEYED,
    "total, 1 row a unit": "SELECT sum(most) FROM (SELECT unit, max(least(greatest(cost, 0), 5000)) AS most "
    "FROM {rows} WHERE cost >= {least} GROUP BY unit) AS largest",
    "total, 3 rows a unit": "SELECT sum(value) FROM (SELECT value, row_number() OVER (PARTITION BY unit ORDER BY value "
    "DESC) AS place FROM (SELECT unit, least(greatest(cost, 0), 5000) AS value FROM {rows} WHERE cost >= {least}) AS "
    "clipped) AS ranked WHERE place <= 3",
    "quantile": "SELECT cost, count(*) FROM {rows} WHERE cost >= {least} GROUP BY cost ORDER BY cost",
    "top 10 of 10,000": _KEYED + " ORDER BY 2 DESC LIMIT 10",
    "watch, 10,000 keys": _KEYED,
    "weights": "SELECT count(*) FROM {rows} WHERE cost >= {least} AND k < 5000",
}
BARE = {"duckdb": _USUAL, "postgresql": _USUAL, "spark": _USUAL}
"""The query of an engine for each question; `{rows}` is what it calls them, `{least}` differs by round."""

Ask = Callable[[int], object]


class Place(Protocol):
    """Where the rows are: made, opened by chary, and asked without it; `clock` tells seconds."""

    clock: Callable[[], float]

    def make(self, rows: int) -> None: ...
    def session(self, unit: str | None) -> Session: ...
    def grow(self) -> Callable[[Session], object]: ...
    def ask(self, sql: str) -> object: ...


class DuckFolder:
    """Eight Parquet files in a folder, which DuckDB reads in place."""

    name, clock = "duckdb", staticmethod(time.process_time)

    def __init__(self, folder: Path) -> None:
        self.folder, self.visits = folder, folder / "visits"

    def make(self, rows: int) -> None:
        """The files, and beside the folder the one that will come."""
        self.visits.mkdir()
        edges = [rows * part // 8 for part in range(9)]
        for number, (first, last) in enumerate(pairwise(edges)):
            write_rows(self.visits / f"{number}.parquet", rows, first, last)
        write_rows(self.folder / "later.parquet", rows, rows, rows + rows // 100)

    def session(self, unit: str | None) -> Session:
        return chary.open(self.visits, **terms(unit))

    def grow(self) -> Callable[[Session], object]:
        later = self.visits / "later.parquet"
        (self.folder / "later.parquet").rename(later)
        return lambda session: session.append(later)

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()

    @property
    def rows(self) -> str:
        return f"read_parquet('{self.visits}/*.parquet')"

    def ask(self, sql: str) -> object:
        return self.connection.execute(sql).fetchall()


class PostgresTable(DuckFolder):
    """A table of a server, filled from the same files."""

    name, rows, clock = "postgresql", TABLE, staticmethod(time.perf_counter)

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def make(self, rows: int) -> None:
        super().make(rows)
        text = self.folder / "rows.csv"
        duckdb.sql(f"COPY (FROM read_parquet('{self.visits}/*.parquet')) TO '{text}' (HEADER false)")
        with self.connection.cursor() as cursor, text.open("rb") as lines:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
            cursor.execute(f"CREATE TABLE {TABLE} (unit bigint, k integer, cost integer)")
            with cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT csv)") as copy:
                while block := lines.read(2**20):
                    copy.write(block)
            cursor.execute(f"ANALYZE {TABLE}")
        text.unlink()

    def session(self, unit: str | None) -> Session:
        return chary.open(self.url, table=TABLE, **terms(unit))

    @cached_property
    def connection(self) -> Any:
        import psycopg  # noqa: PLC0415

        return psycopg.connect(self.url, autocommit=True)


class SparkFolder(DuckFolder):
    """The same files in place, read by a local Spark."""

    name, rows, clock = "spark", TABLE, staticmethod(time.perf_counter)

    def session(self, unit: str | None) -> Session:
        return chary.open(self.visits, engine=self.connection, **terms(unit))

    @cached_property
    def connection(self) -> Any:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        spark = SparkSession.builder.master(f"local[{os.cpu_count()}]").getOrCreate()
        spark.read.parquet(str(self.visits)).createOrReplaceTempView(TABLE)
        return spark

    def ask(self, sql: str) -> object:
        return self.connection.sql(sql).collect()


def write_rows(path: Path, rows: int, first: int, last: int) -> None:
    """Some of the rows, as a Parquet file."""
    chosen = f"SELECT {COLUMNS.format(rows=rows)} FROM range({first}, {last}) AS made(i)"
    duckdb.sql(f"COPY ({chosen}) TO '{path}' (FORMAT parquet)")


def terms(unit: str | None) -> dict[str, Any]:
    """What a session is opened with."""
    budget = Budget(epsilon=10**6, delta=1e-6)
    relation = "replace" if unit is None else "add/remove"
    return {"privacy_unit": unit, "relation": relation, "budget": budget, "ledger": ":memory:", "dataset": "visits"}


def questions(each: Session, units: Session) -> dict[str, Ask]:
    """What is asked; the number differs from round to round, so that nothing is asked twice."""
    cells = {"cost": Bins(range(0, MOST + 101, 100)), "k": Bins(range(0, KEYS + 1, 1000))}
    weights = each.start(Weights(universe=cells, alpha="0.05", epsilon="0.1"))
    bounds = (0, MOST)

    def keyed(least: int) -> Any:
        return count(f"cost >= {least}").by("k", range(KEYS))

    def clipped(least: int, kept: int) -> Any:
        return total("cost", bounds=bounds, where=f"cost >= {least}", rows_per_unit=kept)

    return {
        "count": lambda least: each.release(count(f"cost >= {least}"), epsilon=1),
        "count of units": lambda least: units.release(count(f"cost >= {least}"), epsilon=1),
        "10,000 keys": lambda least: each.release(keyed(least), epsilon=1),
        "total, 1 row a unit": lambda least: units.release(clipped(least, 1), epsilon=1),
        "total, 3 rows a unit": lambda least: units.release(clipped(least, 3), epsilon=1),
        "quantile": lambda least: each.ask(Quantile("cost", 0.9, bounds=bounds, epsilon=1, where=f"cost >= {least}")),
        "top 10 of 10,000": lambda least: each.ask(Top(keyed(least + 1000), k=10, epsilon="0.1")),
        "watch, 10,000 keys": lambda least: each.watch(keyed(least + 2000), above=10**9, epsilon="0.1"),
        "weights": lambda least: weights.ask(f"cost >= {100 * least} AND k < 5000"),
    }


def measured(side: str, place: Any, rounds: int) -> dict[str, Any]:
    """The times of one side, in a process of its own."""

    def seconds(work: Callable[[], object]) -> float:
        start = place.clock()
        work()
        return place.clock() - start

    if side == "bare":
        asked = BARE[place.name]
        place.ask(asked["count"].format(rows=place.rows, least=0))
        works = {name: partial(_bare, place, sql) for name, sql in asked.items()}
        first = {
            name: min(seconds(partial(work, least)) for least in range(1, rounds + 1)) for name, work in works.items()
        }
        return {"first": first, "memory": _memory()}
    opening = seconds(lambda: place.session(None).close())
    with place.session(None) as each, place.session("unit") as units:
        works = questions(each, units)
        first = {
            name: min(seconds(partial(work, least)) for least in range(1, rounds + 1)) for name, work in works.items()
        }
        append = place.grow()
        appending = seconds(lambda: append(each))
        append(units)
        later = {name: seconds(partial(work, rounds)) for name, work in works.items()}
    return {"first": first, "later": later, "opening": opening, "append": appending, "memory": _memory()}


def _bare(place: Any, sql: str, least: int) -> object:
    return place.ask(sql.format(rows=place.rows, least=least))


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def of_child(side: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own measures."""
    asked = ["--side", side, "--folder", str(folder), "--rounds", str(options.rounds)]
    asked += ["--postgresql", options.postgresql] if options.postgresql else []
    asked += ["--spark"] if options.spark else []
    done = subprocess.run([sys.executable, __file__, *asked], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def lines(options: argparse.Namespace) -> Iterator[list[str]]:
    """All lines of the table."""
    before: tuple[int, dict[str, float]] | None = None
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as made:
            place_of(options, Path(made)).make(rows)
            bare, ours = (of_child(side, Path(made), options) for side in ("bare", "ours"))
        for name, taken in ours["first"].items():
            grown = "" if before is None else f"{math.log(taken / before[1][name], rows / before[0]):.2f}"
            memory = [f"{side['memory']:.0f}" for side in (ours, bare)]
            later = ours["later"][name]
            figures = [duration(taken), duration(bare["first"][name]), f"{taken / bare['first'][name]:.2f}", grown]
            yield [f"{rows:,}, {name}", *figures, duration(later), f"{later / taken:.1%}", *memory]
        yield [f"{rows:,}, opening", duration(ours["opening"]), "", "", "", "", "", "", ""]
        yield [f"{rows:,}, appending 1 %", duration(ours["append"]), "", "", "", "", "", "", ""]
        before = rows, ours["first"]


def place_of(options: argparse.Namespace, folder: Path) -> Any:
    """The engine that was asked for."""
    if options.postgresql:
        return PostgresTable(folder, options.postgresql)
    return SparkFolder(folder) if options.spark else DuckFolder(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--postgresql", metavar="URL")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--side", choices=("ours", "bare"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        sys.stdout.write(json.dumps(measured(options.side, place_of(options, options.folder), options.rounds)) + "\n")
        return
    announce()
    caption = "Units have ten rows each. Memory is the largest of all questions together, of the process that asked."
    show(f"Large tables: {place_of(options, Path()).name}", HEADINGS, lines(options), caption, LIMITS)


if __name__ == "__main__":
    main()
