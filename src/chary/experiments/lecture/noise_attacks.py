"""Attacks on counts that are too many or too carelessly noisy, beside their limits."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from chary import audit
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row

_RAW, _ROUGH, _SESSION = "#d55e00", "#e69f00", "#0072b2"


class ReconstructionAttack(Experiment):
    """Everybody's bit from counts of random groups, by the number of counts."""

    name = "attack-reconstruction"
    shows = "Reconstruction: everybody's bit from counts of random groups, by how many are told."
    source = "[INTRO], too many counts that are too exact"
    size = (6.0, 3.4)
    people: Final = 80

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 2 if quick else 20
        return [{"counts": counts, "sessions": sessions} for counts in (20, 40, 80, 160, 320)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = audit.reconstruction(epsilon=1, people=self.people, **settings, seed=seed)
        names = ("exact", "rounded", "private", "baseline", "limit", "off")
        return [{**settings, **{name: getattr(found, name) for name in names}}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(found["counts"], 100 * found["exact"], "x-", color=_RAW, label="exact counts")
        axes.plot(found["counts"], 100 * found["rounded"], "o-", color=_ROUGH, label=f"off by up to {found['off'][0]}")
        axes.plot(found["counts"], 100 * found["private"], "o-", color=_SESSION, label="session, epsilon 1")
        axes.plot(found["counts"], 100 * found["limit"], "k--", label="limit, on average")
        axes.set(xlabel=f"counts told of {self.people} people", ylabel="% of the bits right", ylim=(40, 103))
        log_ticks(axes, found["counts"].tolist())
        axes.legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        room = 6 * np.sqrt(0.25 / self.people / found["sessions"])
        return [
            Trend("twice as many counts as people give all bits away", np.all(found["exact"][3:] == 1)),
            Trend("counts that are a little off give nearly all away", found["rounded"][-1] > 0.95),
            Trend("more counts give more away", found["rounded"][-1] > found["rounded"][0]),
            Trend("against a session nobody passes the limit", np.all(found["private"] <= found["limit"] + room)),
        ]


class LowBitsAttack(Experiment):
    """A count under noise in floating-point numbers, told from one more by the last bits."""

    name = "attack-low-bits"
    shows = "Low bits: a count told from one more under noise in floats, and under chary's."
    source = "[INTRO], finite precision"
    size = (6.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 150 if quick else 2000
        return [{"epsilon": epsilon, "sessions": sessions} for epsilon in ("0.01", "0.1", "0.5", "1", "2")]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = audit.low_bits(**settings, seed=seed)
        names = ("naive_accuracy", "certain", "accuracy", "low", "high", "limit")
        return [{**settings, **{name: getattr(found, name) for name in names}}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        epsilons = [float(epsilon) for epsilon in found["epsilon"]]
        ends = found["accuracy"] - found["low"], found["high"] - found["accuracy"]
        axes.plot(epsilons, found["naive_accuracy"], "x-", color=_RAW, label="Laplace noise in floats")
        axes.errorbar(epsilons, found["accuracy"], ends, fmt="o", color=_SESSION, capsize=3, label="session")
        axes.plot(epsilons, found["limit"], "k--", label="limit")
        axes.set(xlabel="epsilon", ylabel="share right", ylim=(0.35, 1.05))
        log_ticks(axes, epsilons)
        axes.legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        small = found.where(epsilon="0.01")[0]
        return [
            Trend("noise in floats gives the count away at every epsilon", np.all(found["naive_accuracy"] > 0.65)),
            Trend("most of it although epsilon is 0.01", small["naive_accuracy"] > small["limit"] + 0.1),
            Trend("chary's noise keeps the limit", np.all(found["low"] <= found["limit"])),
        ]
