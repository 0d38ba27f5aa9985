"""The accuracy bounds of the notes on sparse vector beside exact ones and beside what the mechanism does."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import (
    error_up,
    one_sided_error_up,
    one_sided_noise,
    published_error,
    sparse_noise,
)
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row
from chary.experiments.needed_distance import Machine, needed
from chary.mechanisms.threshold_tests import OneSidedMachine, SparseVectorMachine

SURE: Final = "0.95"


def machine(form: str, hits: int, tests: int) -> Machine:
    """The sparse vector of this form at epsilon 1 for monotone questions of sensitivity 1 (the published form: any)."""
    if form == "one-sided":
        return OneSidedMachine(one_sided_noise(epsilon=1, hits=hits, tests=tests, monotone=True))
    if form == "tuned":
        return SparseVectorMachine(sparse_noise(epsilon=1, hits=hits, monotone=True), 1)
    return SparseVectorMachine(sparse_noise(epsilon=1, hits=hits, form="published"), 1)


def exact_error(made: Machine, tests: int) -> int:
    """The error that the library tells: an upper bound on what is measured, 95 times in 100."""
    if isinstance(made, OneSidedMachine):
        return one_sided_error_up(made.sizes, tests=tests, confidence=SURE)
    return error_up(made.sizes, tests=tests, confidence=SURE)


class ThresholdErrors(Experiment):
    """How far off a threshold may be: told by the notes, told exactly, measured."""

    name = "threshold-errors"
    shows = "Sparse vector: the error that the notes tell, the exact one, and what is measured."
    source = "[SVT] Theorems 4 and 10"
    size = (11.0, 3.4)
    forms: Final = ("published", "tuned", "one-sided")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 100 if quick else 2000
        tests = (20, 500) if quick else (20, 100, 500, 2000, 10_000)
        return [
            {"form": form, "hits": hits, "tests": count, "runs": runs}
            for form in self.forms
            for hits in (1, 10)
            for count in tests
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        tests, hits = settings["tests"], settings["hits"]
        made = machine(settings["form"], hits, tests)
        found = [needed(made, tests, seed + run) for run in range(settings["runs"])]
        exact = exact_error(made, tests)
        figures = {
            "measured": float(np.quantile(found, float(SURE), method="inverted_cdf")),
            "wrong": sum(each > exact for each in found),
            "exact": exact,
        }
        if settings["form"] == "published":
            figures["told"] = published_error(epsilon=1, hits=hits, tests=tests, confidence=SURE)
        return [{**settings, **figures}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        for axes, hits in zip(panes, (1, 10), strict=True):
            part = found.where(hits=hits)
            told = part.where(form="published")
            axes.plot(told["tests"], told["told"], "k-", label="told by the notes")
            for form in self.forms:
                line = part.where(form=form)
                [drawn] = axes.plot(line["tests"], line["exact"], "o-", markersize=3, label=f"{form}, exact")
                axes.plot(line["tests"], line["measured"], ":", color=drawn.get_color())
            axes.plot([], [], "k:", label="measured, 95 %")
            axes.set(title=f"{hits} hit{'s' * (hits > 1)}", xlabel="tests", yscale="log")
            log_ticks(axes, part.distinct("tests"))
        panes[0].set_ylabel("error at epsilon 1")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        published, tuned, ours = (found.where(form=form) for form in self.forms)
        # So many runs that are wrong 1 time in 20 are beyond this number less than once in a million.
        most = [0.05 * row["runs"] + 5 * np.sqrt(0.05 * row["runs"]) for row in found]
        one = [part.where(hits=1) for part in (tuned, ours)]
        return [
            Trend("no more runs are wrong than the exact error allows", np.all(found["wrong"] <= most)),
            Trend("the notes tell at least twice the exact error", np.all(published["told"] > 2 * published["exact"])),
            Trend("the tuned form errs at most 0.6 times as much", np.all(tuned["exact"] < 0.6 * published["exact"])),
            Trend(
                "one-sided noise is as good as the tuned form for one hit", np.all(one[1]["exact"] <= one[0]["exact"])
            ),
            Trend("the exact error grows with the tests, and slower than the notes say", self._slow(published)),
        ]

    def _slow(self, found: Measurements) -> bool:
        lines = [found.where(hits=hits) for hits in (1, 10)]
        exact, told = ([line[name][-1] - line[name][0] for line in lines] for name in ("exact", "told"))
        return all(0 < own < other for own, other in zip(exact, told, strict=True))
