"""What a run of above threshold lost, by when it halted and by its threshold ([GAUSS] Figures 1 and 2)."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np
import scipy
from matplotlib.figure import Figure

from chary.accounting import above_threshold_epsilons_up, halted_epsilon_up, running_epsilon_up
from chary.accounting.gaussian_selection import zhu_wang_nonnegative_epsilon
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row
from chary.mechanisms import GaussianThreshold

UNITS: Final = 1000
DELTA: Final = "1e-5"
_LAST: Final = 50
# The density of the threshold's noise on [-8, 8]: what lies beyond changes no quantile.
_NODES: Final = np.linspace(-8, 8, 1601)
_WEIGHTS: Final = scipy.stats.norm.pdf(_NODES) / scipy.stats.norm.pdf(_NODES).sum()


def run_terms(noise: str, threshold: str, units: int) -> dict[str, Any]:
    """The figures of a run on values in [0, 1] of which one unit moves each by 1/units; the query noise is sqrt(3)
    times the threshold's, rounded up.

    >>> run_terms("0.1", "0.5", 1000)["query_noise"]
    Fraction(1732051, 10000000)
    """
    own, other = GaussianThreshold(threshold, noise).scales
    return {"sensitivity": 1 / np.float64(units), "threshold_noise": own, "query_noise": other, "threshold": threshold}


@cache
def stopping_time(noise: str, threshold: str, share: float) -> int:
    """The step by which this share of all runs has halted where every value is 0, for which they run longest.

    >>> [stopping_time(noise, "0.5", 0.5) for noise in ("0.2", "0.25", "0.3")]
    [9, 6, 4]
    """
    own, other = (float(scale) for scale in GaussianThreshold(threshold, noise).scales)
    missing = scipy.special.ndtr((float(threshold) + own * _NODES) / other)
    return next(step for step in count(1) if _WEIGHTS @ missing**step <= 1 - share)


class SavedByHalting(Experiment):
    """The bound that holds beforehand, less what a run lost that halted at step t."""

    name = "saved-by-halting"
    shows = "Above threshold: the bound that holds beforehand less the loss of a run that halted early."
    source = "[GAUSS] Figure 1"
    size = (11.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        noises = [f"{noise:.6f}" for noise in np.linspace(0.2, 0.3, 6 if quick else 20)]
        return [{"threshold": threshold, "noise": noise} for threshold in ("0.5", "0.65", "0.75") for noise in noises]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        terms = run_terms(settings["noise"], settings["threshold"], UNITS)
        before = zhu_wang_nonnegative_epsilon(**terms, delta=DELTA)
        halted, _ = above_threshold_epsilons_up(_LAST, **terms)
        half, most = (stopping_time(settings["noise"], settings["threshold"], share) for share in (0.5, 0.8))
        shared = {**settings, "before": before, "median_stop": half, "stop_80": most}
        return [{**shared, "step": step, "halted": float(halted[step - 1])} for step in range(3, _LAST + 1)]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 3, sharey=True)
        for axes, threshold in zip(panes, found.distinct("threshold"), strict=True):
            part = found.where(threshold=threshold)
            noises, steps = [float(noise) for noise in part.distinct("noise")], part.distinct("step")
            saved = part.grid("before", down="step", across="noise") - part.grid("halted", down="step", across="noise")
            drawn = axes.pcolormesh(noises, steps, saved, cmap="RdBu", vmin=-0.03, vmax=0.03, rasterized=True)
            first = part.where(step=3)
            axes.plot(noises, first["median_stop"], "k--", linewidth=1, label="half have halted")
            axes.plot(noises, first["stop_80"], "k-", linewidth=1, label="80 in 100 have")
            axes.set(title=f"threshold {threshold}", xlabel="threshold noise", ylim=(3, _LAST))
        panes[0].set_ylabel("halted at step")
        panes[0].legend(fontsize=7, loc="upper right")
        figure.colorbar(drawn, ax=panes, label="beforehand - halted (blue: ours is less)")

    def trends(self, found: Measurements) -> Sequence[Trend]:
        early = [row for row in found if row["step"] <= row["median_stop"]]
        largest = max(found, key=lambda row: row["before"] - row["halted"])
        corner = found.where(threshold="0.75", noise="0.300000", step=3)[0]
        medians = [found.where(threshold="0.5", noise=noise)[0]["median_stop"] for noise in ("0.200000", "0.300000")]
        means = [_mean_saved(found.where(threshold=threshold)) for threshold in found.distinct("threshold")]
        return [
            Trend("runs that halt by the median stopping time lost less than the bound beforehand", _less(early)),
            Trend("the earlier a run halts the more is saved", largest["step"] == 3),
            Trend("the higher the threshold the more is saved", means == sorted(means)),
            Trend("the bound beforehand is 0.028 at threshold 0.75, noise 0.3", round(corner["before"], 3) == 0.028),
            Trend("half halt after at most 8 and 3 misses at threshold 0.5, noise 0.2 and 0.3", medians == [9, 4]),
        ]


class LossByThreshold(Experiment):
    """What a run of 20 steps lost, by its threshold."""

    name = "loss-by-threshold"
    shows = "Above threshold: what a run lost that halted at step 20, by its threshold."
    source = "[GAUSS] Figure 2"
    size = (6.0, 3.2)
    step: Final = 20

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        return [{"noise": noise, "points": 11 if quick else 51} for noise in ("0.1", "0.15", "0.2", "0.3")]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        thresholds = [f"{threshold:.2f}" for threshold in np.linspace(0, 1, settings["points"])]
        return [self._row(settings["noise"], threshold) for threshold in thresholds]

    def _row(self, noise: str, threshold: str) -> Row:
        terms = run_terms(noise, threshold, UNITS)
        losses = {"halted": halted_epsilon_up(self.step, **terms), "running": running_epsilon_up(self.step, **terms)}
        return {"noise": noise, "threshold": float(threshold), **losses}

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        for noise in found.distinct("noise"):
            part = found.where(noise=noise)
            [line] = axes.plot(part["threshold"], part["halted"], label=f"halted, noise {noise}")
            axes.plot(part["threshold"], part["running"], ":", color=line.get_color())
        axes.plot([], [], "k:", label="still running")
        axes.set(xlabel="threshold", ylabel="loss after 20 steps", yscale="log")
        axes.legend(fontsize=7, frameon=False, ncols=2)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        parts = [found.where(noise=noise) for noise in found.distinct("noise")]
        tenth = found.where(noise="0.1")
        ends = [round(tenth.where(threshold=end)[0]["halted"], 3) for end in (0.0, 1.0)]
        half = all(np.all(part["running"] < 0.7 * part["halted"]) for part in parts)
        return [
            Trend("the loss falls as the threshold rises", all(np.all(np.diff(part["halted"]) < 0) for part in parts)),
            Trend("it is 0.155 at threshold 0 and 0.087 at 1, noise 0.1", ends == [0.155, 0.087]),
            Trend("a run that has not halted lost less than 0.7 of that", half),
        ]


def _less(rows: Sequence[Row]) -> bool:
    return all(row["halted"] < row["before"] for row in rows) and bool(rows)


def _mean_saved(found: Measurements) -> float:
    return math.fsum(found["before"] - found["halted"]) / len(found)
