"""Questions to tables of many rows, beside the engine's own queries: time, memory, growth, and a batch of one percent.

Run as `python benchmarks/scale.py [--rows 100000 1000000] [--rounds 2] [--only NAME ...]`; between two sizes the
exponent is told. By default a folder of Parquet files is read by DuckDB. `--postgresql` begins a server of its own
(`--postgresql URL` takes one), in which the table `chary_scale` is made anew; `--spark` takes a local Spark.

Rows are narrow: a unit (ten rows each), one of 10,000 keys, and a cost. `ours` is a whole call, first asked: compiled,
read, with noise, and recorded in a ledger in memory. `bare` is the query that `BARE` holds for the question. Ratios are
of processor seconds, of all threads and of the engine's processes where they are on this machine, so that others do not
count. Each side of each size is a process of its own. Then a batch of one percent is appended, and the last question is
asked again.
"""

import argparse
import contextlib
import json
import math
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import chary
from chary import Bins, Session, count
from chary.calls import PMW, Quantile, TopK
from measuring import FULL, announce, duration, full, show
from places import KEYS, MOST, DuckFolder, Meter, PostgresTable, SparkFolder
from recording import Against

SERVERS = Path(__file__).parents[1] / "tests" / "servers" / "postgres.py"
OWN = "own"
HEADINGS = [
    "rows, question",
    "ours",
    "bare",
    "ours / bare",
    "exponent",
    "by the clock",
    "MB",
    "after 1 %",
]
_KEYED = "SELECT k, count(*) FROM {rows} WHERE cost >= {least} GROUP BY k"
_CLIPPED = "SELECT unit, least(greatest(cost, 0), 5000) AS value FROM {rows} WHERE cost >= {least}"
_RANKED = "row_number() OVER (PARTITION BY unit ORDER BY value DESC) AS place"
_VALUES = "SELECT cost, count(*) FROM {rows} WHERE cost >= {least} GROUP BY cost ORDER BY cost"
BARE = {
    "count": "SELECT count(*) FROM {rows} WHERE cost >= {least}",
    "count of units": "SELECT count(DISTINCT unit) FROM {rows} WHERE cost >= {least}",
    "10,000 keys": _KEYED,
    "10,000 keys, 3 a unit": "SELECT k, count(*) FROM (SELECT k, row_number() OVER (PARTITION BY unit ORDER BY k) AS "
    "place FROM (SELECT DISTINCT unit, k FROM {rows} WHERE cost >= {least}) AS met) AS ranked WHERE place <= 3 "
    "GROUP BY k",
    "total, 1 row a unit": "SELECT sum(most) FROM (SELECT unit, max(least(greatest(cost, 0), 5000)) AS most "
    "FROM {rows} WHERE cost >= {least} GROUP BY unit) AS largest",
    "total, 3 rows a unit": f"SELECT sum(value) FROM (SELECT value, {_RANKED} FROM ({_CLIPPED}) AS clipped) AS ranked "
    "WHERE place <= 3",
    "quantile": _VALUES,
    "5 quantiles": _VALUES,
    "top 10 of 10,000": _KEYED + " ORDER BY 2 DESC LIMIT 10",
    "watch, 10,000 keys": _KEYED,
    "weights": "SELECT count(*) FROM {rows} WHERE cost >= {least} AND k < 5000",
}
"""A query for each question; `{rows}` is what the engine calls them, `{least}` differs by round."""

Ask = Callable[[int], object]


def questions(each: Session, units: Session) -> dict[str, Ask]:
    """What is asked; the number differs from round to round, so that nothing is asked twice."""
    cells = {"cost": Bins(range(0, MOST + 101, 100)), "k": Bins(range(0, KEYS + 1, 1000))}
    weights = each.start(PMW(universe=cells, alpha="0.05", epsilon="0.1"))
    values: dict[str, Any] = {"column": "cost", "bounds": (0, MOST), "epsilon": 1}
    fifths = [0.1, 0.25, 0.5, 0.75, 0.9]

    def keyed(least: int) -> Any:
        return count(f"cost >= {least}").by("k", range(KEYS))

    def few(least: int) -> Any:
        return count(f"cost >= {least}").by("k", range(KEYS), max_groups_per_unit=3)

    def clipped(least: int, kept: int) -> Any:
        return chary.sum("cost", bounds=(0, MOST), where=f"cost >= {least}", max_rows_per_unit=kept)

    return {
        "count": lambda least: each.release(count(f"cost >= {least}"), epsilon=1),
        "count of units": lambda least: units.release(count(f"cost >= {least}"), epsilon=1),
        "10,000 keys": lambda least: each.release(keyed(least), epsilon=1),
        "10,000 keys, 3 a unit": lambda least: units.release(few(least), epsilon=1),
        "total, 1 row a unit": lambda least: units.release(clipped(least, 1), epsilon=1),
        "total, 3 rows a unit": lambda least: units.release(clipped(least, 3), epsilon=1),
        "quantile": lambda least: each.ask(Quantile(at=0.9, where=f"cost >= {least}", **values)),
        "5 quantiles": lambda least: each.ask(Quantile(at=fifths, where=f"cost >= {least + 500}", **values)),
        "top 10 of 10,000": lambda least: each.ask(TopK(keyed(least + 1000), k=10, epsilon="0.1")),
        "watch, 10,000 keys": lambda least: each.release_if(keyed(least + 2000), above=10**9, epsilon="0.1"),
        "weights": lambda least: weights.ask(f"cost >= {100 * least} AND k < 5000"),
    }


class Side:
    """One side of the comparison, in a process of its own."""

    def __init__(self, place: DuckFolder, rounds: int, only: list[str]) -> None:
        self.place, self.rounds, self.only = place, rounds, only
        place.connection  # noqa: B018 - begun before it is measured
        self.meter = Meter(place)

    def bare(self) -> dict[str, Any]:
        """The engine's own queries."""
        works = {name: partial(self._asked, sql) for name, sql in BARE.items()}
        works["count"](0)
        return {"first": self._best(works)}

    def ours(self) -> dict[str, Any]:
        """The calls, and what a batch of one percent takes."""
        opening = self._measured(lambda: self.place.session(None).close())
        with self.place.session(None) as each, self.place.session("unit") as units:
            works = questions(each, units)
            first = self._best(works)
            append = self.place.grow()
            appending = self._measured(lambda: append(each))
            append(units)
            later = {name: self._measured(partial(works[name], self.rounds)) for name in first}
        return {"first": first, "later": later, "opening": opening, "appending 1 %": appending}

    def _asked(self, sql: str, least: int) -> object:
        return self.place.ask(sql.format(rows=self.place.rows, least=least))

    def _best(self, works: dict[str, Ask]) -> dict[str, list[float]]:
        chosen = {name: work for name, work in works.items() if not self.only or name in self.only}
        return {
            name: min(self._measured(partial(work, least)) for least in range(1, self.rounds + 1))
            for name, work in chosen.items()
        }

    def _measured(self, work: Callable[[], object]) -> list[float]:
        """Processor seconds, seconds, and the most megabytes meanwhile."""
        self.meter.forget()
        took: list[float] = []

        def timed() -> None:
            start = time.perf_counter()
            work()
            took.append(time.perf_counter() - start)

        return [self.meter.spent(timed), *took, self.meter.most()]


def of_child(side: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own measures."""
    asked = ["--side", side, "--folder", str(folder), "--rounds", str(options.rounds)]
    asked += ["--postgresql", options.postgresql] if options.postgresql else []
    asked += ["--spark"] if options.spark else []
    asked += ["--only", *options.only] if options.only else []
    done = subprocess.run([sys.executable, __file__, *asked], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def lines(options: argparse.Namespace) -> Iterator[list[str]]:
    """All lines of the table."""
    before: tuple[int, dict[str, list[float]]] | None = None
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as made:
            place_of(options, Path(made)).make(rows)
            bare, ours = (of_child(side, Path(made), options) for side in ("bare", "ours"))
        for name, taken in ours["first"].items():
            known = None if before is None else (before[0], before[1][name][0])
            yield line(f"{rows:,}, {name}", rows, taken, bare["first"][name], known, ours["later"][name][0])
        for name in ("opening", "appending 1 %"):
            spent, took, most = ours[name]
            yield [f"{rows:,}, {name}", duration(spent), "", "", "", duration(took), f"{most:.0f}", ""]
        before = rows, ours["first"]


def line(
    name: str, rows: int, ours: list[float], bare: list[float], before: tuple[int, float] | None, later: float
) -> list[str]:
    """The cells of one question."""
    grown = "" if before is None else f"{math.log(max(ours[0], 1e-3) / max(before[1], 1e-3), rows / before[0]):.2f}"
    ratio = f"{ours[0] / bare[0]:.2f}" if bare[0] else ""
    clock, memory = f"{duration(ours[1])} / {duration(bare[1])}", f"{ours[2]:.0f} / {bare[2]:.0f}"
    return [name, duration(ours[0]), duration(bare[0]), ratio, grown, clock, memory, duration(later)]


def place_of(options: argparse.Namespace, folder: Path) -> DuckFolder:
    """The engine that was asked for."""
    if options.postgresql:
        return PostgresTable(folder, options.postgresql)
    return SparkFolder(folder) if options.spark else DuckFolder(folder)


def engine_name(options: argparse.Namespace) -> str:
    """What the table is called by."""
    return "postgresql" if options.postgresql else "spark" if options.spark else "duckdb"


def told(options: argparse.Namespace) -> None:
    """One table, of one engine."""
    name = engine_name(options)
    limit = Against(f"large tables over bare queries, {name}", "ours", "bare", "ours / bare")
    caption = "Times of processors but where it says clock; pairs are ours / bare; memory of the largest process."
    show(f"Large tables: {name}", HEADINGS, lines(options), caption, [limit])


def with_server(options: argparse.Namespace) -> None:
    """One table, of a server that is begun for it where none was named."""
    with contextlib.ExitStack() as ends:
        if options.postgresql == OWN:
            memory = {"shared_buffers": "512MB", "work_mem": "256MB"}
            server = ends.enter_context(runpy.run_path(str(SERVERS))["running"](**memory))
            options.postgresql = server.url(server.database())
        told(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these questions alone")
    parser.add_argument("--postgresql", nargs="?", const=OWN, metavar="URL")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument(FULL, action="store_true", help="10,000,000 rows too")
    parser.add_argument("--side", choices=("ours", "bare"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        side = Side(place_of(options, options.folder), options.rounds, options.only)
        sys.stdout.write(json.dumps(getattr(side, options.side)()) + "\n")
        return
    options.rows += [10_000_000] if full() else []
    announce()
    with_server(options)


if __name__ == "__main__":
    main()
