"""Adaptive queries about growing tables under one budget: five ways to answer them, and their errors over time.

Run as `python benchmarks/growing_queries.py [adult.csv.gz] [--plots DIR] [--queries 2000] [--full]` with the Adult
table of the UCI repository, all 48,842 rows with a header; without it only the RAND panel of the package is asked. 250
queries of each way, or with `--full` 2,000, which take half an hour. Each way answers an analyst of its own, who goes
deeper where answers are large. The true answers are shown since these data are public.
"""

import argparse
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
from matplotlib import colormaps
from matplotlib.figure import Figure

import chary
from chary import Budget, Session, noise
from chary.calls import PMW, Rerun
from chary.growth import MWEMBox
from growing_tables import Analyst, GrowingTable, adult, drawn, randhie
from measuring import FULL, announce, duration, full, show

DELTA = "1e-6"
BUDGET = Budget(epsilon=1, delta=DELTA)
RHO = "0.0243"
UNLIMITED = Budget(epsilon=10**6)
ALPHA, EACH = "0.1", "0.01"
ROUNDS, WORKLOAD, FORESEEN = 20, 1000, 60
TIMES = 40
SHARP = {
    "250 hits": {"hits": 250},
    "100 hits": {"hits": 100},
    "250 hits, alpha 0.07": {"hits": 250, "alpha": "0.07"},
    "250 hits, calls of one size": {"hits": 250, "follow_size": False},
}


class Way(ABC):
    """One way to answer all queries under the one budget."""

    def __init__(self, table: GrowingTable) -> None:
        self.table = table

    @abstractmethod
    def grow(self, size: int) -> None:
        """The table has grown."""

    @abstractmethod
    def ask(self, size: int, where: str) -> float:
        """The share of rows."""

    def told(self) -> tuple[str, str, str]:
        """How many queries were hard, how many answers were not verified, what is spent."""
        return "-", "-", "100%"


class InSession(Way):
    """What runs in a session on the first rows, to which all others are appended."""

    def __init__(self, table: GrowingTable, budget: Budget = BUDGET, **options: object) -> None:
        super().__init__(table)
        self.size = table.sizes[0]
        first, terms = table.rows[: self.size], {"privacy_unit": None, "neighbors": "replace"}
        self.session: Session = chary.open(first, **terms, budget=budget, ledger=":memory:", **options)

    def grow(self, size: int) -> None:
        self.session.append(self.table.rows[self.size : size])
        self.size = size


class Corrected(InSession):
    """A public histogram, corrected where it is off; `opened` makes it."""

    def __init__(self, table: GrowingTable, opened: Callable[[Session], object], **options: object) -> None:
        super().__init__(table, **options)
        self.weights, self.unverified = opened(self.session), 0

    def ask(self, size: int, where: str) -> float:
        answer = self.weights.ask(where)
        self.unverified += not answer.verified
        return answer.share

    def told(self) -> tuple[str, str, str]:
        hard = str(len(self.weights.state.changes))
        return hard, str(self.unverified), f"{self.session.spent.share:.0%}"


class EveryRerun(InSession):
    """Offline multiplicative weights over queries drawn in advance, rerun whenever the table has grown enough."""

    def __init__(self, table: GrowingTable) -> None:
        super().__init__(table)
        box = MWEMBox(table.universe, table.workload(WORKLOAD, seed=7), rounds=ROUNDS, gaussian=True)
        self.schedule = self.session.start(Rerun(box, rho=RHO, beta="0.05"), follow=True)

    def ask(self, size: int, where: str) -> float:
        return self.schedule.state.latest.answer.share(where)

    def told(self) -> tuple[str, str, str]:
        return "-", f"{len(self.schedule.state.results)} runs", f"{self.session.spent.share:.0%}"


class Plain(Way):
    """Laplace noise on each of so many queries, by the better of adding epsilons and of zCDP."""

    def __init__(self, table: GrowingTable, queries: int) -> None:
        super().__init__(table)
        self.scale, self.source = min(queries, math.sqrt(queries / (2 * float(RHO)))), noise.Seeded(3)

    def grow(self, size: int) -> None:
        return

    def ask(self, size: int, where: str) -> float:
        drawn = int(noise.discrete_laplace(self.source, self.scale, 1)[0])
        return self.table.share(size, where) + drawn / size


def ways(table: GrowingTable, queries: int) -> Iterator[tuple[str, Callable[[], Way]]]:
    """The contenders by name."""

    def ours(**options: object) -> Callable[[Session], object]:
        sizes = {"alpha": ALPHA, "epsilon": EACH} | options
        return lambda session: session.start(PMW(universe=table.universe, **sizes))

    def rounds(**options: object) -> Callable[[Session], object]:
        return lambda session: session.start(PMW(prepaid=True, universe=table.universe, alpha=ALPHA, **options))

    uniform = {"update": "published", "mixing": 1}
    published = rounds(epsilon=1, delta=DELTA, constants="published", **uniform)
    yield "ours", lambda: Corrected(table, ours(), grain=EACH)
    for told, terms in SHARP.items():
        yield f"ours, sharp: {told}", lambda terms=terms: Corrected(table, ours(epsilon=None, **terms))
    yield "ours, alpha 0.05", lambda: Corrected(table, ours(alpha="0.05"), grain=EACH)
    yield "ours, calls of 0.02", lambda: Corrected(table, ours(epsilon="0.02"), grain="0.02")
    yield "ours, calls of one size", lambda: Corrected(table, ours(follow_size=False), grain=EACH)
    yield "ours, no noise to speak of", lambda: Corrected(table, ours(epsilon=2, follow_size=False), budget=UNLIMITED)
    yield "ours, update of [GROW]", lambda: Corrected(table, ours(**uniform), grain=EACH)
    yield "PMWG, published", lambda: Corrected(table, published, filter="pure", delta_reserve=DELTA)
    yield "PMWG, exact sums", lambda: Corrected(table, rounds(rho=RHO))
    yield f"PMWG, {FORESEEN} rounds", lambda: Corrected(table, rounds(rho=RHO, rounds=FORESEEN))
    yield "MWEM, rerun", lambda: EveryRerun(table)
    yield f"Laplace, {queries:,} queries", lambda: Plain(table, queries)
    yield f"Laplace, {10 * queries:,} queries", lambda: Plain(table, 10 * queries)


def asked(table: GrowingTable, make: Callable[[], Way], queries: int) -> tuple[pl.DataFrame, Way, float]:
    """The error of each query, with the size at which it was asked, and how long all of it took."""
    since, way = time.perf_counter(), make()
    analyst, last, found = Analyst(table, 1), 0.0, list[tuple[int, float]]()
    for turn, size in enumerate(table.sizes):
        if turn:
            way.grow(size)
        for _ in range(queries // len(table.sizes)):
            where = analyst.next(last)
            last = way.ask(size, where)
            found.append((size, abs(last - table.share(size, where))))
    return pl.DataFrame(found, schema=["size", "error"], orient="row"), way, time.perf_counter() - since


def line(name: str, errors: pl.DataFrame, way: Way, taken: float) -> list[str]:
    """One line of the table."""
    last = errors.filter(pl.col("size") == way.table.sizes[-1])["error"]
    figures = [errors["error"].mean(), errors["error"].max(), last.mean(), last.max()]
    return [name, *(f"{figure:.3f}" for figure in figures), *way.told(), duration(taken)]


def draw(errors: dict[str, pl.DataFrame], title: str, path: Path) -> None:
    """Mean and largest error at each size."""
    figure = Figure(figsize=(14, 5), layout="constrained")
    panes = zip(figure.subplots(1, 2), ("mean", "max"), strict=True)
    for pane, kind in panes:
        for (name, found), color in zip(errors.items(), colormaps["tab20"].colors, strict=False):
            each = found.group_by("size", maintain_order=True).agg(getattr(pl.col("error"), kind)())
            pane.plot(each["size"], each["error"], ".-" if name.startswith("ours") else ".--", label=name, color=color)
        pane.set(title=f"{title}: {kind} error of a share", xlabel="rows", yscale="log")
    figure.legend(*pane.get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=120)


def compared(table: GrowingTable, queries: int, plots: Path | None) -> None:
    """All ways on one table."""
    title = f"{table.name}, {table.universe.cells:,} cells"
    errors = dict[str, pl.DataFrame]()

    def lines() -> Iterator[list[str]]:
        for name, make in ways(table, queries):
            errors[name], way, taken = asked(table, make, queries)
            yield line(name, errors[name], way, taken)

    headings = ["", "mean", "largest", "mean at the end", "largest", "hard", "unverified", "spent", "time"]
    sizes = f"{table.sizes[0]:,} to {table.sizes[-1]:,} rows"
    show(f"{title}: {queries:,} queries, {sizes}", headings, lines())
    if plots is not None:
        draw(errors, title, plots / f"{table.name.lower().replace(' ', '_')}_{table.universe.cells}.png")


def main() -> None:
    """Print the tables and draw the pictures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("adult", type=Path, nargs="?")
    options.add_argument("--plots", type=Path)
    options.add_argument("--queries", type=int, default=2000 if full() else 120)
    options.add_argument(FULL, action="store_true", help="2,000 queries of each way")
    given = options.parse_args()
    announce()
    compared(randhie(), given.queries, given.plots)
    if given.adult is not None:
        for more in (False, True):
            compared(adult(given.adult, times=TIMES, more=more), given.queries, given.plots)
        compared(drawn(given.adult, rows=10**6, times=8), given.queries // 5, given.plots)


if __name__ == "__main__":
    main()
