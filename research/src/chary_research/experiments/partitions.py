"""Queries about ranges of weeks: what each week is charged by Turbo's tree and by trees of PMW, for as near answers."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.filters import Budget
from chary_research import partitions
from chary_research.caches import DELTA, Opening, Wanted
from chary_research.experiments.caches import checked
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import legend_below
from chary_research.partitions import Partitioned, RangeAnswering
from chary_research.workloads import covid_tests

ALPHA, BETA = 0.05, 0.001
# Tests of a week, a hundredth of the published ones: epsilons are a hundred times as large, and tables of tests short.
ROWS: Final = 10_000
COUNTS, CELLS = "counts of ranges", "all cells once"
TURBO, TURBO_WARM, TURBO_LOOSE = "Turbo's tree", "Turbo's tree, warm", "Turbo's tree, formula"
WEEKS, COLD, WARM = "PMW of weeks, warm", "tree of PMW, cold", "tree of PMW, warm"
# Into the budget of a week so many hard answers of that week fit; the rest follows from how near answers are to be.
BUDGET, HITS = "1.2", 144


@cache
def opened() -> dict[str, Any]:
    """How a node of `ROWS` rows is opened; the accuracy of others is the same."""
    found = Opening.found(covid_tests(ROWS), Wanted(ROWS, ALPHA, BETA), Budget(epsilon=BUDGET, delta=DELTA), HITS)
    return {
        "budget": BUDGET,
        "rows": ROWS,
        "hits": HITS,
        "value": found.value,
        "alpha": found.alpha,
        "update": "refitted",
    }


def ours(*given: Any, **how: Any) -> RangeAnswering:
    """A tree of PMW, or what it is without one of its parts."""
    return partitions.PMWTree(*given, **opened(), **how)


WAYS: Final[dict[str, Callable[..., RangeAnswering]]] = {
    COUNTS: partitions.WholeRanges,
    CELLS: partitions.CellsOnce,
    TURBO: partitions.TurboTree,
    TURBO_WARM: partial(partitions.TurboTree, warm=True),
    TURBO_LOOSE: partial(partitions.TurboTree, loose=True),
    WEEKS: partial(ours, tree=False),
    COLD: partial(ours, warm=False),
    WARM: ours,
}
OF_OURS: Final = (WEEKS, COLD, WARM)
CHECKS: Final = 12


class TurboBlocks(Experiment):
    """What each week is charged for answers about ranges of weeks, all within alpha with probability 1 - beta."""

    name = "turbo-blocks"
    shows = "Queries over ranges of weeks, a budget a week: Turbo's tree of PMW-Bypass compared with trees of PMW."
    source = "Turbo (SOSP 2023), Figures 8 and 9, time partitions"
    size = (9.0, 4.2)
    trials: Final = 3
    weeks: Final = 16
    asked: Final = 10_000

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, weeks, asked = (1, 4, 100) if quick else (self.trials, self.weeks, self.asked)
        sizes = {"weeks": weeks, "asked": asked}
        return [
            {"arriving": arriving, "by": by, "trial": trial} | sizes
            for trial in range(trials)
            for arriving in (False, True)
            for by in WAYS
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        trial, asked, arriving = settings["trial"], settings["asked"], settings["arriving"]
        known = Partitioned(covid_tests(ROWS), settings["weeks"])
        answering = WAYS[settings["by"]](known, known.counts(trial), ALPHA, BETA, seed)
        checks = set(np.geomspace(10, asked, CHECKS).astype(int).tolist())
        stream = known.stream(asked, 1, trial, arriving=arriving)
        answers = ((query, answering.ask(*query), answering.truth(*query)) for query in stream)
        rows = []
        for _, errors in checked(answers, checks, ALPHA):
            used = answering.used()
            counted = {"counts": answering.hard, "verified": answering.verified}
            rows.append({**settings, **errors, "worst": float(used.max()), "mean": float(used.mean()), **counted})
        return rows

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2, sharey=True)
        for axes, arriving in zip(panes, (False, True), strict=True):
            part = found.where(arriving=arriving)
            for by in part.distinct("by"):
                lines = part.where(by=by)
                places = sorted(set(lines["answered"].tolist()))
                middle = [float(np.median(lines.where(answered=place)["worst"])) for place in places]
                form = "s--" if by in OF_OURS else "k:" if by == CELLS else "o-"
                axes.plot(places, middle, form, markersize=2.5, linewidth=1, label=by)
            title = "ranges of the latest weeks, as they arrive" if arriving else "random ranges of all weeks"
            axes.set(title=title, xlabel="queries", xscale="log", yscale="log")
        panes[0].set_ylabel("epsilon of the most expensive week, delta 1e-6")
        legend_below(figure, *panes, columns=4)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        last = Measurements(row for row in found if row["answered"] == row["asked"])

        trees = last.where(by=WARM)

        def worst(by: str, arriving: bool) -> float:
            return float(np.median(last.where(by=by, arriving=arriving)["worst"]))

        return [
            Trend("every answer of the warm tree is verified", np.all(trees["verified"] == 1)),
            Trend(
                "answers are outside alpha no more often than promised",
                np.all(last["outside"] <= BETA * last["fresh"] + 5 * np.sqrt(BETA * last["fresh"]) + 2),
            ),
            *(
                Trend(
                    f"a tree takes less than weeks alone, {arriving=}", worst(WARM, arriving) < worst(WEEKS, arriving)
                )
                for arriving in (False, True)
            ),
        ]
