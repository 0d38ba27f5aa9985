"""Days above a threshold, flagged one by one under one promise ([GAUSS] Figures 5, 17 and 19)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row
from chary.experiments.selection.alarm_runs import RULES, GaussianRuns, averaged, standard_error, stopped
from chary.experiments.selection.daily_series import BIKES, LONDON, SERIES, scored
from chary.experiments.selection.hit_methods import METHODS
from chary.noise import Seeded

OURS, RENYI, _PUBLISHED, ADDED, FILTERED = RULES
_COLOURS: Final = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#777777")


class AlarmFigure(Experiment):
    """F1 of flagged days by the noise, for each stopping rule and each threshold."""

    size = (11.0, 3.6)
    series: ClassVar[str]
    thresholds: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]] = ("0.01", "0.02", "0.03", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 5 if quick else 50
        noises = self.noises[1::3] if quick else self.noises
        shared = [{"threshold": threshold, "runs": runs} for threshold in self.thresholds]
        gaussian = [{**each, "noise": noise} for each in shared for noise in noises]
        return gaussian + [{**each, "method": method} for each in shared for method in METHODS]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return self._gaussian(settings, seed, data) if "noise" in settings else self._by_hits(settings, seed, data)

    def _gaussian(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """One year of runs, cut off by each rule."""
        series = SERIES[self.series](data)
        runs, truth = (
            GaussianRuns(series, settings["threshold"], settings["noise"]),
            series.above(settings["threshold"]),
        )
        flags = [runs.flags(Seeded(seed + run)) for run in range(settings["runs"])]
        found = []
        for name, rule in RULES.items():
            ends = [stopped(runs, flag, rule(runs)) for flag in flags]
            scores = np.array([scored(end.told(flag), truth) for end, flag in zip(ends, flags, strict=True)])
            spent = float(averaged(ends, len(truth))[-1])
            more = {"spent": spent, "answered": float(np.mean([end.days for end in ends]))}
            found.append({**settings, "method": name, **_summary(scores), **more})
        return found

    def _by_hits(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """The same days by methods that foresee a number of hits: all days, or half of them."""
        series = SERIES[self.series](data)
        truth, bar = series.above(settings["threshold"]), series.bar(settings["threshold"])
        found = []
        for hits in (len(truth), len(truth) // 2):
            years = [
                METHODS[settings["method"]](series, bar, hits, Seeded(seed + run)) for run in range(settings["runs"])
            ]
            scores = np.array([scored(told, truth) for told in years])
            always = scored(np.ones(len(truth), dtype=np.bool_), truth)
            found.append({**settings, "hits": hits, **_summary(scores), "all_flagged": always})
        return found

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(self.thresholds), sharey=True)
        for axes, threshold in zip(panes, self.thresholds, strict=True):
            self._pane(axes, found.where(threshold=threshold))
            axes.set(title=f"{self.series}, threshold {threshold}", xlabel="threshold noise", ylim=(0, 1))
            log_ticks(axes, [float(noise) for noise in found.distinct("noise")], most=5)
        panes[0].set_ylabel("F1")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)

    def _pane(self, axes: Axes, found: Measurements) -> None:
        for name, colour in zip(RULES, _COLOURS, strict=True):
            part = found.where(method=name)
            noises = [float(noise) for noise in part["noise"]]
            axes.errorbar(noises, part["f1"], part["f1_error"], fmt="o-", markersize=3, color=colour, label=name)
        for name, style in zip(METHODS, ("--", "-.", ":"), strict=True):
            most = max(row["f1"] for row in found.where(method=name))
            axes.axhline(most, color="#009e73", linestyle=style, label=name)
        axes.axhline(found.where(method="sparse vector")[0]["all_flagged"], color="#c9ced6", label="every day flagged")

    def trends(self, found: Measurements) -> Sequence[Trend]:
        best = {name: np.array([self._best(found, name, at) for at in self.thresholds]) for name in (*RULES, *METHODS)}
        least = np.min([best["target charging"], best["sharp tests"]], axis=0)
        gaussian = np.max([best[name] for name in RULES], axis=0)
        # The same runs are cut off by all rules, so little is left to chance.
        room = 0.005
        return [
            Trend("pure stopping scores at least what self-reporting does", np.all(best[OURS] >= best[ADDED] - room)),
            Trend("self-reporting beats the filter with published prices", self._beats(best, ADDED, FILTERED)),
            Trend("so does our Renyi price", self._beats(best, RENYI, FILTERED)),
            Trend("no rule makes a difference where noise is large", self._alike(found)),
            Trend("target charging and sharp tests beat all runs with Gaussian noise", np.all(least > gaussian + 0.02)),
            Trend("so does the tuned sparse vector", np.all(best["sparse vector"] > gaussian)),
            Trend("no rule passes its budget, but for those of self-reporting", self._kept(found)),
        ]

    def _kept(self, found: Measurements) -> bool:
        """Self-reporting may report more than epsilon: a run keeps its own but for a chance delta, in true losses."""
        return all(row["spent"] <= 1 for row in found if row["method"] in (OURS, RENYI, FILTERED))

    def _beats(self, best: dict[str, np.ndarray[Any, Any]], one: str, other: str) -> bool:
        """On average over the thresholds."""
        return bool(best[one].mean() > best[other].mean())

    def _alike(self, found: Measurements) -> bool:
        """Of those that keep their promise, at the largest noise and the highest threshold."""
        last = found.where(threshold=self.thresholds[-1], noise=found.distinct("noise")[-1])
        return len({row["f1"] for row in last if row["method"] in (OURS, RENYI, ADDED)}) == 1

    def _best(self, found: Measurements, method: str, threshold: str) -> float:
        return max(float(row["f1"]) for row in found.where(method=method, threshold=threshold))


class BikeAlarms(AlarmFigure):
    """The year of registered riders."""

    name = "alarms-bikes"
    shows = "Days with many riders, flagged one by one at epsilon 1: F1 by noise and by method."
    source = "[GAUSS] Figure 17"
    needs = (BIKES,)
    series = "bikes"
    thresholds = ("0.3", "0.5", "0.6")


class LondonAlarms(AlarmFigure):
    """London households, 828 days."""

    name = "alarms-london"
    shows = "Days of much power in London, flagged one by one at epsilon 1: F1 by noise and by method."
    source = "[GAUSS] Figures 5 and 19"
    needs = (LONDON,)
    series = "London"
    thresholds = ("0.5", "0.65", "0.7")


def _summary(scores: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    return {"f1": float(scores.mean()), "f1_error": standard_error(scores)}
