"""What a noisy maximum may reveal, by noise and number of queries ([GAUSS] Figures 7 and 8)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import noisy_max_epsilon_up
from chary.accounting.gaussian_selection import post_processed_epsilon
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row

DELTA: Final = "1e-5"


def both(queries: int, noise: str, units: int) -> dict[str, float]:
    """The pure epsilon for values in [0, 1] that move by 1/units, and that of all noisy values, with a delta."""
    moved = 1 / np.float64(units)
    pure = noisy_max_epsilon_up(queries, sensitivity=moved, noise=noise)
    post = post_processed_epsilon(queries=queries, sensitivity=moved, noise=noise, delta=DELTA)
    return {"pure": pure, "post_processed": post}


class MaximumByQueries(Experiment):
    """Epsilon by the number of queries, pure and as a post-processing of all noisy values."""

    name = "maximum-by-queries"
    shows = "Noisy maximum: pure epsilon and that of all noisy values, by the number of queries."
    source = "[GAUSS] Figure 7"
    size = (6.0, 3.4)
    noises: Final = ("0.1", "0.2", "0.3", "0.4", "0.5")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        return [{"noise": noise, "units": 1000} for noise in self.noises]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return [{**settings, "queries": 2**k, **both(2**k, **settings)} for k in range(4, 11)]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        for noise in self.noises:
            part = found.where(noise=noise)
            [line] = axes.plot(part["queries"], part["pure"], label=f"noise {noise}")
            axes.plot(part["queries"], part["post_processed"], "--", color=line.get_color())
        axes.plot([], [], "k--", label="all noisy values, delta 1e-5")
        axes.set(xlabel="queries", ylabel="epsilon", xscale="log", yscale="log")
        axes.legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        ends = [found.where(noise="0.1", queries=queries)[0] for queries in (16, 1024)]
        told = [round(end[name], 3) for end in ends for name in ("pure", "post_processed")]
        grown = [part["pure"][-1] / part["pure"][0] for part in (found.where(noise=n) for n in self.noises)]
        most = found.where(queries=1024)
        few = found.where(noise="0.1", queries=16)[0]
        return [
            Trend(
                "16 queries lose 0.204 pure and 0.125 all told, 1024 lose 0.253 and 1.215, noise 0.1",
                told == [0.204, 0.125, 0.253, 1.215],
            ),
            Trend("64 times as many queries less than double the pure epsilon", max(grown) < 2),
            Trend("of 1024 queries the pure epsilon is the smaller one", np.all(most["pure"] < most["post_processed"])),
            Trend("of 16 queries with little noise it is the larger one", few["pure"] > few["post_processed"]),
        ]


class MaximumSaved(Experiment):
    """By how much the pure epsilon is smaller, over noise and number of queries."""

    name = "maximum-saved"
    shows = "Noisy maximum: epsilon of all noisy values less the pure one, by noise and queries."
    source = "[GAUSS] Figure 8"
    size = (11.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        points = 10 if quick else 30
        return [{"units": units, "points": points} for units in (100, 1000, 10_000)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        units, noises = settings["units"], np.linspace(0.1, 1, settings["points"])
        queries = sorted({round(d) for d in np.geomspace(2, 1024, settings["points"])})
        return [
            {"units": units, "noise": f"{noise:.4f}", "queries": d, **both(d, f"{noise:.4f}", units)}
            for noise in noises
            for d in queries
        ]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 3, sharey=True)
        for axes, units in zip(panes, found.distinct("units"), strict=True):
            part = found.where(units=units)
            post, pure = (part.grid(name, down="queries", across="noise") for name in ("post_processed", "pure"))
            ratio = np.log2(post / pure)
            noises = [float(noise) for noise in part.distinct("noise")]
            drawn = axes.pcolormesh(
                noises, part.distinct("queries"), ratio, cmap="RdBu", vmin=-4, vmax=4, rasterized=True
            )
            axes.contour(noises, part.distinct("queries"), ratio, [0.0], colors="k", linewidths=1)
            axes.set(title=f"sensitivity 1/{units:,}", xlabel="noise", yscale="log")
        panes[0].set_ylabel("queries")
        figure.colorbar(drawn, ax=panes, label="log2 of all told / pure (blue: pure is less)")

    def trends(self, found: Measurements) -> Sequence[Trend]:
        shares = [np.mean(part["pure"] < part["post_processed"]) for part in self._parts(found)]
        gains = [
            self._gain(part.where(noise="1.0000", queries=max(part.distinct("queries")))) for part in self._parts(found)
        ]
        largest = [max(part.where(noise="1.0000"), key=self._saved)["queries"] for part in self._parts(found)]
        return [
            Trend("the pure epsilon is the smaller one in most of each field", min(shares) > 0.5),
            Trend("with noise 1 it is less than a fifth for 1024 queries", min(gains) > 5),
            Trend("with noise 1 the difference is largest for most queries", set(largest) == {1024}),
        ]

    def _parts(self, found: Measurements) -> list[Measurements]:
        return [found.where(units=units) for units in found.distinct("units")]

    def _saved(self, row: Row) -> float:
        return float(row["post_processed"] - row["pure"])

    def _gain(self, found: Measurements) -> float:
        return float(found[0]["post_processed"] / found[0]["pure"])
