"""Schedules on growing data: the error of counts that is promised for ever, and that of whole streams."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.accounting.schedules import EpochRuns, EveryRun, ScheduleRuns, best_growth, epochs_error
from chary.data import count
from chary.growth import CountsBox
from chary.noise import Seeded, Source
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, TOLD, legend_below, log_ticks
from chary_research.published import published_growth

KEYS: Final = 20
# The stream grows from n to this many n rows, and all that arrive have one key: answers go stale as fast as they can.
FACTOR: Final = 20
BETA: Final = "0.05"
DELTA: Final = "1e-6"
NOISES: Final[dict[str, dict[str, Any]]] = {
    "Laplace, epsilon 1": {"epsilon": 1},
    "Laplace, rho 0.02": {"rho": "0.02"},
    "Gaussian, rho 0.02": {"rho": "0.02"},
}
_COLOURS: Final = dict(zip(NOISES, (COLOURS["Laplace"], COLOURS["Laplace by rho"], COLOURS["Gaussian"]), strict=True))
Floats = NDArray[np.float64]


def box(noise: str) -> CountsBox:
    """The counts of twenty keys with this noise."""
    return CountsBox(count().by("key", range(KEYS)), gaussian=noise.startswith("Gaussian"))


def worst(counts: CountsBox, runs: ScheduleRuns, streams: int, source: Source) -> Floats:
    """The largest error of each stream, a proportion of the rows: at each run, and just before the next one."""
    found, run, end = np.zeros(streams), 0, FACTOR * runs.size(0)
    while (size := runs.size(run)) < end:
        truth = rows_by_key(runs.size(0), size)
        told = _told(counts, runs, run, truth, streams, source) / size
        later = min(runs.size(run + 1) - 1, end)
        for true in (truth / size, rows_by_key(runs.size(0), later) / later):
            found = np.maximum(found, np.abs(told - true).max(axis=1))
        run += 1
    return found


def at_size(counts: CountsBox, runs: ScheduleRuns, size: int, streams: int, source: Source) -> Floats:
    """The largest error of the run at this size in each stream, a proportion of the rows."""
    truth = rows_by_key(runs.size(0), size)
    told = _told(counts, runs, size - runs.size(0), truth, streams, source)
    errors: Floats = np.abs(told - truth).max(axis=1) / size
    return errors


def rows_by_key(start: int, size: int) -> NDArray[np.int64]:
    """The same number of each key at the start; all that came later have the first.

    >>> rows_by_key(100, 103).tolist()[:3]
    [8, 5, 5]
    """
    found = np.full(KEYS, start // KEYS)
    found[0] += size - start
    return found


def _told(
    counts: CountsBox, runs: ScheduleRuns, run: int, truth: NDArray[np.int64], streams: int, source: Source
) -> NDArray[np.int64]:
    """The noisy counts of one run in every stream, a row each."""
    noisy: NDArray[np.int64] = counts.noise(runs.epsilon_down(run, run)).apply(np.tile(truth, streams), source)
    return noisy.reshape(streams, len(truth))


class ScheduleStreams(Experiment):
    """Promised and measured errors of both schedules."""

    name = "growing-counts"
    shows = "Schedules on growing rows: the error promised for ever, and that of whole streams."
    source = "[GROW] Theorems 10 and 13, Lemma 11"
    size = (10.0, 3.6)
    starts: Final = (10_000, 100_000, 1_000_000)
    factors: Final = (2, 10, 100, 1000)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        streams = 30 if quick else 300
        epochs = [{"start": start, "noise": noise} for start in self.starts[: 2 if quick else 3] for noise in NOISES]
        every = [{"start": 10_000, "factor": factor} for factor in self.factors]
        return [{**each, "streams": streams} for each in epochs + every]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return [self._epochs(settings, seed) if "noise" in settings else self._every(settings, seed)]

    def _epochs(self, settings: Settings, seed: int) -> Row:
        noise, start = settings["noise"], settings["start"]
        counts, total = box(noise), {"start": start, "beta": BETA, **NOISES[noise]}
        growth = best_growth(counts.law, **total)
        runs = EpochRuns(growth=growth, **total)
        delta = None if "epsilon" in total else DELTA
        published = published_growth(counts.law, start=start, beta=BETA, epsilon=1, delta=delta)
        found = worst(counts, runs, settings["streams"], Seeded(seed))
        promised = epochs_error(counts.law, growth=growth, **total)
        by_published = epochs_error(counts.law, growth=published, **total)
        return {**settings, "runs": "epochs", **_summary(found, promised), "at_published_growth": by_published}

    def _every(self, settings: Settings, seed: int) -> Row:
        counts, size = box("Gaussian"), settings["start"] * settings["factor"]
        runs = EveryRun(start=settings["start"], exponent="0.1", beta=BETA, rho="0.02")
        promised = runs.error(counts.law, size - settings["start"])
        found = at_size(counts, runs, size, settings["streams"], Seeded(seed))
        return {**settings, "runs": "every size", **_summary(found, promised)}

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2, sharey=True)
        for noise, colour in _COLOURS.items():
            part, words = found.where(runs="epochs", noise=noise), f"{noise}, promised"
            panes[0].plot(part["start"], part["promised"], "o-", markersize=3, color=colour, label=words)
            panes[0].plot(part["start"], part["most"], "s:", markersize=3, color=colour)
            panes[0].plot(part["start"], part["at_published_growth"], "x", color=colour)
        panes[0].plot([], [], "s:", markersize=3, color=TOLD, label="the worst 5 % of streams or runs")
        panes[0].plot([], [], "x", color=TOLD, label="promised at the published growth")
        panes[0].set(title="in epochs", xlabel="rows at the start", yscale="log", ylabel="error, share of the rows")
        log_ticks(panes[0], found.where(runs="epochs").distinct("start"))
        every = found.where(runs="every size")
        sizes = (every["start"] * every["factor"]).tolist()
        panes[1].plot(sizes, every["promised"], "o-", markersize=3, color=COLOURS["Gaussian"])
        panes[1].plot(sizes, every["most"], "s:", markersize=3, color=COLOURS["Gaussian"])
        panes[1].set(title="at every size, from 10,000 rows on", xlabel="rows")
        log_ticks(panes[1], sizes)
        legend_below(figure, panes[0], columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        epochs, every = found.where(runs="epochs"), found.where(runs="every size")
        ten = epochs.where(start=10_000)["promised"]
        falls = [np.all(np.diff(epochs.where(noise=noise)["promised"]) < 0) for noise in NOISES]
        # This many streams above are beyond a probability of 1 in a million where one in twenty is allowed.
        most = 0.05 * epochs["streams"] + 5 * np.sqrt(0.05 * epochs["streams"])
        return [
            Trend("no more streams exceed the promise than it allows", np.all(epochs["above"] <= most)),
            Trend("half of the streams stay below 0.8 of it", np.all(epochs["median"] < 0.8 * epochs["promised"])),
            Trend("Gaussian noise promises the least", ten[2] == ten.min()),
            Trend(
                "the growth of least error promises no more",
                np.all(epochs["promised"] <= epochs["at_published_growth"]),
            ),
            Trend("promises fall with the rows at the start", all(falls)),
            Trend("at every size errors fall as the data grow", np.all(np.diff(every["most"]) < 0)),
            Trend("and stay below their promise", np.all(every["most"] < every["promised"])),
        ]


def _summary(found: Floats, promised: float) -> dict[str, float]:
    quantile = float(np.quantile(found, 0.95, method="inverted_cdf"))
    above = int(np.count_nonzero(found > promised))
    return {"promised": promised, "median": float(np.median(found)), "most": quantile, "above": above}
