"""Privacy losses of Gaussian selection: halted runs and noisy maxima, by quadrature and by draws ([GAUSS])."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any, Final

import numpy as np
import scipy
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from chary.accounting import above_threshold_epsilons_up, halted_epsilon_up, noisy_max_epsilon_up, running_epsilon_up
from chary.mechanisms import GaussianThreshold
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import legend_below, shades
from chary_research.published import post_processed_epsilon, zhu_wang_nonnegative_epsilon

# What a run of above threshold lost, by when it halted and by its threshold ([GAUSS] Figures 1 and 2).

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
    """The step until which this proportion of all runs has halted where every value is 0, for which they run longest.

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
        legend_below(figure, panes[0])
        figure.colorbar(drawn, ax=panes, label="beforehand - halted (blue: this work is less)")

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
        noises = found.distinct("noise")
        for noise, colour in zip(noises, shades(len(noises)), strict=True):
            part = found.where(noise=noise)
            axes.plot(part["threshold"], part["halted"], color=colour, label=f"halted, noise {noise}")
            axes.plot(part["threshold"], part["running"], ":", color=colour)
        axes.plot([], [], "k:", label="still running")
        axes.set(xlabel="threshold", ylabel="loss after 20 steps", yscale="log")
        legend_below(figure, axes, columns=3)

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


# What a noisy maximum may reveal, by noise and number of queries ([GAUSS] Figures 7 and 8).


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
        for noise, colour in zip(self.noises, shades(len(self.noises)), strict=True):
            part = found.where(noise=noise)
            axes.plot(part["queries"], part["pure"], color=colour, label=f"noise {noise}")
            axes.plot(part["queries"], part["post_processed"], "--", color=colour)
        axes.plot([], [], "k--", label="all noisy values, delta 1e-5")
        axes.set(xlabel="queries", ylabel="epsilon", xscale="log", yscale="log")
        legend_below(figure, axes, columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        ends = [found.where(noise="0.1", queries=queries)[0] for queries in (16, 1024)]
        told = [round(end[name], 3) for end in ends for name in ("pure", "post_processed")]
        grown = [part["pure"][-1] / part["pure"][0] for part in (found.where(noise=n) for n in self.noises)]
        most = found.where(queries=1024)
        few = found.where(noise="0.1", queries=16)[0]
        return [
            Trend(
                "16 queries lose 0.204 pure and 0.125 all published, 1024 lose 0.253 and 1.215, noise 0.1",
                told == [0.204, 0.125, 0.253, 1.215],
            ),
            Trend("64 times as many queries less than double the pure epsilon", max(grown) < 2),
            Trend("of 1024 queries the pure epsilon is the smaller one", np.all(most["pure"] < most["post_processed"])),
            Trend("of 16 queries with little noise it is the larger one", few["pure"] > few["post_processed"]),
        ]


class MaximumSaved(Experiment):
    """By how much the pure epsilon is smaller, over noise and number of queries: the difference, and the ratio."""

    name = "maximum-saved"
    shows = "Noisy maximum: epsilon of all noisy values less the pure one, and their ratio, by noise and queries."
    source = "[GAUSS] Figure 8"
    size = (11.0, 6.0)

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
        panes: Any = figure.subplots(2, 3, sharex=True, sharey=True)
        for column, units in zip(panes.T, found.distinct("units"), strict=True):
            part = found.where(units=units)
            post, pure = (part.grid(name, down="queries", across="noise") for name in ("post_processed", "pure"))
            noises = [float(noise) for noise in part.distinct("noise")]
            # Differences of any size: a straight scale up to a thousandth, and powers of ten beyond.
            scales: Any = ({"norm": SymLogNorm(1e-3, vmin=-10, vmax=10)}, {"vmin": -4, "vmax": 4})
            drawn = [
                axes.pcolormesh(noises, part.distinct("queries"), each, cmap="RdBu", rasterized=True, **scale)
                for axes, each, scale in zip(column, (post - pure, np.log2(post / pure)), scales, strict=True)
            ]
            for axes in column:
                axes.contour(noises, part.distinct("queries"), post - pure, [0.0], colors="k", linewidths=1)
                axes.set(ylabel="queries" if axes in panes[:, 0] else None, yscale="log")
            column[0].set_title(f"sensitivity 1/{units:,}")
            column[1].set_xlabel("noise")
        for row, mesh, told in zip(panes, drawn, ("all published - pure", "log2 of all published / pure"), strict=True):
            figure.colorbar(mesh, ax=row, label=f"{told} (blue: pure is less)")

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


# The same losses by random draws instead of quadrature ([GAUSS] Figures 3 and 6).

QUERIES: Final = 365
STEPS: Final = 20
Floats = NDArray[np.float64]


def drawn_maximum(z: Floats, moved: float, noise: float) -> Floats:
    """`ln Phi(z - (1 - 2 moved)/noise)^(d - 1)` of each draw, theory chapter 2."""
    return np.asarray((QUERIES - 1) * log_ndtr(z - (1 - 2 * moved) / noise))


def drawn_halt(z: Floats, moved: float, noise: float) -> Floats:
    """The logarithm of the probability to halt at step 20 at threshold 1/2, given each draw of the threshold's
    noise."""
    other, bar = np.sqrt(3) * noise, 0.5 + noise * z
    return np.asarray((STEPS - 1) * log_ndtr((bar - 1 + moved) / other) + log_ndtr((moved - bar) / other))


_LAWS: Final = {"noisy maximum": drawn_maximum, "above threshold": drawn_halt}


class MonteCarloLosses(Experiment):
    """How far estimates by random draws spread around the loss, next to its bound by quadrature."""

    name = "monte-carlo"
    shows = "Losses estimated by random draws: how far they spread, compared with quadrature."
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
                known = part.distinct("draws")
                for draws, colour in zip(known, shades(len(known)), strict=True):
                    rows = part.where(fresh=fresh, draws=draws)
                    told = f"{draws:,} draws, {'fresh' if fresh else 'the same'}"
                    noises = [float(noise) for noise in rows["noise"]]
                    deviation = 100 * rows["deviation"] / rows["exact"]
                    axes.plot(noises, deviation, marker, markersize=3, color=colour, label=told)
            axes.set(title=law, xlabel="noise", ylabel="deviation, % of the loss", yscale="log")
        legend_below(figure, panes[1], columns=3)

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
