"""Sparse vector on a growing table: how far off its answers may be, as published, exactly, and measured."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting.growing_rounds import GrowingRounds, growing_error_up, published_growing_error
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row
from chary.experiments.needed_distance import needed
from chary.mechanisms.threshold_tests import SparseVectorMachine

START: Final = 10_000
TESTS: Final = 1000


class RoundDistances(Experiment):
    """One round of a thousand tests that begins at each size."""

    name = "growing-thresholds"
    shows = "Sparse vector on growing rows: the published error, the exact one, and what is measured."
    source = "[GROW] Theorem 26"
    size = (10.0, 3.6)
    factors: Final = (1, 2, 5, 10, 30, 100)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 60 if quick else 1000
        return [
            {"form": form, "exponent": exponent, "runs": runs}
            for form in ("published", "tuned")
            for exponent in ("0.5", "1")
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        rounds = GrowingRounds(START, "0.1", settings["exponent"], form=settings["form"])
        return [self._at(rounds, settings, START * factor, seed) for factor in self.factors]

    def _at(self, rounds: GrowingRounds, settings: Settings, size: int, seed: int) -> Row:
        machine = SparseVectorMachine(rounds.noise(size), 1)
        found = np.array([needed(machine, TESTS, seed + run) for run in range(settings["runs"])]) / size
        exact = growing_error_up(rounds, size=size, tests=TESTS)
        figures = {"exact": exact, "measured": float(np.quantile(found, 0.95, method="inverted_cdf"))}
        wrong = int(np.count_nonzero(found > exact))
        if rounds.form == "published":
            figures["told"] = published_growing_error(rounds, size=size, tests=TESTS)
        return {**settings, "size": size, **figures, "wrong": wrong}

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2, sharey=True)
        for axes, exponent in zip(panes, ("0.5", "1"), strict=True):
            for form, colour in (("published", "#d55e00"), ("tuned", "#0072b2")):
                part = found.where(exponent=exponent, form=form)
                if form == "published":
                    axes.plot(part["size"], part["told"], "k-", label="bound of the paper")
                axes.plot(part["size"], part["exact"], "o-", markersize=3, color=colour, label=f"{form} noise, exact")
                axes.plot(part["size"], part["measured"], ":", color=colour)
            axes.plot([], [], "k:", label="measured, 95 %")
            axes.set(title=f"noise function t^{exponent}", xlabel="rows", yscale="log")
            log_ticks(axes, found.distinct("size"))
        panes[0].set_ylabel("error, share of the rows")
        panes[0].legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        published, tuned = (found.where(form=form) for form in ("published", "tuned"))
        falls = [
            np.all(np.diff(found.where(form=f, exponent=e)["exact"]) < 0)
            for f in ("published", "tuned")
            for e in ("0.5", "1")
        ]
        most = 0.05 * found["runs"] + 5 * np.sqrt(0.05 * found["runs"])
        slower = [
            part.where(exponent="0.5")["exact"][-1] > part.where(exponent="1")["exact"][-1]
            for part in (published, tuned)
        ]
        return [
            Trend("no more rounds are wrong than the exact error allows", np.all(found["wrong"] <= most)),
            Trend(
                "the published bound is at least twice the exact error",
                np.all(published["told"] > 1.9 * published["exact"]),
            ),
            Trend("tuned noise errs at most 0.9 times as much", np.all(tuned["exact"] < 0.9 * published["exact"])),
            Trend("errors fall as the table grows", all(falls)),
            Trend("faster with the exponent 1, where rounds keep their price", all(slower)),
        ]
