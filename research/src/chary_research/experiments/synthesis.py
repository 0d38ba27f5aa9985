"""Small databases and multiplicative weights on a real panel: accuracy as published, exactly, and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.accounting import schedules, weights
from chary.calls import PMW, SmallDatabase
from chary.calls.synthesis import Workload
from chary.data.universe.axes import Bins, Universe
from chary.demo.panel import people
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, TOLD, legend_below, log_ticks
from chary_research.published import published_small_database_law

# Rows drawn from the built-in panel, and conditions on them with their true shares, which are public.

EDGES = {"xage": [0, 10, 20, 30, 40, 50, 70], "mdvis": [0, 1, 2, 5, 10, 100]}
VALUES = {"female": [0, 1], "coins": [0, 25, 50, 95, 100]}


def universe() -> Universe:
    """300 cells of age, doctor visits, sex and coinsurance; every row has one.

    >>> universe().cells
    300
    """
    bins: dict[str, Any] = {name: Bins(edges) for name, edges in EDGES.items()}
    return Universe(bins | VALUES, missing=False)


def drawn(rows: int, seed: int) -> pa.Table:
    """This many rows of the panel: in random order, and drawn with replacement where there are not as many."""
    panel, random = people().select([*EDGES, *VALUES]), np.random.default_rng(seed)
    few = rows <= panel.num_rows
    return panel.take(pa.array(random.choice(panel.num_rows, rows, replace=not few)))


@dataclass(frozen=True)
class Range:
    """Values of a column from `low` on and below `high`."""

    column: str
    low: int
    high: int

    @property
    def text(self) -> str:
        """As a session is asked."""
        return f"{self.column} >= {self.low} AND {self.column} < {self.high}"

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """For which rows."""
        values: NDArray[Any] = rows[self.column].to_numpy()
        return (values >= self.low) & (values < self.high)


Condition = tuple[Range, ...]


def condition_of(ranges: Condition) -> str:
    """All ranges together, as a session is asked."""
    return " AND ".join(each.text for each in ranges)


def share_of(ranges: Condition, rows: pa.Table) -> float:
    """The proportion of the rows for which all hold; shown only because these data are public."""
    return float(np.logical_and.reduce([each.holds(rows) for each in ranges]).mean())


def conditions_drawn(count: int, seed: int) -> list[Condition]:
    """This many different conditions on one or two columns.

    >>> [condition_of(each) for each in conditions_drawn(2, seed=1)]
    ['mdvis >= 5 AND mdvis < 100', 'xage >= 10 AND xage < 50']
    """
    random, found = np.random.default_rng(seed), dict[Condition, None]()
    ends = EDGES | {name: [*values, values[-1] + 1] for name, values in VALUES.items()}
    while len(found) < count:
        columns = random.choice(sorted(ends), random.integers(1, 3), replace=False).tolist()
        picked = [sorted(random.choice(ends[column], 2, replace=False).tolist()) for column in columns]
        found[tuple(Range(column, *pair) for column, pair in zip(columns, picked, strict=True))] = None
    return list(found)


# SmallDB: the error that is promised, as published and exactly, and that of small databases of real people.

BETA: Final = "0.05"
WOMEN, OLD, VISITS, MANY = (
    Range("female", 1, 2),
    Range("xage", 30, 70),
    Range("mdvis", 1, 100),
    Range("mdvis", 5, 100),
)
QUERIES: Final[tuple[Condition, ...]] = ((WOMEN,), (OLD,), (VISITS,), (MANY,), (WOMEN, MANY), (OLD, MANY))
# Rows of the database that is published: as few as its coarseness allows, since more of them are more candidates.
ROWS: Final = 8


class SmallTables(Experiment):
    """The largest error of six queries, by epsilon and by the number of rows."""

    name = "growing-small-database"
    shows = "SmallDB: the largest error of six queries, promised and measured, once and on growing rows."
    source = "[GROW] Theorems 7 and 9"
    size = (10.0, 3.6)
    epsilons: Final = ("0.003", "0.01", "0.03", "0.1", "0.3", "1")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        repeats = 10 if quick else 60
        sizes = (5638, 20_190) if quick else (5638, 20_190, 200_000)
        return [{"size": size, "epsilon": epsilon, "repeats": repeats} for size in sizes for epsilon in self.epsilons]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        table, size, epsilon = drawn(settings["size"], seed), settings["size"], settings["epsilon"]
        asked = [condition_of(query) for query in QUERIES]
        truths = [share_of(query, table) for query in QUERIES]
        terms: dict[str, Any] = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:"}
        with open(table, **terms, budget=Budget(epsilon=10**6), unsafe_noise=Seeded(seed)) as session:
            call = SmallDatabase(universe=universe(), queries=asked, epsilon=epsilon, rows=ROWS)
            found: list[Any] = [session.ask(call) for _ in range(settings["repeats"])]
            law = Workload.of(universe(), asked, session.schema).law(ROWS, "classes", False)
        errors = [max(abs(made.share(q) - t) for q, t in zip(asked, truths, strict=True)) for made in found]
        common: dict[str, Any] = {"size": size, "epsilon": epsilon, "beta": BETA}
        published = published_small_database_law(cells=universe().cells, queries=len(QUERIES)).error(**common)
        schedule: dict[str, Any] = {"start": size, "beta": BETA, "epsilon": epsilon}
        for_ever = schedules.epochs_error(law, growth=schedules.best_growth(law, **schedule), **schedule)
        told = {"promised": law.error(**common), "published": published, "for_ever": for_ever}
        return [{**settings, **told, "mean": float(np.mean(errors)), "largest": max(errors)}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        sizes = found.distinct("size")
        panes: Any = figure.subplots(1, len(sizes), sharey=True)
        for axes, size in zip(panes, sizes, strict=True):
            part = found.where(size=size)
            epsilons = [float(epsilon) for epsilon in part["epsilon"]]
            axes.plot(epsilons, part["published"], "-", color=TOLD, label="published, once")
            axes.plot(epsilons, part["for_ever"], "x-", color=COLOURS["for ever"], label="exact, for ever (scheduled)")
            axes.plot(epsilons, part["promised"], "o-", markersize=3, color=COLOURS["pure"], label="exact, once")
            axes.plot(epsilons, part["mean"], "s:", markersize=3, color=COLOURS["pure"], label="measured, mean, once")
            axes.set(title=f"{size:,} rows", xlabel="epsilon", yscale="log")
            log_ticks(axes, epsilons)
        panes[0].set_ylabel("largest error of six queries")
        legend_below(figure, panes[0])

    def trends(self, found: Measurements) -> Sequence[Trend]:
        # With more people the published database may have more rows, and eight are then the coarser ones.
        useful = (found["published"] < 1) & (found["size"] <= 20_190)
        lines = [found.where(size=size) for size in found.distinct("size")]
        return [
            Trend("the promise is kept on average", np.all(found["mean"] <= found["promised"])),
            Trend(
                "the exact promise is at most 0.6 of the published one where epsilon is small",
                all(line["promised"][0] < 0.6 * line["published"][0] for line in lines),
            ),
            Trend(
                "it is below it wherever that says something, up to 20,190 rows",
                np.all(found["promised"][useful] < found["published"][useful]),
            ),
            Trend("for ever costs more than once", np.all(found["for_ever"] > found["promised"])),
            Trend("more epsilon errs less", all(line["mean"][-1] < line["mean"][0] for line in lines)),
        ]


# Multiplicative weights on growing data: the published accuracy, the exact one, and what is measured.

DELTA: Final = "1e-6"
# About as private as epsilon 1 at that delta.
RHO: Final = "0.0175"
EACH: Final = "0.01"
FINE: Final = "0.05"
CONFIDENCE: Final = "0.95"


class WeightsPromises(Experiment):
    """The accuracy of 200 queries by the number of rows, promised and measured."""

    name = "growing-weights"
    shows = "Multiplicative weights: accuracy of 200 queries by the number of rows, promised and measured."
    source = "[GROW] Theorems 14 and 17"
    size = (7.5, 3.8)
    queries: Final = 200
    measured: Final = (20_000, 200_000, 2_000_000)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        told = [{"size": 10**power, "queries": self.queries} for power in range(4, 11)]
        asked = [{"rows": rows, "queries": self.queries} for rows in self.measured[: 2 if quick else 3]]
        return told + asked

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return [_told(**settings)] if "size" in settings else _asked(**settings, seed=seed)

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        told = Measurements(row for row in found if "size" in row)
        names = {"published_pure": "Theorem 14, epsilon 1", "published": "Theorem 17, epsilon 1, delta 1e-6"}
        colours = {"published_pure": TOLD, "published": COLOURS["published"], "exact": COLOURS["Renyi"]}
        for name, label in (names | {"exact": "exact constants, rho 0.0175"}).items():
            axes.plot(told["size"], told[name], "o-", markersize=3, color=colours[name], label=label)
        for by, marker, colour in (("rounds", "s", "tuned"), ("hits", "^", "target charging")):
            part, words = found.where(by=by), f"largest error measured, paid by {by}"
            axes.plot(part["rows"], part["largest"], f"{marker}:", color=COLOURS[colour], label=words)
        axes.axhline(1, color="#c9ced6")
        axes.set(xlabel="rows", ylabel="accuracy, share of the rows", yscale="log")
        log_ticks(axes, told["size"].tolist(), most=7)
        legend_below(figure, axes, columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        told = Measurements(row for row in found if "size" in row)
        rounds, hits = found.where(by="rounds"), found.where(by="hits")
        reach = told["exact"] < 1
        kept = rounds["largest"] <= np.minimum(1, rounds["promised"])
        return [
            Trend("at 100,000 rows the theorems promise nothing", np.all(told.where(size=10**5)["published"] > 1)),
            Trend(
                "exact constants promise at most a third of Theorem 17",
                np.all(told["exact"][reach] < told["published"][reach] / 3),
            ),
            Trend("promises fall with the rows", np.all(np.diff(told["published"]) < 0)),
            Trend("what is measured in rounds keeps its promise", np.all(kept)),
            Trend("paid by hits errors are smaller", np.all(hits["largest"] < rounds["largest"])),
            Trend(
                "up to 200,000 rows less than 0.7 times as large",
                np.all((hits["largest"] < 0.7 * rounds["largest"])[hits["rows"] <= 200_000]),
            ),
        ]


def _told(size: int, queries: int) -> Row:
    common: dict[str, Any] = {"cells": universe().cells, "size": size, "queries": queries}
    exact = weights.sparse_weights_alpha(**common, rho=RHO, mixing="0.1", confidence=CONFIDENCE)
    published = {
        "published_pure": weights.published_weights_alpha(**common, epsilon=1, confidence=CONFIDENCE),
        "published": weights.published_weights_alpha(**common, epsilon=1, delta=DELTA, confidence=CONFIDENCE),
    }
    return {"size": size, "queries": queries, **published, "exact": min(exact, 1.0)}


def _asked(rows: int, queries: int, seed: int) -> list[Row]:
    """The largest error of all queries, by rounds at the alpha that they promise, and by hits at a twentieth."""
    table, promised = drawn(rows, seed), _told(rows, queries)["exact"]
    alpha = f"{min(promised, 0.3):.4f}"
    ways = {
        "rounds": PMW(prepaid=True, universe=universe(), alpha=alpha, rho=RHO),
        "hits": PMW(universe=universe(), alpha=FINE, epsilon=EACH),
    }
    common = {"rows": rows, "queries": queries, "promised": promised}
    return [{**common, "by": by, "largest": _largest(table, call, queries, seed)} for by, call in ways.items()]


def _largest(table: pa.Table, call: Any, queries: int, seed: int) -> float:
    terms: dict[str, Any] = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "grain": EACH}
    budget, asked = Budget(epsilon=1, delta=DELTA), conditions_drawn(queries, seed)
    with open(table, **terms, budget=budget, unsafe_noise=Seeded(seed)) as session:
        histogram: Any = session.start(call)
        errors = [abs(histogram.ask(condition_of(each)).share - share_of(each, table)) for each in asked]
    return float(max(errors))
