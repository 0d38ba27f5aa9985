"""What a year of alarms has spent by each day ([GAUSS] Figures 18 and 20)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row
from chary.experiments.selection.alarm_runs import ACCOUNTS, GaussianRuns, averaged
from chary.experiments.selection.series import BIKES, LONDON, SERIES
from chary.noise import Seeded

EVERY: Final = 21
NARROW: Final = "0.075"
_SHOWN: Final = {"bikes": ("0.5", "0.1"), "London": ("0.65", "0.2")}


class AlarmSpending(Experiment):
    """The mean of what was spent by each day, for each way of accounting."""

    name = "alarm-spending"
    shows = "Alarms at epsilon 1: what was spent by each day, by way of accounting."
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
        for name, account in ACCOUNTS.items():
            spent = averaged([account(runs, flag) for flag in flags], days)
            found += [
                {**settings, "method": name, "day": day + 1, "spent": spent[day]} for day in range(0, days, EVERY)
            ]
        return [{**row, "spent": float(row["spent"])} for row in found]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(_SHOWN), sharey=True)
        for axes, series in zip(panes, _SHOWN, strict=True):
            part = found.where(series=series)
            for style, noise in zip(("-", ":"), part.distinct("noise"), strict=True):
                for number, method in enumerate(ACCOUNTS):
                    line = part.where(noise=noise, method=method)
                    label = method if style == "-" else None
                    axes.plot(line["day"], line["spent"], style, color=f"C{number}", label=label)
            noises = " (dotted ".join(part.distinct("noise"))
            axes.set(title=f"{series}, threshold {_SHOWN[series][0]}, noise {noises})", xlabel="day", ylim=(0, 1.02))
        panes[0].set_ylabel("epsilon spent")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        lines = [
            found.where(series=series, noise=noise, method=method)["spent"]
            for series in _SHOWN
            for noise in found.where(series=series).distinct("noise")
            for method in ACCOUNTS
        ]
        ours, filtered = lines[0 :: len(ACCOUNTS)], lines[len(ACCOUNTS) - 1 :: len(ACCOUNTS)]
        below = [np.all(own[:4] < other[:4]) for own, other in zip(ours, filtered, strict=True)]
        return [
            Trend("nothing that was spent comes back", all(np.all(np.diff(line) > -1e-9) for line in lines)),
            Trend("no account passes epsilon 1", max(line.max() for line in lines) <= 1),
            Trend("in the first weeks pure stopping spends less than the filter with Renyi prices", all(below)),
            Trend("with more noise a year costs less", self._less(found)),
        ]

    def _less(self, found: Measurements) -> bool:
        """Of pure stopping."""
        ours = found.where(method=next(iter(ACCOUNTS)))
        spent = [[ours.where(series=s, noise=noise)["spent"][-1] for noise in self._noises(s)] for s in _SHOWN]
        return all(each == sorted(each, reverse=True) for each in spent)

    def _noises(self, series: str) -> list[str]:
        return [NARROW, _SHOWN[series][1]]
