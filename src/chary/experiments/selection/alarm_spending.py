"""What a year of alarms has spent by each day ([GAUSS] Figures 18 and 20)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row
from chary.experiments.selection.alarm_runs import RULES, GaussianRuns, averaged, stopped
from chary.experiments.selection.alarms import FILTERED, OURS, RENYI
from chary.experiments.selection.daily_series import BIKES, LONDON, SERIES
from chary.noise import Seeded

EVERY: Final = 21
NARROW: Final = "0.075"
_SHOWN: Final = {"bikes": ("0.5", "0.1"), "London": ("0.65", "0.2")}


class AlarmSpending(Experiment):
    """The mean of what was used up by each day, for each stopping rule."""

    name = "alarm-spending"
    shows = "Alarms at epsilon 1: what was used up by each day, by stopping rule."
    source = "[GAUSS] Figures 18 and 20"
    needs = (BIKES, LONDON)
    size = (11.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 5 if quick else 50
        return [
            {"series": series, "threshold": threshold, "noise": noise, "runs": runs}
            for series, (threshold, usual) in _SHOWN.items()
            for noise in (NARROW, usual)
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        series = SERIES[settings["series"]](data)
        runs, days = GaussianRuns(series, settings["threshold"], settings["noise"]), len(series.values)
        flags = [runs.flags(Seeded(seed + run)) for run in range(settings["runs"])]
        found = []
        for name, rule in RULES.items():
            spent = averaged([stopped(runs, flag, rule(runs)) for flag in flags], days)
            found += [
                {**settings, "method": name, "day": day + 1, "spent": spent[day]} for day in range(0, days, EVERY)
            ]
        return [{**row, "spent": float(row["spent"])} for row in found]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(_SHOWN), sharey=True)
        for axes, series in zip(panes, _SHOWN, strict=True):
            part = found.where(series=series)
            for style, noise in zip(("-", ":"), part.distinct("noise"), strict=True):
                for number, method in enumerate(RULES):
                    line = part.where(noise=noise, method=method)
                    label = method if style == "-" else None
                    axes.plot(line["day"], line["spent"], style, color=f"C{number}", label=label)
            noises = " (dotted ".join(part.distinct("noise"))
            axes.set(title=f"{series}, threshold {_SHOWN[series][0]}, noise {noises})", xlabel="day", ylim=(0, 1.02))
        panes[0].set_ylabel("share of the budget used up")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        lines = [
            self._line(found, series, noise, rule)
            for series in _SHOWN
            for noise in self._noises(series)
            for rule in RULES
        ]
        early = [[self._half(found, series, NARROW, rule) for rule in (OURS, FILTERED)] for series in _SHOWN]
        late = [[self._line(found, s, _SHOWN[s][1], rule)[-1] for rule in (RENYI, OURS)] for s in _SHOWN]
        return [
            Trend("nothing that was used up comes back", all(np.all(np.diff(line) > -1e-9) for line in lines)),
            Trend("pure stopping, our Renyi price and the filter keep their budget", self._kept(found)),
            Trend(
                "with less noise the filter with published prices ends first", all(own < other for own, other in early)
            ),
            Trend(
                "with more noise our Renyi price uses up less than a third of the losses",
                all(3 * a < b for a, b in late),
            ),
            Trend("with more noise a year costs less", self._less(found)),
        ]

    def _kept(self, found: Measurements) -> bool:
        return all(row["spent"] <= 1 for row in found if row["method"] in (OURS, RENYI, FILTERED))

    def _line(self, found: Measurements, series: str, noise: str, rule: str) -> NDArray[np.float64]:
        return found.where(series=series, noise=noise, method=rule).column("spent")

    def _half(self, found: Measurements, series: str, noise: str, rule: str) -> float:
        """What is used up half-way."""
        line = self._line(found, series, noise, rule)
        return float(line[len(line) // 2])

    def _less(self, found: Measurements) -> bool:
        """Of pure stopping."""
        ours = found.where(method=OURS)
        spent = [[ours.where(series=s, noise=noise)["spent"][-1] for noise in self._noises(s)] for s in _SHOWN]
        return all(each == sorted(each, reverse=True) for each in spent)

    def _noises(self, series: str) -> list[str]:
        return [NARROW, _SHOWN[series][1]]
