"""The day of the maximum, chosen once ([GAUSS] Figures 12, 15 and 16)."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.accounting import noisy_max_noise
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row
from chary.experiments.selection.alarm_runs import standard_error
from chary.experiments.selection.daily_series import BIKES, LONDON, SERIES, SOLAR, DailySeries
from chary.mechanisms import Exponential, GaussianMax, PermuteAndFlip, ReportNoisyMax
from chary.noise import Seeded, Source


class _Chooser(Protocol):
    def step(self, values: NDArray[np.int64], source: Source) -> int:
        """The position that is chosen."""
        ...


def gaussian(series: DailySeries, epsilon: str) -> GaussianMax:
    """The noisy maximum with the least Gaussian noise that the pure bound allows."""
    moved = Fraction(series.moved, series.top)
    return GaussianMax(series.top * noisy_max_noise(epsilon, len(series.values), sensitivity=moved))


def laplace_of_all(series: DailySeries, epsilon: str) -> ReportNoisyMax:
    """Laplace noise for publishing every value: of scale d D / epsilon, as the paper seems to have it."""
    return ReportNoisyMax(epsilon, len(series.values) * series.moved, monotone=True)


WAYS: Final[dict[str, Callable[[DailySeries, str], _Chooser]]] = {
    "Gaussian, pure": gaussian,
    "exponential": lambda series, epsilon: Exponential(epsilon, series.moved),
    "permute-and-flip": lambda series, epsilon: PermuteAndFlip(epsilon, series.moved),
    "Laplace": lambda series, epsilon: ReportNoisyMax(epsilon, series.moved),
    "Laplace, scaled to all values": laplace_of_all,
}


class PeakDays(Experiment):
    """How near the chosen day comes to the largest, by epsilon and by mechanism."""

    name = "peak-days"
    shows = "The day of the maximum: how near the chosen one comes, by epsilon and by mechanism."
    source = "[GAUSS] Figures 12, 15 and 16"
    needs = (BIKES, LONDON, SOLAR)
    size = (11.0, 3.6)
    epsilons: Final = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, epsilons = (150, self.epsilons[::2]) if quick else (1000, self.epsilons)
        return [
            {"series": series, "by": by, "epsilon": epsilon, "trials": trials}
            for series in SERIES
            for by in WAYS
            for epsilon in epsilons
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        series, source = SERIES[settings["series"]](data), Seeded(seed)
        chooser = WAYS[settings["by"]](series, settings["epsilon"])
        chosen = series.values[[chooser.step(series.values, source) for _ in range(settings["trials"])]]
        accuracies = chosen / series.values.max()
        return [{**settings, "accuracy": float(accuracies.mean()), "error": standard_error(accuracies)}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(SERIES))
        for axes, series in zip(panes, SERIES, strict=True):
            for by in WAYS:
                part = found.where(series=series, by=by)
                epsilons = [float(epsilon) for epsilon in part["epsilon"]]
                axes.errorbar(epsilons, 100 * part["accuracy"], 100 * part["error"], fmt="o-", markersize=3, label=by)
            axes.set(title=series, xlabel="epsilon", xscale="log")
        panes[0].set_ylabel("chosen / largest, %")
        panes[0].legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        means = {by: np.array([found.where(series=s, by=by)["accuracy"].mean() for s in SERIES]) for by in WAYS}
        last = found.where(epsilon=self.epsilons[-1])
        rises = [part["accuracy"][-1] > part["accuracy"][0] for part in self._lines(found)]
        scaled, room = means["Laplace, scaled to all values"], 0.01
        others = np.min([means[by] for by in ("exponential", "permute-and-flip", "Laplace")], axis=0)
        near = [last.where(by=by)["accuracy"].min() for by in ("exponential", "permute-and-flip", "Laplace")]
        return [
            Trend(
                "Gaussian noise beats Laplace noise that is scaled to all values",
                np.all(means["Gaussian, pure"] > scaled),
            ),
            Trend(
                "Laplace noise as it need be beats Gaussian noise", np.all(means["Laplace"] > means["Gaussian, pure"])
            ),
            Trend("so do the exponential mechanism and permute-and-flip", np.all(others > means["Gaussian, pure"])),
            Trend("permute-and-flip is no worse than the exponential mechanism", self._flip(means, room)),
            Trend("every mechanism chooses better with more epsilon", all(rises)),
            Trend("at epsilon 1 all three are within 1 in 100 of the largest", min(near) > 0.99),
        ]

    def _lines(self, found: Measurements) -> list[Measurements]:
        return [found.where(series=series, by=by) for series in SERIES for by in WAYS]

    def _flip(self, means: dict[str, NDArray[np.float64]], room: float) -> np.bool_:
        return np.all(means["permute-and-flip"] > means["exponential"] - room)
