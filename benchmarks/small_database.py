"""Small databases: the time to go through the candidates, and errors on real people, promised and measured.

Run as `python benchmarks/small_database.py [adult.csv.gz] [--full]` with the Adult table of the UCI repository, all
48,842 rows with a header; without it errors are measured on the packaged panel of 20,190 person-years alone. About two
minutes. An error is the largest of any query, a share of rows. Noise on each query is Laplace noise of epsilon/|Q|.
"""

import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

import chary
from chary import Bins, Budget, Universe
from chary.accounting.schedules import best_growth, epochs_error
from chary.calls import SmallDatabase
from chary.calls.synthesis import Workload
from chary.demo.panel import people
from chary.mechanisms.small_database import Classes, SmallDatabases
from chary.noise import OperatingSystem
from chary_research.published import published_small_database_law
from measuring import FULL, announce, best, duration, full, show

REPEATS, MOST, BETA, RHO = 20 if full() else 4, 300_000, "0.05", "0.02"
PANEL = (
    Universe({"xage": Bins([0, 10, 20, 30, 40, 50, 70]), "female": [0, 1], "mdvis": Bins([0, 1, 5, 10, 100])}),
    ["female = 1", "xage >= 30", "mdvis >= 1", "mdvis >= 5", "female = 1 AND mdvis >= 5", "xage >= 50 AND mdvis >= 10"],
)
ADULT = (
    Universe(
        {
            "age": Bins([17, 25, 35, 45, 55, 65, 91]),
            "hours_per_week": Bins([1, 35, 41, 50, 100]),
            "sex": ["Male", "Female"],
            "income": ["<=50K", ">50K"],
        }
    ),
    ["sex = 'Male'", "income = '>50K'", "age >= 45", "hours_per_week >= 41", "sex = 'Female' AND income = '>50K'"],
)
CELLS = [f"female = {female} AND mdvis {sign} 1" for female in (0, 1) for sign in ("<", ">=")]
SUBSETS = (
    Universe({"female": [0, 1], "mdvis": Bins([0, 1, 100])}, missing=False),
    [" OR ".join(chosen) for size in (1, 2, 3) for chosen in combinations(CELLS, size)],
)
Task = tuple[Universe, list[str]]


def speed(cells: int, queries: int, rows: int, measure: str) -> list[str]:
    """One choice among queries that hold in half of the cells, drawn at random."""
    random = np.random.default_rng(0)
    classes = Classes.of(cells, random.random((queries, cells)) < 0.5)
    mechanism = SmallDatabases("0.5", rows, classes, measure)
    counts = random.integers(0, 1000, queries).tolist()
    taken = best(lambda: mechanism.step(counts, 1000, OperatingSystem()), rounds=1)
    sizes = (cells, queries, len(classes.sizes), rows, classes.candidates(rows))
    return [measure, *(f"{size:,}" for size in sizes), duration(taken)]


def errors(name: str, table: pl.DataFrame, task: Task, epsilon: str) -> Iterator[list[str]]:
    """Some numbers of rows with both measures, beside noise on each query."""
    universe, queries = task
    options = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "budget": Budget(epsilon=10**6)}
    session = chary.open(table, **options)
    truths = np.array([table.filter(pl.sql_expr(query)).height / table.height for query in queries])
    workload = Workload.of(universe, queries, session.schema)
    for measure in ("classes", "databases"):
        for rows in (4, 8, 64):
            if workload.classes.candidates(rows) > MOST:
                continue
            asked = {"universe": universe, "queries": queries, "epsilon": epsilon, "rows": rows, "measure": measure}
            found = [session.ask(SmallDatabase(**asked)) for _ in range(REPEATS)]
            off = [max(abs(made.share(q) - t) for q, t in zip(queries, truths, strict=True)) for made in found]
            told = [f"{found[0].error_bar:.4f}", f"{np.mean(off):.4f}", f"{np.max(off):.4f}"]
            yield [name, epsilon, measure, f"{rows}", f"{workload.classes.candidates(rows):,}", *told]
    session.close()
    yield [name, epsilon, "noise on each", "", "", *noise(table.height, len(queries), float(epsilon))]


def noise(size: int, queries: int, epsilon: float) -> list[str]:
    """Promised, mean and largest error of Laplace noise on each query."""
    scale = queries / epsilon / size
    off = np.abs(np.random.default_rng(1).laplace(scale=scale, size=(REPEATS, queries))).max(axis=1)
    return [f"{scale * np.log(queries / float(BETA)):.4f}", f"{off.mean():.4f}", f"{off.max():.4f}"]


def growing(table: pl.DataFrame, task: Task) -> Iterator[list[str]]:
    """What schedules promise for ever, at the number of rows and the growth of least error."""
    session = chary.open(table, privacy_unit=None, neighbors="replace", ledger=":memory:", budget=Budget(epsilon=1))
    workload = Workload.of(*task, session.schema)
    session.close()
    published = published_small_database_law(cells=task[0].cells, queries=len(task[1]))
    for start in (10**4, 10**5, 10**6, 10**7) if full() else (10**4, 10**6):
        for name, total, concentrated in (
            ("epsilon 1", {"epsilon": 1}, False),
            (f"rho {RHO}", {"rho": RHO}, False),
            (f"rho {RHO}, concentrated", {"rho": RHO}, True),
        ):
            terms = {"start": start, "beta": BETA, **total}
            laws = {
                rows: workload.law(rows, "classes", concentrated)
                for rows in {*range(1, 20), *range(20, 200, 20)}
                if workload.quick(rows, "classes")
            }
            growths = {rows: best_growth(law, **terms) for rows, law in laws.items()}
            told = {rows: epochs_error(law, growth=growths[rows], **terms) for rows, law in laws.items()}
            rows = min(told, key=told.__getitem__)
            usual = epochs_error(published, growth=best_growth(published, **terms), **terms)
            figures = [f"{float(growths[rows]):.3f}", f"{told[rows]:.4f}", f"{usual:.4f}" if usual < 1 else "-"]
            yield [f"{start:,}", name, f"{rows}", *figures]


def main() -> None:
    announce()
    sizes = [(1000, 4, 4), (1000, 4, 6), (1000, 4, 9), (10**6, 4, 9), (200, 20, 3), (3000, 12, 2), (2, 1, 5000)]
    table = (speed(*size, measure) for size in sizes for measure in ("classes", "databases"))
    show("One choice", ["measure", "cells", "queries", "classes", "rows", "candidates", "time"], table)
    panel = pl.from_arrow(people())
    data = [("panel", panel, PANEL), ("panel, all sets of 4 cells", panel, SUBSETS)]
    if places := [argument for argument in sys.argv[1:] if argument != FULL]:
        data.append(("Adult", pl.read_csv(Path(places[0])), ADULT))
    epsilons = ("0.01", "0.1") if full() else ("0.1",)
    lines = (line for name, rows, task in data for epsilon in epsilons for line in errors(name, rows, task, epsilon))
    headings = ["data", "epsilon", "measure", "rows", "candidates", "promised", "mean error", "largest"]
    show(f"Largest error of any query, {REPEATS} databases each", headings, lines)
    for name, table, task in data[:2]:
        title = f"SmallDBG: what is promised for ever, {name}"
        show(title, ["first size", "budget", "rows", "growth", "error", "published law"], growing(table, task))


if __name__ == "__main__":
    main()
