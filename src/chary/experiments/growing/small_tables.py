"""SmallDB: the error that is promised, as published and exactly, and that of small databases of real people."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting.schedules import best_growth, epochs_error
from chary.accounting.synthesis import published_small_database_law
from chary.calls import SmallDatabase
from chary.calls.synthesis import Workload
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.growing.panel_queries import Condition, Range, condition_of, drawn, share_of, universe
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open

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
    shows = "SmallDB: the largest error of six queries, told and measured, once and on growing rows."
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
        terms: dict[str, Any] = {"privacy_unit": None, "relation": "replace", "ledger": ":memory:"}
        with open(table, **terms, budget=Budget(epsilon=10**6), unsafe_noise=Seeded(seed)) as session:
            call = SmallDatabase(universe=universe(), queries=asked, epsilon=epsilon, rows=ROWS)
            found: list[Any] = [session.ask(call) for _ in range(settings["repeats"])]
            law = Workload.of(universe(), asked, session.schema).law(ROWS, "classes", False)
        errors = [max(abs(made.share(q) - t) for q, t in zip(asked, truths, strict=True)) for made in found]
        common: dict[str, Any] = {"size": size, "epsilon": epsilon, "beta": BETA}
        published = published_small_database_law(cells=universe().cells, queries=len(QUERIES)).error(**common)
        schedule: dict[str, Any] = {"start": size, "beta": BETA, "epsilon": epsilon}
        for_ever = epochs_error(law, growth=best_growth(law, **schedule), **schedule)
        told = {"promised": law.error(**common), "published": published, "for_ever": for_ever}
        return [{**settings, **told, "mean": float(np.mean(errors)), "largest": max(errors)}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        sizes = found.distinct("size")
        panes: Any = figure.subplots(1, len(sizes), sharey=True)
        for axes, size in zip(panes, sizes, strict=True):
            part = found.where(size=size)
            epsilons = [float(epsilon) for epsilon in part["epsilon"]]
            axes.plot(epsilons, part["published"], "k-", label="published, once")
            axes.plot(epsilons, part["for_ever"], "x-", color="#777777", label="exact, for ever (scheduled)")
            axes.plot(epsilons, part["promised"], "o-", markersize=3, color="#0072b2", label="exact, once")
            axes.plot(epsilons, part["mean"], "s:", markersize=3, color="#d55e00", label="measured, mean")
            axes.set(title=f"{size:,} rows", xlabel="epsilon", yscale="log")
            log_ticks(axes, epsilons)
        panes[0].set_ylabel("largest error of six queries")
        panes[0].legend(fontsize=7, frameon=False)

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
