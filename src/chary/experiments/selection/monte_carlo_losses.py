"""The same losses by random draws instead of quadrature ([GAUSS] Figures 3 and 6)."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from chary.accounting import halted_epsilon_up, noisy_max_epsilon_up
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row
from chary.experiments.selection.halting_losses import run_terms

UNITS: Final = 1000
QUERIES: Final = 365
STEPS: Final = 20
Floats = NDArray[np.float64]


def drawn_maximum(z: Floats, moved: float, noise: float) -> Floats:
    """`ln Phi(z - (1 - 2 moved)/noise)^(d - 1)` of each draw, theory section 5."""
    return np.asarray((QUERIES - 1) * log_ndtr(z - (1 - 2 * moved) / noise))


def drawn_halt(z: Floats, moved: float, noise: float) -> Floats:
    """The logarithm of the chance to halt at step 20 at threshold 1/2, given each draw of the threshold's noise."""
    other, bar = np.sqrt(3) * noise, 0.5 + noise * z
    return np.asarray((STEPS - 1) * log_ndtr((bar - 1 + moved) / other) + log_ndtr((moved - bar) / other))


_LAWS: Final = {"noisy maximum": drawn_maximum, "above threshold": drawn_halt}


class MonteCarloLosses(Experiment):
    """How far estimates by random draws spread around the loss, beside its bound by quadrature."""

    name = "monte-carlo"
    shows = "Losses estimated by random draws: how far they spread, beside quadrature."
    source = "[GAUSS] Figures 3 and 6"
    size = (10.0, 3.4)
    noises: Final = ("0.1", "0.2", "0.3", "0.5")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        shared = {"draws": 20_000 if quick else 10**6, "trials": 40}
        return [{"law": law, "noise": noise, **shared} for law in _LAWS for noise in self.noises]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        random, exact = np.random.default_rng(seed), _exact(settings["law"], settings["noise"])
        found = []
        for draws in (settings["draws"] // 100, settings["draws"] // 10, settings["draws"]):
            for fresh in (True, False):
                spread = [self._one(settings, draws, fresh, random) for _ in range(settings["trials"])]
                figures = {"estimate": float(np.mean(spread)), "deviation": float(np.std(spread, ddof=1))}
                named = {name: settings[name] for name in ("law", "noise", "trials")}
                found.append({**named, "draws": draws, "fresh": fresh, "exact": exact, **figures})
        return found

    def _one(self, settings: Settings, draws: int, fresh: bool, random: np.random.Generator) -> float:
        """One estimate of the logarithm of a ratio of means, with fresh draws for each mean or the same."""
        law, noise = _LAWS[settings["law"]], float(settings["noise"])
        above, below = random.standard_normal(draws), random.standard_normal(draws)
        other = below if fresh else above
        return float(logsumexp(law(above, 1 / UNITS, noise)) - logsumexp(law(other, 0.0, noise)))

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        for axes, law in zip(panes, _LAWS, strict=True):
            part = found.where(law=law)
            for fresh, marker in ((True, "o-"), (False, "s--")):
                for draws in part.distinct("draws"):
                    rows = part.where(fresh=fresh, draws=draws)
                    told = f"{draws:,} draws, {'fresh' if fresh else 'the same'}"
                    noises = [float(noise) for noise in rows["noise"]]
                    axes.plot(noises, 100 * rows["deviation"] / rows["exact"], marker, markersize=3, label=told)
            axes.set(title=law, xlabel="noise", ylabel="deviation, % of the loss", yscale="log")
        panes[1].legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        fresh, same = (found.where(fresh=kind) for kind in (True, False))
        large = fresh.where(draws=max(fresh.distinct("draws")))
        falls = [
            np.all(np.diff(fresh.where(law=law, noise=noise)["deviation"]) < 0)
            for law in _LAWS
            for noise in self.noises
        ]
        errors = np.abs(large["estimate"] - large["exact"]) / (large["deviation"] / np.sqrt(large["trials"]))
        # Logarithms of means are biased by about half their variance, which 6 standard errors leave room for.
        room = 6 + large["deviation"] / 2 * np.sqrt(large["trials"])
        return [
            Trend("the mean of the estimates is the loss by quadrature", np.all(errors < room)),
            Trend("more draws spread less", all(falls)),
            Trend("with little noise estimates spread the most", _worst_first(large, self.noises)),
            Trend("the same draws for both means spread less", np.all(same["deviation"] < fresh["deviation"])),
        ]


def _exact(law: str, noise: str) -> float:
    terms = run_terms(noise, "0.5", UNITS)
    if law == "above threshold":
        return halted_epsilon_up(STEPS, **terms)
    return noisy_max_epsilon_up(QUERIES, sensitivity=terms["sensitivity"], noise=noise)


def _worst_first(found: Measurements, noises: Sequence[str]) -> bool:
    parts = [found.where(law=law) for law in _LAWS]
    return all(max(part, key=lambda row: row["deviation"])["noise"] == noises[0] for part in parts)
