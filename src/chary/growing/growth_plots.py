"""Pictures of schedules, written to a file (PNG, PDF or SVG by its ending)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.answers import Table
from chary.calls.continual import RunningCount
from chary.calls.schedules import PlannedRun, ScheduledRun, ScheduleState
from chary.errors import InvalidParameter
from chary.pictures import Spot, spot_of
from chary.pictures.drawing import styled
from chary.pictures.files import check_picture

# More points than a picture of that width can tell apart on a logarithmic scale.
_POINTS: Final = 120
# Colours that can be told apart, also by people who see few (Okabe and Ito 2008).
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_KEYS: Final = len(COLOURS)


def draw_schedule(schedule: ScheduleState, path: Path | str, *, factor: int = 100) -> None:
    """Left the predicted error at each size up to `factor` times the first, with the runs done so far; right the
    epsilon of each run. Nothing is read. `InvalidParameter` for another ending or a folder that is not there.
    """
    target = check_picture(path)
    planned = _along(schedule, factor)
    sizes = [run.size for run in planned]
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(sizes, [run.error for run in planned], color="tab:blue", label="at the run")
    left.plot(sizes, [run.error + run.staleness for run in planned], "--", color="tab:orange", label="until the next")
    for done in schedule.results:
        left.axvline(done.size, color="tab:gray", linewidth=0.5)
    left.set(title="Predicted error", xlabel="rows", xscale="log", yscale="log")
    left.legend()
    right.plot(sizes, [run.epsilon for run in planned], ".", color="tab:blue")
    right.set(title="Epsilon of a run", xlabel="rows", xscale="log", yscale="log")
    figure.savefig(target, dpi=120)


def draw_counts(results: Sequence[ScheduledRun | RunningCount], path: Path | str) -> None:
    """The counts that were told as a table grew, with their 95 % intervals: `run.state.results`. Nothing is read.

    One line a key, of at most eight keys with the largest last counts. `InvalidParameter` for no results, for another
    ending or a folder that is not there.
    """
    target, told = check_picture(path), [(place_of(result), counts_of(result)) for result in results]
    if not told:
        raise InvalidParameter("nothing was told yet: ask the run first")
    last = told[-1][1]
    names = sorted(last, key=lambda name: -last[name].value)[:_KEYS]
    with styled():
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, colour in zip(names, COLOURS, strict=False):
            known = [(place, counts[name]) for place, counts in told if name in counts]
            places, spots = [place for place, _ in known], [spot for _, spot in known]
            bars = [*zip(*map(reach_of, spots), strict=True)]
            axes.errorbar(
                places,
                [spot.value for spot in spots],
                yerr=bars if all(spot.whole for spot in spots) else None,
                fmt="o-",
                color=colour,
                capsize=3,
                linewidth=1,
                label=name or None,
            )
        axes.set(title="Counts, with 95 % intervals", xlabel="rows, or steps where their number is secret")
        if any(names):
            axes.legend(frameon=False)
        figure.savefig(target, dpi=150)


def place_of(result: ScheduledRun | RunningCount) -> int:
    """Where it stands: at its public size, or at its step."""
    return result.size if result.size is not None else getattr(result, "step", 0)


def counts_of(result: ScheduledRun | RunningCount) -> dict[str, Spot]:
    """The counts of a result by their keys; "" for one without keys."""
    answer: Any = result.answer if isinstance(result, ScheduledRun) else result
    if isinstance(answer, Table):
        rows = zip(answer.keys, answer.rows(), strict=True)
        found = [spot_of(", ".join(map(str, key)), row["value"], (row["low"], row["high"])) for key, row in rows]
        return {spot.label: spot for spot in found}
    return {} if answer is None else {"": spot_of("", answer.value, answer.interval)}


def reach_of(spot: Spot) -> tuple[float, float]:
    """How far the interval reaches below and above the value, which may lie outside of it: a count below 0 does."""
    return max(0, spot.value - (spot.low or 0)), max(0, (spot.high or 0) - spot.value)


def _along(schedule: ScheduleState, factor: int) -> list[PlannedRun]:
    """The runs at sizes evenly spread on a logarithmic scale."""
    start = schedule.runs.start
    sizes = np.unique(np.geomspace(start, factor * start, _POINTS).astype(int))
    found = {run.run: run for size in sizes if (run := schedule.at(int(size))) is not None}
    return list(found.values())
